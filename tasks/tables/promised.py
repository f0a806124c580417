"""Find the tables that a layout model sees on a page, and read their grids."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, combinations, pairwise
from statistics import median

from schemas.documents import FoundBy, LayoutLabel, Line, PageRegion, is_same_size, lines_in
from schemas.drawings import LettersOf, Mark, RulePiece, Ruling
from schemas.geometry import BBox, is_level, overlap, union
from tasks.tables.align import contents_entries, gutters_of, levels_of
from tasks.tables.rows import View
from tasks.tables.tabulate import pieces_of

SAME_SHARE = 0.5
"""Minimum share of the smaller of two boxes that they have in common, if they are one table."""
MONO_SHARE = 0.95
"""Share of the letters of a region in monospace from which on it is code."""
ACROSS_SHARE = 0.7
"""Minimum share of a table's width that a rule between rows has."""
FEWEST_RULES = 2
"""Minimum rules inside a table from which on they separate its rows; one is below the head."""
INSIDE_PT = 4.0
"""Minimum distance of such a rule from the top and the bottom of the table."""
CROSSED_SHARE = 0.2
"""Maximum share of the rows with a line across an edge between two columns."""
_MAY_BE_FORM = frozenset({LayoutLabel.TABLE, LayoutLabel.PICTURE})
NEAR_EM = 3.0
"""How far a crossed edge may be moved to a gutter between words, in ems."""


def layout_tables(
    regions: Sequence[PageRegion],
    tables: Sequence[Ruling],
    lines: Sequence[Line],
    marks: Sequence[Mark],
    letters_of: LettersOf,
    rotation: int = 0,
) -> list[Ruling]:
    """Return the grids of the tables that a layout model sees, without code and the tables that rules show.

    Args:
        regions: What the model sees on the page.
        tables: The tables that rules show.
        lines: The page's text.
        marks: The page's drawings.
        letters_of: Called only for lines that cross an edge between two columns.
        rotation: How the text is turned for its reader.
    """
    view = View(rotation)
    rules = [view.seen(mark.bbox) for mark in marks if mark.is_rule]
    rulings: list[Ruling] = []
    for region in regions:
        if region.label is not LayoutLabel.TABLE or any(_is_same(region.bbox, table.bbox) for table in tables):
            continue
        inner = lines_in(region.bbox, lines)
        length = sum(len(line.text) for line in inner)
        # A table of contents has rows and columns as well, but it is furniture.
        is_contents = 2 * len(contents_entries(inner)) > len(inner)
        if not is_contents and sum(len(line.text) for line in inner if line.mono) < MONO_SHARE * length:
            letters = view.letters(letters_of)
            pieces = [piece for line in view.lines(inner) for piece in pieces_of(line, region.columns, letters)]
            ruling = _ruling(replace(region, bbox=view.seen(region.bbox)), pieces, rules)
            rulings.append(view.ruling(ruling, view.stored))
    return rulings


def _is_same(box: BBox, table_box: BBox) -> bool:
    return (box & table_box).area > SAME_SHARE * min(box.area, table_box.area)


def _ruling(region: PageRegion, lines: Sequence[Line], rules: Sequence[BBox]) -> Ruling:
    """Return the edges of a region's columns, and those of its rows: rules if there are enough, else the model's."""
    between = _rules_across(region.bbox, rules)
    is_ruled = len(between) >= FEWEST_RULES
    edges = (region.bbox.y0, *(between if is_ruled else region.rows), region.bbox.y1)
    found_by = FoundBy.RULED_LAYOUT if is_ruled else FoundBy.LAYOUT
    return ruling_between(region.bbox, edges, _columns(region, lines), found_by)


def ruling_between(box: BBox, edges: Sequence[float], gutters: Sequence[float], found_by: FoundBy) -> Ruling:
    """Return the rules of a table whose rows are between horizontal edges, and whose columns are between gutters."""
    return Ruling(
        box,
        tuple(RulePiece(x, edges[0], edges[-1]) for x in (box.x0, *gutters, box.x1)),
        tuple(RulePiece(y, box.x0, box.x1) for y in edges),
        found_by,
    )


def _columns(region: PageRegion, lines: Sequence[Line]) -> list[float]:
    """Return the edges between columns; those across words are moved to the next gutter, or left out."""
    levels = levels_of(lines)
    rows = len(levels)
    # In a single row no other row shows a gutter, so each gap between cells is an edge.
    if rows == 1:
        return [(left_cell.bbox.x1 + right_cell.bbox.x0) / 2 for left_cell, right_cell in pairwise(levels[0])]
    gutters = gutters_of(lines)
    size = max(line.size for line in lines)
    edges: list[float] = []
    for edge in region.columns:
        crossed = sum(line.bbox.x0 + 1 < edge < line.bbox.x1 - 1 for line in lines)
        near = [gutter for gutter in gutters if abs(gutter - edge) <= NEAR_EM * size]
        if crossed <= CROSSED_SHARE * rows:
            edges.append(edge)
        elif near:
            edges.append(min(near, key=lambda gutter: abs(gutter - edge)))
    # Two edges across words may have been moved to one gutter.
    return sorted(set(edges))


