"""Read words that are set as images, such as headings in fonts that can't be embedded, from their replacement texts."""

from collections.abc import Sequence

from schemas.documents import Line
from schemas.drawings import Image, ReplacementText
from schemas.geometry import BBox
from schemas.tags import escape

_PAINT_PX = 8
"""Maximum side of an image that is only the colour painted through a larger mask."""

_SAME_SHARE = 0.9
"""Minimum overlap, over union, of an image and the box of its replacement text."""

_SIZE_SHARE = 0.85
"""Type size relative to the height of the image."""

_OVERHANG_SHARE = 0.35
"""Minimum overlap, relative to the height, of two images of one word; with a blank in between they overlap less."""

_SAME_HEIGHT_SHARE = 0.1
_LEADING_SHARE = 0.5
"""Maximum gap, relative to the height, between two lines of one paragraph."""


def has_words_as_images(images: Sequence[Image]) -> bool:
    """Return whether one of a page's images is a few pixels painted through a mask."""
    return any(
        image.mask_px is not None and max(image.width, image.height) <= _PAINT_PX < max(image.mask_px) for image in images
    )


def spelled_lines(texts: Sequence[ReplacementText], images: Sequence[Image], page: int) -> list[Line]:
    """Return the words of a page's images that have replacement texts.

    Source:
        ISO 32000-2, 14.9.4.
    """
    lines: list[Line] = []
    for image in images:
        text = next((text for text_box, text in texts if image.bbox.iou(text_box) >= _SAME_SHARE), "")
        if not text.strip():
            continue
        last = lines[-1] if lines else None
        if last is not None and _is_beside(last.bbox, image.bbox):
            lines[-1] = last._replace(bbox=last.bbox | image.bbox, text=last.text + _blank(last, image.bbox) + escape(text))
        else:
            block = last.block if last is not None and _is_under(last.bbox, image.bbox) else image.block
            size = round(_SIZE_SHARE * image.bbox.height, 2)
            lines.append(Line(page, block, image.bbox, escape(text), size, bold=False))
    return lines


def _is_beside(last: BBox, box: BBox) -> bool:
    """Return whether an image continues the row of the one before: the letters of one word may be two images."""
    return _has_same_height(last, box) and box.y0 == last.y0 and last.x0 < box.x0 <= last.x1 + last.height


def _is_under(last: BBox, box: BBox) -> bool:
    return _has_same_height(last, box) and abs(box.y0 - last.y1) <= _LEADING_SHARE * last.height


def _has_same_height(last: BBox, box: BBox) -> bool:
    return abs(box.height - last.height) <= _SAME_HEIGHT_SHARE * last.height


def _blank(last: Line, box: BBox) -> str:
    """Return the text between two images of a row: larger than their letters, they overlap, less so at a blank."""
    is_apart = last.bbox.x1 - box.x0 < _OVERHANG_SHARE * last.bbox.height
    return " " if is_apart and not last.text.endswith((" ", "-")) else ""
