"""Turn what pages hold into what a reader takes in: reading order, sections, captions, mentions, tables."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from schemas.documents import (
    TAGGED,
    Block,
    BlockKind,
    Figure,
    Line,
    Page,
    ParsedDocument,
    PlacedFigure,
    Placement,
    RecognisedLine,
    Role,
    StructuredDocument,
    TableRegion,
)
from schemas.geometry import BBox, union
from schemas.labels import Label, LabelKind, caption_label, mentions
from schemas.tags import escape, placeholder

STRUCTURE_VERSION = "1"

_CAPTION_GAP_PT = 40.0
_MARGIN_SHARE = 0.09
_MARGIN_PAGES = 3
_HEADING_GROWTH = 1.15
_HEADING_CHARACTERS = 140
_WRAPPED_SHARE = 0.85
_NUMBERING = re.compile(r"^\s*(?:chapter|appendix|section|kapitel)?\s*(?:[A-Z]|\d+)(?:\.\d+)*[.:)]?\s+", re.IGNORECASE)
_PAGE_NUMBER = re.compile(r"^\s*(?:page\s*)?(?:[ivxlc]+|\d+)(?:\s*(?:/|of)\s*\d+)?\s*$", re.IGNORECASE)


@dataclass
class _Piece:
    """A block in the making.

    ``text`` is set where something else than ``lines`` makes it. A figure has its ``placement`` and the words of its
    ``caption``; a caption has the ``placements`` that it belongs to.
    """

    kind: BlockKind
    page: int
    bbox: BBox
    lines: list[Line] = field(default_factory=list)
    text: str = ""
    placement: Placement | None = None
    placements: list[Placement] = field(default_factory=list)
    caption: str = ""
    rows: tuple[tuple[str, ...], ...] = ()
    label: Label | None = None
    level: int | None = None


def structure(parsed: ParsedDocument, recognised: Mapping[str, Sequence[RecognisedLine]]) -> StructuredDocument:
    """Return a document as a reader takes it in. Pure.

    MuPDF's own order of blocks is kept, which follows columns; figures are set into it beside their captions, with the
    words inside them, as one unit.

    Args:
        parsed: What its pages hold.
        recognised: Lines read off figures and scanned pages, by figure id; boxes in pixels.
    """
    margins = _margins(parsed)
    headings = _Headings(parsed)
    figures = {figure.figure_id: figure for figure in parsed.figures}
    lines_of, placements_of, tables_of = defaultdict(list), defaultdict(list), defaultdict(list)
    for line in parsed.lines:
        lines_of[line.page].append(line)
    for placement in parsed.placements:
        placements_of[placement.page].append(placement)
    for table in parsed.tables:
        tables_of[table.page].append(table)
    pieces: list[_Piece] = []
    for page in parsed.pages:
        made = _page_pieces(
            page, lines_of[page.page], placements_of[page.page], tables_of[page.page], figures, recognised, margins
        )
        pieces.extend(headings.marked(made))
    return _document(parsed, pieces, figures, recognised)


def _page_pieces(
    page: Page,
    lines: Sequence[Line],
    placements: Sequence[Placement],
    tables: Sequence[TableRegion],
    figures: Mapping[str, Figure],
    recognised: Mapping[str, Sequence[RecognisedLine]],
    margins: frozenset[tuple[int, str]],
) -> list[_Piece]:
    tagged = [placement for placement in placements if placement.role in TAGGED and placement.figure_id is not None]
    free = [line for line in lines if line.inside is None]
    free, inline = _with_icons(free, [placement for placement in tagged if placement.role is Role.ICON])
    pieces = list(_paragraphs(free, margins))
    pieces = _with_tables(pieces, tables)
    inner = defaultdict(list)
    for line in lines:
        if line.inside is not None:
            inner[line.inside].append(line.text)
    standing = [placement for placement in tagged if placement not in inline]
    pieces = _with_figures(pieces, standing, inner)
    for placement in placements:
        scan = placement.figure_id if placement.role is Role.PAGE_SCAN else None
        if scan is not None and scan in recognised:
            pieces.extend(_scanned(page, placement, figures[scan], recognised[scan]))
    return pieces


def _paragraphs(lines: Sequence[Line], margins: frozenset[tuple[int, str]]) -> Iterator[_Piece]:
    """Group lines by MuPDF's blocks; a caption begins a piece of its own."""
    for block in _by_block(lines):
        held: list[Line] = []
        label: Label | None = None
        for line in block:
            is_margin = (line.page, _normal(line.text)) in margins or (line.page, line.text) in margins
            begins = caption_label(line.text)
            if is_margin or begins:
                yield from _paragraph(held, label)
                held, label = [], begins
            if is_margin:
                yield _Piece(BlockKind.MARGIN, line.page, line.bbox, [line])
                held, label = [], None
            else:
                held.append(line)
        yield from _paragraph(held, label)


