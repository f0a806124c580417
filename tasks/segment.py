"""Find the figures of pages that are one picture: cut out what a layout model sees, and place it on the page."""

import io
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from PIL import Image as Pillow

from schemas.documents import (
    Kind,
    LayoutRegion,
    ParsedDocument,
    Placement,
    RegionKind,
    Role,
    Segment,
)
from schemas.geometry import BBox
from tasks.anchor import running_text
from tasks.recognise import unrotated
from tasks.render import encode

SEGMENT_VERSION = "1"

_LEAST_PX = 40
_LEAST_SHARE = 0.005
_PAGE_SHARE = 0.85
_OVERLAP = 0.5
_RUNNING_SHARE = 1 / 3

_REASONS = {RegionKind.FIGURE: "a figure on the picture of a page", RegionKind.TABLE: "a table on the picture of a page"}


def pictures_to_segment(document: ParsedDocument) -> list[str]:
    """Return the ids of the pictures that cover a page, scanned or behind its text; each once, sorted."""
    return sorted({place.figure_id for place in document.placements if place.kind is Kind.SCAN and place.figure_id})


def cut(picture: bytes, regions: Sequence[LayoutRegion], keep_figure: Callable[[str, bytes], None]) -> list[Segment]:
    """Cut figures and tables out of the picture of a page, in its own pixels.

    Args:
        picture: The picture, encoded.
        regions: What a layout model found on it, the surest first. What lies mostly in a surer one is the same thing seen
            twice; what is hardly larger than a letter is none. A figure that fills the page counts where it is the only one.
        keep_figure: Given each figure's name in the store (``<figure_id>.png``) and its bytes.
    """
    with Pillow.open(io.BytesIO(picture)) as opened:
        pixels = np.asarray(opened.convert("RGB"))
    height, width, _ = pixels.shape
    page = BBox(0, 0, width, height)
    segments: list[Segment] = []
    for region in sorted(regions, key=lambda region: fills(region.bbox, page)):
        box = BBox(*map(round, region.bbox & page))
        seen_twice = any(_share(box, segment.region.bbox) > _OVERLAP for segment in segments)
        if seen_twice or min(box.width, box.height) < _LEAST_PX or box.area < _LEAST_SHARE * page.area:
            continue
        x0, y0, x1, y1 = map(int, box)
        figure, data = encode(np.ascontiguousarray(pixels[y0:y1, x0:x1]))
        keep_figure(f"{figure.figure_id}.{figure.ext}", data)
        segments.append(Segment(replace(region, bbox=box), figure))
    return segments


def with_segments(document: ParsedDocument, segments: Mapping[str, Sequence[Segment]]) -> ParsedDocument:
    """Return a document with the figures that were cut out of its pages' pictures placed on its pages.

    What the parse found itself goes first: a segment that is mostly the same gets no placement. A figure that fills the page
    is one on a scan; behind a text it is what the text stands on. A segment of running text is text.

    Args:
        document: As parsed, with the words of its scanned pages.
        segments: What was cut, by the id of the page's picture.
    """
    pages = {page.page: page for page in document.pages}
    pictures = {figure.figure_id: figure for figure in document.figures}
    known: dict[int, list[BBox]] = defaultdict(list)
    for place in document.placements:
        if place.role is Role.CONTENT:
            known[place.page].append(place.bbox)
    for table in document.tables:
        known[table.page].append(table.bbox)
    running: dict[int, list[BBox]] = defaultdict(list)
    for line in running_text(document.lines) if segments else ():
        running[line.page].append(line.bbox)
    placements = list(document.placements)
    for whole in document.placements:
        if whole.kind is not Kind.SCAN or whole.figure_id is None:
            continue
        for segment in segments.get(whole.figure_id, ()):
            region = segment.region
            box = unrotated(region.bbox, pictures[whole.figure_id], whole.bbox, pages[whole.page].rotation).rounded()
            if any(_share(box, other) > _OVERLAP for other in known[whole.page]):
                continue
            if whole.role is not Role.PAGE_SCAN and fills(box, whole.bbox):
                continue
            if sum((box & line).area for line in running[whole.page]) > _RUNNING_SHARE * box.area:
                continue
            pictures.setdefault(segment.figure.figure_id, segment.figure)
            placements.append(
                Placement(
                    page=whole.page,
                    order=len(placements),
                    bbox=box,
                    figure_id=segment.figure.figure_id,
                    kind=Kind.SCAN,
                    role=Role.CONTENT,
                    reason=_REASONS[region.kind],
                )
            )
    return replace(document, figures=tuple(pictures.values()), placements=tuple(placements))


def fills(box: BBox, page: BBox) -> bool:
    """Say whether something is as large as the page, but for a margin."""
    return box.area > _PAGE_SHARE * page.area


def _share(one: BBox, other: BBox) -> float:
    """Return how much of the smaller box the two share."""
    return (one & other).area / max(1.0, min(one.area, other.area))
