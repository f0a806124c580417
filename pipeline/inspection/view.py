"""A parse to look at: a picture a page with what was found on it, and one page of HTML that shows it beside the text."""

import base64
import html
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from textwrap import shorten

from backends.pdf.page_renderer import Mark
from schemas.corpus.parse import ParseOptions
from schemas.documents import Block, BlockKind, Node, NodeKind, Page, Placement, Role, StructuredDocument
from schemas.errors import UserError
from schemas.ids import document_file
from schemas.progress import Report, silent
from schemas.tags import TagTemplate, fill
from tasks.reading.contents import depths, title_of
from tasks.reading.neighbours import read_with_neighbours
from tasks.tables.mark_up import as_html, caption_of, escaped, rows_on, text_on
from workers.draw_pages import Drawing, draw_pages

EMBED_BYTES = 30_000_000
"""Pictures of more bytes than that stay files beside the HTML, which then loads them as they scroll into sight."""

_ENTRY_CHARACTERS = 90

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
    BlockKind.MARGIN: "#8a8f98",
}
"""What each role of a figure and each kind of block is drawn in; figures without a tag and margins are dashed."""

_LEGEND = {
    Role.CONTENT: "figure",
    Role.ICON: "icon",
    Role.PAGE_SCAN: "scanned page",
    BlockKind.TABLE: "table",
    BlockKind.CAPTION: "caption",
    BlockKind.HEADING: "heading",
    BlockKind.TEXT: "text",
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
        out: The folder; its ``figures/<tag number>.png`` are shown in the text.
        source: The document's name.
        store_address: The store that holds the PDF.
        structured: What its pages hold, in reading order.
        tree: Its evidence tree.
        numbers: Tag numbers by figure id.
        limits: Time and memory that drawing a page may take, and how many pages at once.
        report: Called with the pages drawn.

    Raises:
        UserError: The folder can't be written to.
    """
    try:
        unseen = dict(_draw(out, store_address, structured, limits, report))
        pictures = [*out.glob("page-*.png"), *(out / "figures" / f"{number}.png" for number in numbers.values())]
        show = _embedded if sum(path.stat().st_size for path in pictures) <= EMBED_BYTES else _linked
        writer = _Writer(out, structured, numbers, show)
        with (out / "index.html").open("w", encoding="utf-8") as file:
            file.writelines(writer.lines(source, tree, unseen))
    except OSError as error:
        raise UserError(f"can't write to {out}: {error.strerror}") from error


def _draw(
    out: Path, store_address: str, structured: StructuredDocument, limits: ParseOptions, report: Report
) -> Iterator[tuple[int, str]]:
    """Write a picture a page; yield the pages that can't be drawn, and why."""
    pages = {page.page: page for page in structured.pages}
    name = document_file(structured.doc_id)
    drawings = [Drawing(store_address, name, page, marks=tuple(marks(page, structured))) for page in pages]
    for done, (drawing, made) in enumerate(draw_pages(drawings, limits), 1):
        if isinstance(made, bytes):
            _picture_of(out, pages[drawing.page]).write_bytes(made)
        else:
            yield drawing.page, made.message
        report("draw", done, len(drawings))


def _picture_of(out: Path, page: Page) -> Path:
    return out / f"page-{page.page:04d}.png"


def numbered(structured: StructuredDocument, page: int) -> list[tuple[int, Block]]:
    """Return the blocks of a page in reading order, numbered from 1; margins have no number."""
    blocks = (block for block in structured.blocks if block.kind is not BlockKind.MARGIN and text_on(block, page))
    return list(enumerate(blocks, 1))


def marks(page: int, structured: StructuredDocument) -> list[Mark]:
    """Return what is drawn over a page: a numbered box a block, and a box for each figure that is no block of its own.

    From each figure without a caption a line leads to the text that it is read with.
    """
    boxes = {block.order: block.bbox for block in structured.blocks if block.page == page}
    lines = {
        figure.placement.order: tuple(_corners(boxes[order]) for order in figure.stands_by if order in boxes)
        for figure in structured.figures
        if figure.placement.page == page
    }
    places = [place for place in structured.placements if place.page == page]
    roles = {place.order: place.role for place in places}
    standing = {block.placement for block in structured.blocks if block.kind is BlockKind.FIGURE}
    margins = [block for block in structured.blocks if block.page == page and block.kind is BlockKind.MARGIN]
    made = [_mark(place.role, place.bbox) for place in places if place.order not in standing]
    made.extend(_mark(block.kind, block.bbox) for block in margins)
    for number, block in numbered(structured, page):
        what = roles[block.placement] if block.kind is BlockKind.FIGURE and block.placement is not None else block.kind
        box = next((part.bbox for part in block.parts if part.page == page), block.bbox)
        made.append(
            _mark(what, box, str(number))._replace(to=lines.get(block.placement, ()) if block.placement is not None else ())
        )
    return made


def _mark(what: Role | BlockKind, box: Sequence[float], label: str = "") -> Mark:
    colour = COLOURS[what]
    red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return Mark(_corners(box), label, (red, green, blue), what in _DASHED)


def _corners(box: Sequence[float]) -> tuple[float, float, float, float]:
    x0, y0, x1, y1 = box
    return x0, y0, x1, y1


def _embedded(path: Path, out: Path) -> str:
    return f"data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}"


def _linked(path: Path, out: Path) -> str:
    return path.relative_to(out).as_posix()


class _Writer:
    """Writes the HTML."""

    def __init__(
        self,
        out: Path,
        structured: StructuredDocument,
        numbers: Mapping[str, str],
        show: Callable[[Path, Path], str],
    ) -> None:
        self._out = out
        self._structured = structured
        self._numbers = numbers
        self._show = show

    def lines(self, source: str, tree: Sequence[Node], unseen: Mapping[int, str]) -> Iterator[str]:
        """Yield the page piece by piece: memory holds one picture at a time."""
        document = self._structured
        tables = sum(block.kind is BlockKind.TABLE for block in document.blocks)
        answers = read_with_neighbours(document.pages, document.blocks, document.figures).values()
        by_text = f" · {sum(answers)} of {len(answers)} pictures without a caption by their text" if answers else ""
        facts = f"{len(document.pages)} pages · {len(document.figures)} tags · {tables} tables{by_text}"
        style = files("pipeline.inspection").joinpath("view.css").read_text(encoding="utf-8")
        legend = "".join(f'<li class="{what}">{name}</li>' for what, name in _LEGEND.items())
        colours = "".join(f".{what}{{--mark:{colour}}}" for what, colour in COLOURS.items())
        yield (
            f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{html.escape(source)}</title>\n'
            f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<style>\n{style}{colours}</style></head>\n'
            f"<body><header><h1>{html.escape(source)}</h1><p>{escaped(document.title)}</p><p>{facts}</p>\n"
            f"<ul>{legend}</ul></header>\n"
        )
        yield f"<nav><h2>Contents</h2>\n<ol>{''.join(self._entries(tree))}</ol></nav>\n<main>\n"
        for page in document.pages:
            yield from self._page(page, unseen.get(page.page))
        yield "</main></body></html>\n"

    def _entries(self, tree: Sequence[Node]) -> Iterator[str]:
        depth = depths(tree)
        for node in tree:
            if node.kind is not NodeKind.TEXT:
                mark = "" if node.kind is NodeKind.SECTION else f"<i>[{node.kind}]</i> "
                title = escaped(shorten(title_of(node), _ENTRY_CHARACTERS, placeholder=" …"))
                target = f"#p{node.page}-{node.block}"
                yield (
                    f'<li style="--depth:{depth[node.node_id]}"><a href="{target}">{mark}{title}</a>'
                    f" <small>[{node.node_id}]</small></li>"
                )

    def _page(self, page: Page, unseen: str | None) -> Iterator[str]:
        yield f'<section id="p{page.page}"><h2>Page {page.page}</h2>\n<div class="sheet">'
        if unseen is None:
            source = self._show(_picture_of(self._out, page), self._out)
            yield f'<img src="{source}" alt="Page {page.page} with what was found on it" loading="lazy">'
        else:
            yield f"<p>{html.escape(unseen)}</p>"
        yield '</div>\n<div class="words">\n'
        numbers = {block.order: number for number, block in numbered(self._structured, page.page)}
        for block in self._structured.blocks:
            if text_on(block, page.page):
                number = numbers.get(block.order, "")
                yield (
                    f'<div class="block {self._kind(block)}" id="p{page.page}-{block.order}">'
                    f"<b>{number}</b>{self._block(block, page.page)}</div>\n"
                )
        untagged = [place for place in self._structured.placements if place.page == page.page and not self._has_tag(place)]
        if untagged:
            reasons = "".join(f"<li>{place.role}: {html.escape(place.reason)}</li>" for place in untagged)
            yield f"<details><summary>{len(untagged)} without a tag</summary><ul>{reasons}</ul></details>\n"
        yield "</div></section>\n"

    def _has_tag(self, place: Placement) -> bool:
        return place.figure_id in self._numbers and place.order in {
            figure.placement.order for figure in self._structured.figures
        }

    def _kind(self, block: Block) -> str:
        if block.kind is not BlockKind.FIGURE:
            return str(block.kind)
        place = next(place for place in self._structured.placements if place.order == block.placement)
        return f"figure {place.role}"

    def _block(self, block: Block, page: int) -> str:
        if block.kind is BlockKind.TABLE:
            caption = caption_of(block) if page == block.page else f"{caption_of(block)} (continued)".strip()
            return f'<div dir="auto">{fill(as_html(rows_on(block, page), caption), self._picture)}</div>'
        return f'<p dir="auto">{fill(escaped(block.text), self._picture)}</p>'

    def _picture(self, figure_id: str) -> str:
        number = self._numbers[figure_id]
        source = self._show(self._out / "figures" / f"{number}.png", self._out)
        tag = html.escape(TagTemplate().write(number))
        return f'<span class="tagged"><img src="{source}" alt="" loading="lazy"><code>{tag}</code></span>'