def _paragraph(lines: list[Line], label: Label | None) -> Iterator[_Piece]:
    if lines:
        kind = BlockKind.CAPTION if label else BlockKind.TEXT
        yield _Piece(kind, lines[0].page, union(line.bbox for line in lines), lines, label=label)


def _by_block(lines: Sequence[Line]) -> Iterator[list[Line]]:
    held: list[Line] = []
    for line in lines:
        if held and held[-1].block != line.block:
            yield held
            held = []
        held.append(line)
    if held:
        yield held


def _with_icons(lines: Sequence[Line], icons: Sequence[Placement]) -> tuple[list[Line], list[Placement]]:
    """Set each icon that stands on a line into the line's text, where it stands; return those that do."""
    texts = list(lines)
    inline: list[Placement] = []
    for icon in sorted(icons, key=lambda icon: -icon.bbox.x0):
        middle = (icon.bbox.y0 + icon.bbox.y1) / 2
        for place, line in enumerate(texts):
            near = line.bbox.x0 - 30 <= icon.bbox.x0 <= line.bbox.x1 + 30
            if line.bbox.y0 <= middle <= line.bbox.y1 and near and icon.figure_id is not None:
                share = (icon.bbox.x0 - line.bbox.x0) / max(1.0, line.bbox.width)
                at = _word_break(line.text, round(len(line.text) * min(1.0, max(0.0, share))))
                text = f"{line.text[:at].rstrip()} {placeholder(icon.figure_id)} {line.text[at:].lstrip()}".strip()
                texts[place] = replace(line, text=text, bbox=line.bbox | icon.bbox)
                inline.append(icon)
                break
    return texts, inline


def _word_break(text: str, near: int) -> int:
    """Return the place between two words nearest to a position; never inside a placeholder."""
    breaks = [0, *(found.start() for found in re.finditer(r"\s", text)), len(text)]
    return min(breaks, key=lambda place: abs(place - near))


def _with_tables(pieces: Sequence[_Piece], tables: Sequence[TableRegion]) -> list[_Piece]:
    """Put each table at the place of the first line that it holds, in place of those lines."""
    made = list(pieces)
    for table in tables:
        kept: list[_Piece] = []
        place: int | None = None
        for piece in made:
            outside = [line for line in piece.lines if not _holds(table.bbox, line.bbox)]
            if piece.kind is BlockKind.TABLE or len(outside) == len(piece.lines):
                kept.append(piece)
                continue
            if place is None:
                place = len(kept)
            if outside:
                kept.append(replace(piece, lines=outside, bbox=union(line.bbox for line in outside)))
        if place is None:
            continue
        text = _markdown(table.rows)
        kept.insert(place, _Piece(BlockKind.TABLE, table.page, table.bbox, text=text, rows=table.rows))
        made = kept
    return _with_table_captions(made)


def _with_table_captions(pieces: list[_Piece]) -> list[_Piece]:
    """Join a table with the caption right before or behind it."""
    made: list[_Piece] = []
    for piece in pieces:
        previous = made[-1] if made else None
        if previous and piece.kind is BlockKind.TABLE and _captions_table(previous, piece):
            made[-1] = _captioned_table(piece, previous)
        elif previous and previous.kind is BlockKind.TABLE and previous.label is None and _captions_table(piece, previous):
            made[-1] = _captioned_table(previous, piece)
        else:
            made.append(piece)
    return made


def _captioned_table(table: _Piece, caption: _Piece) -> _Piece:
    text = f"{_text(caption)}\n{table.text}"
    return replace(table, text=text, bbox=table.bbox | caption.bbox, label=caption.label)


