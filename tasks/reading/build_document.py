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
from schemas.figure_labels import CaptionLabel, mentions
from schemas.geometry import BBox
from schemas.tags import escape, placeholders, strip
from tasks.figures.callouts import callouts, find_keys, match_keys
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
        placement.order: _inner_text(inner[placement.order], recognised.get(placement.figure_id or "", ()))
        for placement in parsed.placements
        if placement.role in TAGGED
    }
    blocks = _blocks(drafts, headings)
    keys = _keys(drafts, inner, recognised)
    placed = _placed_figures(drafts, blocks, keys, words, hyphenated)
    for placement, containing_block, step in _inline_figures(parsed.placements, placed, blocks):
        placed.append(
            PlacedFigure(
                placement,
                "",
                containing_block.section_path,
                words[placement.order],
                containing_block.order,
                step,
                (containing_block.order,),
            )
        )
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
    figures_by_label = _figures_by_label(drafts)
    path = headings.path()
    blocks: list[Block] = []
    for order, draft in enumerate(drafts):
        words = draft.words
        figure_id = draft.placement.figure_id if draft.placement is not None else None
        mentioned = (
            figures_by_label.get(label) or figures_by_label.get(_whole_figure_label(label)) for label in mentions(words)
        )
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
                mentions=tuple(dict.fromkeys(name for name in mentioned if name is not None and name != figure_id)),
                rows=draft.rows,
                parts=draft.parts,
                spans=draft.spans,
                furniture=draft.furniture,
            )
        )
    return blocks


def _placed_figures(
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
        placement = draft.placement
        if draft.kind is not BlockKind.FIGURE or placement is None:
            continue
        key = keys.get(placement.order, ())
        beside_blocks = tuple(dict.fromkeys(holders[line] for line in (*draft.step, *key) if line in holders))
        step = "\n".join(join_lines(lines, hyphenated=hyphenated) for lines in (draft.step, key) if lines)
        inside = words[placement.order]
        placed.append(PlacedFigure(placement, draft.caption, block.section_path, inside, block.order, step, beside_blocks))
    return placed


def _keys(
    drafts: Sequence[DraftBlock], inner: Mapping[int, Sequence[str]], recognised: Mapping[str, Sequence[RecognisedLine]]
) -> dict[int, tuple[Line, ...]]:
    """Return the lines of the key that explains each figure's callouts, by the order of the placement."""
    pointed: dict[int, dict[int, tuple[BBox, frozenset[str]]]] = defaultdict(dict)
    for draft in drafts:
        if draft.kind is BlockKind.FIGURE and (placement := draft.placement) is not None:
            recognised_texts = (line.text for line in recognised.get(placement.figure_id or "", ()))
            if names := callouts([*inner.get(placement.order, ()), *recognised_texts]):
                pointed[placement.page][placement.order] = placement.bbox, names
    keys: dict[int, tuple[Line, ...]] = {}
    for page, figures in pointed.items():
        text = (draft for draft in drafts if draft.page == page and draft.kind in (BlockKind.TEXT, BlockKind.TABLE))
        keys_by_order = match_keys(figures, find_keys([line for draft in text for line in draft.lines]))
        keys |= {order: key.lines for order, key in keys_by_order.items()}
    return keys


def _figures_by_label(drafts: Sequence[DraftBlock]) -> dict[CaptionLabel, str]:
    """Return the figure of each label; the first where two have one number."""
    figures_by_label: dict[CaptionLabel, str] = {}
    for draft in drafts:
        if draft.label is not None and draft.label.number and draft.placement is not None and draft.placement.figure_id:
            figures_by_label.setdefault(draft.label, draft.placement.figure_id)
    return figures_by_label


def _whole_figure_label(label: CaptionLabel) -> CaptionLabel:
    """Return the label of the whole figure for a part such as ``3a``."""
    return replace(label, number=label.number.rstrip("abcdefghij"))


def _inner_text(text_lines: Sequence[str], recognised_lines: Sequence[RecognisedLine]) -> str:
    """Join the words that a figure contains as text with its OCR lines, each line once."""
    known_letters = {letters_of_text(line) for line in text_lines}
    further = [escape(line.text) for line in recognised_lines if letters_of_text(line.text) not in known_letters]
    return "\n".join(line.strip() for line in (*text_lines, *further))


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
    for placement in placements:
        blocks_with_text = holders.get((placement.page, placement.figure_id or ""))
        if placement.role in TAGGED and placement.order not in own_blocks and blocks_with_text:
            yield (
                placement,
                *(blocks_with_text.pop(0) if len(blocks_with_text) > 1 else blocks_with_text[0]),
            )  # one figure may be in several rows
