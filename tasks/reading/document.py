"""Make the blocks and figures of a document from its pieces."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from schemas.documents import (
    TAGGED,
    Block,
    BlockKind,
    Line,
    ParsedDocument,
    PlacedFigure,
    Placement,
    RecognisedLine,
    StructuredDocument,
)
from schemas.figure_labels import Label, mentions
from schemas.geometry import BBox
from schemas.tags import escape, placeholders, strip
from tasks.figures.callouts import callouts, explain, find_keys
from tasks.reading.join import join_lines
from tasks.reading.outline import Headings
from tasks.reading.pieces import Piece, letters_of_text


def document_of(
    parsed: ParsedDocument,
    pieces: Sequence[Piece],
    headings: Headings,
    recognised: Mapping[str, Sequence[RecognisedLine]],
) -> StructuredDocument:
    """Return the document that pieces in reading order make.

    Args:
        parsed: What its pages hold.
        pieces: All of its blocks.
        headings: Gives each block its section.
        recognised: Lines read off figures, by figure id.
    """
    inner: dict[int, list[str]] = defaultdict(list)
    for line in parsed.lines:
        if line.inside is not None:
            inner[line.inside].append(line.text)
    words = {
        place.order: _inner_text(inner[place.order], recognised.get(place.figure_id or "", ()))
        for place in parsed.placements
        if place.role in TAGGED
    }
    blocks = _blocks(pieces, headings)
    keys = _keys(pieces, inner, recognised)
    placed = _placed(pieces, blocks, keys, words)
    for place, holder, step in _set_in_text(parsed.placements, placed, blocks):
        placed.append(PlacedFigure(place, "", holder.section_path, words[place.order], holder.order, step, (holder.order,)))
    return StructuredDocument(
        doc_id=parsed.doc_id,
        title=parsed.title,
        pages=parsed.pages,
        blocks=tuple(blocks),
        figures=tuple(sorted(placed, key=lambda figure: figure.placement.order)),
        placements=parsed.placements,
        pictures=parsed.figures,
        failures=parsed.failures,
        date=parsed.date,
        labels=parsed.labels,
    )


def _blocks(pieces: Sequence[Piece], headings: Headings) -> list[Block]:
    named = _named(pieces)
    path = headings.path()
    blocks: list[Block] = []
    for order, piece in enumerate(pieces):
        words = piece.words
        own = piece.placement.figure_id if piece.placement is not None else None
        mentioned = (named.get(label) or named.get(_whole(label)) for label in mentions(words))
        blocks.append(
            Block(
                order=order,
                page=piece.page,
                kind=piece.kind,
                bbox=piece.bbox,
                text=words,
                section_path=path.at(
                    piece.page, piece.bbox, words if piece.kind is BlockKind.HEADING else None, piece.level
                ),
                level=piece.level,
                placement=piece.placement.order if piece.placement is not None else None,
                mentions=tuple(dict.fromkeys(name for name in mentioned if name is not None and name != own)),
                rows=piece.rows,
                parts=piece.parts,
            )
        )
    return blocks


def _placed(
    pieces: Sequence[Piece], blocks: Sequence[Block], keys: Mapping[int, tuple[Line, ...]], words: Mapping[int, str]
) -> list[PlacedFigure]:
    """Return the figures that are blocks of their own, each with the text that it stands by."""
    beside = {line.page for piece in pieces for line in piece.step} | {line.page for key in keys.values() for line in key}
    holders = {line: order for order, piece in enumerate(pieces) for line in piece.lines if line.page in beside}
    placed: list[PlacedFigure] = []
    for block, piece in zip(blocks, pieces, strict=True):
        place = piece.placement
        if piece.kind is not BlockKind.FIGURE or place is None:
            continue
        key = keys.get(place.order, ())
        stands_by = tuple(dict.fromkeys(holders[line] for line in (*piece.step, *key) if line in holders))
        step = "\n".join(map(join_lines, filter(None, (piece.step, key))))
        inside = words[place.order]
        placed.append(PlacedFigure(place, piece.caption, block.section_path, inside, block.order, step, stands_by))
    return placed


def _keys(
    pieces: Sequence[Piece], inner: Mapping[int, Sequence[str]], recognised: Mapping[str, Sequence[RecognisedLine]]
) -> dict[int, tuple[Line, ...]]:
    """Return the lines of the key that explains a figure's callouts, by the order of its placement."""
    pointed: dict[int, dict[int, tuple[BBox, frozenset[str]]]] = defaultdict(dict)
    for piece in pieces:
        if piece.kind is BlockKind.FIGURE and (place := piece.placement) is not None:
            read = (line.text for line in recognised.get(place.figure_id or "", ()))
            if names := callouts([*inner.get(place.order, ()), *read]):
                pointed[place.page][place.order] = place.bbox, names
    keys: dict[int, tuple[Line, ...]] = {}
    for page, figures in pointed.items():
        text = (piece for piece in pieces if piece.page == page and piece.kind in (BlockKind.TEXT, BlockKind.TABLE))
        found = explain(figures, find_keys([line for piece in text for line in piece.lines]))
        keys |= {order: key.lines for order, key in found.items()}
    return keys


def _named(pieces: Sequence[Piece]) -> dict[Label, str]:
    """Return the figure that each label names; the first where two claim one number."""
    named: dict[Label, str] = {}
    for piece in pieces:
        if piece.label is not None and piece.label.number and piece.placement is not None and piece.placement.figure_id:
            named.setdefault(piece.label, piece.placement.figure_id)
    return named


def _whole(label: Label) -> Label:
    """Return the label of the figure that a part such as ``3a`` belongs to."""
    return replace(label, number=label.number.rstrip("abcdefghij"))


def _inner_text(written: Sequence[str], read: Sequence[RecognisedLine]) -> str:
    """Join the words that a figure holds as text with those that were read off its pixels, each line once."""
    known = {letters_of_text(line) for line in written}
    further = [escape(line.text) for line in read if letters_of_text(line.text) not in known]
    return "\n".join(line.strip() for line in (*written, *further))


def _set_in_text(
    placements: Sequence[Placement], placed: Sequence[PlacedFigure], blocks: Sequence[Block]
) -> Iterator[tuple[Placement, Block, str]]:
    """Yield the figures that stand in a line of text or in a table, with the block, and the text of block or row."""
    standing = {figure.placement.order for figure in placed}
    holders: dict[tuple[int, str], list[tuple[Block, str]]] = defaultdict(list)
    for block in blocks:
        pages = {block.page, *(part.page for part in block.parts)}
        for text in [" ".join(row) for row in block.rows] or [block.text]:
            for name in placeholders(text):
                for page in pages:
                    holders[page, name].append((block, " ".join(strip(text).split())))
    for place in placements:
        held = holders.get((place.page, place.figure_id or ""))
        if place.role in TAGGED and place.order not in standing and held:
            yield place, *(held.pop(0) if len(held) > 1 else held[0])  # one figure may stand in several rows