def _captions_table(caption: _Piece, table: _Piece) -> bool:
    labelled = caption.kind is BlockKind.CAPTION and caption.label is not None and caption.label.kind is LabelKind.TABLE
    return labelled and _gap(caption.bbox, table.bbox) <= _CAPTION_GAP_PT


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    width = max(map(len, rows))
    cells = [[cell.replace("|", "\\|") for cell in row] + [""] * (width - len(row)) for row in rows]
    header, *body = cells
    lines = [header, ["---"] * width, *body]
    return "\n".join(f"| {' | '.join(row)} |" for row in lines)


def _with_figures(
    pieces: Sequence[_Piece], placements: Sequence[Placement], inner: Mapping[int, Sequence[str]]
) -> list[_Piece]:
    """Set each figure beside its caption, or where it stands among the text, with the words inside it on its far side."""
    made = list(pieces)
    captioned = _captions(made, placements)
    for placement in sorted(placements, key=lambda item: (item.bbox.y0, item.bbox.x0)):
        caption = captioned.get(placement.order)
        words = "\n".join(inner.get(placement.order, ()))
        tag = placeholder(placement.figure_id or "")
        figure = _Piece(BlockKind.FIGURE, placement.page, placement.bbox, placement=placement)
        if caption is not None:
            at = made.index(caption)
            over = placement.bbox.y0 <= caption.bbox.y0
            figure.text = f"{words}\n{tag}" if over else f"{tag}\n{words}"
            made.insert(at if over else at + 1, figure)
            figure.caption = _text(caption)
            caption.placements.append(placement)
        else:
            figure.text = f"{tag}\n{words}"
            made.insert(_place(made, placement.bbox), figure)
        figure.text = figure.text.strip()
    return made


def _captions(pieces: Sequence[_Piece], placements: Sequence[Placement]) -> dict[int, _Piece]:
    """Link figures to captions, nearest first; several figures may share one, none has two."""
    captions = [piece for piece in pieces if piece.label is not None and piece.label.kind is LabelKind.FIGURE]
    pairs = sorted(
        (
            (_distance(placement.bbox, caption.bbox), placement.order, place)
            for placement in placements
            if placement.role is Role.CONTENT
            for place, caption in enumerate(captions)
        ),
    )
    linked: dict[int, _Piece] = {}
    below: dict[int, bool] = {}
    for distance, order, place in pairs:
        if distance > _CAPTION_GAP_PT or order in linked:
            continue
        placement = next(item for item in placements if item.order == order)
        under = captions[place].bbox.y0 >= placement.bbox.y0
        # Captions of one page stand on one side of their figures: a caption never serves both sides.
        if below.setdefault(place, under) == under:
            linked[order] = captions[place]
    return linked


def _distance(figure: BBox, caption: BBox) -> float:
    """Return how far a caption stands from a figure; a caption beside it counts as further."""
    across = max(figure.x0, caption.x0) - min(figure.x1, caption.x1)
    down = _gap(figure, caption)
    if across > 0:
        return max(0.0, down) + across + 12
    return max(0.0, down)


def _gap(one: BBox, other: BBox) -> float:
    return max(one.y0, other.y0) - min(one.y1, other.y1)


def _place(pieces: Sequence[_Piece], box: BBox) -> int:
    """Return where in reading order a figure without caption stands: before the first text of its column below it."""
    middle = (box.y0 + box.y1) / 2
    after = 0
    for place, piece in enumerate(pieces):
        if piece.kind is BlockKind.MARGIN:
            continue
        across = max(box.x0, piece.bbox.x0) - min(box.x1, piece.bbox.x1)
        if across >= 0:
            continue
        if piece.bbox.y0 >= middle:
            return place
        after = place + 1
    return after or len(pieces)


