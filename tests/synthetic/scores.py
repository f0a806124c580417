"""How well a PDF was read, measured on a manual whose truth is known.

Whatever reads PDFs is first brought into a ``Reading``; Inset's own is made by ``reading_of``. Pages that are scans count for
their role only, since no model has read them.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from schemas.documents import TAGGED, BlockKind, Furniture, ParsedDocument, Role, StructuredDocument
from schemas.geometry import BBox
from schemas.tags import TagTemplate, fill, placeholders
from tests.synthetic.truth import TrueBlock, TrueFigure, TrueTable, Truth

_SAME_IOU = 0.5
_EXACT_IOU = 0.9
_COVERED = 0.9
_LARGEST = 1.4
_ADJACENT_LETTERS = 40
_TAG = "\x00"


@dataclass(frozen=True, slots=True)
class SeenFigure:
    """A picture that was found; ``name`` is what mentions call it, ``caption`` the one that it was given."""

    page: int
    bbox: BBox
    role: Role
    name: str = ""
    caption: str = ""


@dataclass(frozen=True, slots=True)
class SeenBlock:
    """A run of text, a table or a figure's tag; ``tags`` are places in ``Reading.figures``, one for each U+0000 of the text."""

    page: int
    text: str
    tags: tuple[int, ...] = ()
    section: tuple[str, ...] = ()
    mentions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SeenTable:
    """A table that was found."""

    page: int
    bbox: BBox
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """What was made of a PDF: blocks as they are read, without running headers and the words inside figures."""

    figures: tuple[SeenFigure, ...]
    blocks: tuple[SeenBlock, ...]
    tables: tuple[SeenTable, ...]


class Tally(NamedTuple):
    """How many were right."""

    right: int
    total: int

    @property
    def share(self) -> float | None:
        """Right over total; None where there was nothing to get right."""
        return self.right / self.total if self.total else None


@dataclass(frozen=True, slots=True)
class ParseScores:
    """What was right; the last three count what should not be there.

    Attributes:
        found: Content figures and icons of which nine tenths lie in one tagged figure at most 1.4 times as large.
        exact: The same, with an IoU of 0.9.
        roles: Pictures of any role, found and given that role.
        captions: Captioned figures that were given their caption, word for word.
        adjacent: Captioned figures whose tag stands beside the caption: fewer than 40 letters and no other caption between.
        beside: Of the uncaptioned pictures, icons too, that were found and of which the truth says where their tag is read,
            those whose tag stands there: directly before or behind the block that they are level with, between two blocks, in
            their cell of a table's row, between the words of a line. Several at one place must follow each other as they are
            read.
        mentions: Mentions that name the figure they speak of.
        order: Neighbouring blocks of a page that are whole and still neighbours.
        tags: Neighbouring tags that are still neighbours.
        sections: Blocks with the right titles over them.
        tables: Tables all of whose rows are in one table.
        cells: Cells with their words, and their picture.
        margins: Running headers and footers kept out of the text.
        false_figures: Tagged figures that are none, or pieces of one.
        false_mentions: Mentions that name a figure which the text doesn't speak of.
        forged: Tags in the text that are none of ours.
    """

    found: Tally
    exact: Tally
    roles: Tally
    captions: Tally
    adjacent: Tally
    beside: Tally
    mentions: Tally
    order: Tally
    tags: Tally
    sections: Tally
    tables: Tally
    cells: Tally
    margins: Tally
    false_figures: int
    false_mentions: int
    forged: int


def reading_of(parsed: ParsedDocument, structured: StructuredDocument) -> Reading:
    """Return what Inset makes of a PDF."""
    captions = {figure.placement.order: figure.caption for figure in structured.figures}
    numbers_by_order = {placement.order: number for number, placement in enumerate(parsed.placements)}
    unused: dict[tuple[int, str], list[int]] = defaultdict(list)
    for number, placement in enumerate(parsed.placements):
        if placement.role in TAGGED and placement.figure_id is not None:
            unused[placement.page, placement.figure_id].append(number)
    blocks: list[SeenBlock] = []
    for block in structured.blocks:
        if block.kind is BlockKind.MARGIN and block.furniture is not Furniture.CONTENTS:
            continue
        tags: tuple[int, ...]
        if block.kind is BlockKind.FIGURE and block.placement is not None:
            text, tags = _TAG, (numbers_by_order[block.placement],)
            unused[block.page, parsed.placements[tags[0]].figure_id or ""].remove(tags[0])
        else:
            text = fill(block.text, lambda _: _TAG)
            unused_numbers = [unused[block.page, name] for name in placeholders(block.text)]
            tags = tuple(numbers.pop(0) for numbers in unused_numbers if numbers)
        blocks.append(SeenBlock(block.page, text, tags, block.section_path, block.mentions))
    return Reading(
        figures=tuple(
            SeenFigure(
                placement.page, placement.bbox, placement.role, placement.figure_id or "", captions.get(placement.order, "")
            )
            for placement in parsed.placements
        ),
        blocks=tuple(blocks),
        tables=tuple(
            SeenTable(
                block.page, block.bbox, tuple(tuple(fill(cell, lambda _: _TAG) for cell in row) for row in block.rows)
            )
            for block in structured.blocks
            if block.kind is BlockKind.TABLE
        ),
    )


