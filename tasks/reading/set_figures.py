"""Set the figures of a page, with their captions, into its text."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from schemas.documents import BlockKind, Line, Page, Placement, Role
from schemas.figure_labels import LabelKind
from schemas.geometry import distance, is_level
from schemas.tags import placeholder
from tasks.figures.anchor import anchor, running_text
from tasks.reading.join import join_lines
from tasks.reading.pieces import Piece, may_be_cut, of_lines, passage_of
from tasks.reading.place import Place, places
from tasks.tables.rows import upright

INNER_CHARACTERS = 600
"""Characters of a figure's labels: more are a text of their own. Of 1,014 pages 27 change at 402 (labels of large
diagrams are read as text), 22 at 900 (texts inside a figure are left to it).
"""
BESIDE_PT = 40.0
"""Widest gap between a figure and a caption at its side. Of 1,014 pages none changes at 26.8 or 60."""


def with_figures(
    pieces: list[Piece],
    placements: Sequence[Placement],
    inner: Mapping[int, Sequence[Line]],
    page: Page,
    *,
    right_to_left: bool,
) -> list[Piece]:
    """Set each figure beside its caption, or else by the text that it stands beside or between."""
    if not placements:
        return pieces
    linked = _linked(pieces, placements)
    units = {id(caption): _captioned(place, caption, inner) for place in placements if (caption := linked.get(place.order))}
    lone = _as_read([place for place in placements if place.order not in linked], page, right_to_left=right_to_left)
    # A figure with its caption is two passages: what stands beside it is level with the figure, not with both.
    parts = [
        (number, part)
        for number, piece in enumerate(pieces)
        for part in units.get(id(piece), [piece])[:2]
        if piece.kind is not BlockKind.MARGIN
    ]
    boxes = [upright(place.bbox, page.rotation) for place in lone]
    passages = [passage_of(part, page) for _, part in parts] if lone else []
    found = places(boxes, passages, right_to_left=right_to_left)
    before, last = _set(sorted(zip(lone, found, strict=True), key=_belongs), parts, inner)
    made: list[Piece] = []
    for number, piece in enumerate(pieces):
        lines = len(piece.lines) if may_be_cut(piece) else 1
        cuts = {line for one, line in before if one == number}
        for start, end in pairwise(sorted({0, *cuts, lines})):
            whole = end - start == lines
            made.extend(before.get((number, start), ()))
            made.extend(units.get(id(piece), [piece]) if whole else [of_lines(piece, piece.lines[start:end])])
    foot = next((at + 1 for at in reversed(range(len(made))) if made[at].kind is not BlockKind.MARGIN), 0)
    return made[:foot] + last + made[foot:]


def _set(
    found: Sequence[tuple[Placement, Place | None]],
    parts: Sequence[tuple[int, Piece]],
    inner: Mapping[int, Sequence[Line]],
) -> tuple[dict[tuple[int, int], list[Piece]], list[Piece]]:
    """Return figures by the piece and the line that they stand before, and those that stand behind all.

    Args:
        found: Figures without a caption, with their places among the parts.
        parts: What they may stand before, with the number of its piece.
        inner: Words inside figures.
    """
    before: dict[tuple[int, int], list[Piece]] = defaultdict(list)
    last: list[Piece] = []
    for place, where in found:
        step = tuple(held for one, other in where.step for held in _lines_at(parts[one][1], other)) if where else ()
        figure = _figure(place, inner, step)
        number = where.at[0] if where else len(parts)
        if number and number < len(parts) and parts[number][0] == parts[number - 1][0]:
            number += 1  # nothing parts a figure from its caption
        if number == len(parts):
            last.extend(figure)
        else:
            before[parts[number][0], where.at[1] if where else 0].extend(figure)
    return before, last


def _belongs(pair: tuple[Placement, Place | None]) -> int:
    """Return where a picture goes among those between the same words: 0 behind what is before them, 2 before what follows."""
    where = pair[1]
    return 1 if where is None or not where.is_level else 0 if where.is_behind else 2


def _lines_at(piece: Piece, number: int) -> Sequence[Line]:
    """Return a line of a piece; all of a piece that is never parted; of a table none, whose rows are too many to go by."""
    if piece.kind is BlockKind.TABLE:
        return ()
    return piece.lines[number : number + 1] if may_be_cut(piece) else piece.lines


def _as_read(placements: Sequence[Placement], page: Page, *, right_to_left: bool) -> list[Placement]:
    """Return figures row by row, those of a row in reading direction."""
    boxes = {place.order: upright(place.bbox, page.rotation) for place in placements}
    rows: list[list[Placement]] = []
    for place in sorted(placements, key=lambda place: (boxes[place.order].y0, boxes[place.order].x0)):
        if rows and all(is_level(boxes[place.order], boxes[other.order]) for other in rows[-1]):
            rows[-1].append(place)
        else:
            rows.append([place])
    turn = -1 if right_to_left else 1
    return [place for row in rows for place in sorted(row, key=lambda place: turn * boxes[place.order].x0)]


def _captioned(place: Placement, caption: Piece, inner: Mapping[int, Sequence[Line]]) -> list[Piece]:
    """Return a figure and its caption, as they stand one under the other."""
    figure, *aside = _figure(place, inner)
    pair = [replace(figure, caption=" ".join(caption.words.split())), replace(caption, placement=place)]
    return [*(pair if place.bbox.y0 <= caption.bbox.y0 else pair[::-1]), *aside]


def _figure(place: Placement, inner: Mapping[int, Sequence[Line]], step: tuple[Line, ...] = ()) -> list[Piece]:
    """Return a figure: its tag, and the words inside it as text of their own where they are too many to be labels."""
    tag = placeholder(place.figure_id or "")
    figure = Piece(BlockKind.FIGURE, place.page, place.bbox, text=tag, placement=place, step=step)
    lines = tuple(inner.get(place.order, ()))
    words = join_lines(lines, keep=True)
    if len(words) <= INNER_CHARACTERS:
        return [figure]
    return [figure, Piece(BlockKind.TEXT, place.page, place.bbox, lines, text=words)]


def _linked(pieces: Sequence[Piece], placements: Sequence[Placement]) -> dict[int, Piece]:
    """Link figures to captions, by the order of the placement: each caption to the nearest figure that it stands with."""
    content = [place for place in placements if place.role is Role.CONTENT]
    captions = [
        piece
        for piece in pieces
        if piece.kind is BlockKind.CAPTION and piece.label is not None and piece.label.kind is LabelKind.FIGURE
    ]
    body = running_text([line for piece in pieces if piece.kind is BlockKind.TEXT for line in piece.lines])
    boxes = [place.bbox for place in content]
    anchors = anchor([piece.bbox for piece in captions], boxes, [line.bbox for line in body])
    linked = {content[members[0]].order: captions[number] for number, members in anchors.by_caption.items()}
    lone = [piece for piece in captions if piece not in linked.values()]
    beside = sorted(
        (distance(place.bbox, piece.bbox), place.order, number)
        for place in content
        for number, piece in enumerate(lone)
        if place.order not in linked
    )
    for apart, order, number in beside:
        if apart <= BESIDE_PT and order not in linked and lone[number] not in linked.values():
            linked[order] = lone[number]
    return linked
