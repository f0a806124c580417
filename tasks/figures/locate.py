"""Find the pictures of a page: images, strips of images, drawings, and drawings over images.

By geometry only; no pixels are read. Points, top left origin, rotation 0. For the order of the search see docs/decisions/0006.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from schemas.documents import Kind, LayoutLabel, Line, lines_in
from schemas.drawings import EDGE_SHARE, PAGE_SHARE, RULE_PT, Image, Mark, Ruling
from schemas.geometry import BBox, is_level, overlap, union
from tasks.figures.anchor import anchor, whole_caption
from tasks.figures.backgrounds import (
    MOST_PARAGRAPH_LINES,
    is_heading_background,
    is_note_background,
    without_bleed,
    without_paragraphs,
)
from tasks.figures.overlays import JOIN_PT, join_marks, join_overlays, join_panels, merge_overlapping, one_picture
from tasks.figures.parts import (
    CHART_GAP_PT,
    LABEL_GAP_PT,
    SYMBOL_PT,
    TOUCH_PT,
    PageText,
    Part,
    PictureRegion,
    clusters,
    mostly_within,
    near,
)
from tasks.figures.ruled_tables import has_bars, is_table, join_bars, ruled_table

LEAST_CLIP_PT = 25.0
"""Minimum side of a clip of a graphic. Of 2,191 pages 4 change at 16.8 (icons of a menu join), 59 at 37.5 (symbols of warnings
fall into pieces).
"""
FEWEST_MARKS = 4
"""Minimum rules and shapes of a graphic without a curve or slanted line."""
PRINT_AREA_SHARE = 0.9
"""Minimum share of the page's lines inside its print area, if it is smaller than this share of the page:"""
BACKDROP_SHARE = 0.9
"""Share of a clip from which on an image in it is its background."""
PRINT_PAGE_SHARE = 0.5
"""Minimum share of the page that a print area has on a page with few lines."""

LEAST_IMAGES_SHARE = 0.02
"""Minimum share of a clip that images have if it holds nothing else but text. Two logos in a clip around a page have 0.003.
Of 285 pages of nine PDFs none changes.
"""

INLINE_LENGTH_PT = 4 * SYMBOL_PT
"""Maximum longer side of an image in a line of text. Of 2,191 pages 7 change at 69.7 (buttons in a sentence become pictures), 7
at 156 (search bars become icons).
"""
INLINE_GAP_EM = 1.5
"""Maximum gap between an image and the text of its line."""

LEAST_SIDE_PT = 20.0
"""Minimum side of a drawing without a caption. Of 2,191 pages 43 change at 13.4 (ornaments become pictures), 42 at 30 (symbols
of warnings are lost).
"""
MOST_PARAGRAPHS = 1
"""Maximum lines of paragraphs in a drawing. Of 2,191 pages 5 change at 0 (a chart with its source is lost), 5 at 2 (a map
includes the list beside it).
"""
FEWEST_STROKES = 4
"""Minimum curves and slanted lines of a picture."""
SAME_CENTRE_PT, SAME_SIZE, FEWEST_ALIKE = 4.0, 1.8, 2
"""Maximum distance of the centres of symbols in a column, maximum ratio of their sides, and minimum symbols that are pictures."""
FEWEST_FILLED = 8
"""Minimum filled shapes of a picture without strokes."""

LOGO_SHARE = 0.05
"""Maximum share of the page's height that a logo has."""

LABELLED_SHARE = 0.8
"""Minimum share of the letters over rules and boxes that a layout model gives to a table, a list or a heading."""
_OF_LAYOUT = frozenset(
    {LayoutLabel.TABLE, LayoutLabel.ITEM, LayoutLabel.HEADING, LayoutLabel.TITLE, LayoutLabel.HEAD, LayoutLabel.FOOT}
)


@dataclass(frozen=True, slots=True)
class Placed:
    """Placed graphics, and the page's other pictures and marks."""

    parts: list[Part]
    pictures: list[PictureRegion]
    marks: list[Mark]