def score(reading: Reading, truth: Truth) -> ParseScores:
    """Compare what was read with what is true."""
    return _Scoring(reading, truth).scores()


@dataclass(frozen=True, slots=True)
class _Stream:
    """The letters of a page as they are read: which block each part is from, and where tags stand."""

    letters: str
    blocks: tuple[tuple[int, int, SeenBlock], ...]
    tags: Mapping[int, int]

    @classmethod
    def of(cls, blocks: Iterable[SeenBlock]) -> "_Stream":
        letters = ""
        spans: list[tuple[int, int, SeenBlock]] = []
        tags: dict[int, int] = {}
        for block in blocks:
            start = len(letters)
            pieces = block.text.split(_TAG)
            for index, piece in enumerate(pieces):
                if 0 < index <= len(block.tags):
                    tags[block.tags[index - 1]] = len(letters)
                letters += _letters(piece)
            spans.append((start, len(letters), block))
        return cls(letters, tuple(spans), tags)

    def place(self, text: str, after: int) -> int | None:
        """Return where a text stands: at the head of a block rather than in one, behind what was read rather than before."""
        heads = {start for start, _, _ in self.blocks}
        starts = [match.start() for match in re.finditer(f"(?={re.escape(text)})", self.letters)]
        return min(starts, key=lambda start: (start not in heads, start < after, start), default=None)

    def holders(self, start: int, end: int) -> Iterator[SeenBlock]:
        """Yield the blocks that a part of the letters lies in."""
        for first, last, block in self.blocks:
            if first < end and start < last:
                yield block


