"""Pages made for the purpose, read and structured."""

from collections.abc import Sequence
from dataclasses import replace

import pymupdf

from backends.pdf.document import open_document
from schemas.corpus import Layout, ParseOptions
from schemas.documents import (
    Block,
    BlockKind,
    Figure,
    Kind,
    OutlineEntry,
    Page,
    ParsedDocument,
    PlacedFigure,
    Placement,
    Role,
    StructuredDocument,
)
from schemas.geometry import BBox
from tasks.reading.parse import parse
from tasks.reading.structure import structure


def parsed(
    document: pymupdf.Document, outline: Sequence[OutlineEntry] = (), layout: Layout = "every_page"
) -> ParsedDocument:
    """Read a document; ``layout`` is "never" where many pages are read and blocks don't matter: the model takes 0.2 s a page."""
    pdf = open_document(document.tobytes(no_new_id=True))
    return replace(
        parse(pdf, "d", ParseOptions(layout=layout), keep_figure=lambda name, data: None), outline=tuple(outline)
    )


SCAN = "ab" * 32


def scanned(rotation: int = 0, role: Role = Role.PAGE_SCAN) -> ParsedDocument:
    """Return a page of 400 x 600 pt that is one picture of twice as many pixels, as its reader sees it."""
    width, height = (800, 1200) if rotation in (0, 180) else (1200, 800)
    return ParsedDocument(
        doc_id="d",
        title="Scan",
        pages=(Page(1, 400, 600, rotation, 0),),
        lines=(),
        figures=(Figure(SCAN, "0" * 40, width, height, "png"),),
        placements=(Placement(1, 0, BBox(0, 0, 400, 600), SCAN, Kind.SCAN, role, "covers the page"),),
    )


def structured(
    document: pymupdf.Document, outline: Sequence[OutlineEntry] = (), layout: Layout = "every_page"
) -> StructuredDocument:
    return structure(parsed(document, outline, layout), {})


def paragraph(page: pymupdf.Page, words: str, top: float, *, left: float = 72, right: float = 520) -> None:
    """Write running text of three lines at least, which begins with the words."""
    text = f"{words} " + "the pump is stopped before the valve is opened and the filter is taken out " * 3
    page.insert_textbox((left, top, right, top + 120), f"{text.strip()}.", fontsize=10)


def kinds(document: StructuredDocument) -> list[BlockKind]:
    return [block.kind for block in document.blocks]


def starts(document: StructuredDocument) -> list[str]:
    """Return the first word of each block, and ``FIGURE`` for a figure."""
    return ["FIGURE" if block.kind is BlockKind.FIGURE else block.text.split()[0] for block in document.blocks]


def of(document: StructuredDocument, kind: BlockKind) -> list[Block]:
    return [block for block in document.blocks if block.kind is kind]


def one_figure(document: StructuredDocument) -> PlacedFigure:
    (figure,) = document.figures
    return figure


def draw_table(page: pymupdf.Page, rows: Sequence[Sequence[str]], top: float) -> None:
    bottom = top + 24 * len(rows)
    for row in range(len(rows) + 1):
        page.draw_line((72, top + 24 * row), (472, top + 24 * row))
    for column in range(3):
        page.draw_line((72 + 200 * column, top), (72 + 200 * column, bottom))
    for row, cells in enumerate(rows):
        for column, text in enumerate(cells):
            page.insert_text((78 + 200 * column, top + 16 + 24 * row), text, fontsize=10)
