"""Tables as the tags of a PDF tell them (ISO 32000-2, 14.8), in place of what a layout model sees there."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from schemas.documents import LayoutLabel, PageRegion
from schemas.geometry import BBox, union

if TYPE_CHECKING:
    import pymupdf

_TAG = 2
"""The type of a block that is a tag, with those inside it."""

_OVERLAP_PT = 1.0
"""How far neighbouring cells may overlap: a line's box is higher than its letters."""

_FURNITURE = (LayoutLabel.HEAD, LayoutLabel.FOOT)


def with_tagged_tables(regions: Sequence[PageRegion], page: "pymupdf.Page") -> list[PageRegion]:
    """Return a page's blocks with the tables that its tags tell.

    Word processors lay pages out in tables, too, so a table counts that has a head, or that the layout model sees as well. One
    with cells over several columns or rows is left to the other evidence, since tags don't say where these begin.
    """
    merged = [*regions]
    furniture = [region.bbox for region in regions if region.label in _FURNITURE]
    for rows, has_head in _tables(page, furniture) if _is_tagged(page) else ():
        edges = _edges_of(rows)
        if edges is None:
            continue
        box = union(cell for row in rows for cell in row).rounded()
        inside = [region for region in merged if box.has_middle_of(region.bbox)]
        if has_head or any(region.label is LayoutLabel.TABLE for region in inside):
            lines = tuple(line for region in inside for line in region.lines)
            position = merged.index(inside[0]) if inside else len(merged)
            merged.insert(position, PageRegion(box, LayoutLabel.TABLE, lines, *edges))
            merged = [region for region in merged if region not in inside]
    return merged


def _is_tagged(page: "pymupdf.Page") -> bool:
    pdf = page.parent
    return bool(pdf.xref_get_key(pdf.pdf_catalog(), "StructTreeRoot")[0] != "null")


def _tables(page: "pymupdf.Page", furniture: Sequence[BBox]) -> Iterator[tuple[list[list[BBox]], bool]]:
    """Yield the tables of a page that hold no other: the boxes of cells with words or a picture, row by row; has it a head?"""
    import pymupdf

    flags = pymupdf.TEXT_COLLECT_STRUCTURE | pymupdf.TEXT_PRESERVE_IMAGES
    for table in _tags(page.get_text("dict", flags=flags)["blocks"], ("Table",)):
        if not any(_tags(table["blocks"], ("Table",))):
            rows, has_head = [], False
            for row in _tags(table["blocks"], ("TR",)):
                cells = [*_tags(row["blocks"], ("TH", "TD"))]
                boxes = [union(pieces) for cell in cells if (pieces := [*_pieces(cell["blocks"], furniture)])]
                rows += [boxes] if boxes else []
                has_head |= any(cell["std"] == "TH" for cell in cells)
            yield rows, has_head


def _tags(blocks: Sequence[dict[str, Any]], names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the outermost tags of these names."""
    for block in blocks:
        if block["type"] == _TAG and block["std"] in names:
            yield block
        elif block["type"] == _TAG:
            yield from _tags(block["blocks"], names)


def _pieces(blocks: Sequence[dict[str, Any]], furniture: Sequence[BBox]) -> Iterator[BBox]:
    """Yield the boxes of a cell's lines and pictures; a page number may be told as part of the page's last cell."""
    for block in blocks:
        if block["type"] == _TAG:
            yield from _pieces(block["blocks"], furniture)
        else:
            for piece in block.get("lines", [block]):
                box = BBox(*piece["bbox"])
                if not any(region.has_middle_of(box) for region in furniture):
                    yield box


def _edges_of(rows: Sequence[Sequence[BBox]]) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    """Return the edges between rows and those between columns; None without two of each, or where cells overlap."""
    width = max(map(len, rows), default=0)
    columns = [*zip(*(row for row in rows if len(row) == width), strict=True)]
    if len(rows) < 2 or width < 2:
        return None
    across = [(max(cell.x1 for cell in before), min(cell.x0 for cell in behind)) for before, behind in pairwise(columns)]
    down = [(max(cell.y1 for cell in above), min(cell.y0 for cell in below)) for above, below in pairwise(rows)]
    if any(end > start + _OVERLAP_PT for end, start in (*across, *down)):
        return None
    gutters = tuple((end + start) / 2 for end, start in across)
    # A row with fewer cells has empty ones, or one over several columns, which crosses a gutter.
    if any(cell.x0 < gutter < cell.x1 for row in rows for cell in row for gutter in gutters):
        return None
    return tuple((end + start) / 2 for end, start in down), gutters