class _Scoring:
    def __init__(self, reading: Reading, truth: Truth) -> None:
        self.reading, self.truth = reading, truth
        self.readable = {page.page for page in truth.pages if not page.scanned}
        self.blocks = {block.id: block for block in truth.blocks if block.page in self.readable}
        self.figures = {figure.id: figure for figure in truth.figures}
        self.tagged = [
            candidate for candidate in truth.figures if candidate.role in TAGGED and candidate.page in self.readable
        ]
        self.seen_on: dict[int, list[int]] = defaultdict(list)
        for number, figure in enumerate(reading.figures):
            self.seen_on[figure.page].append(number)
        self.match = self._matched()
        on_page: dict[int, list[SeenBlock]] = defaultdict(list)
        for block in reading.blocks:
            on_page[block.page].append(block)
        self.streams = {page.page: _Stream.of(on_page[page.page]) for page in truth.pages}
        self.spans = self._located()

    def scores(self) -> ParseScores:
        captioned = [figure for figure in self.tagged if figure.caption]
        matched = {number for name, number in self.match.items() if self.figures[name].role in TAGGED}
        tables = [table for table in self.truth.tables if all(region.page in self.readable for region in table.regions)]
        cells = [self._cells(table) for table in tables]
        links, right, wrong = self._mentions()
        judged = [
            candidate
            for candidate in self.truth.figures
            if candidate.page in self.readable or candidate.role is Role.PAGE_SCAN
        ]
        return ParseScores(
            found=_tally(self._is_found(figure) for figure in self.tagged),
            exact=_tally(self._best_iou(figure) >= _EXACT_IOU for figure in self.tagged),
            roles=_tally(self._role(figure) is figure.role for figure in judged),
            captions=_tally(self._caption(figure) == _letters(figure.caption) for figure in captioned),
            adjacent=_tally(self._is_adjacent(figure) for figure in captioned),
            beside=_tally(
                self._is_beside(candidate)
                for candidate in self.tagged
                if candidate.stands is not None and candidate.id in self.match
            ),
            mentions=Tally(right, links),
            order=_tally(self._order()),
            tags=_tally(self._tags()),
            sections=_tally(self._section(block) for block in self.blocks.values() if block.section),
            tables=_tally(is_whole for _, is_whole in cells),
            cells=Tally(sum(tally.right for tally, _ in cells), sum(tally.total for tally, _ in cells)),
            margins=_tally(
                _letters(text) not in self.streams[page.page].letters
                for page in self.truth.pages
                for text in page.margins[:1]
            ),
            false_figures=sum(
                figure.role in TAGGED and figure.page in self.readable and number not in matched
                for number, figure in enumerate(self.reading.figures)
            ),
            false_mentions=wrong,
            forged=sum(len(TagTemplate().numbers(block.text)) for block in self.reading.blocks),
        )

    def _matched(self) -> dict[str, int]:
        """Pair true pictures with seen ones that overlap by half, the best pairs first."""
        pairs = sorted(
            (
                (figure.bbox.iou(self.reading.figures[number].bbox), figure.id, number)
                for figure in self.truth.figures
                for number in self.seen_on[figure.page]
            ),
            key=lambda pair: (-pair[0], pair[1:]),
        )
        match: dict[str, int] = {}
        for overlap, name, number in pairs:
            if overlap >= _SAME_IOU and name not in match and number not in match.values():
                match[name] = number
        return match

    def _located(self) -> dict[str, tuple[int, int]]:
        """Return where the letters of each true block stand in the stream of its page; torn ones are left out."""
        spans: dict[str, tuple[int, int]] = {}
        ends: dict[int, int] = defaultdict(int)
        for page in self.truth.pages:
            for name in page.order:
                if name not in self.blocks:
                    continue
                text, stream = _letters(self.blocks[name].text), self.streams[page.page]
                start = stream.place(text, ends[page.page])
                if start is not None:
                    spans[name] = (start, start + len(text))
                    ends[page.page] = start + len(text)
        return spans

    def _is_found(self, figure: TrueFigure) -> bool:
        boxes = [
            candidate.bbox
            for number in self.seen_on[figure.page]
            if (candidate := self.reading.figures[number]).role in TAGGED
            and (candidate.bbox & figure.bbox).area >= _COVERED * figure.bbox.area
        ]
        return bool(boxes) and min(box.area for box in boxes) <= _LARGEST * figure.bbox.area

    def _best_iou(self, figure: TrueFigure) -> float:
        page_figures = [self.reading.figures[number] for number in self.seen_on[figure.page]]
        return max((candidate.bbox.iou(figure.bbox) for candidate in page_figures if candidate.role in TAGGED), default=0.0)

    def _role(self, figure: TrueFigure) -> Role | None:
        return self.reading.figures[self.match[figure.id]].role if figure.id in self.match else None

    def _caption(self, figure: TrueFigure) -> str | None:
        return _letters(self.reading.figures[self.match[figure.id]].caption) if figure.id in self.match else None

    def _is_adjacent(self, figure: TrueFigure) -> bool:
        stream = self.streams[figure.page]
        tag, span = stream.tags.get(self.match.get(figure.id, -1)), self.spans.get(f"{figure.id}.caption")
        if tag is None or span is None:
            return False
        start, end = (tag, span[0]) if tag <= span[0] else (span[1], tag)
        caption_starts = [
            self.spans[block.id][0]
            for block in self.blocks.values()
            if block.kind == "caption" and block.page == figure.page and block.id in self.spans
        ]
        return end - start < _ADJACENT_LETTERS and not any(
            start <= position < end and position != span[0] for position in caption_starts
        )

    def _is_beside(self, figure: TrueFigure) -> bool:
        true_place, stream = figure.stands, self.streams[figure.page]
        at = stream.tags.get(self.match.get(figure.id, -1))
        if true_place is None or at is None:
            return False
        allowed: list[set[int]] = []
        if true_place.after:
            allowed.append({self.spans[true_place.after][1]} if true_place.after in self.spans else set())
        if true_place.before:
            allowed.append({self.spans[true_place.before][0]} if true_place.before in self.spans else set())
        if true_place.beside:
            allowed.append(set(self.spans.get(true_place.beside, ())))
        if true_place.within:
            span = self.spans.get(true_place.within)
            allowed.append({span[0] + len(_letters(true_place.words))} if span else set())
        if true_place.row:
            allowed.append(self._cell_places(stream, *true_place.row))
        return all(at in offsets for offsets in allowed) and self._in_turn(figure, stream, at)

    def _cell_places(self, stream: _Stream, table: str, row: int, column: int) -> set[int]:
        """Return where in a page's letters a cell begins, if its row is read in one."""
        cells = next(candidate for candidate in self.truth.tables if candidate.id == table).rows[row]
        start = stream.letters.find(_letters("".join(cells)))
        return {start + len(_letters("".join(cells[:column])))} if start >= 0 else set()

    def _in_turn(self, figure: TrueFigure, stream: _Stream, at: int) -> bool:
        """Return whether tags between the same letters as a figure's come before and behind it as they are read."""
        names = {number: name for name, number in self.match.items()}
        read_names = [names[number] for number, offset in stream.tags.items() if offset == at and number in names]
        expected = [name for name in self.truth.tags if name in read_names]
        mine = read_names.index(figure.id)
        return set(read_names[:mine]) & set(expected) == set(expected[: expected.index(figure.id)])

    def _mentions(self) -> tuple[int, int, int]:
        """Return how many mentions there are, how many are linked, and how many links are wrong."""
        truly: dict[int, set[str]] = defaultdict(set)
        links = right = 0
        for block in self.blocks.values():
            span = self.spans.get(block.id)
            holders = list(self.streams[block.page].holders(*span)) if span else []
            for name in block.mentions:
                called = self.reading.figures[self.match[name]].name if name in self.match else None
                for holder in holders:
                    truly[id(holder)].add(called or "")
                if self.figures[name].page in self.readable:
                    links += 1
                    right += any(called in holder.mentions for holder in holders)
        wrong = sum(
            len(set(block.mentions) - truly[id(block)]) for block in self.reading.blocks if block.page in self.readable
        )
        return links, right, wrong

    def _order(self) -> Iterator[bool]:
        for page in self.truth.pages:
            names = [name for name in page.order if name in self.blocks]
            starts = [self.spans[name][0] for name in names if name in self.spans]
            for earlier, later in pairwise(names):
                if earlier not in self.spans or later not in self.spans:
                    yield False
                    continue
                end, start = self.spans[earlier][1], self.spans[later][0]
                yield end <= start and not any(end <= position < start for position in starts)

    def _tags(self) -> Iterator[bool]:
        tagged = set(self.truth.tags)
        names = {number: name for name, number in self.match.items() if name in tagged}
        read_names = [names[number] for block in self.reading.blocks for number in block.tags if number in names]
        follows = set(pairwise(read_names))
        for pair in pairwise(self.truth.tags):
            yield pair in follows

    def _section(self, block: TrueBlock) -> bool:
        if block.id not in self.spans:
            return False
        start, _ = self.spans[block.id]
        holder = next(self.streams[block.page].holders(start, start + 1), None)
        return holder is not None and [*map(_letters, holder.section)] == [*map(_letters, block.section)]

    def _cells(self, table: TrueTable) -> tuple[Tally, bool]:
        """Return how many cells are right, and whether one table holds all rows."""
        read_tables = [
            read_table
            for read_table in self.reading.tables
            if any(
                read_table.page == region.page and read_table.bbox.iou(region.bbox) >= _SAME_IOU for region in table.regions
            )
        ]
        pictures = {(row, column) for row, column, _ in table.pictures}
        width = len(table.rows[0])
        true_rows = [
            tuple((_letters(cell), (row, column) in pictures) for column, cell in enumerate(cells))
            for row, cells in enumerate(table.rows)
        ]
        rows = [[_cell(row) for row in read_table.rows] for read_table in read_tables]
        lines = [
            row
            for read_table in rows
            for number, row in enumerate(read_table)
            if read_table is rows[0] or number or row != true_rows[0]
        ]
        total = width * len(true_rows)
        right = sum(
            cell == read_cell
            for row, line in zip(true_rows, lines, strict=False)
            for cell, read_cell in zip(row, line, strict=False)
        )
        return Tally(right, total), len(read_tables) == 1 and len(lines) == len(true_rows)


def _cell(row: Sequence[str]) -> tuple[tuple[str, bool], ...]:
    return tuple((_letters(cell), _TAG in cell) for cell in row)


def _tally(outcomes: Iterable[bool]) -> Tally:
    listed = list(outcomes)
    return Tally(sum(listed), len(listed))


def _letters(text: str) -> str:
    return re.sub(r"[\W_]+", "", text).casefold()
