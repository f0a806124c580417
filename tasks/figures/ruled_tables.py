"""Find the tables that rules, shaded cells or tinted columns promise, and take the drawings in their cells out of them."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from schemas.documents import Line
from schemas.drawings import Mark, Ruling, Side
from schemas.geometry import BBox, gap, overlap, union
from tasks.figures.anchor import NEAREST_PT
from tasks.figures.drawings import touching
from tasks.figures.parts import BORDER_PT, TOUCH_PT, Part, is_rounded_box, near, same_sides
from tasks.tables.tabulate import cells_of

LEAST_TABLE_PT = 60.0
"""Least width of a table. Of 2,191 pages none change at 40.2, 3 at 90 (truth tables are pictures)."""
FEWEST_WORDS = 4
"""Lines of text in a table. Of 2,191 pages none change at 3, 8 at 5 (tables of two by two cells are lost)."""
FEWEST_SIDES = 3
"""Rules of a table in each direction, its borders included. Of 2,191 pages 53 change at 2 (boxes of examples are
tables), 120 at 4 (tables of two rows are lost).
"""
FEWEST_CELLS = 6
"""Boxes that are cells where rules are missing in one direction. Of the 109 pages at hand with tints, stripes or
drawings in cells none changes at 5 or 7; of 225 pages of reports and papers 10 do without it (tables with
rules about their header only have all their rows in one).
"""
FEWEST_SIDES_OF_CELLS = 4
"""Rules in both directions together, where cells are drawn as boxes. Of 2,191 pages none change at 3, 10 at 5 (tables
of boxes are lost, and so are pages of shaded panels).
"""
SAME_SIDE_PT = 3.0
"""How far apart two rules are that are one. Of the 109 pages at hand with tints, stripes or drawings in cells none
changes at 2.01 or 4.5; 1 does without it.
"""
FEWEST_BOXES = 4
"""Boxes from which on their edges stand for missing rules. Of the 109 pages at hand with tints, stripes or drawings in
cells none changes at 3 or 5; of 225 pages of reports and papers 3 do without it (text boxes are tables).
"""
MOST_RULES = 1_000
"""Bounds the comparing of each with all. No page of 2,191 with more is a table with drawings: none changes at 670."""
TINT_SHARE = 0.9
"""Share of a table's width that its tinted head has. Of the 109 pages at hand with tints, stripes or drawings in cells
none changes at 0.75 or 0.95; 1 does without it.
"""
TINTED_ROWS = 3
"""Rows in which words stand on both sides of a tinted column's edge. Of the 109 pages at hand with tints, stripes or
drawings in cells none changes at 2 or 4; 1 does without it.
"""
WHITE_ROW_PT = 8.0
"""How long a vertical rule goes on over white, from which on it rules white rows, too. Of the 109 pages at hand with
tints, stripes or drawings in cells none changes at 5.36 or 12; 3 do without it.
"""
STRIPE_SHARE = 0.9
"""Share of a table's width that a shaded row has. Of 2,191 pages 2 change at 0.75 (tables with a shaded column are read
by their words), 1 at 0.95 (striped tables are read by their few rules).
"""
STRIPED_ROWS_SHARE = 0.8
"""Share of the shaded rows that go from edge to edge. Of the 109 pages at hand with tints, stripes or drawings in cells
none changes at 0.55 or 0.9; 108 do without it: pages of shaded panels are no tables.
"""
WHITE_LINES_SHARE = 0.2
"""Share of the lines that stand on white rows. Of 2,191 pages 3 change at 0.134 (tables with shaded cells are read by
their words), 6 at 0.3 (pages of shaded panels are tables).
"""


def out_of_cells(part: Part, lines: Sequence[Line], captions: Sequence[Line]) -> list[Part]:
    """Take a table with drawings in its cells apart: its rules, and what is drawn in each cell.

    The rules are connected and reach round the whole; each drawing lies in one cell. The curves of a chart cross its grid.
    What stands as near to a figure's caption as a figure does is left whole.
    """
    if not part.strokes or any(_is_captioned_by(part.bbox, caption.bbox) for caption in captions):
        return [part]
    rules, others = _lattice(part)
    ruled = replace(part, marks=tuple(rules))
    if not rules or not is_table(ruled, lines):
        return [part]
    cells = [cell for row in cells_of(ruling_of(ruled, filled=False)) for cell in row if cell is not None]
    held = _by_cell(others, cells)
    if held is None:
        return [part]
    shades, drawn = held
    inner = [Part(union(mark.bbox for mark in marks), tuple(marks)) for marks in drawn.values()]
    return [replace(part, marks=(*rules, *shades)), *inner]


def _by_cell(marks: Sequence[Mark], cells: Sequence[BBox]) -> tuple[list[Mark], dict[BBox, list[Mark]]] | None:
    """Return what cells are filled with, and what is drawn in each; None where something is drawn across cells."""
    shades: list[Mark] = []
    drawn: dict[BBox, list[Mark]] = {}
    for mark in marks:
        if _is_shade(mark, cells):
            shades.append(mark)
            continue
        holder = next((cell for cell in cells if cell.grown(TOUCH_PT).contains(mark.bbox)), None)
        if holder is None:
            return None
        drawn.setdefault(holder, []).append(mark)
    return shades, drawn


def _is_captioned_by(box: BBox, caption: BBox) -> bool:
    across, down = gap(box.x0, box.x1, caption.x0, caption.x1), gap(box.y0, box.y1, caption.y0, caption.y1)
    return across < 0 and down <= NEAREST_PT


def _lattice(part: Part) -> tuple[list[Mark], list[Mark]]:
    """Return those rules of a drawing that meet and reach round all of it, with the boxes of cells, and its other marks."""
    border = [mark for mark in part.marks if is_rounded_box(mark, part.bbox)]
    straight = [mark for mark in part.marks if mark.is_rule or not (mark.strokes or mark.filled or mark.white)]
    if len(straight) <= MOST_RULES:
        for group in touching([mark.bbox.grown(TOUCH_PT / 2) for mark in straight]):
            rules = [*(straight[index] for index in group), *border]
            if same_sides(union(mark.bbox for mark in rules), part.bbox):
                own = set(map(id, rules))
                return rules, [mark for mark in part.marks if id(mark) not in own]
    return [], list(part.marks)


def _is_shade(mark: Mark, cells: Sequence[BBox]) -> bool:
    """Return whether a mark is what a cell or a row of cells is filled with."""
    covered = [cell for cell in cells if mark.bbox.has_middle_of(cell)]
    if mark.strokes or not covered:
        return False
    return all(abs(one - other) <= SAME_SIDE_PT for one, other in zip(mark.bbox, union(covered), strict=True))


def promised_table(part: Part, lines: Sequence[Line]) -> Ruling | None:
    """Return the rules of the table that a drawing is; None where it is none."""
    if is_table(part, lines):
        return None if _is_striped(part, lines) else ruling_of(part)
    return _tinted(part, lines)


def is_table(part: Part, lines: Sequence[Line]) -> bool:
    """Return whether a drawing is the rules and shaded cells of a table."""
    core = part.bbox.grown(-BORDER_PT)
    if part.strokes or part.bbox.width < LEAST_TABLE_PT or not any(overlap(mark.bbox, core) for mark in part.marks):
        return False  # a box, however often its border was drawn
    if sum(part.bbox.has_middle_of(line.bbox) for line in lines) < FEWEST_WORDS:
        return False
    ruling = ruling_of(part, filled=False)
    across, down = _places(ruling.across), _places(ruling.down)
    if across >= FEWEST_SIDES and down >= FEWEST_SIDES:
        return True
    cells = len({mark.bbox for mark in part.marks if not mark.is_rule})
    return cells >= FEWEST_CELLS and across + down >= FEWEST_SIDES_OF_CELLS


def _places(sides: Sequence[Side]) -> int:
    return len({round(side.at / SAME_SIDE_PT) for side in sides})


def ruling_of(part: Part, *, filled: bool = True) -> Ruling:
    """Return the rules of a table; where it has too few of one direction, the edges of its cells' boxes stand for them.

    Args:
        part: The table as it is drawn.
        filled: Filled boxes may be cells, too.
    """
    rules = [mark.bbox for mark in part.marks if mark.is_rule]
    boxes = [mark.bbox for mark in part.marks if not mark.is_rule and not mark.white and (filled or not mark.filled)]
    # One box alone may be the background of a cell or a border; round the whole, it is the outer rules of a table.
    boxes = boxes if len(boxes) >= FEWEST_BOXES else [box for box in boxes if rules and same_sides(box, part.bbox)]
    across = [Side((y0 + y1) / 2, x0, x1) for x0, y0, x1, y1 in rules if x1 - x0 >= y1 - y0]
    down = [Side((x0 + x1) / 2, y0, y1) for x0, y0, x1, y1 in rules if x1 - x0 < y1 - y0]
    if _places(across) < FEWEST_SIDES:
        across += [Side(y, box.x0, box.x1) for box in boxes for y in (box.y0, box.y1)]
    if _places(down) < FEWEST_SIDES:
        down += [Side(x, box.y0, box.y1) for box in boxes for x in (box.x0, box.x1)]
    return Ruling(part.bbox, tuple(down), tuple(across))


def _tinted(part: Part, lines: Sequence[Line]) -> Ruling | None:
    """Return the rules of a table that has none inside: a box whose head is tinted, and columns under it.

    The edges of the tints part its columns, which no word crosses; its rows are those of its words.
    """
    box = part.bbox
    sides = _sides_of_tints(part)
    words = [line.bbox for line in lines if box.has_middle_of(line.bbox)] if sides else []
    if not words or any(word.x0 + TOUCH_PT < side < word.x1 - TOUCH_PT for word in words for side in sides):
        return None
    rows, full = _rows_of_words(words, sides)
    if full < TINTED_ROWS:
        return None
    across = [box.y0, *((over.y1 + under.y0) / 2 for over, under in pairwise(rows)), box.y1]
    return Ruling(
        box,
        tuple(Side(side, box.y0, box.y1) for side in (box.x0, *sides, box.x1)),
        tuple(Side(side, box.x0, box.x1) for side in across),
    )


def _sides_of_tints(part: Part) -> list[float]:
    """Return where columns begin and end that are tinted under a tinted head; [] where anything else is drawn."""
    box = part.bbox
    tints = [mark.bbox for mark in part.marks if mark.filled and not mark.is_rule and not same_sides(mark.bbox, box)]
    heads = [tint for tint in tints if near(tint.y0, box.y0) and tint.width >= TINT_SHARE * box.width]
    columns = [
        tint
        for tint in tints
        if near(tint.y1, box.y1) and tint not in heads and any(near(tint.y0, head.y1) for head in heads)
    ]
    if part.strokes or len(heads) + len(columns) < len(tints):
        return []
    return sorted(side for column in columns for side in (column.x0, column.x1) if box.x0 < side < box.x1)


def _rows_of_words(words: Sequence[BBox], sides: Sequence[float]) -> tuple[list[BBox], int]:
    """Return rows of words, and how often words of one row stand on two sides of a column's edge."""
    rows: list[BBox] = []
    parted = 0
    for word in sorted(words, key=lambda word: word.y0 + word.y1):
        if rows and (word.y0 + word.y1) / 2 <= rows[-1].y1:
            parted += any(rows[-1].x1 <= side <= word.x0 or word.x1 <= side <= rows[-1].x0 for side in sides)
            rows[-1] |= word
        else:
            rows.append(word)
    return rows, parted


