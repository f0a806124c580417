"""Find the parts of each picture that has a caption."""

from collections.abc import Sequence

from schemas.documents import Line
from schemas.drawings import EDGE_SHARE
from schemas.geometry import BBox, union
from tasks.figures.anchor import anchor, whole_caption
from tasks.figures.drawings import JOIN_PT
from tasks.figures.parts import PageText, Part

LOGO_SHARE = 0.05
"""Maximum share of the page's height that a logo has."""


def captioned_parts(parts: Sequence[Part], graphics: Sequence[Part], text: PageText, page: BBox) -> list[list[Part]]:
    """Return the parts of each captioned picture. A part where pages have their logo is a caption's only if nothing else is.

    Text in ``graphics``, the parts that were placed as one, doesn't separate a part from its caption.
    """
    captions = [whole_caption(caption, text.lines) for caption in text.captions]
    if not captions:
        return []
    words = {line for caption in captions for line in caption}
    barriers = [
        line.bbox
        for line in text.body
        if line not in words and not any(part.bbox.has_middle_of(line.bbox) for part in graphics)
    ]
    edge = [part for part in parts if _is_at_edge(part.bbox, page)]
    groups = _by_caption([part for part in parts if part not in edge], captions, barriers)
    unmatched_captions = [caption for number, caption in enumerate(captions) if number not in groups]
    return [*groups.values(), *_by_caption(edge, unmatched_captions, barriers).values()]


def _by_caption(
    parts: Sequence[Part], captions: Sequence[Sequence[Line]], barriers: Sequence[BBox]
) -> dict[int, list[Part]]:
    boxes = [union(line.bbox for line in caption) for caption in captions]
    members_by_caption = anchor(boxes, [part.bbox for part in parts], barriers, showing=[part.is_visible for part in parts])
    return {caption: [parts[index] for index in members] for caption, members in members_by_caption.items()}


def _is_at_edge(box: BBox, page: BBox) -> bool:
    """Return whether a box is where pages have their logo."""
    return box.height <= LOGO_SHARE * page.height and (
        box.y1 <= page.y0 + EDGE_SHARE * page.height or box.y0 >= page.y1 - EDGE_SHARE * page.height
    )


def without_stray_rules(parts: Sequence[Part]) -> list[Part]:
    """Remove rules that are only near a captioned picture, such as that of a running header."""
    core = union(part.bbox for part in parts if part.is_visible).grown(JOIN_PT)
    return [part for part in parts if part.is_visible or core.contains(part.bbox)]