def _scanned(page: Page, scan: Placement, figure: Figure, lines: Sequence[RecognisedLine]) -> Iterator[_Piece]:
    """Yield the paragraphs of a scanned page, their boxes brought from pixels to points."""
    held: list[Line] = []
    for line in lines:
        box = _unrotated(line.bbox, figure, scan.bbox, page.rotation)
        made = Line(page.page, 0, box.rounded(), escape(line.text), box.height, bold=False)
        if held and _gap(held[-1].bbox, box) > 0.8 * box.height:
            yield _Piece(BlockKind.TEXT, page.page, union(item.bbox for item in held), held)
            held = []
        held.append(made)
    if held:
        yield _Piece(BlockKind.TEXT, page.page, union(item.bbox for item in held), held)


def _unrotated(box: BBox, figure: Figure, place: BBox, rotation: int) -> BBox:
    """Bring a box from the pixels of a picture, turned as its reader sees it, to points of the unrotated page."""
    u0, v0, u1, v1 = box.x0 / figure.width, box.y0 / figure.height, box.x1 / figure.width, box.y1 / figure.height
    match rotation % 360:
        case 90:
            u0, v0, u1, v1 = v0, 1 - u1, v1, 1 - u0
        case 180:
            u0, v0, u1, v1 = 1 - u1, 1 - v1, 1 - u0, 1 - v0
        case 270:
            u0, v0, u1, v1 = 1 - v1, u0, 1 - v0, u1
    return BBox(
        place.x0 + u0 * place.width, place.y0 + v0 * place.height, place.x0 + u1 * place.width, place.y0 + v1 * place.height
    )


def _holds(outer: BBox, inner: BBox) -> bool:
    x, y = (inner.x0 + inner.x1) / 2, (inner.y0 + inner.y1) / 2
    return outer.x0 - 1 <= x <= outer.x1 + 1 and outer.y0 - 1 <= y <= outer.y1 + 1


