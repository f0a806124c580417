"""The pictures of synthetic manuals: each function draws one into a box and returns the box around its ink."""

import io
import math
import random
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

from PIL import Image, ImageDraw

from schemas.documents import Kind
from schemas.geometry import BBox, union

if TYPE_CHECKING:
    import pymupdf

Art = Callable[["pymupdf.Page", BBox, random.Random], BBox]
Colour = tuple[float, float, float]
Point = tuple[float, float]

HEBREW = "hebrew"
"""The font for Hebrew letters; it has no others. MuPDF brings it along."""
_HEBREW_SCRIPT = 5

BLACK: Colour = (0.0, 0.0, 0.0)
_INKS: tuple[Colour, ...] = ((0.1, 0.3, 0.7), (0.8, 0.2, 0.1), (0.1, 0.5, 0.2), (0.5, 0.2, 0.6))
_TINTS: tuple[Colour, ...] = ((0.85, 0.92, 1.0), (1.0, 0.93, 0.8), (0.88, 0.97, 0.86), (0.95, 0.9, 0.98))
_NAMES = ("Pump", "Motor", "Valve", "Sensor", "Drive", "Relay", "Tank", "Filter", "Encoder", "Switch", "Brake", "Fan")


@cache
def _font(name: str) -> "pymupdf.Font":
    import pymupdf

    return pymupdf.Font(script=_HEBREW_SCRIPT, language="he") if name == HEBREW else pymupdf.Font(name)


def measured(text: str, font: str, size: float) -> float:
    """Return how wide a text runs; ``pymupdf.get_text_length`` is wrong about letters that aren't ASCII."""
    return float(_font(font).text_length(text, fontsize=size))


class Pen:
    """Draws on a page, and knows the box around all that it drew."""

    def __init__(self, page: "pymupdf.Page") -> None:
        self._page = page
        self._shape = page.new_shape()
        self._boxes: list[BBox] = []

    def lines(self, points: Sequence[Point], *, width: float = 0.8, ink: Colour = BLACK, dashes: str | None = None) -> None:
        """Draw straight lines from point to point."""
        self._shape.draw_polyline([tuple(point) for point in points])
        self._shape.finish(color=ink, width=width, dashes=dashes, closePath=False)
        self._note(points, width / 2)

    def shape(self, points: Sequence[Point], *, ink: Colour | None = BLACK, fill: Colour | None = None) -> None:
        """Draw a closed shape."""
        self._shape.draw_polyline([*points, points[0]])
        self._shape.finish(color=ink, fill=fill, width=0.8 if ink else 0, closePath=True)
        self._note(points, 0.4 if ink else 0)

    def box(self, box: BBox, *, ink: Colour | None = BLACK, fill: Colour | None = None, width: float = 0.8) -> None:
        """Draw a rectangle."""
        self._shape.draw_rect(tuple(box))
        self._shape.finish(color=ink, fill=fill, width=width if ink else 0)
        self._boxes.append(box.grown(width / 2 if ink else 0))

    def circle(self, centre: Point, radius: float, *, fill: Colour | None = None) -> None:
        """Draw a circle."""
        self._shape.draw_circle(centre, radius)
        self._shape.finish(color=BLACK, fill=fill, width=0.8)
        self._boxes.append(BBox(*centre, *centre).grown(radius + 0.4))

    def arrow(self, start: Point, end: Point, *, ink: Colour = BLACK) -> None:
        """Draw a line with a head at its end."""
        angle = math.atan2(end[1] - start[1], end[0] - start[0])
        wings = [(end[0] - 6 * math.cos(angle + turn), end[1] - 6 * math.sin(angle + turn)) for turn in (0.4, -0.4)]
        self.lines([start, end], ink=ink)
        self.shape([end, *wings], ink=ink, fill=ink)

    def text(self, at: Point, text: str, *, size: float = 8, font: str = "helv", centred: bool = False) -> None:
        """Write one line; ``at`` is the left end of its base line, or its middle."""
        length = measured(text, font, size)
        x = at[0] - length / 2 if centred else at[0]
        if font == HEBREW:
            self._page.insert_font(fontname=font, fontbuffer=_font(font).buffer)
        self._shape.insert_text((x, at[1]), text, fontsize=size, fontname=font)
        self._boxes.append(BBox(x, at[1] - 0.75 * size, x + length, at[1] + 0.2 * size))

    def done(self) -> BBox:
        """Put it on the page; return the box around its ink."""
        self._shape.commit()
        return union(self._boxes)

    def _note(self, points: Sequence[Point], margin: float) -> None:
        xs, ys = [x for x, _ in points], [y for _, y in points]
        self._boxes.append(BBox(min(xs), min(ys), max(xs), max(ys)).grown(margin))