def placed_graphics(
    page: BBox, frames: Sequence[BBox], marks: Sequence[Mark], pictures: Sequence[PictureRegion], text: PageText
) -> Placed:
    """Join everything drawn inside one clip, the largest clips first.

    A clip around one image is that image; one with a caption, or with only boxes and text, is a piece of the page's
    layout. The pictures in a text box are joined without its rules.
    """
    parts: list[Part] = []
    used_frames: set[BBox] = set()
    free = list(pictures)
    inked: dict[BBox, list[Mark]] = {}
    for mark in marks:
        if mark.frame is not None and not mark.white:
            inked.setdefault(mark.frame, []).append(mark)
    for frame in sorted(frames, key=lambda frame: -frame.area):
        if min(frame.width, frame.height) < LEAST_CLIP_PT:
            continue
        inner = [region for region in free if mostly_within(region.bbox, frame)]
        part = _graphic(frame, inked.get(frame, []), inner, page, text)
        if part is None:
            continue
        parts.append(part)
        free = [region for region in free if region not in inner]
        used_frames.add(frame)
    return Placed(parts, free, [mark for mark in marks if mark.frame not in used_frames])


def _graphic(frame: BBox, inked: Sequence[Mark], inner: Sequence[PictureRegion], page: BBox, text: PageText) -> Part | None:
    """Return everything drawn inside a clip as one part; None if it is a piece of the layout, or one image."""
    if not inked and (len(inner) < 2 or sum(region.bbox.area for region in inner) < LEAST_IMAGES_SHARE * frame.area):
        return None
    texts = [line.bbox & frame for line in lines_in(frame, text.lines)]
    has_backdrop = any(region.bbox.area >= BACKDROP_SHARE * frame.area for region in inner)
    if not text.captions and not has_backdrop and _is_print_area(frame, page, inked, len(texts), text):
        return None
    if not text.captions and _is_table_of_pictures(inked, [region.bbox for region in inner], text):
        return None
    boxes = [*(mark.bbox for mark in inked), *(region.bbox & frame for region in inner), *texts]
    part = Part(union(boxes), tuple(inked), tuple(inner), framed=True)
    drawn = part.strokes or len(inner) > 1 or part.shapes + part.rules >= FEWEST_MARKS
    return part if drawn else None


def _is_print_area(frame: BBox, page: BBox, marks: Sequence[Mark], inner_lines: int, text: PageText) -> bool:
    """Return whether a clip is that of the page's whole text, as of a browser that prints: its text isn't a drawing's."""
    has_all = 0 < inner_lines >= PRINT_AREA_SHARE * len(text.lines)
    thick = [mark for mark in marks if min(mark.bbox.width, mark.bbox.height) > RULE_PT]
    if has_all and marks and not any(mark.strokes for mark in thick):
        return True  # only rules and boxes, as those of tables: a diagram has slanted lines or curves
    return (has_all or frame.area >= PRINT_PAGE_SHARE * page.area) and bool(lines_in(frame, text.body))


def _is_table_of_pictures(marks: Sequence[Mark], pictures: Sequence[BBox], text: PageText) -> bool:
    """Return whether a clip has the grid of a table with words, and pictures that cross none of its rules."""
    rules = [mark.bbox for mark in marks if mark.is_rule]
    if not rules or not pictures or any(overlap(rule, box.grown(-TOUCH_PT)) for rule in rules for box in pictures):
        return False
    return is_table(Part(union(rules), tuple(marks)), text.lines, pictures)


def join_images(images: Sequence[Image], rules: Sequence[BBox]) -> list[PictureRegion]:
    """Return the pictures that a page's images make: strips and tiles that touch along a whole side, without a rule, are one."""
    parts = [Part(image.bbox, images=(PictureRegion(image.bbox, Kind.RASTER, image),)) for image in images]
    # Rows are joined once they are complete: before, their sides differ from those of the row above.
    for _ in ("tiles", "rows"):
        parts = [
            Part(union(part.bbox for part in group), images=tuple(image for part in group for image in part.images))
            for group in clusters(parts, lambda first, second: _share_side(first.bbox, second.bbox, rules))
        ]
    return [part.images[0] if len(part.images) == 1 else PictureRegion(part.bbox, Kind.COMPOSITE) for part in parts]


def _share_side(a: BBox, b: BBox, rules: Sequence[BBox]) -> bool:
    stacked = near(a.x0, b.x0) and near(a.x1, b.x1) and abs(a.gap_y(b)) <= TOUCH_PT
    beside = near(a.y0, b.y0) and near(a.y1, b.y1) and abs(a.gap_x(b)) <= TOUCH_PT
    if not (stacked or beside):
        return False
    joined_box = (a | b).grown(TOUCH_PT)
    # A rule of a table goes past their corners.
    return not any(
        (rule.width > joined_box.width if stacked else rule.height > joined_box.height)
        and overlap(rule, a.grown(TOUCH_PT))
        and overlap(rule, b.grown(TOUCH_PT))
        for rule in rules
    )


