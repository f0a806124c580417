"""Put the blocks of a page into the order that their places show."""

from collections.abc import Sequence
from itertools import pairwise

from schemas.documents import BlockKind, Page, Placement
from schemas.geometry import BBox, is_level, union
from tasks.reading.join import wraps
from tasks.reading.order import LayoutBlock, may_be_out_of_order, reordered
from tasks.reading.outline import letters_by_size
from tasks.reading.pieces import Piece, passage_of
from tasks.reading.place import ends_sentence, places
from tasks.tables.rows import upright

ROW_TIMES_TEXT = 2.0
"""Most height of a picture that makes one row with the text beside it, by the text's: a taller one spans more than that
row. Of 1,014 pages none change at 1.34, 1 at 3.
"""
FEWEST_PICTURE_ROWS = 2
"""Pictures level with a text of their own: one is level with a title by chance. Of 1,014 pages none changes at 1 or 3."""
FEWEST_PROSE_ROWS = 3
"""Rows of a block of running text. Of 1,014 pages 2 change at 2, 2 at 4."""
PROSE_ROW_CHARACTERS = 25
"""Average length of the rows of running text. Of 1,014 pages none changes at 17 or 38."""
VERTICAL_EM = 2.0
"""Height from which on a line is vertical text. Of 1,014 pages 2 change at 1.34, none at 3."""


def in_page_order(pieces: list[Piece], pictures: Sequence[Placement], page: Page, *, right_to_left: bool) -> list[Piece]:
    """Correct the order of pieces that contradicts where they stand; margins and vertical text stay put.

    On a turned page all text does. What makes a row with a picture stands over what is under the picture, too.
    """
    if page.rotation or not may_be_out_of_order([piece.bbox for piece in pieces], right_to_left=right_to_left):
        return pieces
    at = [number for number, piece in enumerate(pieces) if piece.kind is not BlockKind.MARGIN and not _is_vertical(piece)]
    moved = [pieces[number] for number in at]
    boxes = _with_rows(moved, pictures, page, right_to_left=right_to_left)
    blocks = [
        LayoutBlock(box, _head(piece) if box == piece.bbox else box, _prose(piece))
        for piece, box in zip(moved, boxes, strict=True)
    ]
    made = list(pieces)
    for place, number in zip(at, reordered(blocks, right_to_left=right_to_left), strict=True):
        made[place] = moved[number]
    return made


def with_margins_outside(pieces: Sequence[Piece], page: Page) -> list[Piece]:
    """Read running heads before the text of their page, and feet after it, whenever they were drawn."""
    half = upright(BBox(0, 0, page.width_pt, page.height_pt), page.rotation)
    middle = half.y0 + half.y1

    def part(piece: Piece) -> int:
        if piece.kind is not BlockKind.MARGIN:
            return 1
        box = upright(piece.bbox, page.rotation)
        return 0 if box.y0 + box.y1 < middle else 2

    return sorted(pieces, key=part)


def _with_rows(pieces: Sequence[Piece], pictures: Sequence[Placement], page: Page, *, right_to_left: bool) -> list[BBox]:
    """Return where each piece stands, with the pictures that make a row with it and nothing else."""
    boxes = [piece.bbox for piece in pieces]
    passages = [passage_of(piece, page) for piece in pieces] if pictures else []
    found = places([place.bbox for place in pictures], passages, right_to_left=right_to_left) if pictures else []
    rows: list[tuple[int, BBox]] = []
    for picture, place in zip(pictures, found, strict=True):
        beside = {number for number, _ in place.step} if place is not None and place.is_level else set()
        if len(beside) == 1 and picture.bbox.height <= ROW_TIMES_TEXT * boxes[min(beside)].height:
            rows.append((min(beside), picture.bbox))
    for number, box in rows if len(rows) >= FEWEST_PICTURE_ROWS else ():
        boxes[number] |= box
    return boxes


def _is_vertical(piece: Piece) -> bool:
    return any(line.bbox.height > max(VERTICAL_EM * line.size, line.bbox.width) for line in piece.lines[:1])


def _head(piece: Piece) -> BBox:
    """Return the first rows of a piece, to the first that runs on; all of a table, whose cells may be written in any order.

    A row that ends with its sentence is no wider than its words: it doesn't show how wide the column is.
    """
    if piece.kind is BlockKind.TABLE:
        return piece.bbox
    head = [piece.lines[0]]
    for before, line in pairwise(piece.lines):
        is_over = ends_sentence(before.text) and not wraps(before, line, piece.bbox.x0, piece.bbox.x1)
        if not is_over and not is_level(before.bbox, line.bbox):
            break
        head.append(line)
    return union(line.bbox for line in head)


def _prose(piece: Piece) -> float:
    """Return the size of a piece's type if it is text of several rows, as long as those of paragraphs are; else 0."""
    if piece.kind is not BlockKind.TEXT or len(piece.lines) < FEWEST_PROSE_ROWS:
        return 0.0
    rows = 1 + sum(not is_level(line.bbox, following.bbox) for line, following in pairwise(piece.lines))
    characters = sum(len(line.text) for line in piece.lines)
    if rows < FEWEST_PROSE_ROWS or characters < PROSE_ROW_CHARACTERS * rows:
        return 0.0
    return letters_by_size(piece.lines).most_common(1)[0][0]