def _rules_across(table: BBox, rules: Sequence[BBox]) -> list[float]:
    """Return the heights of the rules inside a table from side to side, which may be drawn cell by cell."""
    levels: dict[int, list[BBox]] = defaultdict(list)
    for rule in rules:
        if rule.width > rule.height and table.y0 + INSIDE_PT < rule.y0 < table.y1 - INSIDE_PT:
            levels[round(rule.y0 / INSIDE_PT)].append(rule & table)
    return sorted(
        pieces[0].y0 for pieces in levels.values() if sum(piece.width for piece in pieces) >= ACROSS_SHARE * table.width
    )


TITLE_GAP_EM = 2.0
"""Maximum gap between a title and its table, in ems of the title."""
SAME_LEFT_EM = 0.6
"""Maximum distance between the left edges of a title and of its table, in ems of the title."""
TITLE_SIZE = 1.15
"""Minimum size of a title among the rows of a table, relative to theirs."""
FEWEST_ROWS = 2
"""Minimum rows of each table."""


def tables_under_titles(regions: Sequence[PageRegion], lines: Sequence[Line]) -> list[PageRegion]:
    """Return the regions of an upright page, those of tables side by side or one below the other apart.

    Titles level with each other name the tables below them if each stands at the left edge of columns that begin with words:
    a header above columns of values has no such labels. A line alone in its row at the left edge, as large as the title above
    the region, names the rows below it. Of 757 pages with 1,156 such regions none is cut wrongly.
    """
    headings = [region for region in regions if region.label in (LayoutLabel.HEADING, LayoutLabel.CAPTION)]
    parts: list[PageRegion] = []
    for region in chain.from_iterable(_notes_apart(unsplit, lines) for unsplit in regions):
        titles = _titles_above(region, headings, lines) if region.label is LayoutLabel.TABLE and headings else []
        inner = lines_in(region.bbox, lines)
        columns = _beside(inner, titles) if titles else None
        if columns is None:
            parts.append(region)
            continue
        tables = [part for column, title in zip(columns, titles, strict=True) for part in _below(column, title)]
        parts += [_part(region, part, label) for part, label in tables] if len(tables) > 1 else [region]
    return parts


def with_forms(regions: Sequence[PageRegion], frames: Sequence[BBox], lines: Sequence[Line]) -> list[PageRegion]:
    """Return regions; one whose lines stand in boxes apart is a form: text if its labels are in them, else a table."""
    forms: list[PageRegion] = []
    other_regions: list[PageRegion] = []
    for region in regions:
        if region.label not in _MAY_BE_FORM:
            other_regions.append(region)
            continue
        inner = lines_in(region.bbox, lines)
        frames_of_lines = [
            max((frame for frame in frames if frame.has_middle_of(line.bbox)), default=None) for line in inner
        ]
        boxes = {box for box in frames_of_lines if box is not None}
        are_apart = not any(overlap(box.grown(1), other) for box, other in combinations(boxes, 2))
        labels = [line for line in lines if any(line.bbox.x1 < box.x0 and is_level(line.bbox, box) for box in boxes)]
        if None in frames_of_lines or len(boxes) < 2 or not are_apart:
            other_regions.append(region)
        elif region.label is LayoutLabel.TABLE and all(frames_of_lines.count(box) > 1 for box in boxes):
            forms.append(replace(region, label=LayoutLabel.TEXT))
        elif len(labels) == len(inner) == len(boxes):
            lines_of_form = tuple(line.bbox for line in (*inner, *labels))
            forms.append(PageRegion(union(lines_of_form), LayoutLabel.TABLE, lines_of_form))
        else:
            other_regions.append(region)
    return [*forms, *other_regions]