def mark_inline(region: PictureRegion, lines: Sequence[Line]) -> PictureRegion:
    """Return an image marked as inline if it is small and in a line of text."""
    box = region.bbox
    if region.image is None or min(box.width, box.height) > SYMBOL_PT or max(box.width, box.height) > INLINE_LENGTH_PT:
        return region
    for line in lines:
        beside = box.gap_x(line.bbox) <= INLINE_GAP_EM * line.size
        if beside and is_level(box, line.bbox):
            return replace(region, inline=True)
    return region


def uncaptioned_pictures(parts: Sequence[Part], page: BBox, frames: Sequence[BBox], text: PageText) -> list[PictureRegion]:
    """Return the pictures among drawings without a caption, with their labels."""
    pictures = [part for part in parts if _is_picture(part, text)]
    pictures += [part for part in parts if part not in pictures and _is_of_column(part, pictures)]
    groups = join_panels(pictures, page, frames, text.body)
    return [_picture(group, text) for group in groups]


def _picture(panels: Sequence[Part], text: PageText) -> PictureRegion:
    figure = one_picture(panels, text.lines)
    labelled_figure = with_labels(figure, text.labels, has_bars=any(has_bars(part, text.lines) for part in panels))
    return replace(labelled_figure, background=is_heading_background(panels, text.lines))


def _is_picture(part: Part, text: PageText) -> bool:
    """Return whether a drawing without caption is a picture, not a rule, a box around text, or decoration."""
    if part.images and not part.framed:
        return True
    if min(part.bbox.width, part.bbox.height) < LEAST_SIDE_PT:
        return False
    inner = lines_in(part.bbox, text.lines)
    paragraphs = sum(line in text.running for line in inner)
    if part.framed:
        return paragraphs <= MOST_PARAGRAPH_LINES
    if paragraphs > MOST_PARAGRAPHS:
        return False
    filled = sum(mark.filled and not mark.is_rule for mark in part.marks)
    return part.strokes >= FEWEST_STROKES or filled >= FEWEST_FILLED or has_bars(part, text.lines)


def _is_of_column(part: Part, pictures: Sequence[Part]) -> bool:
    """Return whether a drawing stands in a column of pictures of its size, as the symbols of a page of meanings do."""
    alike = [
        picture
        for picture in pictures
        # Both sides of a box add up to twice its centre, hence twice the tolerance.
        if abs(sum(picture.bbox[::2]) - sum(part.bbox[::2])) <= 2 * SAME_CENTRE_PT
        and 1 / SAME_SIZE <= max(part.bbox.height, 1.0) / picture.bbox.height <= SAME_SIZE
    ]
    return len(alike) >= FEWEST_ALIKE


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


@dataclass(frozen=True, slots=True)
class Located:
    """The pictures found on a page, in no particular order, and the rules of its tables."""

    regions: tuple[PictureRegion, ...]
    tables: tuple[Ruling, ...]


