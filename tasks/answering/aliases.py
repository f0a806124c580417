"""Short names of figures and passages in what a language model is sent.

A tag has eight digits or more, and one wrong digit may name another figure of a large corpus (requirement 5.22). So a request has
names of its own: ``[IMG-48213]`` for a figure, ``[P1]`` for a passage. Two figures of a request differ in three digits at least:
one mistyped character never names another figure, and leads back to the right one. Documents hold ``[1]`` themselves, so that is
no name of a passage.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping

DIGITS = 5
LEAST_DIFFERENCE = 3
"""Digits in which two names of a request differ at least. 100 figures leave room enough for it in five digits."""

_STEP = 7919
"""To the next number that is tried; a prime, so that all are."""

_HIDDEN = r"[\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]*"
"""Characters without width, which may hide in a look-alike."""


def _spelled(word: str) -> str:
    """Return an expression for a word in any case and width, with hidden characters between its letters."""
    return _HIDDEN.join(
        f"[{letter}{letter.lower()}{chr(ord(letter) + 0xFEE0)}{chr(ord(letter) + 0xFF00)}]" for letter in word
    )


_OPENS = "[\\[\uff3b\u3010\u3014\u27e6\u2045]"
_LOOKALIKE = re.compile(
    rf"({_OPENS})(?=(?:\s|{_HIDDEN[:-1]})*(?:{_spelled('IMG')}|{_spelled('P')}(?:\s|{_HIDDEN[:-1]})*\d))"
    rf"|({_spelled('IMG')})(?=(?:\s|{_HIDDEN[:-1]})*[-_\u2010-\u2015\uff0d\ufe63](?:\s|{_HIDDEN[:-1]})*\d)"
)
_THINKING = re.compile(rf"<(?=\s*/?\s*{_HIDDEN}think)", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2061-\u2069\ufeff]")


def aliases(figure_ids: Iterable[str]) -> dict[str, str]:
    """Return a number for each figure, ``DIGITS`` digits: the same for the same figures in the same order.

    Args:
        figure_ids: SHA-256 in hex; repeats are ignored.
    """
    wanted = list(dict.fromkeys(figure_ids))
    # Beyond a hundred figures five digits get crowded.
    digits = DIGITS if len(wanted) <= 100 else DIGITS + 2
    least, room = 10 ** (digits - 1), 9 * 10 ** (digits - 1)
    chosen: dict[str, str] = {}
    for figure_id in wanted:
        number = int(figure_id[:12], 16) % room
        while any(_difference(str(least + number), other) < LEAST_DIFFERENCE for other in chosen.values()):
            number = (number + _STEP) % room
        chosen[figure_id] = str(least + number)
    return chosen


def meant(written: str, known: Mapping[str, object]) -> str | None:
    """Return the number that a misspelled one means: the only one that is one character away; None where that is unclear."""
    near = [number for number in known if _one_edit(written, number)]
    return near[0] if len(near) == 1 else None


def disarm(text: str) -> str:
    """Return words of a document or a question, in which nothing passes for a name of a figure or passage, or for thoughts.

    Look-alikes lose their bracket or their dash; control characters, which no reader sees, are left out.
    """
    plain = _CONTROL.sub("", text)
    plain = _LOOKALIKE.sub(lambda found: "(" if found[1] else f"{found[2]} no. ", plain)
    return _THINKING.sub("‹", plain)


def plain(written: str) -> str:
    """Return what stands between brackets in one width, without hidden characters and white space around it."""
    normal = unicodedata.normalize("NFKC", written)
    return "".join(character for character in normal if unicodedata.category(character) != "Cf").strip()


def _difference(one: str, other: str) -> int:
    return sum(a != b for a, b in zip(one, other, strict=True))


def _one_edit(one: str, other: str) -> bool:
    """Return whether a character put in, left out or replaced makes one text of the other."""
    if abs(len(one) - len(other)) > 1:
        return False
    if len(one) == len(other):
        return _difference(one, other) == 1
    short, long = sorted((one, other), key=len)
    return any(long[:place] + long[place + 1 :] == short for place in range(len(long)))
