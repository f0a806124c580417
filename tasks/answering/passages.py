"""Read the rows around a hit as headings, sentences, list items, code, tables and figures."""

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from schemas.evidence import CitedFigure, Hit, Span
from schemas.filters import Modality
from schemas.tags import TagTemplate
from schemas.text import SUPERSCRIPTS, caption_label, same_title, split_fenced
from tasks.answering.highlight import sentences
from tasks.tables.mark_up import markdown

REACH = 3
"""Rows of the same section read before and after a hit; rows hold some 200 words."""

PROCEDURE_REACH = 8
"""The same for a how-to question: procedures with pictures run over pages."""

LABEL_WORDS = 5
"""Maximum words of a paragraph without a full stop that is a label, a list item's marker included."""

_ITEM = re.compile(
    r"\s*(?:(?:[-•*–▪◦‣●○■□➢✓]|\(?[a-zA-Z][.)]|\((?P<bracketed>\d{1,2})\))(?=\s)|(?P<number>\d{1,2})[.)](?=\s|[A-Z][a-z]))\s*+(?=\S)"
)
_GAP = re.compile(r"\n[^\S\n]*+\n\s*+")
_ENDED = re.compile(r"[.!?:;…。！？][)\]\"'”’»]*+\s*+\Z")
_GOES_ON = re.compile(r"\s*[a-zà-öø-ÿ]")
_STATEMENT = re.compile(
    r"[;{}]\s*$|^\s*(?:[$#>]|//|/\*)\s|^\s*[\w.\[\]]+\s*(?::=|<=|=>|=)\s*\S|\w\([^)]*\)\s*;|(?:^|\s)--?[a-zA-Z][\w-]*(?:\s|$)"
)
_OPERATORS = re.compile(r"[{}()\[\];=<>_$#|&*+\\/]")
_NOTE = re.compile(rf"\(?{SUPERSCRIPTS}")
CODE_SHARE = 0.06
"""Minimum share of brackets and operators in a line of code."""

Style = Literal["prose", "heading", "item", "code", "figure", "table"]


class RowPosition(NamedTuple):
    """The columns of a row that choosing its neighbours, or the figures of a page, needs."""

    evidence_id: str
    modality: str
    section_path: tuple[str, ...]
    page: int


@dataclass(frozen=True, slots=True)
class PassageBlock:
    """A paragraph, heading, list item, run of code lines, table, or figures between them.

    ``text`` has its tags; ``rows`` are indices of its rows in the passage; ``sentences`` are spans of ``text``; ``number`` is a
    numbered item's.
    """

    style: Style
    text: str
    rows: tuple[int, ...]
    sentences: tuple[Span, ...] = ()
    number: int | None = None

    @property
    def introduces(self) -> bool:
        """Whether it ends with a colon."""
        return self.text.rstrip().endswith(":")

    def sentence(self, number: int) -> str:
        """Return the text of a sentence."""
        return self.text[slice(*self.sentences[number])]


@dataclass(frozen=True, slots=True)
class Passage:
    """Consecutive rows of one section, and their blocks; ``found_rows`` are indices, ``rank`` is the best one's, from 0."""

    rows: tuple[Hit, ...]
    found_rows: frozenset[int]
    rank: int
    blocks: tuple[PassageBlock, ...] = field(default=())

    @property
    def is_figure(self) -> bool:
        """Whether it begins with a figure's own row."""
        return self.rows[0].modality is Modality.FIGURE


def around(positions: Sequence[RowPosition], evidence_ids: Sequence[str], reach: int = REACH) -> list[list[str]]:
    """Return the ids of rows to read, a list a run: each row found with its neighbours in its section, overlapping runs merged.

    ``positions`` are the rows of one document in reading order; runs are in the order of ``evidence_ids``, best first. A figure's
    or page's row is read alone.
    """
    running = [position for position in positions if position.modality in (Modality.TEXT, Modality.TABLE)]
    index_by_id = {position.evidence_id: number for number, position in enumerate(running)}
    reads: list[range | str] = []  # numbers of running rows, or the id of a row that is read alone
    for evidence_id in evidence_ids:
        if evidence_id not in index_by_id:
            reads.append(evidence_id)
            continue
        first = last = middle = index_by_id[evidence_id]
        section_path = running[middle].section_path
        while first > 0 and middle - first < reach and running[first - 1].section_path == section_path:
            first -= 1
        while last + 1 < len(running) and last - middle < reach and running[last + 1].section_path == section_path:
            last += 1
        run = range(first, last + 1)
        for number, earlier in enumerate(reads):
            if isinstance(earlier, range) and middle in earlier:
                reads[number] = range(min(earlier.start, run.start), max(earlier.stop, run.stop))
                break
        else:
            reads.append(run)
    return [[read] if isinstance(read, str) else [running[number].evidence_id for number in read] for read in reads]