# Pictures of pixels


def _png(image: Image.Image) -> bytes:
    sink = io.BytesIO()
    image.save(sink, "PNG")
    return sink.getvalue()


def _colour(pick: random.Random, low: int = 40, high: int = 220) -> tuple[int, int, int]:
    return pick.randint(low, high), pick.randint(low, high), pick.randint(low, high)


def _part(width: int, height: int, pick: random.Random) -> Image.Image:
    """Paint a machine part on a shaded background."""
    background = _colour(pick, 150, 230)
    image = Image.new("RGB", (width, height))
    brush = ImageDraw.Draw(image)
    for y in range(height):
        shade = 0.65 + 0.35 * y / height
        brush.line((0, y, width, y), fill=tuple(int(part * shade) for part in background))
    for _ in range(pick.randint(4, 7)):
        x, y = pick.randrange(width), pick.randrange(height)
        w, h = pick.randint(width // 8, width // 3), pick.randint(height // 8, height // 3)
        (brush.ellipse if pick.random() < 0.5 else brush.rectangle)(
            (x - w, y - h, x + w // 2, y + h // 2), fill=_colour(pick), outline=_colour(pick, 0, 60), width=2
        )
    for _ in range(width * height // 60):
        x, y = pick.randrange(width), pick.randrange(height)
        brush.point((x, y), fill=_colour(pick, 90, 200))
    return image


def _window(width: int, height: int, pick: random.Random) -> Image.Image:
    """Paint the window of a program: white background, title bar, buttons."""
    image = Image.new("RGB", (width, height), (252, 252, 252))
    brush = ImageDraw.Draw(image)
    brush.rectangle((0, 0, width - 1, height - 1), outline=(90, 90, 90))
    brush.rectangle((0, 0, width - 1, 16), fill=_colour(pick, 40, 120))
    for row in range(28, height - 12, 16):
        brush.rectangle((10, row, 10 + pick.randint(30, width // 3), row + 6), fill=(120, 120, 120))
        brush.rectangle(
            (width // 2, row - 2, width // 2 + pick.randint(30, width // 2 - 16), row + 8), outline=(60, 60, 60)
        )
    return image


def _sized(box: BBox) -> tuple[int, int]:
    return round(box.width * 1.2), round(box.height * 1.2)


def _place(page: "pymupdf.Page", box: BBox, image: Image.Image) -> BBox:
    page.insert_image(tuple(box), stream=_png(image), keep_proportion=False)
    return box


def photo(page: "pymupdf.Page", box: BBox, pick: random.Random) -> BBox:
    """One opaque image."""
    return _place(page, box, _part(*_sized(box), pick))


def screenshot(page: "pymupdf.Page", box: BBox, pick: random.Random) -> BBox:
    """One image, mostly white."""
    return _place(page, box, _window(*_sized(box), pick))


def masked(page: "pymupdf.Page", box: BBox, pick: random.Random) -> BBox:
    """One image with a soft mask: round, its edge fading out."""
    image = _part(*_sized(box), pick)
    mask = Image.new("L", image.size, 0)
    brush = ImageDraw.Draw(mask)
    for step in range(16):
        brush.ellipse((step, step, image.width - 1 - step, image.height - 1 - step), fill=(step + 1) * 255 // 16)
    image.putalpha(mask)
    return _place(page, box, image)


def strips(page: "pymupdf.Page", box: BBox, pick: random.Random) -> BBox:
    """One picture stored as horizontal strips."""
    return _cut(page, box, _part(*_sized(box), pick), 1, pick.randint(5, 10))


def tiles(page: "pymupdf.Page", box: BBox, pick: random.Random) -> BBox:
    """One picture stored as tiles."""
    return _cut(page, box, _part(*_sized(box), pick), pick.randint(2, 3), pick.randint(2, 3))


def _cut(page: "pymupdf.Page", box: BBox, image: Image.Image, across: int, down: int) -> BBox:
    xs = [image.width * step // across for step in range(across + 1)]
    ys = [image.height * step // down for step in range(down + 1)]
    for top, bottom in pairwise(ys):
        for left_x, right in pairwise(xs):
            piece_box = (
                box.x0 + box.width * left_x / image.width,
                box.y0 + box.height * top / image.height,
                box.x0 + box.width * right / image.width,
                box.y0 + box.height * bottom / image.height,
            )
            _place(page, BBox(*piece_box), image.crop((left_x, top, right, bottom)))
    return box


def inline(page: "pymupdf.Page", box: BBox, pick: random.Random) -> BBox:
    """One image that stands in the content of its page and has no object of its own."""
    import pymupdf

    image = _part(48, 32, pick)
    low = pymupdf.Point(box.x0, box.y1) * ~page.transformation_matrix
    content = (
        f"q {box.width:.2f} 0 0 {box.height:.2f} {low.x:.2f} {low.y:.2f} cm "
        f"BI /W {image.width} /H {image.height} /BPC 8 /CS /RGB /F /AHx ID {image.tobytes().hex()}> EI Q"
    )
    append(page, content.encode())
    return box


def append(page: "pymupdf.Page", content: bytes, *, before: bytes = b"") -> None:
    """Add to the content of a page, and put something before it."""
    document = page.parent
    xrefs = list(page.get_contents())
    for position, stream in ((0, before), (len(xrefs) + 1, content)):
        xref = document.get_new_xref()
        document.update_object(xref, "<<>>")
        document.update_stream(xref, b"\n" + stream + b"\n", new=True)
        xrefs.insert(position, xref)
    document.xref_set_key(page.xref, "Contents", f"[{' '.join(f'{xref} 0 R' for xref in xrefs)}]")


# Drawings


def plot(page: "pymupdf.Page", box: BBox, pick: random.Random) -> BBox:
    """Two axes with their names and ticks, and curves."""
    pen = Pen(page)
    left_x, bottom, right, top = box.x0 + 34, box.y1 - 26, box.x1 - 8, box.y0 + 14
    pen.arrow((left_x, bottom), (right, bottom))
    pen.arrow((left_x, bottom), (left_x, top - 6))
    for step in range(1, 5):
        x, y = left_x + step * (right - left_x) / 5, bottom - step * (bottom - top) / 5
        pen.lines([(x, bottom), (x, bottom + 3)])
        pen.lines([(left_x, y), (left_x - 3, y)])
        pen.text((x, bottom + 11), str(step * 20), size=7, centred=True)
        pen.text((left_x - 18, y + 2.5), str(step * 5), size=7)
    for ink in pick.sample(_INKS, pick.randint(1, 3)):
        phase, rise = pick.random() * 6, pick.random()
        curve = [
            (
                left_x + (right - left_x - 10) * step / 40,
                bottom - (bottom - top) * (0.45 + 0.3 * math.sin(phase + step / 7) * rise + 0.2 * step / 40),
            )
            for step in range(41)
        ]
        pen.lines(curve, ink=ink, width=1.2)
    pen.text(((left_x + right) / 2, box.y1 - 3), pick.choice(("Speed in rpm", "Time in s", "Load in N")), centred=True)
    pen.text((box.x0, box.y0 + 7), pick.choice(("Torque in Nm", "Pressure in bar", "Temperature")))
    return pen.done()


def bars(page: "pymupdf.Page", box: BBox, pick: random.Random) -> BBox:
    """A bar chart: nothing but rectangles, rules and words."""
    pen = Pen(page)
    left_x, bottom = box.x0 + 10, box.y1 - 14
    pen.lines([(left_x, box.y0), (left_x, bottom), (box.x1, bottom)])
    names = pick.sample(_NAMES, 5)
    step = (box.x1 - left_x) / len(names)
    for number, name in enumerate(names):
        x = left_x + step * number
        height = (bottom - box.y0) * pick.uniform(0.25, 0.95)
        pen.box(BBox(x + step * 0.2, bottom - height, x + step * 0.8, bottom), fill=pick.choice(_TINTS))
        pen.text((x + step / 2, box.y1 - 4), name, size=7, centred=True)
    return pen.done()


def diagram(page: "pymupdf.Page", box: BBox, pick: random.Random) -> BBox:
    """Named boxes in two rows, arrows between them."""
    pen = Pen(page)
    names = pick.sample(_NAMES, 6)
    wide, high = box.width / 3, box.height / 2
    for number, name in enumerate(names):
        column, row = number % 3, number // 3
        cell = BBox(
            box.x0 + column * wide + (0 if column == 0 else 10),
            box.y0 + row * high + (0 if row == 0 else 10),
            box.x0 + (column + 1) * wide - (0 if column == 2 else 10),
            box.y0 + (row + 1) * high - (0 if row == 1 else 10),
        )
        pen.box(cell, fill=pick.choice(_TINTS))
        pen.text(((cell.x0 + cell.x1) / 2, (cell.y0 + cell.y1) / 2 + 3), name, centred=True)
        if column < 2:
            pen.arrow((cell.x1, (cell.y0 + cell.y1) / 2), (cell.x1 + 20, (cell.y0 + cell.y1) / 2))
        if row == 0:
            pen.arrow(((cell.x0 + cell.x1) / 2, cell.y1), ((cell.x0 + cell.x1) / 2, cell.y1 + 20))
    return pen.done()


def flowchart(page: "pymupdf.Page", box: BBox, pick: random.Random) -> BBox:
    """A decision between two boxes, in the middle of the width."""
    pen = Pen(page)
    middle, high = (box.x0 + box.x1) / 2, box.height
    for top, bottom in ((0.0, 0.2), (0.8, 1.0)):
        cell = BBox(middle - 45, box.y0 + top * high, middle + 45, box.y0 + bottom * high)
        pen.box(cell)
        pen.text((middle, (cell.y0 + cell.y1) / 2 + 3), f"{pick.choice(_NAMES)} {pick.choice(('on', 'off'))}", centred=True)
    top, bottom = box.y0 + 0.32 * high, box.y0 + 0.68 * high
    pen.shape([(middle, top), (middle + 60, (top + bottom) / 2), (middle, bottom), (middle - 60, (top + bottom) / 2)])
    pen.text((middle, (top + bottom) / 2 + 3), f"{pick.choice(_NAMES)} hot?", centred=True)
    pen.arrow((middle, box.y0 + 0.2 * high), (middle, top))
    pen.arrow((middle, bottom), (middle, box.y0 + 0.8 * high))
    pen.text((middle + 5, bottom + 9), "no", size=7)
    return pen.done()


def circuit(page: "pymupdf.Page", box: BBox, pick: random.Random) -> BBox:
    """A loop with a source, resistors and a lamp."""
    pen = Pen(page)
    left_x, right, top, bottom = box.x0 + 14, box.x1 - 14, box.y0 + 14, box.y1 - 14
    third = (right - left_x) / 3
    for x, name in ((left_x + third / 2, "R1"), (left_x + 2 * third, "R2")):
        zigzag = [(x + 5 * step, top + (0 if step in (0, 6) else 5 * (-1) ** step)) for step in range(7)]
        pen.lines(zigzag)
        pen.text((x + 15, top - 7), name, size=7, centred=True)
    pen.lines([(left_x, (top + bottom) / 2 - 12), (left_x, top), (left_x + third / 2, top)])
    pen.lines([(left_x + third / 2 + 30, top), (left_x + 2 * third, top)])
    pen.lines([(left_x + 2 * third + 30, top), (right, top), (right, (top + bottom) / 2 - 12)])
    pen.lines([(right, (top + bottom) / 2 + 12), (right, bottom), (left_x, bottom), (left_x, (top + bottom) / 2 + 12)])
    for x in (left_x, right):
        pen.circle((x, (top + bottom) / 2), 12, fill=pick.choice(_TINTS))
    pen.text((left_x, (top + bottom) / 2 + 3), "V", centred=True)
    pen.text((right, (top + bottom) / 2 + 3), "M", centred=True)
    return pen.done()


# Both


def callouts(page: "pymupdf.Page", box: BBox, pick: random.Random) -> BBox:
    """An image with arrows drawn over it and names beside it."""
    picture = BBox(box.x0, box.y0, box.x1 - 50, box.y1)
    photo(page, picture, pick)
    pen = Pen(page)
    for number, name in enumerate(pick.sample(_NAMES, 3)):
        y = box.y0 + box.height * (number + 0.5) / 3
        pen.arrow((picture.x1 + 8, y), (picture.x0 + picture.width * pick.uniform(0.4, 0.8), y + pick.uniform(-10, 10)))
        pen.text((picture.x1 + 11, y + 3), name)
    return picture | pen.done()


def pair(page: "pymupdf.Page", box: BBox, pick: random.Random) -> BBox:
    """Two pictures side by side, (a) and (b)."""
    width = (box.width - 14) / 2
    pen = Pen(page)
    for name, left_x in (("(a)", box.x0), ("(b)", box.x1 - width)):
        photo(page, BBox(left_x, box.y0, left_x + width, box.y1 - 12), pick)
        pen.text((left_x + width / 2, box.y1 - 2), name, centred=True)
    return BBox(*box[:3], box.y1 - 12) | pen.done()


ARTS: dict[str, tuple[Art, Kind]] = {
    "photo": (photo, Kind.RASTER),
    "screenshot": (screenshot, Kind.RASTER),
    "masked": (masked, Kind.RASTER),
    "strips": (strips, Kind.COMPOSITE),
    "tiles": (tiles, Kind.COMPOSITE),
    "inline": (inline, Kind.RASTER),
    "plot": (plot, Kind.VECTOR),
    "bars": (bars, Kind.VECTOR),
    "diagram": (diagram, Kind.VECTOR),
    "flowchart": (flowchart, Kind.VECTOR),
    "circuit": (circuit, Kind.VECTOR),
    "callouts": (callouts, Kind.COMPOSITE),
    "pair": (pair, Kind.COMPOSITE),
}


def symbol(page: "pymupdf.Page", box: BBox, pick: random.Random) -> BBox:
    """A small square button, as it stands in a line of text."""
    image = Image.new("RGB", (24, 24), _colour(pick, 200, 240))
    brush = ImageDraw.Draw(image)
    brush.rectangle((0, 0, 23, 23), outline=(40, 40, 40), width=2)
    brush.polygon([(pick.randint(4, 19), pick.randint(4, 19)) for _ in range(4)], fill=_colour(pick, 0, 160))
    return _place(page, box, image)


def logo(page: "pymupdf.Page", box: BBox, pick: random.Random) -> BBox:
    """The maker's mark, the same on every page."""
    image = Image.new("RGB", (120, 36), (250, 250, 250))
    brush = ImageDraw.Draw(image)
    for left_x in (4, 40, 76):
        brush.ellipse((left_x, 4, left_x + 28, 32), fill=_colour(pick, 20, 180))
    return _place(page, box, image)


def watermark(page: "pymupdf.Page", box: BBox, pick: random.Random) -> BBox:
    """A pale picture as large as the page."""
    image = Image.new("RGB", (200, 280))
    brush = ImageDraw.Draw(image)
    for y in range(280):
        brush.line((0, y, 200, y), fill=(225 + y // 14, 235 + y // 20, 250))
    brush.ellipse((30, 60, 170, 200), outline=_colour(pick, 205, 225), width=14)
    return _place(page, box, image)
