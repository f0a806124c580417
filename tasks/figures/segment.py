"""Find the figures of pages that are one picture: cut out the regions of a layout model, and place them on the page."""

import io
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray
from PIL import Image as Pillow

from schemas.documents import FoundBy, Kind, LayoutRegion, ParsedDocument, Placement, RegionKind, Role, Segment
from schemas.geometry import BBox, unrotated
from tasks.figures.anchor import running_text
from tasks.figures.render import encode

SEGMENT_VERSION = "8"

LEAST_SIDE_PX = 40
"""Minimum side of a figure, in pixels of a page of some 1,000. Of 423 pictures none changes at 20, 11 at 80 (three lose logos).
"""
LEAST_PAGE_SHARE = 0.005
"""Minimum share of its page that a figure has. Of 423 pictures none changes at 0.0025, 2 at 0.01 (logos are lost)."""
WHOLE_PAGE_SHARE = 0.85
"""Share of a page from which on a figure fills it: counted only if it is alone. Of 423 pictures 12 change at 0.43 (the part of
a slide replaces its chart), 3 at 0.95 (a slide replaces its parts).
"""
SAME_SHARE = 0.5
"""Minimum share of the smaller one that two boxes of one thing have in common. Of 423 pictures 5 change at 0.25 (photographs
that touch another are lost), 2 at 0.75 (a figure is cut twice), 58 without it.
"""
SURE_SCORE = 0.3
"""Score from which on the model is sure. Of 109 regions 60 are met; 55 at 0.2, 50 at 0.5 (decision 8). Of 423 pictures 97
change at 0.15 (text is cut), 117 at 0.6 (photographs, logos and charts are lost).
"""
LARGEST_PART_SHARE = 0.7
"""Maximum share of a region that a part of it has. Of 423 pictures 24 change at 0.35 (photographs stay in one box with the text
beside them), 3 at 0.85 (a chart loses its edges), 80 without it.
"""
LEAST_PART_SHARE = 0.02
"""Minimum share of a region that a part of it has: a line of words is the label of a chart."""
WITHIN_SHARE = 0.9
"""Minimum share of a part inside its region. Of 423 pictures 2 change at 0.45 (a neighbour's chart is a part), 3 at 0.95 (a
photograph stays in one box with the text beside it).
"""
SHARED_EDGE_SHARE = 0.05
"""Maximum overlap of two parts at their edges: a layout model's boxes are too large."""
ALIGNED_SHARE = 0.15
"""Maximum difference, relative to its size, of a sure figure and an unsure one in one row. With such boxes 68 of 109 regions
are met, without 67.
"""
INK_LEVELS = 40
"""Minimum difference of a pixel from the background, of 255 levels. Of 423 pictures 5 change at 20 (shades of the background
count), 3 at 80 (a dark photograph counts as blank).
"""
ALL_INK_SHARE = 0.85
"""Minimum share of a region's ink inside its parts. With parts 67 of 109 regions are met, without 60. Of 423 pictures 11 change
at 0.7 (one of three screenshots is left), 16 at 0.95 (two pictures stay one).
"""
LEAST_INK_SHARE = 0.05
"""Minimum share of a region's ink inside each of its parts."""
SAMPLED_SIDE_PX = 500
"""Side of the picture on which ink is counted. Bounds the work."""
RUNNING_SHARE = 1 / 3
"""Share of a segment covered by lines of paragraphs from which on it is text. Of 110 recognised pages 14 change at 0.17 (tables
and drawings beside their steps are lost), 8 at 0.67 (lists, notes and contents become figures).
"""

TABLE_SCORE = 0.7
"""Minimum score of a table in a picture on a page with text of its own. Of 40 cropped tables 35 have it."""
WHITE_SHARE, WHITE_LEVEL = 0.4, 245
"""Minimum share of white pixels in such a picture, and the level from which on one is white. Real tables have 0.45 to 0.9,
two lists in windows of programs, with scores of 0.94 and 0.97, at most 0.22.
"""
LEAST_WIDTH_PT, LEAST_HEIGHT_PT = 120.0, 48.0
"""Minimum size of a picture that is searched for a table."""

_REASONS = {RegionKind.FIGURE: "a figure on the picture of a page", RegionKind.TABLE: "a table on the picture of a page"}


def pictures_to_segment(placements: Iterable[Placement]) -> list[str]:
    """Return the sorted ids of the pictures that cover a page, scanned or behind its text."""
    return sorted({placement.figure_id for placement in placements if placement.kind is Kind.SCAN and placement.figure_id})


def pictures_with_tables(placements: Iterable[Placement]) -> list[str]:
    """Return the sorted ids of the pictures on pages with text of their own that may be tables."""
    candidates = list(placements)
    return sorted(
        {
            placement.figure_id
            for placement in candidates
            if placement.kind is Kind.RASTER and placement.role is Role.CONTENT and placement.figure_id
            if placement.bbox.width >= LEAST_WIDTH_PT and placement.bbox.height >= LEAST_HEIGHT_PT
        }
        - set(pictures_to_segment(candidates))
    )