def locate(
    page: BBox, images: Sequence[Image], marks: Sequence[Mark], frames: Sequence[BBox], lines: Sequence[Line]
) -> Located:
    """Find the pictures of a page, given its visible lines. ``frames`` are clips smaller than the page, often placed graphics."""
    if not (images or marks):
        return Located((), ())
    text = PageText.of(lines)
    joined_images = join_images(images, [mark.bbox for mark in marks if mark.is_rule])
    covering = PAGE_SHARE * page.area
    scans = [replace(region, kind=Kind.SCAN) for region in joined_images if region.bbox.area >= covering]
    pictures = [mark_inline(region, lines) for region in joined_images if region.bbox.area < covering]
    # A mark as large as the page is its background, and would join all others to one drawing.
    paths = [mark for mark in marks if mark.bbox.area < PAGE_SHARE * page.area]
    # Placed graphics come first, since their edges are known; tables precede captions, so that no figure takes in rules.
    placed = placed_graphics(page, frames, paths, pictures, text)
    drawings, tables = _drawings_and_tables(page, placed, text)
    laid = join_overlays(placed.pictures, drawings)
    parts = [*placed.parts, *(part for part in laid if not part.is_inline_image)]
    if not images and not any(part.is_visible for part in parts):
        return Located((), tables)
    # Captions come before the rules on appearance: what a caption belongs to is a figure whatever it looks like.
    groups = captioned_parts(parts, placed.parts, text, page)
    captioned = [
        replace(with_labels(one_picture(without_stray_rules(group), text.lines), text.labels), captioned=True)
        for group in groups
    ]
    loose_parts = [
        part for part in parts if not any(part in group for group in groups) and not _is_behind_text(part, lines)
    ]
    inside = (kept_part for part in loose_parts for kept_part in without_bleed(part, page, joined_images))
    free = [kept_part for part in inside for kept_part in without_paragraphs(part, text)]
    # Pictures in the cells of a table aren't panels of one.
    text_boxes = [frame for frame in frames if not any(frame.grown(TOUCH_PT).contains(table.bbox) for table in tables)]
    uncaptioned = uncaptioned_pictures(free, page, text_boxes, text)
    # Icons in a line of text were left out above, so that no caption or panel takes them.
    inline = [region for part in laid for region in part.images if region.inline and not part.marks]
    return Located((*scans, *merge_overlapping([*captioned, *uncaptioned, *inline])), tables)


def _drawings_and_tables(page: BBox, placed: Placed, text: PageText) -> tuple[list[Part], tuple[Ruling, ...]]:
    """Return the drawings outside placed graphics, and the rules of the tables among them."""
    joined = join_marks(page, placed.marks, text.body)
    visible_parts = [
        part for part in join_bars(joined, text.lines) if not is_note_background(part, text.lines, placed.pictures)
    ]
    tables = [ruled_table(part, text.lines, [region.bbox for region in placed.pictures]) for part in visible_parts]
    drawings = [part for part, table in zip(visible_parts, tables, strict=True) if table is None]
    return drawings, tuple(table for table in tables if table is not None)


def _is_behind_text(part: Part, lines: Sequence[Line]) -> bool:
    """Return whether rules and boxes without a curve are behind what a layout model calls text or a table."""
    inner = lines_in(part.bbox, lines)
    labelled = sum(len(line.text) for line in inner if line.label in _OF_LAYOUT)
    return not part.strokes and not part.images and 0 < labelled >= LABELLED_SHARE * sum(len(line.text) for line in inner)


OVERHANG_PT = 60.0
"""How far a label may extend beyond the side of a drawing. Of 2,191 pages 5 change at 40.2 (pin names are cut off), 3 at 90
(notes beside a board are included).
"""
BAR_NAME_SHARE = 0.5
"""How far the name of a bar may extend beyond the side of its chart, relative to its width."""
MOST_GROWTH = 1.8
"""Maximum ratio of a drawing's area with and without its labels. Of 2,191 pages 108 change at 1.21 (charts lose the names of
their axes), 14 at 2.7 (diagrams include the text beside them).
"""


def with_labels(region: PictureRegion, labels: Sequence[BBox], *, has_bars: bool = False) -> PictureRegion:
    """Extend a drawing by the short texts at its edge, and by those at theirs.

    Args:
        region: The drawing; an image and a placed graphic have known edges and are returned unchanged.
        labels: Lines of the page that may be labels.
        has_bars: It is a bar chart: the names of bars are further away, and may be longer.
    """
    if region.image is not None or region.framed:
        return region
    across = CHART_GAP_PT if has_bars else LABEL_GAP_PT
    overhang = max(OVERHANG_PT, BAR_NAME_SHARE * region.bbox.width if has_bars else 0.0)
    box = drawing = region.bbox
    while True:
        # A label may bring further labels near. The overhang is measured from the drawing alone: from the grown box,
        # it would have no limit.
        around = BBox(box.x0 - across, box.y0 - LABEL_GAP_PT, box.x1 + across, box.y1 + LABEL_GAP_PT)
        close = (label for label in labels if overlap(label, around) and not box.contains(label))
        reaching = (label for label in close if max(label.x1 - drawing.x1, drawing.x0 - label.x0) <= overhang)
        larger = union([box, *reaching])
        if larger == box or larger.area > MOST_GROWTH * drawing.area:
            return replace(region, bbox=box)
        box = larger
