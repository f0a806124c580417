"""Compose the messages that a language model is sent: the question and its passages."""

import functools
import itertools
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files

from schemas.answers import AnswerSettings, Content, FigurePart
from schemas.evidence import Hit
from schemas.filters import Modality
from schemas.models import Message
from schemas.tags import TagTemplate, escape
from tasks.answering.cite import figure_part
from tasks.answering.highlight import sentences
from tasks.enriching.prompts import FrontMatter, PromptError, check_placeholders, split_front_matter, substituted

PLACEHOLDERS = ("question", "passages", "texts", "pictures", "query_picture", "queries")
"""Placeholders of a prompt, each written with a ``$``."""

_PARTING = re.compile(r"^===[ \t]*$", re.MULTILINE)
_LONG_NUMBER = re.compile(r"\d{4,8}")
"""Numbers that may be one edit away from a figure's name."""

MOST_LINE = 300
"""Maximum characters of a title with its section, a caption or a query."""


@dataclass(frozen=True)
class AnswerPrompt:
    """A prompt for answers: templates of the system message, "" for none, and of the user's; a line of ``===`` separates them."""

    name: str
    system: str
    user: str
    source: str = ""

    def messages(self, values: Mapping[str, str], pictures: Sequence[bytes]) -> tuple[Message, ...]:
        """Return the messages of a chat; the pictures go with the user's."""
        # Lines whose placeholders are all empty are dropped.
        user = Message("user", substituted(self.user, values, any), tuple(pictures))
        return (Message("system", substituted(self.system, values, any)), user) if self.system else (user,)


@dataclass(frozen=True)
class ModelInput:
    """The messages sent to a model, and what its reply may refer to.

    ``[P1]`` names the first of ``passages``; ``figures`` may be shown, by the digits of their names; ``numbers`` are every
    ``[number]`` and long number in the passages themselves, none of them a name.
    """

    messages: tuple[Message, ...]
    passages: tuple[Hit, ...] = ()
    figures: Mapping[str, FigurePart] = field(default_factory=dict)
    numbers: frozenset[str] = frozenset()

    def without_figures(self) -> "ModelInput":
        """Return the same for an answer without figures in its text."""
        return replace(self, figures={})


@functools.cache
def answer_prompts() -> dict[str, AnswerPrompt]:
    """Return the packaged prompts for answers and their judge, by name."""
    folder = files("tasks.answering.prompts")
    texts = {file.name: file.read_text(encoding="utf-8") for file in folder.iterdir() if file.name.endswith(".md")}
    names = ((file_name.removesuffix(".md"), text) for file_name, text in sorted(texts.items()) if text.startswith("---"))
    return {name: read_answer_prompt(name, text) for name, text in names}


def read_answer_prompt(name: str, text: str) -> AnswerPrompt:
    """Return the prompt in a file: optional front matter, then one or two messages; raises ``PromptError`` if it isn't one."""
    front_matter, body = split_front_matter(text, FrontMatter)
    parts = [part.strip() for part in _PARTING.split(body)]
    if len(parts) > 2 or not parts[-1]:
        raise PromptError("write a message, or two with a line of === between them: the system's and the user's")
    check_placeholders(body, PLACEHOLDERS)
    return AnswerPrompt(name, parts[0] if len(parts) == 2 else "", parts[-1], front_matter.source)


def rows_to_send(hits: Sequence[Hit], settings: AnswerSettings) -> tuple[list[Hit], list[str]]:
    """Return the rows of which a model is sent something, best first, and the ids of the figures whose pictures it sees."""
    rows: list[Hit] = []
    pictures: dict[str, None] = {}
    texts_left = settings.passages if settings.max_texts is None else settings.max_texts
    for hit in hits:
        if len(rows) == settings.passages:
            break
        if hit.figure_id is None:
            if Content.TEXTS not in settings.sends or not texts_left:
                continue
            texts_left -= 1
            offered_figures = hit.figure_refs if Content.MENTIONED_PICTURES in settings.sends else []
        else:
            offered_figures = [hit.figure_id] if Content.PICTURES in settings.sends else []
        # Once enough pictures are sent, a figure is seen only if another row has sent its picture already.
        sent_figures = {*offered_figures, *pictures} if len(pictures) < settings.max_images else pictures.keys()
        # Where neither is sent, the figures that are shown after the answer keep their places among the rows.
        is_only_shown = settings.figures == "after" and Content.PICTURES not in settings.sends
        has_captions = Content.CAPTIONS in settings.sends or is_only_shown
        if hit.figure_id is not None and not has_captions and hit.figure_id not in sent_figures:
            continue
        rows.append(hit)
        pictures |= dict.fromkeys(
            [name for name in offered_figures if name not in pictures][: settings.max_images - len(pictures)]
        )
    return rows, list(pictures)