def tables_in(picture: bytes, regions: Sequence[LayoutRegion]) -> list[BBox]:
    """Return the boxes of the tables in an encoded picture that isn't a page; [] for photographs, diagrams and screenshots.

    Args:
        picture: The picture, encoded.
        regions: What a layout model found on it, best score first.
    """
    drawn = [region for region in regions if region.kind is not RegionKind.WORDS]
    tables = [region.bbox for region in drawn if region.kind is RegionKind.TABLE and region.score >= TABLE_SCORE]
    # The best score is first: the model must be surer of a table than of any figure.
    if not tables or drawn[0].kind is not RegionKind.TABLE:
        return []
    with Pillow.open(io.BytesIO(picture)) as opened:
        darkest = np.asarray(opened.convert("RGB")).min(axis=2)
    return tables if (darkest >= WHITE_LEVEL).mean() >= WHITE_SHARE else []


def cut(picture: bytes, regions: Sequence[LayoutRegion], keep_figure: Callable[[str, bytes], None]) -> list[Segment]:
    """Cut figures and tables out of the picture of a page, in its own pixels.

    Args:
        picture: The picture, encoded.
        regions: What a layout model found on it, best score first. A region mostly inside a better one is a duplicate. A figure
            that fills the page counts only if it is alone. Unsure regions separate two charts in one box, or a chart from the
            text beside it; one in a row with a sure figure of its size is a figure.
        keep_figure: Called with each figure's name in the store (``<figure_id>.png``) and its bytes.
    """
    with Pillow.open(io.BytesIO(picture)) as opened:
        pixels = np.asarray(opened.convert("RGB"))
    height, width, _ = pixels.shape
    page = BBox(0, 0, width, height)
    segments: list[Segment] = []
    # Figures that fill the page come last, when any other has its place; the sort is stable, so the others stay by score.
    for region in sorted(_in_parts(regions, pixels), key=lambda region: fills_page(region.bbox, page)):
        box = BBox(*map(round, region.bbox & page))
        seen_twice = any(_share(box, segment.region.bbox) > SAME_SHARE for segment in segments)
        if seen_twice or min(box.width, box.height) < LEAST_SIDE_PX or box.area < LEAST_PAGE_SHARE * page.area:
            continue
        x0, y0, x1, y1 = map(int, box)
        figure, data = encode(np.ascontiguousarray(pixels[y0:y1, x0:x1]))
        keep_figure(f"{figure.figure_id}.{figure.ext}", data)
        segments.append(Segment(replace(region, bbox=box), figure))
    return segments


def _in_parts(regions: Sequence[LayoutRegion], pixels: NDArray[np.uint8]) -> list[LayoutRegion]:
    """Return the sure figures and tables; those that consist of parts are replaced by the parts that aren't words.

    On slides a model draws one sure box around two charts, or around a chart and its text, and is less sure of the parts. They
    count if together they contain all that the box shows.
    """
    kept_regions: list[LayoutRegion] = []
    drawn = [region for region in regions if region.kind is not RegionKind.WORDS]
    sure = [region for region in drawn if region.score >= SURE_SCORE]
    for sure_region in sure:
        parts = _parts(sure_region, regions)
        ink = _ink_shares(parts, sure_region.bbox, pixels) if parts else []
        figures = [
            replace(part, score=sure_region.score)
            for part, share in zip(parts, ink, strict=True)
            if part.kind is not RegionKind.WORDS and share >= LEAST_INK_SHARE
        ]
        kept_regions.extend(figures if figures and sum(ink) >= ALL_INK_SHARE else [sure_region])
    return kept_regions + [region for region in drawn if region not in sure and _is_aligned(region.bbox, sure)]


def _is_aligned(box: BBox, sure: Sequence[LayoutRegion]) -> bool:
    """Return whether a box is in one row with a sure one of its size, as two portraits are."""
    # What overlaps a sure figure is a piece of it, not its neighbour.
    if any(_share(box, region.bbox) > SHARED_EDGE_SHARE for region in sure):
        return False
    return any(
        abs(box.y0 - figure.bbox.y0) <= ALIGNED_SHARE * figure.bbox.height
        and abs(box.y1 - figure.bbox.y1) <= ALIGNED_SHARE * figure.bbox.height
        and abs(box.width - figure.bbox.width) <= ALIGNED_SHARE * figure.bbox.width
        for figure in sure
    )


def _parts(outer: LayoutRegion, regions: Sequence[LayoutRegion]) -> list[LayoutRegion]:
    """Return the parts beside each other in a region, best score first."""
    parts: list[LayoutRegion] = []
    for candidate in regions:
        box = candidate.bbox
        # The model is less sure of parts than of the box around them.
        if (candidate.kind is RegionKind.WORDS and candidate.score < SURE_SCORE) or candidate.score >= outer.score:
            continue
        if (box & outer.bbox).area < WITHIN_SHARE * box.area:
            continue
        if not LEAST_PART_SHARE * outer.bbox.area <= box.area <= LARGEST_PART_SHARE * outer.bbox.area:
            continue
        if all(_share(box, part.bbox) <= SHARED_EDGE_SHARE for part in parts):
            parts.append(candidate)
    return parts