def _is_striped(part: Part, lines: Sequence[Line]) -> bool:
    """Return whether shaded rows promise a table whose other rows are white and have no rules beside their cells.

    Its rules are those under headings and sums, and would make one row of many: its words show better where its cells are.
    """
    shaded = [mark.bbox for mark in part.marks if mark.filled and not mark.is_rule]
    down = [mark.bbox for mark in part.marks if mark.is_rule and mark.bbox.height > mark.bbox.width]
    rows = {(box.y0, box.y1) for box in shaded}
    if any(rule.height - sum(max(0.0, -gap(rule.y0, rule.y1, *row)) for row in rows) > WHITE_ROW_PT for rule in down):
        return False
    return has_stripes(part, [line for line in lines if part.bbox.has_middle_of(line.bbox)])


def has_stripes(part: Part, lines: Sequence[Line]) -> bool:
    """Return whether the boxes of a drawing are shaded rows of a table: each goes from edge to edge, and there is text between.

    A row may be shaded cell by cell. Every other row is left white, or else there is only one.

    Args:
        part: The drawing.
        lines: Those that stand in it.
    """
    boxes = [mark.bbox for mark in part.marks if mark.filled and not mark.is_rule]
    if not boxes:
        return False
    rows: dict[int, list[BBox]] = {}
    for box in boxes:
        rows.setdefault(round(box.y0 / TOUCH_PT), []).append(box)
    across = sum(sum(box.width for box in row) >= STRIPE_SHARE * part.bbox.width for row in rows.values())
    if across < STRIPED_ROWS_SHARE * len(rows) or len(lines) <= len(rows):
        return False
    between = sum(not any(box.has_middle_of(line.bbox) for box in boxes) for line in lines)
    return len(rows) == 1 or between >= WHITE_LINES_SHARE * len(lines)