def compose(
    question: str,
    hits: Sequence[Hit],
    prompt: AnswerPrompt,
    template: TagTemplate,
    *,
    context_chars: int,
    images: Sequence[tuple[str, bytes]] = (),
    captions: bool = True,
    figure_names: bool = True,
    query_picture: bytes | None = None,
    queries: Sequence[str] = (),
) -> ModelInput:
    """Return the messages for a model: passages best first, at most ``context_chars``, the last one cut at a sentence.

    ``images`` are figure ids with encoded pictures; those of rows that don't fit are left out. Without ``captions``, the words of
    figures and pages aren't sent, without ``figure_names`` no names to copy. The model sees ``query_picture`` first; ``queries``
    were searched for so far.
    """
    # A number that a passage prints can't be the name of a figure: a reply may quote it.
    long_numbers = {
        number for hit in hits for number in _LONG_NUMBER.findall(template.without(_tagged_text(hit, template)))
    }
    aliases_by_figure = aliases((figure.figure_id for hit in hits for figure in hit.figures), long_numbers)
    sent_hits, tagged_passages, plain_passages = _fitting_passages(
        hits, template, aliases_by_figure if figure_names else {}, context_chars, captions=captions
    )
    held_pictures = {name for hit in sent_hits for name in (hit.figure_id, *hit.figure_refs)}
    images = [(name, picture) for name, picture in images if name in held_pictures]
    figures = _sent_figures(sent_hits, aliases_by_figure, template)
    values = {
        "question": " ".join(quoted(question).split()),
        "passages": "\n\n".join(tagged_passages),
        "texts": "\n\n".join(plain_passages),
        "pictures": _picture_lines(
            [name for name, _ in images], sent_hits, 1 if query_picture is None else 2, captions=captions
        ),
        "query_picture": "The first picture belongs to the question." if query_picture is not None else "",
        "queries": "\n".join(f"- {_line(query)}" for query in queries),
    }
    pictures = [*([query_picture] if query_picture is not None else []), *(data for _, data in images)]
    numbers = frozenset(re.findall(r"\[\d{1,3}\]", " ".join(plain_passages)))
    return ModelInput(prompt.messages(values, pictures), tuple(sent_hits), figures, numbers | long_numbers)


def _fitting_passages(
    hits: Sequence[Hit], template: TagTemplate, aliases_by_figure: Mapping[str, str], context_chars: int, *, captions: bool
) -> tuple[list[Hit], list[str], list[str]]:
    """Return the rows that fit, and their passages with and without tags."""
    sent_hits: list[Hit] = []
    tagged_passages: list[str] = []
    plain_passages: list[str] = []
    chars_left = context_chars
    for hit in hits:
        number = len(sent_hits) + 1
        # A figure sent as a picture alone takes no characters, but keeps a number, by which its picture is cited.
        if hit.figure_id is not None and not captions:
            sent_hits.append(hit)
            continue
        head = _head(hit, number)
        words = _fitting_sentences(
            _with_aliases(hit, template, aliases_by_figure, 4 * context_chars), chars_left - len(head)
        )
        if not words:
            break
        chars_left -= len(head) + len(words)
        sent_hits.append(hit)
        tagged_passages.append(_fenced(head, words))
        untagged = quoted(template.without(_tagged_text(hit, template)[: 4 * context_chars]))
        plain_passages.append(_fenced(f"[P{number}]:", _fitting_sentences(untagged, max(len(words), MOST_LINE))))
    return sent_hits, tagged_passages, plain_passages


def _sent_figures(
    sent_hits: Sequence[Hit], aliases_by_figure: Mapping[str, str], template: TagTemplate
) -> dict[str, FigurePart]:
    """Return the figures of the passages sent by their aliases, with the passages that have them."""
    tags = {number: tag for hit in sent_hits for tag, number in template.split(hit.tagged_text) if number is not None}
    figures: dict[str, FigurePart] = {}
    for passage_number, hit in enumerate(sent_hits, 1):
        for figure in hit.figures:
            digits = aliases_by_figure[figure.figure_id]
            earlier_citations = figures[digits].citations if digits in figures else []
            tag = tags.get(figure.number) or TagTemplate().write(figure.number)
            figures[digits] = figure_part(figure, tag, [*earlier_citations, passage_number])
    return figures