def _margins(parsed: ParsedDocument) -> frozenset[tuple[int, str]]:
    """Return running headers, footers and page numbers, as ``(page, normal text)``."""
    heights = {page.page: page.height_pt for page in parsed.pages}
    edge: dict[tuple[str, bool], set[int]] = defaultdict(set)
    numbers: set[tuple[int, str]] = set()
    for line in parsed.lines:
        height = heights[line.page]
        top, bottom = line.bbox.y1 <= _MARGIN_SHARE * height, line.bbox.y0 >= (1 - _MARGIN_SHARE) * height
        if not (top or bottom):
            continue
        edge[_normal(line.text), top].add(line.page)
        if _PAGE_NUMBER.match(line.text):
            numbers.add((line.page, line.text))
    least = max(_MARGIN_PAGES, len(parsed.pages) // 40)
    repeated = {(page, text) for (text, _), pages in edge.items() if len(pages) >= least for page in pages}
    return frozenset(repeated | numbers)


def _normal(text: str) -> str:
    return re.sub(r"\d+|\b[ivxlc]+\b", "#", " ".join(text.casefold().split()))


class _Headings:
    """Knows which pieces are headings: by the PDF's own outline, else by size, weight and numbering."""

    def __init__(self, parsed: ParsedDocument) -> None:
        self._outline: dict[int, dict[str, int]] = defaultdict(dict)
        for entry in parsed.outline:
            if title := _title_key(entry.title):
                self._outline[entry.page].setdefault(title, entry.level)
        sizes: Counter[float] = Counter()
        for line in parsed.lines:
            sizes[line.size] += len(line.text)
        self._body = sizes.most_common(1)[0][0] if sizes else 10.0
        larger = sorted({size for size, count in sizes.items() if size >= _HEADING_GROWTH * self._body}, reverse=True)
        self._level = {size: min(6, level) for level, size in enumerate(larger, 1)}
        self._named = bool(self._outline)

    def marked(self, pieces: Sequence[_Piece]) -> Iterator[_Piece]:
        """Yield the pieces with headings marked; a heading at the head of a paragraph becomes a piece of its own."""
        for piece in pieces:
            if piece.kind is not BlockKind.TEXT or not piece.lines:
                yield piece
                continue
            count, level = self._heading(piece.lines)
            if count:
                head, rest = piece.lines[:count], piece.lines[count:]
                yield replace(
                    piece, kind=BlockKind.HEADING, lines=head, bbox=union(line.bbox for line in head), level=level
                )
                if rest:
                    yield replace(piece, lines=rest, bbox=union(line.bbox for line in rest))
            else:
                yield piece

    def _heading(self, lines: Sequence[Line]) -> tuple[int, int]:
        """Return how many of the first lines are a heading, and its level."""
        titles = self._outline.get(lines[0].page, {})
        for count in range(min(3, len(lines)), 0, -1):
            text = _title_key(" ".join(line.text for line in lines[:count]))
            if text in titles:
                return count, titles[text]
        if self._named:
            return 0, 0
        text = " ".join(line.text for line in lines)
        size = lines[0].size
        if len(lines) <= 3 and len(text) <= _HEADING_CHARACTERS and re.search(r"\w", text):
            if size in self._level and all(line.size == size for line in lines):
                return len(lines), self._level[size]
            numbered = _NUMBERING.match(text)
            if numbered and all(line.bold for line in lines) and not text.endswith("."):
                return len(lines), min(6, len(self._level) + 1 + numbered[0].count("."))
        return 0, 0


def _title_key(text: str) -> str:
    return re.sub(r"\W+", "", _NUMBERING.sub("", text)).casefold()


def _document(
    parsed: ParsedDocument,
    pieces: Sequence[_Piece],
    figures: Mapping[str, Figure],
    recognised: Mapping[str, Sequence[RecognisedLine]],
) -> StructuredDocument:
    named: dict[Label, list[str]] = {}
    for piece in pieces:
        if piece.label is not None and piece.placements:
            named.setdefault(piece.label, [placement.figure_id for placement in piece.placements if placement.figure_id])
    inner = defaultdict(list)
    for line in parsed.lines:
        if line.inside is not None:
            inner[line.inside].append(line.text)
    blocks: list[Block] = []
    placed: list[PlacedFigure] = []
    path: list[tuple[int, str]] = []
    for order, piece in enumerate(pieces):
        text = _text(piece)
        if piece.kind is BlockKind.HEADING:
            level = piece.level or 1
            path = [*(entry for entry in path if entry[0] < level), (level, " ".join(text.split()))]
        section = tuple(title for _, title in path)
        beside = piece.placement or (piece.placements[-1] if piece.placements else None)
        own = {placement.figure_id for placement in piece.placements}
        spoken_of = [figure for label in mentions(text) for figure in named.get(label, ()) if figure not in own]
        blocks.append(
            Block(
                order=order,
                page=piece.page,
                kind=piece.kind,
                bbox=piece.bbox.rounded(),
                text=text,
                section_path=section,
                level=piece.level,
                placement=beside.order if beside else None,
                mentions=tuple(dict.fromkeys(spoken_of)),
                rows=piece.rows,
            )
        )
        if piece.kind is BlockKind.FIGURE and piece.placement:
            placement = piece.placement
            words = [*inner[placement.order], *(line.text for line in recognised.get(placement.figure_id or "", ()))]
            placed.append(PlacedFigure(placement, piece.caption, section, escape("\n".join(words)), order))
    placed.extend(_inline_figures(parsed.placements, placed, blocks))
    return StructuredDocument(
        parsed.doc_id, parsed.title, parsed.pages, tuple(blocks), tuple(placed), tuple(parsed.failures)
    )


def _inline_figures(
    placements: Sequence[Placement], placed: Sequence[PlacedFigure], blocks: Sequence[Block]
) -> Iterator[PlacedFigure]:
    """Yield the figures that stand in a line of text."""
    standing = {figure.placement.order for figure in placed}
    for placement in placements:
        if placement.role not in TAGGED or placement.figure_id is None or placement.order in standing:
            continue
        mark = placeholder(placement.figure_id)
        holder = next((block for block in blocks if block.page == placement.page and mark in block.text), None)
        if holder is not None:
            yield PlacedFigure(placement, "", holder.section_path, "", holder.order)


def _text(piece: _Piece) -> str:
    """Return a piece's text: wrapped lines joined, short lines kept apart."""
    if piece.text or not piece.lines:
        return piece.text
    right = max(line.bbox.x1 for line in piece.lines)
    left = min(line.bbox.x0 for line in piece.lines)
    text = ""
    for line in piece.lines:
        text += line.text
        text += " " if line.bbox.x1 >= left + _WRAPPED_SHARE * (right - left) else "\n"
    return text.strip()