def text_before(positions: Sequence[RowPosition], evidence_id: str) -> str | None:
    """Return the nearest text row before a row in its section; None if there is none."""
    nearest: RowPosition | None = None
    for position in positions:
        if position.evidence_id == evidence_id:
            return nearest.evidence_id if nearest is not None and nearest.section_path == position.section_path else None
        if position.modality == Modality.TEXT:
            nearest = position
    return None


def read_passage(rows: Sequence[Hit], ranks: Mapping[str, int], template: TagTemplate) -> Passage:
    """Return rows of a section, in reading order, as a passage; ``ranks`` are those of the rows found.

    Sentences and lists that continue in the next row are joined. Captions are left out: they are shown under their figures.
    """
    titles = {title for row in rows for title in row.section_path}
    blocks: list[PassageBlock] = []
    for number, row in enumerate(rows):
        for block in _blocks(row, number, titles, template):
            _append(blocks, block)
    found_rows = frozenset(number for number, row in enumerate(rows) if row.evidence_id in ranks)
    rank = min(ranks[rows[number].evidence_id] for number in found_rows)
    return Passage(tuple(rows), found_rows, rank, tuple(map(_with_sentences, blocks)))


def _blocks(row: Hit, number: int, titles: set[str], template: TagTemplate) -> Iterator[PassageBlock]:
    text = _without_captions(row, template)
    if row.tagged_rows:
        cells = markdown(row.tagged_rows)
        # Cells are a block of their own, behind the text; where they can't be cut off, the caption alone stays.
        text = text.removesuffix(cells) if text.endswith(cells) else row.caption
    for part, is_code in split_fenced(text):
        if is_code:
            yield PassageBlock("code", part, (number,))
            continue
        for paragraph in _GAP.split(part):
            for style, words in _style_runs(paragraph.strip(), titles, template):
                marker = _ITEM.match(words) if style == "item" else None
                ordinal = marker and (marker["number"] or marker["bracketed"])
                yield PassageBlock(style, words, (number,), number=int(ordinal) if ordinal else None)
    if row.tagged_rows:
        yield PassageBlock("table", "", (number,))


def _without_captions(row: Hit, template: TagTemplate) -> str:
    captions = {figure.number: figure.caption for figure in row.figures if figure.caption}
    pieces = template.split(row.tagged_text)
    caption_patterns = [r"\s+".join(map(re.escape, captions[number].split())) for _, number in pieces if number in captions]
    if not caption_patterns:
        return row.tagged_text.strip()
    caption = _line_of("|".join(caption_patterns))
    return "".join(words if number is not None else caption.sub("\n", words) for words, number in pieces).strip()


@functools.lru_cache(2_000)
def _line_of(pattern: str) -> re.Pattern[str]:
    # Tried once for each run of white space, not once for each of its characters.
    return re.compile(rf"(?:\A|(?<=\n))[^\S\n]*+(?:{pattern})[^\S\n]*+(?=\n|\Z)")


def _style_runs(paragraph: str, titles: set[str], template: TagTemplate) -> Iterator[tuple[Style, str]]:
    """Split a paragraph into runs of lines of one style."""
    if not paragraph:
        return
    if len(paragraph) < 200 and any(same_title(title, paragraph) for title in titles):
        yield "heading", paragraph
        return
    held_lines: list[str] = []
    style: Style | None = None
    for line in paragraph.split("\n"):
        untagged = template.without(line)
        line_style: Style
        if not untagged:
            if not line.strip():
                continue
            line_style = "figure"
        elif _ITEM.match(line) and not _is_code(untagged):
            line_style = "item"
        elif style == "item" and not _is_code(untagged):
            # A line without a marker continues the item above it.
            held_lines.append(line)
            continue
        else:
            line_style = "code" if _is_code(untagged) else "prose"
        if held_lines and style is not None and (line_style != style or line_style == "item"):
            yield style, "\n".join(held_lines)
            held_lines = []
        style = line_style
        held_lines.append(line)
    if held_lines and style is not None:
        yield style, "\n".join(held_lines)


def _is_code(line: str) -> bool:
    marks = len(_OPERATORS.findall(line))
    return (
        marks >= CODE_SHARE * len(line)
        and _STATEMENT.search(line) is not None
        and not re.search(r"[a-z]{2}\.\s+[A-Z]", line)
    )


def _append(blocks: list[PassageBlock], block: PassageBlock) -> None:
    """Append a block, joined with the previous one if code goes on, or a sentence around a figure, table, note or page."""
    numbers = reversed(range(len(blocks)))
    texts = (n for n in numbers if blocks[n].style not in ("figure", "table") and not _NOTE.match(blocks[n].text))
    previous = next(texts, None)
    if (
        block.style == "prose"
        and previous is not None
        and blocks[previous].style in ("prose", "item")
        and _GOES_ON.match(block.text)
        and not _ENDED.search(blocks[previous].text)
    ):
        blocks[previous] = _joined(blocks[previous], block, " ")
    elif block.style == "code" and blocks and blocks[-1].style == "code":
        blocks[-1] = _joined(blocks[-1], block, "\n")
    else:
        blocks.append(block)