def _head(hit: Hit, number: int) -> str:
    """Return the line over a passage: its name, document, section and page. No line of a passage can imitate it."""
    location = [hit.title or hit.source.rpartition("/")[2], *hit.section_path[-1:]]
    region = next((hit_region for hit_region in hit.regions if hit_region.page == hit.page), None)
    page = region.page_name if region is not None else f"page {hit.page}"
    return f"[P{number}] {_line(' › '.join(location))}, {quoted(page)}:"


def _fenced(head: str, words: str) -> str:
    """Return a passage between marks that none of its words can write."""
    return f"{head}\n<passage>\n{words}\n</passage>"


def _line(text: str) -> str:
    return " ".join(quoted(text[: 2 * MOST_LINE]).split())[:MOST_LINE]


def _tagged_text(hit: Hit, template: TagTemplate) -> str:
    """Return a row's tagged text; for a figure, its tag with caption, description and recognised words."""
    if hit.modality is not Modality.FIGURE:
        return hit.tagged_text
    return "\n".join([*(tag for tag, number in template.split(hit.tagged_text) if number is not None), hit.text])


def _with_aliases(hit: Hit, template: TagTemplate, aliases_by_figure: Mapping[str, str], max_chars: int) -> str:
    """Return a passage with names of figures in place of tags; those that it is, or only mentions, follow with captions.

    Without aliases figures have no names.
    """
    figures_by_number = {figure.number: figure for figure in hit.figures}
    pieces = []
    for words, number in template.split(_tagged_text(hit, template)[:max_chars]):
        if number is None:
            pieces.append(quoted(words))
        elif aliases_by_figure and (figure := figures_by_number.pop(number, None)) is not None:
            pieces.append(f"[IMG-{aliases_by_figure[figure.figure_id]}]")
    trailing_captions = [
        f"\n[IMG-{aliases_by_figure[figure.figure_id]}] {_line(figure.caption)}"
        for figure in (figures_by_number.values() if aliases_by_figure else ())
    ]
    return "".join([*pieces, *trailing_captions]).strip()


def _fitting_sentences(text: str, max_chars: int) -> str:
    """Return the whole sentences of a text that fit; "" if none does."""
    if len(text) <= max_chars:
        return text
    ends = [end for _, end in sentences(text) if end <= max_chars]
    return text[: ends[-1]] if ends else ""


def _picture_lines(figure_ids: Sequence[str], hits: Sequence[Hit], first: int, *, captions: bool) -> str:
    lines = []
    for picture_number, figure_id in enumerate(figure_ids, first):
        holders = [
            (figure_id != candidate_hit.figure_id, n, candidate_hit)
            for n, candidate_hit in enumerate(hits, 1)
            if figure_id in (candidate_hit.figure_id, *candidate_hit.figure_refs)
        ]
        # The row of the figure itself names the picture before a text that only mentions it.
        _, number, hit = min(holders, key=lambda holder: holder[:2], default=(True, 0, None))
        printed = (figure.caption for figure in (hit.figures if hit else ()) if figure.figure_id == figure_id)
        caption = _line(next(printed, "") or hit.caption) if hit and captions else ""
        lines.append(
            f"Picture {picture_number}" + (f", of [P{number}]" if hit else "") + (f": {caption}" if caption else "")
        )
    return "\n".join(lines)


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
    # Names are at least three edits apart, so that a name with one wrong digit is one edit from a single name (``meant``).
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
    # Control characters go first, since they could split a look-alike.
    printable = _CONTROL.sub("", text)
    printable = _LOOKALIKE.sub(lambda match: "(" if match[1] else f"{match[2]} no. ", printable)
    return _THINKING.sub("‹", printable)


def quoted(text: str) -> str:
    """Return text as sent to a model: disarmed, without control tokens of chats, which servers read as another message."""
    # Invisible characters go first, since they could split a control token.
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


def _one_edit(first: str, second: str) -> bool:
    """Return whether one insertion, deletion or replacement turns one text into the other."""
    if abs(len(first) - len(second)) > 1:
        return False
    if len(first) == len(second):
        return sum(a != b for a, b in zip(first, second, strict=True)) == 1
    short, long = sorted((first, second), key=len)
    return any(long[:position] + long[position + 1 :] == short for position in range(len(long)))
