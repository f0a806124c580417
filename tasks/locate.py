"""Find what a reader sees as one picture: images, strips of images, drawings, and drawings over images.

Geometry alone; no pixels are read. Points, top left origin, rotation 0.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from schemas.documents import Kind, Line
from schemas.geometry import BBox, union
from schemas.labels import LabelKind, caption_label

PAGE_SHARE = 0.85
"""Share of a page from which an image is the page itself: a scan, or a background."""

_TOUCH_PT = 1.5
_GLUE_PT = 6.0
_CELL_PT = 4.0
_CAPTION_GAP_PT = 72.0
_PART_GAP_PT = 36.0
_LABEL_GAP_PT = 8.0
_RULE_PT = 2.5
_SMALLEST_PT = 25.0
_BODY_CHARACTERS = 45


@dataclass(frozen=True, slots=True)
class Image:
    """An image as it is drawn; ``upright`` where its pixels stand as stored, neither turned nor mirrored."""

    bbox: BBox
    digest: str
    width: int
    height: int
    upright: bool


@dataclass(frozen=True, slots=True)
class Path:
    """A drawn path. ``strokes`` counts its lines and curves that are neither horizontal nor vertical."""

    bbox: BBox
    strokes: int
    parts: int
    white: bool

    @property
    def is_rule(self) -> bool:
        """A straight horizontal or vertical line, however thick it was drawn."""
        return min(self.bbox.width, self.bbox.height) <= _RULE_PT and not self.strokes and self.parts == 1


@dataclass(frozen=True, slots=True)
class Region:
    """A picture on the page. ``image`` is set where it is exactly one image."""

    bbox: BBox
    kind: Kind
    image: Image | None = None
    captioned: bool = False


@dataclass(frozen=True, slots=True)
class Located:
    """What was found on a page: pictures in no particular order, and where rules promise a table."""

    regions: tuple[Region, ...]
    tables: tuple[BBox, ...]


@dataclass(frozen=True, slots=True)
class _Cluster:
    bbox: BBox
    paths: tuple[Path, ...]

    @property
    def strokes(self) -> int:
        return sum(path.strokes for path in self.paths)

    @property
    def shapes(self) -> int:
        return sum(path.parts for path in self.paths if not path.is_rule)

    @property
    def rules(self) -> int:
        return sum(path.is_rule for path in self.paths)


def locate(page: BBox, images: Sequence[Image], paths: Sequence[Path], lines: Sequence[Line]) -> Located:
    """Find the pictures of a page.

    Args:
        page: The page as drawn.
        images: Everything that the page draws as an image, cut to the page.
        paths: Everything that it draws as a path.
        lines: Its lines of text.
    """
    whole = [image for image in images if image.bbox.area >= PAGE_SHARE * page.area]
    pictures = _pieced_together([image for image in images if image not in whole])
    seen = [path for path in paths if path.bbox.area < PAGE_SHARE * page.area and (path.bbox & page.grown(1)).width >= 0]
    clusters = _clusters(page, seen)
    pictures, clusters = _overlaid(pictures, clusters, lines)
    captions = [line for line in lines if (label := caption_label(line.text)) and label.kind is LabelKind.FIGURE]
    labelled = [line for line in lines if (label := caption_label(line.text)) and label.kind is LabelKind.TABLE]
    tables = [cluster.bbox for cluster in clusters if _is_grid(cluster, lines)]
    drawn = [cluster for cluster in clusters if cluster.bbox not in tables]
    anchored, drawn = _anchored(captions, drawn, pictures, lines)
    free = [Region(cluster.bbox, Kind.VECTOR) for cluster in drawn if _is_drawing(cluster, lines, labelled)]
    vectors = _joined([_with_labels(region, lines) for region in (*anchored, *free)])
    scans = [Region(image.bbox, Kind.SCAN, image) for image in whole]
    return Located((*scans, *pictures, *vectors), tuple(tables))


def is_body(line: Line) -> bool:
    """Say whether a line is as long as running text; labels in drawings are shorter."""
    return len(line.text) >= _BODY_CHARACTERS


def _pieced_together(images: Sequence[Image]) -> list[Region]:
    """Join strips and tiles that touch and share a side into the picture that they make."""
    groups: list[list[Image]] = []
    for image in sorted(images, key=lambda image: (image.bbox.y0, image.bbox.x0)):
        touching = [group for group in groups if any(_continues(image.bbox, other.bbox) for other in group)]
        merged = [image, *(member for group in touching for member in group)]
        groups = [group for group in groups if group not in touching] + [merged]
    return [
        Region(group[0].bbox, Kind.RASTER, group[0])
        if len(group) == 1
        else Region(union(member.bbox for member in group), Kind.COMPOSITE)
        for group in groups
    ]


def _continues(one: BBox, other: BBox) -> bool:
    stacked = _near(one.x0, other.x0) and _near(one.x1, other.x1) and _gap(one.y0, one.y1, other.y0, other.y1) <= _TOUCH_PT
    beside = _near(one.y0, other.y0) and _near(one.y1, other.y1) and _gap(one.x0, one.x1, other.x0, other.x1) <= _TOUCH_PT
    same = one == other
    return (stacked or beside) and not same


def _near(one: float, other: float) -> bool:
    return abs(one - other) <= _TOUCH_PT


def _gap(start: float, end: float, other_start: float, other_end: float) -> float:
    """Return the distance between two intervals; negative where they overlap."""
    return max(start, other_start) - min(end, other_end)


def _clusters(page: BBox, paths: Sequence[Path]) -> list[_Cluster]:
    """Group paths that lie within a few points of each other, on a grid of cells: linear in the number of paths."""
    owner: dict[tuple[int, int], int] = {}
    parent = list(range(len(paths)))

    def find(item: int) -> int:
        while parent[item] != item:
            parent[item] = parent[parent[item]]
            item = parent[item]
        return item

    for number, path in enumerate(paths):
        box = path.bbox.grown(_GLUE_PT / 2) & page.grown(_GLUE_PT)
        for cell in _cells(box, path):
            other = owner.setdefault(cell, number)
            parent[find(number)] = find(other)
    groups: dict[int, list[Path]] = {}
    for number, path in enumerate(paths):
        groups.setdefault(find(number), []).append(path)
    return [_Cluster(union(path.bbox for path in group), tuple(group)) for group in groups.values()]


def _cells(box: BBox, path: Path) -> Iterable[tuple[int, int]]:
    """Yield the grid cells that a path lies on: all of its box, or only the border of a large empty one."""
    left, right = int(box.x0 // _CELL_PT), int(box.x1 // _CELL_PT)
    top, bottom = int(box.y0 // _CELL_PT), int(box.y1 // _CELL_PT)
    for row in range(top, bottom + 1):
        for column in range(left, right + 1):
            yield column, row


def _overlaid(
    pictures: Sequence[Region], clusters: Sequence[_Cluster], lines: Sequence[Line]
) -> tuple[list[Region], list[_Cluster]]:
    """Join images with the arrows and labels drawn over them; a mere frame around an image is left out."""
    joined: list[Region] = []
    free = list(clusters)
    for picture in pictures:
        over = [
            cluster
            for cluster in free
            if (cluster.bbox & picture.bbox).area > 0.5 * min(cluster.bbox.area, picture.bbox.area)
        ]
        over += [
            cluster
            for cluster in free
            if cluster not in over and cluster.bbox.area == 0 and _inside(cluster.bbox, picture.bbox.grown(_TOUCH_PT))
        ]
        free = [cluster for cluster in free if cluster not in over]
        marks = [path for cluster in over for path in cluster.paths if not _frames(path, picture.bbox)]
        box = union([picture.bbox, *(path.bbox for path in marks)])
        if marks and box.area <= 2.5 * picture.bbox.area:
            joined.append(Region(box, Kind.COMPOSITE))
        elif any(_inside(line.bbox, picture.bbox) for line in lines):
            joined.append(replace(picture, kind=Kind.COMPOSITE, image=None))
        else:
            joined.append(picture)
    return joined, free


def _frames(path: Path, box: BBox) -> bool:
    """Say whether a path is a border, a shadow or a ground of an image and shows nothing itself."""
    around = path.bbox.width >= 0.9 * box.width and path.bbox.height >= 0.9 * box.height
    edge = path.is_rule and not _inside(path.bbox, box.grown(-3))
    return (around or edge) and not path.strokes


def _inside(inner: BBox, outer: BBox) -> bool:
    return inner.x0 >= outer.x0 and inner.y0 >= outer.y0 and inner.x1 <= outer.x1 and inner.y1 <= outer.y1


def _is_grid(cluster: _Cluster, lines: Sequence[Line]) -> bool:
    """Say whether a cluster is the rules and shaded cells of a table."""
    across = sum(path.bbox.width > path.bbox.height for path in cluster.paths if path.is_rule)
    down = cluster.rules - across
    plain = cluster.strokes == 0
    words = sum(_inside(line.bbox, cluster.bbox.grown(2)) for line in lines)
    return plain and words >= 4 and ((across >= 3 and down >= 2) or (cluster.shapes >= 6 and cluster.rules >= 4))


def _is_drawing(cluster: _Cluster, lines: Sequence[Line], table_labels: Sequence[Line]) -> bool:
    """Say whether an uncaptioned cluster is a picture and not a rule, a box round text, or decoration."""
    box = cluster.bbox
    if box.width < _SMALLEST_PT or box.height < _SMALLEST_PT:
        return False
    if any(_overlaps_across(line.bbox, box) and abs(box.y0 - line.bbox.y1) < 20 for line in table_labels):
        return False
    inner = [line for line in lines if _inside(line.bbox, box.grown(2))]
    if sum(map(is_body, inner)) > 1 or sum(len(line.text) for line in inner) > box.area / 25:
        return False
    coloured = sum(path.parts for path in cluster.paths if not path.is_rule and not path.white)
    return cluster.strokes >= 4 or coloured >= 8 or (coloured >= 3 and len(inner) >= 2 and cluster.rules >= 2)


def _anchored(
    captions: Sequence[Line], clusters: Sequence[_Cluster], pictures: Sequence[Region], lines: Sequence[Line]
) -> tuple[list[Region], list[_Cluster]]:
    """Give each caption that has no image the drawings that stand over it, or under it."""
    regions: list[Region] = []
    free = list(clusters)
    for caption in sorted(captions, key=lambda line: line.bbox.y0):
        if any(_belongs(picture.bbox, caption.bbox) for picture in pictures):
            continue
        for above in (True, False):
            taken = _stack(caption.bbox, free, lines, above=above)
            if taken and sum(cluster.shapes + cluster.strokes for cluster in taken) >= 2:
                free = [cluster for cluster in free if cluster not in taken]
                regions.append(Region(union(cluster.bbox for cluster in taken), Kind.VECTOR, captioned=True))
                break
    return regions, free


def _belongs(picture: BBox, caption: BBox) -> bool:
    gap = _gap(picture.y0, picture.y1, caption.y0, caption.y1)
    return gap <= _PART_GAP_PT and _overlaps_across(picture, caption)


def _overlaps_across(one: BBox, other: BBox) -> bool:
    return _gap(one.x0, one.x1, other.x0, other.x1) < 0


def _stack(caption: BBox, clusters: Sequence[_Cluster], lines: Sequence[Line], *, above: bool) -> list[_Cluster]:
    """Collect drawings from the caption outwards, until running text or too large a gap ends the figure."""
    taken: list[_Cluster] = []
    edge = caption.y0 if above else caption.y1
    column = caption
    todo = [cluster for cluster in clusters if (cluster.bbox.y1 <= edge + 4 if above else cluster.bbox.y0 >= edge - 4)]
    while todo:
        nearest = min(todo, key=lambda cluster: edge - cluster.bbox.y1 if above else cluster.bbox.y0 - edge)
        todo.remove(nearest)
        box = nearest.bbox
        if not _overlaps_across(box, column):
            continue
        gap = edge - box.y1 if above else box.y0 - edge
        top, bottom = (box.y1, edge) if above else (edge, box.y0)
        between = BBox(max(box.x0, column.x0), top, min(box.x1, column.x1), bottom)
        text = any(is_body(line) and _meets(line.bbox, between) for line in lines)
        if text or gap > (_PART_GAP_PT if taken else _CAPTION_GAP_PT):
            break
        if nearest.rules == len(nearest.paths) and box.height <= _RULE_PT and not taken:
            continue  # a rule between text and caption
        taken.append(nearest)
        edge = min(edge, box.y0) if above else max(edge, box.y1)
        column = column | box
    return taken


def _meets(one: BBox, other: BBox) -> bool:
    return _gap(one.x0, one.x1, other.x0, other.x1) < 0 and _gap(one.y0, one.y1, other.y0, other.y1) < -1


def _with_labels(region: Region, lines: Sequence[Line]) -> Region:
    """Grow a drawing by the short texts at its edge: axis labels, names of boxes."""
    box = region.bbox
    grew = True
    while grew:
        near = box.grown(_LABEL_GAP_PT)
        labels = [
            line.bbox
            for line in lines
            if not is_body(line)
            and not caption_label(line.text)
            and _meets(line.bbox, near)
            and not _inside(line.bbox, box)
        ]
        larger = union([box, *(label for label in labels if _mostly_beside(label, box))])
        grew = larger != box and larger.area <= 1.6 * region.bbox.area
        box = larger if grew else box
    return replace(region, bbox=box)


def _mostly_beside(label: BBox, box: BBox) -> bool:
    wider = max(0.0, label.x1 - box.x1, box.x0 - label.x0)
    return wider <= max(40.0, 0.25 * box.width)


def _joined(regions: Sequence[Region]) -> list[Region]:
    """Join drawings that overlap: pieces of one picture, or one inside another."""
    joined: list[Region] = []
    for region in sorted(regions, key=lambda region: -region.bbox.area):
        for place, other in enumerate(joined):
            if (region.bbox & other.bbox).area > 0.3 * region.bbox.area and not (region.captioned and other.captioned):
                joined[place] = replace(other, bbox=other.bbox | region.bbox, captioned=other.captioned or region.captioned)
                break
        else:
            joined.append(region)
    return joined