def _joined(block: PassageBlock, following: PassageBlock, between: str) -> PassageBlock:
    rows = tuple(dict.fromkeys((*block.rows, *following.rows)))
    return replace(block, text=f"{block.text}{between}{following.text}", rows=rows)


def _with_sentences(block: PassageBlock) -> PassageBlock:
    if block.style in ("heading", "figure", "table"):
        return block
    spans = [(0, len(block.text))] if block.style == "code" else sentences(block.text)
    return replace(block, sentences=tuple(spans))


def runs(blocks: Sequence[PassageBlock]) -> list[range]:
    """Return the lists of a passage: runs of blocks from the first item to the last.

    An item continues the innermost open list whose last ordinal it follows. What stands between two items of a numbered list
    (figures, notes, code, tables, and lists of their own) belongs to it; a heading ends all lists.
    """
    lists: list[range] = []
    open_lists: list[_OpenList] = []
    last_item = -1
    for block_number, block in enumerate(blocks):
        if block.style == "heading":
            open_lists = []
        marker = _ITEM.match(block.text) if block.style == "item" else None
        if marker is None:
            continue
        kind, ordinal = _marked_by(marker)
        # A figure between two items doesn't part them.
        while last_item + 1 < block_number and blocks[last_item + 1].style == "figure":
            last_item += 1
        adjacent = last_item == block_number - 1
        depth = next(
            (depth for depth in range(len(open_lists) - 1, -1, -1) if open_lists[depth].takes(kind, ordinal, adjacent)),
            None,
        )
        if depth is not None:
            # Lists inside the item before end with it.
            del open_lists[depth + 1 :]
            first = open_lists[depth].first
        elif adjacent and open_lists and kind > open_lists[-1].kind:
            first = open_lists[0].first
            open_lists.append(_OpenList(first, kind))
        else:
            first = block_number
            open_lists.append(_OpenList(first, kind))
        open_lists[-1].ordinal = ordinal
        # An outer list takes the place of the lists inside it.
        lists = [*(run for run in lists if run.start < first), range(first, block_number + 1)]
        last_item = block_number
    return lists


@dataclass(slots=True)
class _OpenList:
    """A list that further items may continue: its first block, the kind of its markers, and the last ordinal."""

    first: int
    kind: int
    ordinal: int = 0

    def takes(self, kind: int, ordinal: int, adjacent: bool) -> bool:
        return kind == self.kind and (adjacent if kind == _BULLETS else ordinal == self.ordinal + 1)


_NUMBERS, _LETTERS, _BULLETS = range(3)
"""Kinds of markers; a list directly after an item of an earlier kind is part of that item."""


def _marked_by(marker: re.Match[str]) -> tuple[int, int]:
    """Return the kind of an item's marker, and its ordinal; 0 for bullets."""
    digits = marker["number"] or marker["bracketed"]
    if digits:
        return _NUMBERS, int(digits)
    letter = re.match(r"\s*\(?([a-zA-Z])[.)]", marker[0])
    return (_LETTERS, ord(letter[1].lower()) - ord("a") + 1) if letter else (_BULLETS, 0)


def kept_blocks(passage: Passage) -> range:
    """Return the blocks of the rows found, without a heading at the end."""
    blocks = passage.blocks
    numbers = [number for number, block in enumerate(blocks) if not passage.found_rows.isdisjoint(block.rows)]
    while len(numbers) > 1 and blocks[numbers[-1]].style == "heading":
        numbers.pop()
    return range(numbers[0], numbers[-1] + 1) if numbers else range(0)


def is_table_caption(blocks: Sequence[PassageBlock], block_number: int) -> bool:
    """Return whether a paragraph is the numbered caption of the table after it."""
    following = block_number + 1
    label = caption_label(blocks[block_number].text) if following < len(blocks) else None
    return label is not None and bool(label.number) and blocks[following].style == "table"


def paragraph_before(blocks: Sequence[PassageBlock], block_number: int) -> int | None:
    """Return the nearest paragraph before a block, skipping figures; None at a heading or the start."""
    numbers = (number for number in range(block_number - 1, -1, -1) if blocks[number].style != "figure")
    number = next(numbers, None)
    return number if number is not None and blocks[number].style in ("prose", "item") else None


def figures_of(passage: Passage) -> dict[str, CitedFigure]:
    """Return the figures of a passage by the numbers of their tags."""
    return {figure.number: figure for row in passage.rows for figure in row.figures}