def _ink_shares(parts: Sequence[LayoutRegion], region_box: BBox, pixels: NDArray[np.uint8]) -> list[float]:
    """Return each part's share of the pixels in a region that differ from its background."""
    step = max(1, max(pixels.shape) // SAMPLED_SIDE_PX)
    sample = pixels[::step, ::step].astype(np.int16)

    def cells(box: BBox) -> tuple[slice, slice]:
        x0, y0, x1, y1 = (max(0, round(side / step)) for side in box)
        return slice(y0, y1 + 1), slice(x0, x1 + 1)

    # Most pixels of a region are its background, so their median is its colour.
    background = np.median(sample[cells(region_box)].reshape(-1, 3), axis=0)
    ink = np.zeros(sample.shape[:2], dtype=bool)
    ink[cells(region_box)] = (np.abs(sample[cells(region_box)] - background) > INK_LEVELS).any(axis=-1)
    inked = max(1, int(np.count_nonzero(ink)))
    return [int(np.count_nonzero(ink[cells(part.bbox)])) / inked for part in parts]


def with_segments(
    document: ParsedDocument, segments: Mapping[str, Sequence[Segment]], skews: Mapping[int, float] = MappingProxyType({})
) -> ParsedDocument:
    """Return a document with the figures cut out of its pages' pictures placed on its pages.

    A segment mostly the same as a picture or table of the parse, or as a table that is read, gets no placement, nor does
    running text. A figure that fills the page counts on a scan; behind text it is the background.

    Args:
        document: As parsed, with the words of its scanned pages.
        segments: Segments by the id of the page's picture.
        skews: Of scanned pages, in degrees by the page's number; the document's boxes are those of straight pages.
    """
    pages = {page.page: page for page in document.pages}
    pictures = {figure.figure_id: figure for figure in document.figures}
    parsed_boxes: dict[int, list[BBox]] = defaultdict(list)
    for placement in document.placements:
        if placement.role is Role.CONTENT:
            parsed_boxes[placement.page].append(placement.bbox)
    read_tables: dict[int, list[BBox]] = defaultdict(list)
    for table in document.tables:
        (read_tables if table.found_by is FoundBy.RECOGNISED else parsed_boxes)[table.page].append(table.bbox)
    running: dict[int, list[BBox]] = defaultdict(list)
    for line in running_text(document.lines) if segments else ():
        running[line.page].append(line.bbox)
    placements = list(document.placements)
    for page_picture in document.placements:
        if page_picture.kind is not Kind.SCAN or page_picture.figure_id is None:
            continue
        picture, rotation = pictures[page_picture.figure_id], pages[page_picture.page].rotation
        for segment in segments.get(page_picture.figure_id, ()):
            size = picture.width, picture.height
            skew = skews.get(page_picture.page, 0.0)
            box = unrotated(segment.region.bbox, size, page_picture.bbox, rotation, skew).rounded()
            if _is_known(box, page_picture, parsed_boxes[page_picture.page]) or _is_running_text(
                box, running[page_picture.page]
            ):
                continue
            if _is_read(segment.region.kind, box, read_tables[page_picture.page]):
                continue
            pictures.setdefault(segment.figure.figure_id, segment.figure)
            placements.append(_placement(segment, page_picture.page, len(placements), box))
    return replace(document, figures=tuple(pictures.values()), placements=tuple(placements))


def _is_known(box: BBox, page_picture: Placement, parsed_boxes: Sequence[BBox]) -> bool:
    """Return whether the parse found a segment itself, or it is the whole background of a page."""
    return any(_share(box, parsed_box) > SAME_SHARE for parsed_box in parsed_boxes) or (
        page_picture.role is not Role.PAGE_SCAN and fills_page(box, page_picture.bbox)
    )


def _is_read(kind: RegionKind, box: BBox, tables: Sequence[BBox]) -> bool:
    """Return whether a segment is a table that is read, or tables. A figure may hold more than one, or be in one of its cells."""
    inner_tables = [table for table in tables if kind is RegionKind.TABLE or box.has_middle_of(table)]
    return sum((box & table).area for table in inner_tables) > SAME_SHARE * box.area


def _is_running_text(box: BBox, lines: Sequence[BBox]) -> bool:
    return sum((box & line).area for line in lines) > RUNNING_SHARE * box.area


def _placement(segment: Segment, page: int, order: int, box: BBox) -> Placement:
    reason = _REASONS[segment.region.kind]
    return Placement(page, order, box, segment.figure.figure_id, Kind.SCAN, Role.CONTENT, reason)


def fills_page(box: BBox, page: BBox) -> bool:
    """Return whether a box is as large as the page, except for a margin."""
    return box.area > WHOLE_PAGE_SHARE * page.area


def _share(first: BBox, second: BBox) -> float:
    """Return the share of the smaller box that two boxes have in common."""
    return (first & second).area / max(1.0, min(first.area, second.area))
