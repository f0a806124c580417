"""A parsed document as HTML: each page drawn with what was found on it, beside its text."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import shorten

import jinja2
from markupsafe import Markup

from backends.pdf.pixels import OverlayBox
from schemas.corpus import ParseOptions
from schemas.documents import Block, BlockKind, Node, NodeKind, Page, Placement, Role, StructuredDocument
from schemas.errors import UserError
from schemas.ids import document_file
from schemas.stages import Report, silent
from schemas.tags import TagTemplate, fill
from tasks.reading.contents import depths, title_of
from tasks.tables.mark_up import as_html, caption_of, escaped, row_numbers_on_page, rows_on_page, spans_in, text_on_page
from workers.draw_pages import Drawing, draw_pages

_ENTRY_CHARACTERS = 90

_environment = jinja2.Environment(
    loader=jinja2.PackageLoader(__package__), autoescape=True, trim_blocks=True, lstrip_blocks=True
)

COLOURS: dict[str, str] = {
    Role.CONTENT: "#0b7a5f",
    Role.ICON: "#a8660a",
    Role.PAGE_SCAN: "#7a3fb5",
    Role.DECORATIVE: "#8a8f98",
    Role.BACKGROUND: "#8a8f98",
    BlockKind.TABLE: "#c2410c",
    BlockKind.CAPTION: "#1d5fd1",
    BlockKind.HEADING: "#b3195e",
    BlockKind.TEXT: "#5b6472",
    BlockKind.CODE: "#0e7490",
    BlockKind.FOOTNOTE: "#7c6f1d",
    BlockKind.MARGIN: "#8a8f98",
}
"""Colour of each role of a figure and each kind of block."""

_LEGEND = {
    Role.CONTENT: "figure",
    Role.ICON: "icon",
    Role.PAGE_SCAN: "scanned page",
    BlockKind.TABLE: "table",
    BlockKind.CAPTION: "caption",
    BlockKind.HEADING: "heading",
    BlockKind.TEXT: "text",
    BlockKind.CODE: "code",
    BlockKind.FOOTNOTE: "footnote",
    Role.DECORATIVE: "left out: decorative, background, margin",
}
_DASHED = frozenset({Role.DECORATIVE, Role.BACKGROUND, BlockKind.MARGIN})


def write_view(
    out: Path,
    source: str,
    store_address: str,
    structured: StructuredDocument,
    tree: Sequence[Node],
    numbers: Mapping[str, str],
    limits: ParseOptions,
    report: Report = silent,
) -> None:
    """Write ``page-0001.png`` and so on, and ``index.html``, into a folder that has the figures already.

    Args:
        out: The folder, with ``figures/<tag number>.png``.
        source: The document's name.
        store_address: The store that holds the PDF.
        structured: The document.
        tree: Its evidence tree.
        numbers: Tag numbers by figure id.
        limits: Limits of drawing a page.
        report: Called with the pages drawn.

    Raises:
        UserError: The folder can't be written to.
    """
    try:
        undrawn = dict(_draw(out, store_address, structured, limits, report))
        page = _environment.get_template("view.html").generate(
            source=source,
            title=Markup(escaped(structured.title)),  # noqa: S704 - escaped
            facts=_facts(structured),
            colours=COLOURS,
            legend=_LEGEND,
            contents=list(_contents(tree)),
            pages=structured.pages,
            undrawn=undrawn,
            view=_View(structured, numbers),
        )
        with (out / "index.html").open("w", encoding="utf-8") as file:
            file.writelines(page)
    except OSError as error:
        raise UserError(f"can't write to {out}: {error.strerror}") from error


def _draw(
    out: Path, store_address: str, structured: StructuredDocument, limits: ParseOptions, report: Report
) -> Iterator[tuple[int, str]]:
    """Write a picture of each page; yield the pages that can't be drawn with the reason."""
    pages = {page.page: page for page in structured.pages}
    name = structured.pdf or document_file(structured.doc_id)
    drawings = [Drawing(store_address, name, page, marks=tuple(marks(page, structured))) for page in pages]
    for drawn_count, (drawing, drawn) in enumerate(draw_pages(drawings, limits), 1):
        if isinstance(drawn, bytes):
            (out / _picture_of(pages[drawing.page])).write_bytes(drawn)
        else:
            yield drawing.page, drawn.message
        report("draw", drawn_count, len(drawings))


def _picture_of(page: Page) -> str:
    return f"page-{page.page:04d}.png"


def numbered(structured: StructuredDocument, page: int) -> list[tuple[int, Block]]:
    """Return the blocks of a page but for margins, in reading order, numbered from 1."""
    blocks = (block for block in structured.blocks if block.kind is not BlockKind.MARGIN and text_on_page(block, page))
    return list(enumerate(blocks, 1))


