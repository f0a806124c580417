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
    places = {place.order: number for number, place in enumerate(parsed.placements)}
    unused: dict[tuple[int, str], list[int]] = defaultdict(list)
    for number, place in enumerate(parsed.placements):
        if place.role in TAGGED and place.figure_id is not None:
            unused[place.page, place.figure_id].append(number)
    blocks: list[SeenBlock] = []
    for block in structured.blocks:
        if block.kind is BlockKind.MARGIN and block.furniture is not Furniture.CONTENTS:
            continue
        tags: tuple[int, ...]
        if block.kind is BlockKind.FIGURE and block.placement is not None:
            text, tags = _TAG, (places[block.placement],)
            unused[block.page, parsed.placements[tags[0]].figure_id or ""].remove(tags[0])
        else:
            text = fill(block.text, lambda _: _TAG)
            held = [unused[block.page, name] for name in placeholders(block.text)]
            tags = tuple(numbers.pop(0) for numbers in held if numbers)
        blocks.append(SeenBlock(block.page, text, tags, block.section_path, block.mentions))
    return Reading(
        figures=tuple(
            SeenFigure(place.page, place.bbox, place.role, place.figure_id or "", captions.get(place.order, ""))
            for place in parsed.placements
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
            for place, piece in enumerate(pieces):
                if 0 < place <= len(block.tags):
                    tags[block.tags[place - 1]] = len(letters)
                letters += _letters(piece)
            spans.append((start, len(letters), block))
        return cls(letters, tuple(spans), tags)

    def place(self, text: str, after: int) -> int | None:
        """Return where a text stands: at the head of a block rather than in one, behind what was read rather than before."""
        heads = {start for start, _, _ in self.blocks}
        found = [match.start() for match in re.finditer(f"(?={re.escape(text)})", self.letters)]
        return min(found, key=lambda start: (start not in heads, start < after, start), default=None)

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
        self.tagged = [one for one in truth.figures if one.role in TAGGED and one.page in self.readable]
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
        known = [one for one in self.truth.figures if one.page in self.readable or one.role is Role.PAGE_SCAN]
        return ParseScores(
            found=_tally(self._is_found(figure) for figure in self.tagged),
            exact=_tally(self._best_iou(figure) >= _EXACT_IOU for figure in self.tagged),
            roles=_tally(self._role(figure) is figure.role for figure in known),
            captions=_tally(self._caption(figure) == _letters(figure.caption) for figure in captioned),
            adjacent=_tally(self._is_adjacent(figure) for figure in captioned),
            beside=_tally(self._is_beside(one) for one in self.tagged if one.stands is not None and one.id in self.match),
            mentions=Tally(right, links),
            order=_tally(self._order()),
            tags=_tally(self._tags()),
            sections=_tally(self._section(block) for block in self.blocks.values() if block.section),
            tables=_tally(whole for _, whole in cells),
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
            seen.bbox
            for number in self.seen_on[figure.page]
            if (seen := self.reading.figures[number]).role in TAGGED
            and (seen.bbox & figure.bbox).area >= _COVERED * figure.bbox.area
        ]
        return bool(boxes) and min(box.area for box in boxes) <= _LARGEST * figure.bbox.area

    def _best_iou(self, figure: TrueFigure) -> float:
        seen = [self.reading.figures[number] for number in self.seen_on[figure.page]]
        return max((one.bbox.iou(figure.bbox) for one in seen if one.role in TAGGED), default=0.0)

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
        others = [
            self.spans[block.id][0]
            for block in self.blocks.values()
            if block.kind == "caption" and block.page == figure.page and block.id in self.spans
        ]
        return end - start < _ADJACENT_LETTERS and not any(start <= other < end and other != span[0] for other in others)

    def _is_beside(self, figure: TrueFigure) -> bool:
        place, stream = figure.stands, self.streams[figure.page]
        at = stream.tags.get(self.match.get(figure.id, -1))
        if place is None or at is None:
            return False
        allowed: list[set[int]] = []
        if place.after:
            allowed.append({self.spans[place.after][1]} if place.after in self.spans else set())
        if place.before:
            allowed.append({self.spans[place.before][0]} if place.before in self.spans else set())
        if place.beside:
            allowed.append(set(self.spans.get(place.beside, ())))
        if place.within:
            span = self.spans.get(place.within)
            allowed.append({span[0] + len(_letters(place.words))} if span else set())
        if place.row:
            allowed.append(self._cell_places(stream, *place.row))
        return all(at in places for places in allowed) and self._in_turn(figure, stream, at)

    def _cell_places(self, stream: _Stream, table: str, row: int, column: int) -> set[int]:
        """Return where in a page's letters a cell begins, if its row is read in one."""
        cells = next(one for one in self.truth.tables if one.id == table).rows[row]
        start = stream.letters.find(_letters("".join(cells)))
        return {start + len(_letters("".join(cells[:column])))} if start >= 0 else set()

    def _in_turn(self, figure: TrueFigure, stream: _Stream, at: int) -> bool:
        """Return whether tags between the same letters as a figure's come before and behind it as they are read."""
        names = {number: name for name, number in self.match.items()}
        seen = [names[number] for number, place in stream.tags.items() if place == at and number in names]
        expected = [name for name in self.truth.tags if name in seen]
        mine = seen.index(figure.id)
        return set(seen[:mine]) & set(expected) == set(expected[: expected.index(figure.id)])

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
            for one, other in pairwise(names):
                if one not in self.spans or other not in self.spans:
                    yield False
                    continue
                end, start = self.spans[one][1], self.spans[other][0]
                yield end <= start and not any(end <= place < start for place in starts)

    def _tags(self) -> Iterator[bool]:
        tagged = set(self.truth.tags)
        names = {number: name for name, number in self.match.items() if name in tagged}
        seen = [names[number] for block in self.reading.blocks for number in block.tags if number in names]
        follows = set(pairwise(seen))
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
        seen = [
            one
            for one in self.reading.tables
            if any(one.page == region.page and one.bbox.iou(region.bbox) >= _SAME_IOU for region in table.regions)
        ]
        pictures = {(row, column) for row, column, _ in table.pictures}
        width = len(table.rows[0])
        wanted = [
            tuple((_letters(cell), (row, column) in pictures) for column, cell in enumerate(cells))
            for row, cells in enumerate(table.rows)
        ]
        rows = [[_cell(row) for row in one.rows] for one in seen]
        lines = [row for one in rows for number, row in enumerate(one) if one is rows[0] or number or row != wanted[0]]
        total = width * len(wanted)
        right = sum(
            cell == other for row, line in zip(wanted, lines, strict=False) for cell, other in zip(row, line, strict=False)
        )
        return Tally(right, total), len(seen) == 1 and len(lines) == len(wanted)


def _cell(row: Sequence[str]) -> tuple[tuple[str, bool], ...]:
    return tuple((_letters(cell), _TAG in cell) for cell in row)


def _tally(outcomes: Iterable[bool]) -> Tally:
    listed = list(outcomes)
    return Tally(sum(listed), len(listed))


def _letters(text: str) -> str:
    return re.sub(r"[\W_]+", "", text).casefold()
