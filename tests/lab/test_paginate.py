"""The page-per-row table of "Beyond Text"."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from lab.paginate import ImageFilter, Paginated, paginate, unique_texts
from schemas.documents import Figure, Kind, Line, Page, ParsedDocument, Placement, Role
from schemas.geometry import BBox
from schemas.tags import escape

BOX = BBox(0, 0, 10, 10)


def _figure(name: str, width: int = 100, height: int = 80) -> Figure:
    return Figure(name * 64, name * 40, width, height, "png")


def _placement(page: int, name: str | None, kind: Kind = Kind.RASTER) -> Placement:
    return Placement(page, 0, BOX, name and name * 64, kind, Role.CONTENT, "an image is too large")


def _document(placements: list[Placement], figures: list[Figure], pages: int = 3) -> ParsedDocument:
    return ParsedDocument(
        doc_id="d0" * 32,
        title=escape("Pump <image: P-200"),
        pages=tuple(Page(number, 595, 842, 0, 10) for number in range(1, pages + 1)),
        lines=(
            Line(1, 0, BOX, escape("Turn <image:1.png> on. "), 11, bold=False),
            Line(1, 0, BOX, "Wait.", 11, bold=False),
            Line(3, 0, BOX, "The end.", 11, bold=False),
        ),
        figures=tuple(figures),
        placements=tuple(placements),
    )


def _paginate(document: ParsedDocument, size: int = 2000, images: ImageFilter = ImageFilter.PAPER) -> Paginated:
    return paginate(
        document,
        source="a b/pump.pdf",
        subject="Service",
        load=lambda figure: figure.figure_id[:1].encode() * size,
        images=images,
        first_index=7,
    )


def test_the_columns_are_those_of_the_paper() -> None:
    columns: list[pa.Field[Any]] = [
        pa.field("index", pa.int64(), nullable=False),
        pa.field("doc_id", pa.string(), nullable=False),
        pa.field("doc_title", pa.string(), nullable=False),
        pa.field("page_number", pa.int64(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
        pa.field("url", pa.string(), nullable=False),
        pa.field("has_image", pa.bool_(), nullable=False),
        pa.field("image_id", pa.string()),
        pa.field("image_bytes", pa.binary()),
    ]
    assert _paginate(_document([], [])).rows.schema.equals(pa.schema(columns))


def test_a_page_has_a_row_for_each_image_and_one_without() -> None:
    document = _document([_placement(1, "a"), _placement(1, "b"), _placement(3, "a")], [_figure("a"), _figure("b")])
    paginated = _paginate(document)
    shared = {"doc_id": "d0" * 32, "doc_title": "Pump <image: P-200 - Service"}
    first_page = {**shared, "page_number": 1, "text": "Turn <image:1.png> on.\nWait.", "url": "a%20b/pump.pdf#page=1"}
    assert paginated.rows.to_pylist() == [
        {"index": 7, **first_page, "has_image": True, "image_id": "a" * 64, "image_bytes": b"a" * 2000},
        {"index": 8, **first_page, "has_image": True, "image_id": "b" * 64, "image_bytes": b"b" * 2000},
        {
            **{"index": 9, **shared, "page_number": 2, "text": "", "url": "a%20b/pump.pdf#page=2"},
            **{"has_image": False, "image_id": None, "image_bytes": None},
        },
        {
            **{"index": 10, **shared, "page_number": 3, "text": "The end.", "url": "a%20b/pump.pdf#page=3"},
            **{"has_image": True, "image_id": "a" * 64, "image_bytes": b"a" * 2000},
        },
    ]
    on_pages = Counter(placement.page for placement in document.placements)
    assert paginated.rows.num_rows == sum(max(1, on_pages[page.page]) for page in document.pages)
    assert paginated.drops.num_rows == 0


@pytest.mark.parametrize(
    ("width", "height", "size", "kind", "reason"),
    [
        (50, 400, 2000, Kind.RASTER, "is 50 x 400 px; its shorter side must exceed 50"),
        (51, 51, 2000, Kind.RASTER, None),
        (400, 50, 2000, Kind.RASTER, "is 400 x 50 px; its shorter side must exceed 50"),
        (100, 80, 1024, Kind.RASTER, "has 1024 bytes; they must exceed 1024"),
        (100, 80, 1025, Kind.RASTER, None),
        (100, 80, 2000, Kind.VECTOR, "is drawn, not embedded"),
        (100, 80, 2000, Kind.COMPOSITE, None),
    ],
)
def test_the_papers_filters_and_why_each_image_was_left_out(
    width: int, height: int, size: int, kind: Kind, reason: str | None
) -> None:
    document = _document([_placement(1, "a", kind)], [_figure("a", width, height)], pages=1)
    paginated = _paginate(document, size)
    (row,) = paginated.rows.to_pylist()
    assert row["has_image"] is (reason is None)
    assert [drop["reason"] for drop in paginated.drops.to_pylist()] == [reason] * (reason is not None)
    everything = _paginate(document, size, ImageFilter.NONE)
    assert everything.rows.column("has_image").to_pylist() == [True]
    assert everything.drops.num_rows == 0


def test_a_drop_says_what_was_left_out_where() -> None:
    document = _document([_placement(2, "a"), _placement(2, "a"), _placement(3, None)], [_figure("a")])
    assert _paginate(document, images=ImageFilter.NONE).drops.to_pylist() == [
        {
            **{"doc_id": "d0" * 32, "page_number": 2, "url": "a%20b/pump.pdf#page=2", "image_id": "a" * 64},
            **{"width": 100, "height": 80, "bytes": 2000, "reason": "stands on this page already"},
        },
        {
            **{"doc_id": "d0" * 32, "page_number": 3, "url": "a%20b/pump.pdf#page=3", "image_id": None},
            **{"width": None, "height": None, "bytes": None, "reason": "has no pixels: an image is too large"},
        },
    ]


def test_a_repeated_text_is_one_and_keeps_its_pages() -> None:
    first = _document([_placement(1, "a"), _placement(1, "b")], [_figure("a"), _figure("b")], pages=1)
    second = replace(first, doc_id="e0" * 32, title="Copy", placements=(_placement(1, "b"),))
    tables = [
        paginate(document, source=source, subject="", load=lambda _: b"p" * 2000).rows
        for document, source in ((first, "one.pdf"), (second, "two.pdf"))
    ]
    (row,) = unique_texts(tables).to_pylist()
    assert row["text"] == "Turn <image:1.png> on.\nWait."
    assert [(page["doc_id"], page["doc_title"], page["url"]) for page in row["provenance"]] == [
        ("d0" * 32, "Pump <image: P-200", "one.pdf#page=1"),
        ("e0" * 32, "Copy", "two.pdf#page=1"),
    ]
    assert row["image_ids"] == ["a" * 64, "b" * 64]
