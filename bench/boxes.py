"""Draw the pages of a PDF with what was found on them: ``python -m bench.boxes FILE.pdf FOLDER``.

Blocks have numbered boxes in reading order, figures a box in the colour of their role; a line leads from each figure without a
caption to the text that it is read with. Dashed is what gets no tag.
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from backends.pdf.document import open_document
from schemas.corpus import ParseOptions
from schemas.documents import BlockKind, Role, StructuredDocument
from tasks.reading.parse import parse
from tasks.reading.structure import structure
from tasks.tables.mark_up import text_on_page

if TYPE_CHECKING:
    import pymupdf

COLOURS: dict[Role | BlockKind, str] = {
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
DASHED = frozenset({Role.DECORATIVE, Role.BACKGROUND, BlockKind.MARGIN})
DPI = 110


class Mark(NamedTuple):
    """A box on a page; lines lead from its middle to those of ``to``."""

    kind: Role | BlockKind
    box: Sequence[float]
    label: str = ""
    to: tuple[Sequence[float], ...] = ()


def read(data: bytes) -> StructuredDocument:
    """Return a PDF as a refresh reads it without OCR."""
    parsed = parse(open_document(data), "document", ParseOptions(), keep_figure=lambda name, data: None)
    return structure(parsed, {})


def marks(page: int, structured: StructuredDocument) -> Iterator[Mark]:
    """Yield the marks of a page: figures that aren't blocks, margins, then blocks in reading order."""
    boxes = {block.order: block.bbox for block in structured.blocks if block.page == page}
    read_with = {
        figure.placement.order: tuple(boxes[order] for order in figure.stands_by if order in boxes)
        for figure in structured.figures
        if figure.placement.page == page
    }
    roles = {placement.order: placement.role for placement in structured.placements if placement.page == page}
    in_blocks = {block.placement for block in structured.blocks if block.kind is BlockKind.FIGURE}
    for placement in structured.placements:
        if placement.page == page and placement.order not in in_blocks:
            yield Mark(placement.role, placement.bbox)
    number = 0
    for block in structured.blocks:
        if block.kind is BlockKind.MARGIN:
            if block.page == page:
                yield Mark(block.kind, block.bbox)
        elif text_on_page(block, page):
            number += 1
            role = roles.get(block.placement) if block.kind is BlockKind.FIGURE and block.placement is not None else None
            box = next((part.bbox for part in block.parts if part.page == page), block.bbox)
            to = read_with.get(block.placement, ()) if block.placement is not None else ()
            yield Mark(role or block.kind, box, str(number), to)


def draw(page: "pymupdf.Page", page_marks: Sequence[Mark]) -> "pymupdf.Pixmap":
    """Draw marks over a page."""
    import pymupdf

    for mark in page_marks:
        colour = tuple(channel / 255 for channel in bytes.fromhex(COLOURS[mark.kind][1:]))
        box = pymupdf.Rect(mark.box)
        dashes = "[3 2] 0" if mark.kind in DASHED else None
        page.draw_rect(box, color=colour, fill=colour, dashes=dashes, fill_opacity=0.06)
        for target in map(pymupdf.Rect, mark.to):
            page.draw_line((box.tl + box.br) / 2, (target.tl + target.br) / 2, color=colour)
        if mark.label:
            page.insert_text(box.tl, mark.label, fontsize=9, color=colour)
    return page.get_pixmap(dpi=DPI)


def main() -> None:
    """Draw every page of a PDF."""
    import pymupdf

    parser = argparse.ArgumentParser(description="Draw the pages of a PDF with what was found on them.")
    parser.add_argument("file", type=Path)
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    data = arguments.file.read_bytes()
    structured = read(data)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    with pymupdf.open(stream=data) as pdf:
        for page in structured.pages:
            pixels = draw(pdf[page.page - 1], [*marks(page.page, structured)])
            pixels.save(arguments.folder / f"page-{page.page:04d}.png")


if __name__ == "__main__":
    main()