def _notes_apart(region: PageRegion, lines: Sequence[Line]) -> list[PageRegion]:
    """Return a region of two columns that differ in type size, or text beside bold heads, as both; it is no table."""
    inner = lines_in(region.bbox, lines)
    gutters = gutters_of(inner) if region.label in (LayoutLabel.TABLE, LayoutLabel.TEXT) else []
    if len(gutters) != 1 or any(line.mono for line in inner):  # code is smaller than the text around it
        return [region]
    sides = [[line for line in inner if (line.bbox.x0 > gutters[0]) is is_right] for is_right in (False, True)]
    are_words = all(any(" " in line.text.strip() for line in side) for side in sides)
    is_bold = {line.bold for line in sides[0]} == {True} != {line.bold for line in sides[1]}
    has_letters = any(character.isalpha() for line in sides[0] for character in line.text)
    is_headed = region.label is LayoutLabel.TEXT and is_bold and has_letters
    if not is_headed and is_same_size(*(median(line.size for line in side) for side in sides)):
        return [region]
    if not (is_headed or are_words):  # numbers of paragraphs
        return [replace(region, label=LayoutLabel.TEXT)]
    heads: list[list[Line]] = []
    for line in sorted(sides[0], key=lambda line: line.bbox.y0) if is_headed else ():
        if heads and line.bbox.y0 - heads[-1][-1].bbox.y1 < line.size / 2:
            heads[-1].append(line)
        else:
            heads.append([line])
    if len(heads) == 1:  # one head and its text are told apart by their rows
        return [region]
    return [_part(region, part, LayoutLabel.TEXT) for part in [*(heads or sides[:1]), sides[1]]]


def _titles_above(table: PageRegion, headings: Sequence[PageRegion], lines: Sequence[Line]) -> list[Line]:
    """Return the titles right above a table, from left to right."""
    titles = [line for line in lines if any(heading.bbox.has_middle_of(line.bbox) for heading in headings)]
    near = [
        title
        for title in titles
        if title.bbox.gap_x(table.bbox) < 0
        and title.bbox.y1 <= table.bbox.y0 + 1
        and table.bbox.y0 - title.bbox.y1 <= TITLE_GAP_EM * title.size
    ]
    lowest = max(near, key=lambda title: title.bbox.y1, default=None)
    level = [title for title in near if lowest is not None and is_level(title.bbox, lowest.bbox)]
    return sorted(level, key=lambda title: title.bbox.x0)


def _beside(lines: Sequence[Line], titles: Sequence[Line]) -> list[list[Line]] | None:
    """Return the lines below each title; None if a title isn't at the left edge of a table."""
    lefts = [title.bbox.x0 - SAME_LEFT_EM * title.size for title in titles]
    columns = [[line for line in lines if start <= line.bbox.x0 < end] for start, end in pairwise((*lefts, float("inf")))]
    # Each line must begin below one title and end before the next; otherwise the titles are headers of one table.
    is_cut_clean = sum(map(len, columns)) == len(lines) and not any(
        line.bbox.x1 > end for column, end in zip(columns, lefts[1:], strict=False) for line in column
    )
    return columns if is_cut_clean and all(map(_begins_with_labels, columns, titles)) else None


def _is_at_left(line: Line, title: Line) -> bool:
    return abs(line.bbox.x0 - title.bbox.x0) <= SAME_LEFT_EM * title.size


def _begins_with_labels(lines: Sequence[Line], title: Line) -> bool:
    """Return whether the first cells of rows are at the left edge of the title above them, and most are words."""
    rows = levels_of(lines)
    labels = [row[0] for row in rows if _is_at_left(row[0], title)]
    worded = [label for label in labels if any(map(str.isalpha, label.text))]
    return len(rows) >= FEWEST_ROWS and 2 * len(worded) > len(rows) and any(len(row) > 1 for row in rows)


def _below(lines: Sequence[Line], title: Line) -> Iterator[tuple[list[Line], LayoutLabel]]:
    """Yield the tables and the titles between them, from top to bottom."""
    rows = levels_of(lines)
    size = median([line.size for line in lines])
    table: list[Line] = []
    for row in rows:
        if len(row) == 1 and row[0].size >= max(TITLE_SIZE * size, title.size - 0.5) and _is_at_left(row[0], title):
            if table:
                yield table, LayoutLabel.TABLE
            yield list(row), LayoutLabel.HEADING
            table = []
        else:
            table += row
    if table:
        yield table, LayoutLabel.TABLE


def _part(region: PageRegion, lines: Sequence[Line], label: LayoutLabel) -> PageRegion:
    box = union(line.bbox for line in lines).rounded()
    boxes = tuple(line_box for line_box in region.lines if box.has_middle_of(line_box))
    if label is not LayoutLabel.TABLE:
        return PageRegion(box, label, boxes)
    rows = tuple(edge for edge in region.rows if box.y0 < edge < box.y1)
    columns: list[float] = []
    for edge in region.columns:  # without those of the other tables, between which a column is empty
        if any(max([box.x0, *columns[-1:]]) <= line.bbox.x0 < edge for line in lines) and edge < box.x1:
            columns.append(edge)
    return replace(region, bbox=box, lines=boxes, rows=rows, columns=tuple(columns))
