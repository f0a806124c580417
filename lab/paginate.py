"""Convert a parsed document to the page-per-row table of "Beyond Text"."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from operator import attrgetter
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from schemas.documents import Figure, Kind, ParsedDocument, Placement
from schemas.parquet import required
from schemas.tags import restore

MIN_SIDE_PX = 50
MIN_BYTES = 1024
MIN_RELATIVE_SIZE = 0.0
"""The paper's code keeps an image whose shorter side, bytes, and bytes per sample all exceed these."""

_SAMPLES = 3


class ImageFilter(StrEnum):
    """Which images are exported: those that the paper's code takes, or all that have pixels."""

    PAPER = "paper"
    NONE = "none"


_PAGE: dict[str, pa.DataType] = {"doc_id": pa.string(), "doc_title": pa.string(), "page_number": pa.int64()}

BEYOND_TEXT = pa.schema(
    [
        *required(index=pa.int64(), **_PAGE, text=pa.string(), url=pa.string(), has_image=pa.bool_()),
        pa.field("image_id", pa.string()),
        pa.field("image_bytes", pa.binary()),
    ]
)
"""``doc_title`` is title + " - " + subject, ``url`` is ``file.pdf#page=N``, ``image_bytes`` an RGB PNG, masks on white."""

UNIQUE_TEXTS = pa.schema(
    required(
        index=pa.int64(),
        text=pa.string(),
        provenance=pa.list_(pa.struct(required(**_PAGE, url=pa.string()))),
        image_ids=pa.list_(pa.string()),
    )
)
"""Each distinct text once, with its pages and images."""

DROPS = pa.schema(
    [
        *required(doc_id=pa.string(), page_number=pa.int64(), url=pa.string()),
        pa.field("image_id", pa.string()),
        *(pa.field(name, pa.int64()) for name in ("width", "height", "bytes")),
        *required(reason=pa.string()),
    ]
)
"""Every picture that was left out, with the reason."""


@dataclass(frozen=True)
class Paginated:
    """A document's rows, and the pictures left out."""

    rows: pa.Table
    drops: pa.Table


def paginate(
    document: ParsedDocument,
    *,
    source: str,
    subject: str,
    load: Callable[[Figure], bytes],
    images: ImageFilter = ImageFilter.PAPER,
    first_index: int = 0,
) -> Paginated:
    """Return a row for each image of each page, and one for a page without images; a page's text is repeated.

    An image is a picture as the reader sees it, its mask on white; duplicates on a page are one. The paper keeps embedded images
    only, so its filter leaves drawings out. Text is the page's own, without OCR.

    Args:
        document: The parsed document.
        source: Its file, for ``url``.
        subject: From its metadata; "" without one.
        load: Returns a figure's PNG.
        images: Which images are kept.
        first_index: ``index`` of the first row.
    """
    figures = {figure.figure_id: figure for figure in document.figures}
    title = " - ".join(filter(None, (restore(document.title), subject)))
    lines = {page: list(group) for page, group in groupby(document.lines, attrgetter("page"))}
    placed = {page: list(group) for page, group in groupby(document.placements, attrgetter("page"))}
    rows: list[dict[str, Any]] = []
    drops: list[dict[str, Any]] = []
    for page in document.pages:
        located = {"doc_id": document.doc_id, "page_number": page.page, "url": f"{quote(source)}#page={page.page}"}
        text = "\n".join(restore(line.text).rstrip() for line in lines.get(page.page, ()))
        page_images, dropped = _images(placed.get(page.page, ()), figures, load, images)
        drops.extend(located | drop for drop in dropped)
        images_or_none: Iterable[tuple[str | None, bytes | None]] = page_images.items() or [(None, None)]
        for image_id, data in images_or_none:
            image = {"has_image": image_id is not None, "image_id": image_id, "image_bytes": data}
            rows.append({"index": first_index + len(rows), **located, "doc_title": title, "text": text, **image})
    return Paginated(pa.Table.from_pylist(rows, schema=BEYOND_TEXT), pa.Table.from_pylist(drops, schema=DROPS))


def _images(
    placements: Iterable[Placement], figures: Mapping[str, Figure], load: Callable[[Figure], bytes], images: ImageFilter
) -> tuple[dict[str, bytes], list[dict[str, Any]]]:
    """Return the images of a page by figure id, and the pictures left out, with the reason."""
    kept_images: dict[str, bytes] = {}
    drops: list[dict[str, Any]] = []
    for placement in placements:
        figure = figures.get(placement.figure_id or "")
        png = None if figure is None else load(figure)
        reason = _reason(placement, figure, png, images, kept_images)
        if figure is not None and png is not None and reason is None:
            kept_images[figure.figure_id] = png
        else:
            drops.append(
                {
                    "image_id": placement.figure_id,
                    "width": figure.width if figure else None,
                    "height": figure.height if figure else None,
                    "bytes": None if png is None else len(png),
                    "reason": reason,
                }
            )
    return kept_images, drops


def _reason(
    placement: Placement, figure: Figure | None, png: bytes | None, images: ImageFilter, kept_images: dict[str, bytes]
) -> str | None:
    """Return why a picture is left out; None if it is kept."""
    if figure is None or png is None:
        return f"has no pixels: {placement.reason}"
    if figure.figure_id in kept_images:
        return "stands on this page already"
    if images is ImageFilter.NONE:
        return None
    if placement.kind is Kind.VECTOR:
        return "is drawn, not embedded"
    if min(figure.width, figure.height) <= MIN_SIDE_PX:
        return f"is {figure.width} x {figure.height} px; its shorter side must exceed {MIN_SIDE_PX}"
    if len(png) <= MIN_BYTES:
        return f"has {len(png)} bytes; they must exceed {MIN_BYTES}"
    if len(png) / (figure.width * figure.height * _SAMPLES) <= MIN_RELATIVE_SIZE:
        return f"has too few bytes for its size; bytes a sample must exceed {MIN_RELATIVE_SIZE:g}"
    return None


def unique_texts(tables: Sequence[pa.Table]) -> pa.Table:
    """Return each distinct page text once, in order of appearance, with all pages that have it.

    The paper's code drops duplicates with their positions; here no page is lost.

    Args:
        tables: Rows as ``paginate`` returns them.
    """
    merged: dict[str, tuple[dict[str, dict[str, Any]], dict[str, None]]] = {}
    columns = ["doc_id", "doc_title", "page_number", "url"]
    for table in tables:
        for row in table.select([*columns, "text", "image_id"]).to_pylist():
            pages, images = merged.setdefault(row["text"], ({}, {}))
            pages.setdefault(row["url"], {name: row[name] for name in columns})
            if row["image_id"] is not None:
                images.setdefault(row["image_id"])
    rows = [
        {"index": index, "text": text, "provenance": list(pages.values()), "image_ids": list(images)}
        for index, (text, (pages, images)) in enumerate(merged.items())
    ]
    return pa.Table.from_pylist(rows, schema=UNIQUE_TEXTS)
