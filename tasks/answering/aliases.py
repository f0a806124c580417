"""Short names of figures and passages in the messages sent to a language model.

One wrong digit of a tag may name another figure, so a request has names of its own: ``[IMG-48213]`` for a figure, ``[P1]`` for
a passage. Two figures' names are at least three edits apart: a name with one wrong character leads back to the right figure.
Documents use ``[1]`` themselves.
"""

import itertools
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping

from schemas.tags import escape

DIGITS = 5
"""Some 470 names of five digits fit three edits apart."""

_INVENTED = ("48213", "12345", "23456", "54321", "67890", "10000", "99999", *(5 * digit for digit in "123456789"))
"""Numbers that models invent, and the example's in the prompts."""

_STEP = 7919
"""To the next number that is tried; a prime, so that all are."""

_HIDDEN = r"[\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]*"
"""Characters without width, which may hide in a look-alike."""


def _word_pattern(word: str) -> str:
    """Return a regex for a word in any case and width, with hidden characters between its letters."""
    return _HIDDEN.join(
        f"[{letter}{letter.lower()}{chr(ord(letter) + 0xFEE0)}{chr(ord(letter) + 0xFF00)}]" for letter in word
    )


_OPENS = "[\\[\uff3b\u3010\u3014\u27e6\u2045]"
_LOOKALIKE = re.compile(
    rf"({_OPENS})(?=(?:\s|{_HIDDEN[:-1]})*(?:{_word_pattern('IMG')}|{_word_pattern('P')}(?:\s|{_HIDDEN[:-1]})*\d))"
    rf"|({_word_pattern('IMG')})(?=(?:\s|{_HIDDEN[:-1]})*[-_\u2010-\u2015\uff0d\ufe63](?:\s|{_HIDDEN[:-1]})*\d)"
)
_THINKING = re.compile(rf"<(?=\s*/?\s*{_HIDDEN}think)", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2061-\u2069\ufeff]")

_UNSEEN = re.compile(r"[\u00ad\u061c\u180e\u2060\ufff9-\ufffb\ue000\ue001\ud800-\udfff\U000e0000-\U000e007f]")
_CHAT = re.compile(
    r"[<＜]([|｜][^<>|｜\n]{0,60}[|｜]|/?(?:s|bos|eos|pad|unk|start_of_turn|end_of_turn|tool_calls?|im_start|im_end)"
    r"|<\s?/?SYS>)[>＞]"
    r"|\[(?=(/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS))\])\2\]",
    re.IGNORECASE,
)
"""Control tokens of Llama, Mistral, Gemma, Qwen and DeepSeek."""
_FENCE = re.compile(r"[<＜](?=\s*/?\s*passage)", re.IGNORECASE)


def aliases(figure_ids: Iterable[str], avoid: Collection[str] = ()) -> dict[str, str]:
    """Return a number of at least ``DIGITS`` digits for each figure, none in ``avoid``; equal arguments give equal numbers."""
    unique_ids = list(dict.fromkeys(figure_ids))
    # Five digits are too few for more figures or numbers.
    digits = DIGITS if len(unique_ids) <= 100 and len(avoid) <= 10_000 else DIGITS + 2
    lowest, number_count = 10 ** (digits - 1), 9 * 10 ** (digits - 1)
    alias_by_figure: dict[str, str] = {}
    taken_signatures = {trait for number in _INVENTED for trait in _edit_signatures(number)}
    for figure_id in unique_ids:
        number = int(figure_id[:12], 16) % number_count
        while (name := str(lowest + number)) in avoid or not taken_signatures.isdisjoint(_edit_signatures(name)):
            number = (number + _STEP) % number_count
        alias_by_figure[figure_id] = name
        taken_signatures.update(_edit_signatures(name))
    return alias_by_figure


def meant(digits: str, numbers: Mapping[str, object]) -> str | None:
    """Return the only known number one edit away from a misspelled one; None if there is none or several."""
    similar_numbers = [number for number in numbers if _one_edit(digits, number)]
    return similar_numbers[0] if len(similar_numbers) == 1 else None


def disarm(text: str) -> str:
    """Return text of a document or question without look-alikes of names and thoughts, and without control characters."""
    printable = _CONTROL.sub("", text)
    printable = _LOOKALIKE.sub(lambda match: "(" if match[1] else f"{match[2]} no. ", printable)
    return _THINKING.sub("‹", printable)


def quoted(text: str) -> str:
    """Return text of a document or question as sent to a model: disarmed, and without control tokens of chat templates.

    Many servers read such tokens in a message as the start of another one.
    """
    text = _CHAT.sub(lambda match: f"‹{match[1] or match[2]}›", disarm(_UNSEEN.sub("", text)))
    return escape(_FENCE.sub("‹", text)).replace("<\u2060", "‹")


def plain(text: str) -> str:
    """Return the text in normal width, without hidden characters and surrounding white space."""
    normal = unicodedata.normalize("NFKC", text)
    return "".join(character for character in normal if unicodedata.category(character) != "Cf").strip()


def _edit_signatures(name: str) -> Iterator[str]:
    """Yield strings that two numbers of one length share only if they are at most two edits apart."""
    for first, second in itertools.combinations(range(len(name)), 2):
        yield f"{name[:first]}*{name[first + 1 : second]}*{name[second + 1 :]}"  # two digits replaced
    for position in range(len(name)):
        yield name[:position] + name[position + 1 :]  # one insertion and one deletion


def _difference(first: str, second: str) -> int:
    return sum(a != b for a, b in zip(first, second, strict=True))


def _one_edit(first: str, second: str) -> bool:
    """Return whether one insertion, deletion or replacement turns one text into the other."""
    if abs(len(first) - len(second)) > 1:
        return False
    if len(first) == len(second):
        return _difference(first, second) == 1
    short, long = sorted((first, second), key=len)
    return any(long[:position] + long[position + 1 :] == short for position in range(len(long)))