def marks(page: int, structured: StructuredDocument) -> list[OverlayBox]:
    """Return the marks of a page: a numbered box per block, and a box per figure that isn't a block.

    A line leads from each figure without a caption to the text that it is read with.
    """
    boxes = {block.order: block.bbox for block in structured.blocks if block.page == page}
    lines = {
        figure.placement.order: tuple(_corners(boxes[order]) for order in figure.stands_by if order in boxes)
        for figure in structured.figures
        if figure.placement.page == page
    }
    page_placements = [placement for placement in structured.placements if placement.page == page]
    roles = {placement.order: placement.role for placement in page_placements}
    placements_of_blocks = {block.placement for block in structured.blocks if block.kind is BlockKind.FIGURE}
    margins = [block for block in structured.blocks if block.page == page and block.kind is BlockKind.MARGIN]
    overlay = [
        _mark(placement.role, placement.bbox)
        for placement in page_placements
        if placement.order not in placements_of_blocks
    ]
    overlay.extend(_mark(block.kind, block.bbox) for block in margins)
    for number, block in numbered(structured, page):
        kind = roles[block.placement] if block.kind is BlockKind.FIGURE and block.placement is not None else block.kind
        box = next((part.bbox for part in block.parts if part.page == page), block.bbox)
        overlay.append(
            _mark(kind, box, str(number))._replace(to=lines.get(block.placement, ()) if block.placement is not None else ())
        )
    return overlay


def _mark(kind: Role | BlockKind, box: Sequence[float], label: str = "") -> OverlayBox:
    colour = COLOURS[kind]
    red, green, blue = (int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5))
    return OverlayBox(_corners(box), label, (red, green, blue), kind in _DASHED)


def _corners(box: Sequence[float]) -> tuple[float, float, float, float]:
    x0, y0, x1, y1 = box
    return x0, y0, x1, y1


def _facts(document: StructuredDocument) -> str:
    tables = sum(block.kind is BlockKind.TABLE for block in document.blocks)
    return f"{len(document.pages)} pages · {len(document.figures)} tags · {tables} tables"


def _contents(tree: Sequence[Node]) -> Iterator[tuple[Node, int, Markup]]:
    depth = depths(tree)
    for node in tree:
        if node.kind is not NodeKind.TEXT:
            title = escaped(shorten(title_of(node), _ENTRY_CHARACTERS, placeholder=" …"))
            yield node, depth[node.node_id], Markup(title)  # noqa: S704 - escaped


class _View:
    """What the template calls for each page."""

    def __init__(self, structured: StructuredDocument, numbers: Mapping[str, str]) -> None:
        self._structured, self._numbers = structured, numbers
        self._tagged = {figure.placement.order for figure in structured.figures}
        self._roles = {placement.order: placement.role for placement in structured.placements}

    def page_picture(self, page: Page) -> str:
        return _picture_of(page)

    def blocks(self, page: int) -> list[tuple[Block, int | str]]:
        numbers = {block.order: number for number, block in numbered(self._structured, page)}
        return [(block, numbers.get(block.order, "")) for block in self._structured.blocks if text_on_page(block, page)]

    def untagged(self, page: int) -> list[Placement]:
        return [
            placement
            for placement in self._structured.placements
            if placement.page == page and not (placement.figure_id in self._numbers and placement.order in self._tagged)
        ]

    def kind(self, block: Block) -> str:
        if block.kind is not BlockKind.FIGURE or block.placement is None:
            return str(block.kind)
        return f"figure {self._roles[block.placement]}"

    def content(self, block: Block, page: int) -> Markup:
        """Return a block as HTML with its figures in place."""
        if block.kind is BlockKind.TABLE:
            caption = caption_of(block) if page == block.page else f"{caption_of(block)} (continued)".strip()
            spans = spans_in(block.spans, row_numbers_on_page(block, page))
            content = f'<div dir="auto">{as_html(rows_on_page(block, page), caption, spans)}</div>'
        elif block.kind is BlockKind.CODE:
            content = f"<pre>{escaped(block.text)}</pre>"
        else:
            content = f'<p dir="auto">{escaped(block.text)}</p>'
        return Markup(fill(content, self._figure))  # noqa: S704 - escaped

    def _figure(self, figure_id: str) -> str:
        number = self._numbers[figure_id]
        figure = Markup('<span class="tagged"><img src="{}" alt="" loading="lazy"><code>{}</code></span>')
        return figure.format(f"figures/{number}.png", TagTemplate().write(number))
