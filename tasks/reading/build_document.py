"""Build the structured document from its draft blocks."""

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
from tasks.reading.draft_blocks import DraftBlock, letters_of_text
from tasks.reading.join import join_lines
from tasks.reading.outline import Headings


def build_document(
    parsed: ParsedDocument,
    drafts: Sequence[DraftBlock],
    headings: Headings,
    recognised: Mapping[str, Sequence[RecognisedLine]],
    hyphenated: frozenset[str],
) -> StructuredDocument:
    """Return the document that draft blocks in reading order make; ``hyphenated`` are as for ``join_lines``."""
    inner: dict[int, list[str]] = defaultdict(list)
    for line in parsed.lines:
        if line.inside is not None:
            inner[line.inside].append(line.text)
    words = {
        place.order: _inner_text(inner[place.order], recognised.get(place.figure_id or "", ()))
        for place in parsed.placements
        if place.role in TAGGED
    }
    blocks = _blocks(drafts, headings)
    keys = _keys(drafts, inner, recognised)
    placed = _placed(drafts, blocks, keys, words, hyphenated)
    for place, holder, step in _inline_figures(parsed.placements, placed, blocks):
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


def _blocks(drafts: Sequence[DraftBlock], headings: Headings) -> list[Block]:
    named = _named(drafts)
    path = headings.path()
    blocks: list[Block] = []
    for order, draft in enumerate(drafts):
        words = draft.words
        own = draft.placement.figure_id if draft.placement is not None else None
        mentioned = (named.get(label) or named.get(_whole(label)) for label in mentions(words))
        blocks.append(
            Block(
                order=order,
                page=draft.page,
                kind=draft.kind,
                bbox=draft.bbox,
                text=words,
                section_path=path.at(
                    draft.page, draft.bbox, words if draft.kind is BlockKind.HEADING else None, draft.level
                ),
                level=draft.level,
                placement=draft.placement.order if draft.placement is not None else None,
                mentions=tuple(dict.fromkeys(name for name in mentioned if name is not None and name != own)),
                rows=draft.rows,
                parts=draft.parts,
                spans=draft.spans,
                furniture=draft.furniture,
            )
        )
    return blocks


def _placed(
    drafts: Sequence[DraftBlock],
    blocks: Sequence[Block],
    keys: Mapping[int, tuple[Line, ...]],
    words: Mapping[int, str],
    hyphenated: frozenset[str],
) -> list[PlacedFigure]:
    """Return the figures that are blocks of their own, each with the text beside it."""
    beside = {line.page for draft in drafts for line in draft.step} | {line.page for key in keys.values() for line in key}
    holders = {line: order for order, draft in enumerate(drafts) for line in draft.lines if line.page in beside}
    placed: list[PlacedFigure] = []
    for block, draft in zip(blocks, drafts, strict=True):
        place = draft.placement
        if draft.kind is not BlockKind.FIGURE or place is None:
            continue
        key = keys.get(place.order, ())
        beside_blocks = tuple(dict.fromkeys(holders[line] for line in (*draft.step, *key) if line in holders))
        step = "\n".join(join_lines(lines, hyphenated=hyphenated) for lines in (draft.step, key) if lines)
        inside = words[place.order]
        placed.append(PlacedFigure(place, draft.caption, block.section_path, inside, block.order, step, beside_blocks))
    return placed


def _keys(
    drafts: Sequence[DraftBlock], inner: Mapping[int, Sequence[str]], recognised: Mapping[str, Sequence[RecognisedLine]]
) -> dict[int, tuple[Line, ...]]:
    """Return the lines of the key that explains each figure's callouts, by the order of the placement."""
    pointed: dict[int, dict[int, tuple[BBox, frozenset[str]]]] = defaultdict(dict)
    for draft in drafts:
        if draft.kind is BlockKind.FIGURE and (place := draft.placement) is not None:
            read = (line.text for line in recognised.get(place.figure_id or "", ()))
            if names := callouts([*inner.get(place.order, ()), *read]):
                pointed[place.page][place.order] = place.bbox, names
    keys: dict[int, tuple[Line, ...]] = {}
    for page, figures in pointed.items():
        text = (draft for draft in drafts if draft.page == page and draft.kind in (BlockKind.TEXT, BlockKind.TABLE))
        found = explain(figures, find_keys([line for draft in text for line in draft.lines]))
        keys |= {order: key.lines for order, key in found.items()}
    return keys


def _named(drafts: Sequence[DraftBlock]) -> dict[Label, str]:
    """Return the figure of each label; the first where two have one number."""
    named: dict[Label, str] = {}
    for draft in drafts:
        if draft.label is not None and draft.label.number and draft.placement is not None and draft.placement.figure_id:
            named.setdefault(draft.label, draft.placement.figure_id)
    return named


def _whole(label: Label) -> Label:
    """Return the label of the whole figure for a part such as ``3a``."""
    return replace(label, number=label.number.rstrip("abcdefghij"))


def _inner_text(written: Sequence[str], read: Sequence[RecognisedLine]) -> str:
    """Join the words that a figure contains as text with its OCR lines, each line once."""
    known = {letters_of_text(line) for line in written}
    further = [escape(line.text) for line in read if letters_of_text(line.text) not in known]
    return "\n".join(line.strip() for line in (*written, *further))


def _inline_figures(
    placements: Sequence[Placement], placed: Sequence[PlacedFigure], blocks: Sequence[Block]
) -> Iterator[tuple[Placement, Block, str]]:
    """Yield the figures in a line of text or in a table, with the block, and the text of the block or row."""
    own_blocks = {figure.placement.order for figure in placed}
    holders: dict[tuple[int, str], list[tuple[Block, str]]] = defaultdict(list)
    for block in blocks:
        pages = {block.page, *(part.page for part in block.parts)}
        for text in [" ".join(row) for row in block.rows] or [block.text]:
            for name in placeholders(text):
                for page in pages:
                    holders[page, name].append((block, " ".join(strip(text).split())))
    for place in placements:
        held = holders.get((place.page, place.figure_id or ""))
        if place.role in TAGGED and place.order not in own_blocks and held:
            yield place, *(held.pop(0) if len(held) > 1 else held[0])  # one figure may be in several rows
