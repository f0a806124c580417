"""Parsing PDFs: what is found on a page, its position and its role."""

import io
from collections.abc import Callable, Sequence

import pymupdf
import pytest
from PIL import Image as Pillow

from backends.pdf.document import open_document
from pipeline.records.ledger import document_counts
from schemas.corpus import ParseOptions
from schemas.documents import TAGGED, Kind, ParsedDocument, Placement, Role
from schemas.errors import BadInputError, Failure, FailureCode
from schemas.geometry import BBox
from schemas.tags import TagTemplate, placeholders, restore
from schemas.versions import LedgerRow, Status
from tasks.figures.render import RENDER_DPI
from tasks.reading.parse import parse
from tests.manuals import picture, sentence

RED, GREEN, BLUE, YELLOW = (220, 0, 0), (0, 160, 0), (0, 0, 220), (240, 220, 0)
WHITE = (255, 255, 255)
BOX = (150, 200, 350, 300)
OPTIONS = ParseOptions(layout="never")

Colour = tuple[int, int, int]


def _png(image: Pillow.Image) -> bytes:
    sink = io.BytesIO()
    image.save(sink, "PNG")
    return sink.getvalue()


def _quarters(width: int = 80, height: int = 40) -> Pillow.Image:
    """Red and green on top, blue and yellow below: shows how it was turned."""
    image = Pillow.new("RGB", (width, height), RED)
    image.paste(GREEN, (width // 2, 0, width, height // 2))
    image.paste(BLUE, (0, height // 2, width // 2, height))
    image.paste(YELLOW, (width // 2, height // 2, width, height))
    return image


def _corners(image: Pillow.Image) -> list[Colour]:
    """Name the colours of the four quarters, row by row, as the nearest of the four that tests paint with."""
    width, height = image.size
    return [
        min(
            (RED, GREEN, BLUE, YELLOW, WHITE),
            key=lambda colour: sum(
                abs(reference - actual) for reference, actual in zip(colour, _pixel(image, x, y), strict=True)
            ),
        )
        for y in (height // 4, 3 * height // 4)
        for x in (width // 4, 3 * width // 4)
    ]


def _pixel(image: Pillow.Image, x: int, y: int) -> Colour:
    red, green, blue = image.convert("RGB").crop((x, y, x + 1, y + 1)).tobytes()
    return red, green, blue


def _document(draw: Callable[[pymupdf.Page], None], *, pages: int = 1, width: float = 595, height: float = 842) -> bytes:
    document = pymupdf.open()
    for _ in range(pages):
        draw(document.new_page(width=width, height=height))
    return bytes(document.tobytes(no_new_id=True))


def _read(data: bytes, options: ParseOptions = OPTIONS) -> tuple[ParsedDocument, dict[str, Pillow.Image]]:
    """Parse, and return the figures that were kept by their id."""
    images: dict[str, Pillow.Image] = {}

    def keep(name: str, png: bytes) -> None:
        images[name.removesuffix(".png")] = Pillow.open(io.BytesIO(png)).convert("RGB")

    return parse(open_document(data), "d", options, keep_figure=keep), images


def _only(parsed: ParsedDocument) -> Placement:
    (placement,) = parsed.placements
    return placement


def _seen(parsed: ParsedDocument, images: dict[str, Pillow.Image]) -> Pillow.Image:
    """Return the pixels of the only placement."""
    return images[_only(parsed).figure_id or ""]


def _refused(data: bytes, options: ParseOptions = OPTIONS) -> FailureCode:
    with pytest.raises(BadInputError) as refusal:
        _read(data, options)
    return refusal.value.code


def _near(first_values: Sequence[float], second_values: Sequence[float], within: float = 1.0) -> bool:
    return all(abs(a - b) < within for a, b in zip(first_values, second_values, strict=True))


def _fill(page: pymupdf.Page, seed: int, top: float) -> None:
    page.insert_textbox((72, top, 520, top + 120), " ".join(sentence(seed + line) for line in range(5)), fontsize=11)


def _plot(page: pymupdf.Page, left_x: float = 150, top: float = 200) -> None:
    """Draw two axes with their names, and a curve."""
    page.draw_line((left_x, top), (left_x, top + 150))
    page.draw_line((left_x, top + 150), (left_x + 220, top + 150))
    points = [(left_x + step * 20, top + 140 - (step * step) % 90) for step in range(11)]
    page.draw_polyline(points, color=(0, 0, 1))
    page.insert_text((left_x + 80, top + 163), "Speed in rpm", fontsize=8)
    page.insert_text((left_x + 20, top + 20), "Torque", fontsize=8)


def _grid(
    page: pymupdf.Page, texts: Sequence[Sequence[str]], top: float = 100, width: float = 200, height: float = 30
) -> None:
    """Draw a table with rules between all cells."""
    right, bottom = 72 + width * len(texts[0]), top + height * len(texts)
    for row in range(len(texts) + 1):
        page.draw_line((72, top + row * height), (right, top + row * height))
    for column in range(len(texts[0]) + 1):
        page.draw_line((72 + column * width, top), (72 + column * width, bottom))
    for row, cells in enumerate(texts):
        for column, text in enumerate(cells):
            page.insert_text((77 + column * width, top + 15 + row * height), text, fontsize=9)


# Images and their pixels


def test_an_image_is_where_its_page_put_it_with_its_own_pixels() -> None:
    parsed, images = _read(_document(lambda page: page.insert_image(BOX, stream=_png(_quarters(80, 40)))))
    placement = _only(parsed)
    assert (placement.page, placement.kind, placement.role) == (1, Kind.RASTER, Role.CONTENT)
    assert _near(placement.bbox, BOX)
    assert _seen(parsed, images).tobytes() == _quarters(80, 40).tobytes()
    assert placement.raw_sha1 is not None


def test_a_soft_mask_is_flattened_on_white() -> None:
    image = _quarters().convert("RGBA")
    image.paste((0, 0, 0, 0), (0, 0, 40, 20))
    image.paste((0, 0, 0, 128), (40, 0, 80, 20))
    parsed, images = _read(_document(lambda page: page.insert_image(BOX, stream=_png(image))))
    flattened = _seen(parsed, images)
    assert _pixel(flattened, 5, 5) == WHITE
    assert _near(_pixel(flattened, 60, 5), (127, 127, 127), 3)
    assert (_pixel(flattened, 5, 35), _pixel(flattened, 75, 35)) == (BLUE, YELLOW)


def test_strips_make_one_picture() -> None:
    full_image = _quarters(200, 100)

    def draw(page: pymupdf.Page) -> None:
        for top in range(0, 100, 20):
            strip = _png(full_image.crop((0, top, 200, top + 20)))
            page.insert_image((150, 200 + top, 350, 220 + top), stream=strip)

    parsed, images = _read(_document(draw))
    assert _only(parsed).kind is Kind.COMPOSITE
    assert _near(_only(parsed).bbox, BOX)
    assert _corners(_seen(parsed, images)) == [RED, GREEN, BLUE, YELLOW]


def test_tiles_make_one_picture() -> None:
    full_image = _quarters(200, 100)

    def draw(page: pymupdf.Page) -> None:
        for left_x in (0, 100):
            for top in (0, 50):
                tile = full_image.crop((left_x, top, left_x + 100, top + 50))
                tile.putpixel((0, 0), (left_x, top, 9))
                page.insert_image((150 + left_x, 200 + top, 250 + left_x, 250 + top), stream=_png(tile))

    parsed, _ = _read(_document(draw))
    assert _only(parsed).kind is Kind.COMPOSITE
    assert _near(_only(parsed).bbox, BOX)


def test_two_pictures_apart_stay_two() -> None:
    def draw(page: pymupdf.Page) -> None:
        page.insert_image((100, 100, 250, 200), stream=picture(1))
        page.insert_image((100, 240, 250, 340), stream=picture(2))

    parsed, images = _read(_document(draw))
    assert [placement.kind for placement in parsed.placements] == [Kind.RASTER, Kind.RASTER]
    assert len(images) == 2


def _inline_image() -> bytes:
    pixels = bytes(RED) + bytes(GREEN) + bytes(BLUE) + bytes(YELLOW)
    content = b"q 200 0 0 100 150 542 cm BI /W 2 /H 2 /BPC 8 /CS /RGB /F /AHx ID " + pixels.hex().encode() + b"> EI Q"
    document = pymupdf.open()
    page = document.new_page(width=595, height=842)
    xref = document.get_new_xref()
    document.update_object(xref, "<<>>")
    document.update_stream(xref, content, new=True)
    page.set_contents(xref)
    return bytes(document.tobytes(no_new_id=True))


def test_an_inline_image_is_found() -> None:
    parsed, images = _read(_inline_image())
    assert _only(parsed).role is Role.CONTENT
    assert _near(_only(parsed).bbox, BOX)
    assert _seen(parsed, images).tobytes() == bytes(RED) + bytes(GREEN) + bytes(BLUE) + bytes(YELLOW)


def test_an_image_that_is_in_the_resources_but_never_drawn_is_no_placement() -> None:
    document = pymupdf.open()
    page = document.new_page()
    page.insert_image(BOX, stream=picture(1))
    page.insert_text((72, 72), "The torque is 40 Nm.")
    text = next(xref for xref in page.get_contents() if b"Do" not in document.xref_stream(xref))
    page.set_contents(text)
    parsed, images = _read(document.tobytes())
    assert [line.text for line in parsed.lines] == ["The torque is 40 Nm."]
    assert (parsed.placements, parsed.figures, images) == ((), (), {})


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_an_image_that_reads_upright_on_a_rotated_page_keeps_its_pixels(rotation: int) -> None:
    document = pymupdf.open()
    page = document.new_page(width=595, height=842)
    page.insert_image(BOX, stream=_png(_quarters(40, 40)), rotate=rotation, keep_proportion=False)
    page.set_rotation(rotation)
    parsed, images = _read(document.tobytes())
    assert parsed.pages[0].rotation == rotation
    assert (parsed.pages[0].width_pt, parsed.pages[0].height_pt) == (595, 842)
    assert _near(_only(parsed).bbox, BOX)
    assert _corners(_seen(parsed, images)) == [RED, GREEN, BLUE, YELLOW]


@pytest.mark.parametrize("turn", [90, 180, 270])
def test_an_image_that_is_stored_rotated_comes_out_as_its_page_shows_it(turn: int) -> None:
    document = pymupdf.open()
    page = document.new_page(width=595, height=842)
    page.insert_image(BOX, stream=_png(_quarters(80, 40)), rotate=turn, keep_proportion=False)
    drawn = page.get_pixmap(clip=BOX)
    rendered = Pillow.frombytes("RGB", (drawn.width, drawn.height), drawn.samples)
    parsed, images = _read(document.tobytes())
    assert _corners(_seen(parsed, images)) == _corners(rendered)
    assert _corners(rendered) != [RED, GREEN, BLUE, YELLOW]


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_a_composite_on_a_rotated_page_comes_out_as_its_reader_sees_it(rotation: int) -> None:
    document = pymupdf.open()
    page = document.new_page(width=595, height=842)
    page.insert_image((150, 200, 350, 250), stream=_png(_quarters(200, 100).crop((0, 0, 200, 50))))
    page.insert_image((150, 250, 350, 300), stream=_png(_quarters(200, 100).crop((0, 50, 200, 100))))
    page.set_rotation(rotation)
    clip = pymupdf.Rect(BOX) * page.rotation_matrix
    drawn = page.get_pixmap(clip=clip)
    rendered = Pillow.frombytes("RGB", (drawn.width, drawn.height), drawn.samples)
    parsed, images = _read(document.tobytes())
    assert _near(_only(parsed).bbox, BOX)
    figure_image = _seen(parsed, images)
    assert (figure_image.width > figure_image.height) == (rotation in (0, 180))
    assert _corners(figure_image) == _corners(rendered)


def test_positions_count_from_the_corner_of_the_crop_box_and_what_lies_outside_is_not_there() -> None:
    document = pymupdf.open()
    page = document.new_page(width=595, height=842)
    page.insert_image((150, 300, 350, 400), stream=picture(1, 200, 100))
    page.insert_image((10, 10, 60, 60), stream=picture(2))
    page.insert_text((200, 500), "The torque is 40 Nm.", fontsize=11)
    page.set_cropbox((100, 200, 500, 700))
    parsed, images = _read(document.tobytes())
    assert (parsed.pages[0].width_pt, parsed.pages[0].height_pt) == (400, 500)
    assert _near(_only(parsed).bbox, (50, 100, 250, 200))
    assert len(images) == 1
    (line,) = parsed.lines
    assert abs(line.bbox.x0 - 100) < 1
    assert 285 < line.bbox.y0 < line.bbox.y1 < 305


def test_an_image_half_off_the_page_is_the_part_that_is_seen() -> None:
    parsed, images = _read(_document(lambda page: page.insert_image((-100, 200, 100, 300), stream=_png(_quarters()))))
    assert _near(_only(parsed).bbox, (0, 200, 100, 300))
    assert _corners(_seen(parsed, images)) == [GREEN, GREEN, YELLOW, YELLOW]


def test_an_image_in_a_clip_is_the_part_that_is_seen() -> None:
    document = pymupdf.open()
    page = document.new_page(width=595, height=842)
    page.insert_image((50, 200, 350, 350), stream=_png(_quarters()))
    (xref,) = page.get_contents()
    document.update_stream(xref, b"q 200 492 150 150 re W n " + document.xref_stream(xref) + b" Q")
    parsed, images = _read(document.tobytes())
    assert _near(_only(parsed).bbox, (200, 200, 350, 350))
    assert _corners(_seen(parsed, images)) == [GREEN, GREEN, YELLOW, YELLOW]


def test_an_image_of_which_next_to_nothing_is_on_the_page_is_not_there() -> None:
    parsed, _ = _read(_document(lambda page: page.insert_image((-190, 200, 10, 300), stream=_png(_quarters()))))
    assert parsed.placements == ()


def test_an_image_of_a_false_size_is_not_decoded_and_the_rest_is_read() -> None:
    document = pymupdf.open()
    page = document.new_page()
    false = page.insert_image(BOX, stream=picture(1))
    page.insert_image((150, 400, 350, 500), stream=picture(2))
    page.insert_text((72, 72), "The torque is 40 Nm.")
    document.xref_set_key(false, "Width", "60000")
    document.xref_set_key(false, "Height", "60000")
    parsed, images = _read(document.tobytes())
    first, second = parsed.placements
    assert first.figure_id is None
    assert "60000 x 60000" in first.reason
    assert (second.figure_id in images, len(images)) == (True, 1)
    assert [(failure.page, failure.code) for failure in parsed.failures] == [(1, FailureCode.IMAGE_REJECTED)]
    assert [line.text for line in parsed.lines] == ["The torque is 40 Nm."]


def test_a_figure_of_too_many_pixels_is_scaled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.figures.render.MAX_FIGURE_PIXELS", 20_000)
    data = _document(lambda page: page.insert_image(BOX, stream=_png(_quarters(400, 200))))
    parsed, images = _read(data, ParseOptions())
    assert _seen(parsed, images).size == (200, 100)
    assert _corners(_seen(parsed, images)) == [RED, GREEN, BLUE, YELLOW]
    assert _near(_only(parsed).bbox, BOX)


# Identity


def test_an_image_on_two_pages_is_one_figure_kept_once() -> None:
    document = pymupdf.open()
    for top in (100, 400):
        document.new_page().insert_image((150, top, 350, top + 100), stream=picture(1))
    names: list[str] = []
    parsed = parse(open_document(document.tobytes()), "d", OPTIONS, keep_figure=lambda name, _: names.append(name))
    (figure,) = parsed.figures
    assert names == [f"{figure.figure_id}.png"]
    assert [(placement.page, placement.order, placement.figure_id) for placement in parsed.placements] == [
        (1, 0, figure.figure_id),
        (2, 1, figure.figure_id),
    ]
    assert {placement.role for placement in parsed.placements} == {Role.CONTENT}


def test_a_figures_name_depends_on_its_pixels_alone() -> None:
    grey = _quarters()
    tall = Pillow.frombytes("RGB", (grey.height, grey.width), grey.tobytes())

    def figure(data: bytes) -> str | None:
        return _only(_read(data)[0]).figure_id

    plain = figure(_document(lambda page: page.insert_image(BOX, stream=_png(grey))))
    packed = io.BytesIO()
    grey.save(packed, "TIFF", compression="tiff_lzw")
    elsewhere = figure(_document(lambda page: page.insert_image((60, 60, 460, 260), stream=packed.getvalue())))
    rotated = figure(_document(lambda page: page.insert_image(BOX, stream=_png(grey.rotate(180)))))
    same_bytes = figure(_document(lambda page: page.insert_image((150, 200, 250, 400), stream=_png(tall))))
    assert plain == elsewhere
    assert len({plain, rotated, same_bytes}) == 3


def test_the_same_drawing_elsewhere_is_the_same_figure() -> None:
    document = pymupdf.open()
    for top in (200.0, 317.0):
        page = document.new_page()
        _plot(page, top=top)
        page.insert_text((160, top + 180), "Figure 1: Torque by speed", fontsize=10)
    parsed, images = _read(document.tobytes())
    assert len(parsed.placements) == 2
    assert len(images) == 1


def test_reading_twice_gives_the_same() -> None:
    def draw(page: pymupdf.Page) -> None:
        page.insert_image((150, 500, 350, 600), stream=picture(1))
        _plot(page)
        page.insert_text((160, 380), "Figure 1: Torque by speed", fontsize=10)
        _fill(page, 1, 60)

    data = _document(draw, pages=2)
    assert _read(data) == _read(data)


# Roles


def test_a_picture_at_the_same_position_on_many_pages_is_decorative() -> None:
    document = pymupdf.open()
    for number in range(5):
        page = document.new_page()
        page.insert_image((450, 30, 510, 70), stream=picture(1, 60, 40))
        page.insert_image(BOX, stream=picture(10 + number, 200, 100))
    parsed, _ = _read(document.tobytes())
    roles = {
        box: {placement.role for placement in parsed.placements if _near(placement.bbox, box)}
        for box in [(450, 30, 510, 70), BOX]
    }
    assert roles == {(450, 30, 510, 70): {Role.DECORATIVE}, BOX: {Role.CONTENT}}


def test_a_logo_over_the_title_of_the_first_page_is_decorative_and_a_picture_under_it_is_not() -> None:
    document = pymupdf.open()
    page = document.new_page()
    page.insert_image((400, 40, 540, 80), stream=picture(1, 280, 80))
    page.insert_text((72, 130), "The pump and its valves", fontsize=24)
    page.insert_image((72, 140, 212, 168), stream=picture(2, 280, 56))
    document.new_page().insert_image((400, 40, 540, 80), stream=picture(3, 280, 80))
    parsed, _ = _read(document.tobytes())
    assert [placement.role for placement in parsed.placements] == [Role.DECORATIVE, Role.CONTENT, Role.CONTENT]


def test_an_area_filled_with_a_gradient_shows_nothing() -> None:
    document = pymupdf.open()
    page = document.new_page(width=595, height=842)
    shading = "<</ShadingType 2 /ColorSpace /DeviceRGB /Coords [100 0 500 0] /Function <</FunctionType 2 /Domain [0 1] "
    shading += "/C0 [1 0 0] /C1 [0 0 1] /N 1>> /Extend [true true]>>"
    document.xref_set_key(page.xref, "Resources", f"<</Shading <</Sh {shading}>>>>")
    content = document.get_new_xref()
    document.update_object(content, "<<>>")
    areas = ("180 640 137 5", "100 400 36 30", "40 50 500 230")
    document.update_stream(content, " ".join(f"q {area} re W n /Sh sh Q" for area in areas).encode(), new=True)
    page.set_contents(content)
    parsed, _ = _read(document.tobytes())
    assert [placement.role for placement in parsed.placements] == [Role.DECORATIVE, Role.ICON, Role.DECORATIVE]


def test_an_icon_in_a_line_of_text_is_an_icon() -> None:
    def draw(page: pymupdf.Page) -> None:
        page.insert_text((72, 200), "Press the button", fontsize=11)
        page.insert_image((158, 188, 184, 204), stream=picture(1, 52, 32))
        page.insert_text((188, 200), "to stop the pump and wait.", fontsize=11)

    placement = _only(_read(_document(draw))[0])
    assert (placement.role, placement.reason) == (Role.ICON, "stands in a line of text")


def test_a_picture_of_an_icons_size_is_an_icon_and_a_thin_one_is_decorative() -> None:
    def draw(page: pymupdf.Page) -> None:
        page.insert_image((300, 300, 318, 318), stream=picture(1, 40, 40))
        page.insert_image((100, 500, 400, 503), stream=picture(2, 300, 30))

    icon, line = _read(_document(draw))[0].placements
    assert (icon.role, line.role) == (Role.ICON, Role.DECORATIVE)


def test_a_picture_of_one_colour_is_decorative() -> None:
    parsed, _ = _read(_document(lambda page: page.insert_image(BOX, stream=_png(Pillow.new("RGB", (80, 40), BLUE)))))
    placement = _only(parsed)
    assert (placement.role, placement.reason) == (Role.DECORATIVE, "one colour only")


def test_the_band_under_a_heading_is_decorative_and_its_words_stay_text() -> None:
    def draw(page: pymupdf.Page) -> None:
        page.insert_image((40, 100, 340, 130), stream=picture(1, 600, 60))
        page.insert_text((50, 122), "MOUNTING THE PUMP", fontsize=24)

    parsed, _ = _read(_document(draw))
    assert _only(parsed).role is Role.DECORATIVE
    assert [line.inside for line in parsed.lines] == [None]


def test_an_image_of_the_whole_page_without_text_is_a_scan_rotated_as_read() -> None:
    document = pymupdf.open()
    page = document.new_page(width=400, height=600)
    page.insert_image(page.rect, stream=_png(_quarters(400, 600)), keep_proportion=False)
    page.set_rotation(90)
    drawn = page.get_pixmap()
    parsed, images = _read(document.tobytes())
    placement = _only(parsed)
    assert (placement.kind, placement.role) == (Kind.SCAN, Role.PAGE_SCAN)
    assert _corners(_seen(parsed, images)) == _corners(Pillow.frombytes("RGB", (drawn.width, drawn.height), drawn.samples))
    assert _corners(_seen(parsed, images)) == [BLUE, RED, YELLOW, GREEN]


@pytest.mark.parametrize("hidden", [True, False])
def test_an_image_of_the_whole_page_behind_text_is_background_and_kept_as_its_reader_sees_it(hidden: bool) -> None:
    def draw(page: pymupdf.Page) -> None:
        page.insert_image(page.rect, stream=picture(1, 100, 140), keep_proportion=False)
        for line in range(6):
            page.insert_text((72, 100 + 20 * line), sentence(line), fontsize=11, render_mode=3 if hidden else 0)

    parsed, images = _read(_document(draw))
    placement = _only(parsed)
    assert placement.role == Role.BACKGROUND
    assert [line.text for line in parsed.lines] == [sentence(line) for line in range(6)]
    assert {line.inside for line in parsed.lines} == {None}
    figure_image = _seen(parsed, images)
    assert figure_image.size == pytest.approx((595 * 150 / 72, 842 * 150 / 72), abs=2)
    black = figure_image.convert("L").point(lambda value: 255 * (value < 40)).getbbox()
    assert (black is None) == hidden, "words that are shown are on the picture"


def test_an_image_behind_the_text_of_many_pages_has_no_figures() -> None:
    document = pymupdf.open()
    for number in range(6):
        page = document.new_page()
        page.insert_image(page.rect, stream=picture(1, 100, 140), keep_proportion=False)
        for line in range(6):
            page.insert_text((72, 100 + 20 * line), sentence(10 * number + line), fontsize=11)
    parsed, _ = _read(document.tobytes())
    assert {placement.role for placement in parsed.placements} == {Role.BACKGROUND}
    assert [placement.figure_id is None for placement in parsed.placements] == 3 * [False] + 3 * [True]


def test_words_set_as_a_picture_with_the_same_words_behind_it_are_text() -> None:
    def draw(page: pymupdf.Page) -> None:
        page.insert_text((72, 120), "What is Hispanic identity?", fontsize=20, render_mode=3)
        page.insert_image((72, 100, 318, 126), stream=picture(1, 492, 52))
        page.insert_text((310, 350), "Inlet", fontsize=11, render_mode=3)
        page.insert_image((250, 300, 400, 400), stream=picture(2))

    parsed, _ = _read(_document(draw))
    heading, pump = parsed.placements
    assert (heading.role, pump.role) == (Role.DECORATIVE, Role.CONTENT)
    assert {line.text: line.inside for line in parsed.lines} == {"What is Hispanic identity?": None, "Inlet": pump.order}


# Drawings


def test_words_painted_through_a_mask_are_the_text_that_the_pdf_gives_for_them() -> None:
    dot, mask = _png(Pillow.new("RGB", (2, 2))), _png(Pillow.effect_noise((400, 40), 90))
    document = pymupdf.open(stream=_document(lambda page: _fill(page, 1, top=400)), filetype="pdf")
    page = document[0]
    boxes = [(72, 100, 152, 120), (145, 100, 205, 120), (203, 100, 283, 120), (72, 120, 172, 140)]
    texts = ["Politi", "cal", "parties ", "abroad"]
    for box in boxes:
        page.insert_image(box, stream=dot, mask=mask, keep_proportion=False)
    page.clean_contents()
    (content,) = page.get_contents()
    head, *drawn = document.xref_stream(content).split(b"Do")
    stream = b""
    for piece, words in zip([head, *drawn[:-1]], texts, strict=True):
        before, _, name = piece.rpartition(b"/")
        stream += before + b"/Span <</ActualText (" + words.encode() + b")>> BDC /" + name + b"Do EMC "
    document.update_stream(content, stream + drawn[-1])

    parsed, _ = _read(document.tobytes())

    assert [line.text for line in parsed.lines[-2:]] == ["Political parties ", "abroad"]
    assert parsed.lines[-1].block == parsed.lines[-2].block
    assert {(placement.role, placement.reason) for placement in parsed.placements} == {
        (Role.DECORATIVE, "words set as a picture, which the page holds as text too")
    }


def test_a_drawing_with_a_caption_is_one_picture_with_the_names_of_its_axes() -> None:
    def draw(page: pymupdf.Page) -> None:
        _fill(page, 1, 60)
        _plot(page)
        page.insert_text((160, 385), "Figure 1: Torque by speed", fontsize=10)
        _fill(page, 9, 420)

    parsed, images = _read(_document(draw))
    placement = _only(parsed)
    assert (placement.kind, placement.role, placement.raw_sha1) == (Kind.VECTOR, Role.CONTENT, None)
    inside = [line for line in parsed.lines if line.inside == placement.order]
    assert {line.text for line in inside} == {"Torque", "Speed in rpm"}
    assert all(line.bbox & placement.bbox == line.bbox for line in inside)
    assert placement.bbox.y1 < 376, "the caption isn't part of the picture"
    assert _seen(parsed, images).width == pytest.approx(placement.bbox.width * RENDER_DPI / 72, abs=2)


def test_labels_drawn_over_an_image_are_part_of_the_picture() -> None:
    def draw(page: pymupdf.Page) -> None:
        page.insert_image(BOX, stream=_png(Pillow.new("RGB", (80, 40), BLUE)))
        page.insert_text((200, 240), "Inlet", fontsize=10, color=(1, 1, 1))
        page.draw_line((225, 240), (260, 260), color=(1, 0, 0), width=2)
        page.insert_text((160, 316), "Figure 1: The inlet", fontsize=10)

    parsed, images = _read(_document(draw))
    placement = _only(parsed)
    assert (placement.kind, placement.role) == (Kind.COMPOSITE, Role.CONTENT)
    assert [line.text for line in parsed.lines if line.inside == placement.order] == ["Inlet"]
    colours = {colour for _, colour in _seen(parsed, images).getcolors(1 << 20) or []}
    assert {(255, 0, 0), WHITE} <= colours, "the label and the arrow are in the pixels"


def test_a_caption_of_two_lines_over_its_picture_does_not_part_itself_from_it() -> None:
    def draw(page: pymupdf.Page) -> None:
        spoken = (
            "Figure 1: Torque over speed, measured on the test bench\nof the maker, with the cover and the guard taken off"
        )
        page.insert_text((150, 185), spoken, fontsize=10)
        page.draw_line((150, 210), (150, 350))
        page.draw_line((150, 350), (370, 350))
        for left_x in range(160, 360, 40):
            page.draw_rect((left_x, 220 + left_x / 4, left_x + 25, 350), fill=(0.8, 0.9, 1))

    parsed, _ = _read(_document(draw))
    assert _only(parsed).reason == "has a caption"
    assert _near(_only(parsed).bbox, (150, 210, 370, 350), 2)


def test_the_box_of_a_note_with_a_warning_symbol_is_no_picture() -> None:
    def draw(page: pymupdf.Page) -> None:
        page.draw_rect((72, 200, 520, 260), color=(0, 0, 0), fill=(1, 0.97, 0.88))
        page.draw_polyline([(79, 221), (87, 207), (95, 221), (79, 221)], fill=(1, 0.8, 0.1))
        page.insert_text((85, 219), "!", fontsize=9)
        page.insert_textbox((102, 206, 515, 256), f"WARNING\n{sentence(1)}\n{sentence(2)}", fontsize=10)
        page.insert_text((102, 284), "Figure 1: The pump", fontsize=10)
        page.insert_image((150, 310, 300, 410), stream=picture(1))

    parsed, _ = _read(_document(draw))
    assert _near(_only(parsed).bbox, (150, 310, 300, 410))
    assert _only(parsed).reason == "has a caption"


def test_rules_and_boxes_around_text_are_no_pictures() -> None:
    def draw(page: pymupdf.Page) -> None:
        page.draw_line((72, 50), (520, 50))
        page.draw_rect((66, 95, 526, 230), color=(0, 0, 0), fill=(0.9, 0.9, 0.9))
        _fill(page, 1, 100)

    assert _read(_document(draw))[0].placements == ()


def test_a_listing_in_a_box_with_a_caption_is_a_figure() -> None:
    def draw(page: pymupdf.Page) -> None:
        for number in range(8):  # the box is drawn a line of text at a time, its left side twice
            top = 100 + 12 * number
            for x in (140, 143, 380):
                page.draw_line((x, top), (x, top + 12), width=0.4)
            page.insert_text((148, top + 9), f"select t:$add %{number}", fontname="cour", fontsize=8)
        for y in (98, 100, 196, 198):
            page.draw_line((140, y), (380, y), width=0.4)
        page.insert_text((140, 215), "Figure 6. Demonstration of select", fontsize=9)

    parsed, _ = _read(_document(draw))
    assert parsed.tables == ()
    placement = _only(parsed)
    assert (placement.role, placement.kind) == (Role.CONTENT, Kind.VECTOR)
    assert _near(placement.bbox, (140, 98, 380, 198), within=3)


def test_the_shaded_lines_of_a_listing_are_neither_picture_nor_table() -> None:
    grey = (0.95, 0.95, 0.95)

    def draw(page: pymupdf.Page) -> None:
        for number in range(10):
            top = 100 + 11 * number
            page.draw_rect((57, top, 567, top + 11), color=None, fill=grey)
            page.draw_line((55.5, top), (55.5, top + 11), color=grey, width=3)
            page.draw_line((568.5, top), (568.5, top + 11), color=grey, width=3)
            page.insert_text((60, top + 9), f"loadrt gentrivkins {number}", fontname="cour", fontsize=8)

    parsed, _ = _read(_document(draw))
    assert parsed.placements == ()
    assert parsed.tables == ()


# Text


def test_words_that_look_like_a_tag_are_escaped() -> None:
    data = _document(lambda page: page.insert_text((72, 100), "Write <image:12345678.png> or < IMAGE : 1.png>."))
    parsed, _ = _read(data)
    (line,) = parsed.lines
    assert TagTemplate().numbers(line.text) == []
    assert restore(line.text) == "Write <image:12345678.png> or < IMAGE : 1.png>."


def test_a_forged_title_and_outline_and_table_are_escaped() -> None:
    document = pymupdf.open()
    document.set_metadata({"title": "Manual <image:12345678.png>"})
    page = document.new_page()
    _grid(page, [[f"<image:{row}234567{column}.png>" for column in range(2)] for row in range(3)])
    document.set_toc([[1, "Part <image:12345678.png>", 1]])
    parsed, _ = _read(document.tobytes())
    texts = [parsed.title, parsed.outline[0].title, *(cell for row in parsed.tables[0].rows for cell in row)]
    assert [TagTemplate().numbers(text) for text in texts] == [[]] * 8
    assert restore(parsed.title) == "Manual <image:12345678.png>"
    assert all("image" in text for text in texts)


@pytest.mark.parametrize("words", ["Torque 5.5 Nm", "linuxcnc.org base 2.8-rtpreempt", "a, b; c - d_e"])
def test_the_cells_of_a_table_say_what_is_written_in_them(words: str) -> None:
    texts = [["Name", "Value"], ["First", words], [words, "Last"]]
    parsed, _ = _read(_document(lambda page: _grid(page, texts)))
    assert [list(map(list, table.rows)) for table in parsed.tables] == [texts]


def test_rules_drawn_in_pieces_make_no_rows() -> None:
    def draw(page: pymupdf.Page) -> None:
        for y in (100, 130, 290):
            page.draw_line((72, y), (472, y))
        for x in (72, 272, 472):
            for y in range(100, 290, 10):
                page.draw_line((x, y), (x, y + 10))
        for row, y in enumerate((115, 150, 165)):
            for column, x in enumerate((77, 277)):
                page.insert_text((x, y), f"Cell{row}{column}", fontsize=9)

    parsed, _ = _read(_document(draw))
    (table,) = parsed.tables
    assert [[cell.split() for cell in row] for row in table.rows] == [
        [["Cell00"], ["Cell01"]],
        [["Cell10", "Cell20"], ["Cell11", "Cell21"]],
    ]


def test_shaded_rows_under_a_white_head_with_rules_are_a_table() -> None:
    texts = [["Box", "Ground", "Meaning"], *([f"{row}", f"Colour{row}", f"What {row} means"] for row in range(4))]

    def draw(page: pymupdf.Page) -> None:
        for row in range(1, 5):
            page.draw_rect((72, 100 + 30 * row, 672, 130 + 30 * row), fill=(0.8, 0.9, 0.8), color=None)
        _grid(page, texts)

    parsed, _ = _read(_document(draw, width=800))
    assert [list(map(list, table.rows)) for table in parsed.tables] == [texts]


def _with_picture_in_table(top: float) -> ParsedDocument:
    """Read a table with rows from 100 to 160, 220 and 280 points, and a picture 40 points high in its second column."""

    def draw(page: pymupdf.Page) -> None:
        _grid(page, [[f"Cell{row}{column}" for column in range(2)] for row in range(3)], height=60)
        page.insert_image((380, top, 440, top + 40), stream=picture(1, 60, 40))

    return _read(_document(draw))[0]


def test_a_picture_in_the_cell_of_a_table_is_named_in_that_cell() -> None:
    parsed = _with_picture_in_table(170)
    (table,) = parsed.tables
    assert [[placeholders(cell) for cell in row] for row in table.rows] == [
        [[], []],
        [[], [_only(parsed).figure_id]],
        [[], []],
    ]
    assert table.rows[1][1].startswith("Cell11")


def test_a_picture_between_two_rows_of_a_table_is_named_once() -> None:
    parsed = _with_picture_in_table(140)
    (table,) = parsed.tables
    assert [name for row in table.rows for cell in row for name in placeholders(cell)] == [_only(parsed).figure_id]


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_the_rows_of_a_table_on_a_rotated_page_are_those_that_its_reader_sees(rotation: int) -> None:
    rows = (("Part", "Torque", "Key"), ("Valve", "40 Nm", "A"), ("Pump", "30 Nm", "B"), ("Seal", "20 Nm", "C"))
    document = pymupdf.open()
    page = document.new_page(width=842, height=842)
    _grid(page, rows)
    upright = {0: "1 0 0 1 0 0", 90: "0 1 -1 0 842 0", 180: "-1 0 0 -1 842 842", 270: "0 -1 1 0 0 842"}[rotation]
    content = page.read_contents()
    (first, *further_xrefs) = page.get_contents()
    document.update_stream(first, f"q {upright} cm\n".encode() + content + b"\nQ")
    for xref in further_xrefs:
        document.update_stream(xref, b" ")
    page.set_rotation(rotation)
    parsed, _ = _read(document.tobytes())
    (table,) = parsed.tables
    assert table.rows == rows


def test_a_table_drawn_as_boxes_is_a_table() -> None:
    def draw(page: pymupdf.Page) -> None:
        for row in range(3):
            for column in range(2):
                left_x, top = 72 + 150 * column, 100 + 30 * row
                page.draw_rect((left_x, top, left_x + 150, top + 30))
                page.insert_text((left_x + 5, top + 20), f"Cell {row}{column}", fontsize=9)

    parsed, _ = _read(_document(draw))
    assert [table.rows for table in parsed.tables] == [tuple((f"Cell {row}0", f"Cell {row}1") for row in range(3))]


def _outlined(*, named_targets: bool) -> bytes:
    """Make two pages whose outline points to 100 and 300 pt from the top."""
    document = pymupdf.open()
    for _ in range(2):
        document.new_page(width=595, height=842).insert_text((72, 72), "The torque is 40 Nm.")
    document.set_toc([[1, "Start", 1, 100], [2, "Stop", 2, 300]])
    if named_targets:
        entries = [xref for xref in range(1, document.xref_length()) if "/Title" in document.xref_object(xref)]
        for number, xref in enumerate(entries):
            document.xref_set_key(xref, "A", f"<</S/GoTo/D(part.{number})>>")
        first, second = (document[number].xref for number in range(2))
        names = f"(part.0)[{first} 0 R/XYZ 0 742 null](part.1)[{second} 0 R/XYZ 0 542 null]"
        document.xref_set_key(document.pdf_catalog(), "Names", f"<</Dests<</Names[{names}]>>>>")
    return bytes(document.tobytes())


@pytest.mark.parametrize(
    "named_targets",
    [
        True,
        False,
    ],
)
def test_an_outline_entry_knows_its_height_on_the_page(named_targets: bool) -> None:
    parsed, _ = _read(_outlined(named_targets=named_targets))
    assert [(entry.level, entry.title, entry.page, entry.y) for entry in parsed.outline] == [
        (1, "Start", 1, 100.0),
        (2, "Stop", 2, 300.0),
    ]


def test_a_document_without_a_title_is_named_by_its_largest_words() -> None:
    def draw(page: pymupdf.Page) -> None:
        page.insert_text((72, 90), "Pump P-200", fontsize=24)
        _fill(page, 1, 120)

    assert _read(_document(draw))[0].title == "Pump P-200"


# What can't be read


def test_a_page_of_a_million_points_keeps_its_text_and_is_never_drawn() -> None:
    document = pymupdf.open()
    document.new_page().insert_image(BOX, stream=picture(1))
    page = document.new_page(width=1_000_000, height=1_000_000)
    page.insert_text((72, 100), "The torque is 40 Nm.")
    page.insert_image((100, 200, 900_000, 900_000), stream=picture(2))
    parsed, images = _read(document.tobytes())
    assert [line.text for line in parsed.lines if line.page == 2] == ["The torque is 40 Nm."]
    assert [placement.page for placement in parsed.placements] == [1]
    assert len(images) == 1
    assert [(failure.page, failure.code) for failure in parsed.failures] == [(2, FailureCode.PAGE_TOO_LARGE)]


def test_a_truncated_document_is_not_read_as_if_it_were_whole() -> None:
    data = _document(lambda page: page.insert_text((72, 100), sentence(page.number)), pages=6)
    parsed, _ = _read(data[: data.rindex(b"stream") - 400])
    assert {failure.code for failure in parsed.failures} == {FailureCode.DAMAGED}


def test_a_page_whose_content_is_damaged_is_a_failure_and_the_others_are_read() -> None:
    document = pymupdf.open()
    for number in range(3):
        document.new_page().insert_text((72, 100), sentence(number))
    (xref,) = document[1].get_contents()
    document.update_stream(xref, b"not zlib at all", new=False, compress=False)
    document.xref_set_key(xref, "Filter", "/FlateDecode")
    parsed, _ = _read(document.tobytes())
    assert [(line.page, line.text) for line in parsed.lines] == [(1, sentence(0)), (3, sentence(2))]
    assert [(failure.page, failure.code) for failure in parsed.failures] == [(2, FailureCode.DAMAGED)]
    assert len(parsed.pages) == 3


def test_a_document_of_too_many_pages_is_refused() -> None:
    data = _document(lambda page: page.insert_text((72, 100), "Page"), pages=4)
    assert _refused(data, ParseOptions(max_pages=3)) is FailureCode.PAGE_LIMIT
    assert len(_read(data, ParseOptions(max_pages=4))[0].pages) == 4


def test_a_document_inside_a_pdf_is_told_and_data_of_an_invoice_is_not() -> None:
    document = pymupdf.open()
    document.new_page().insert_text((72, 100), sentence(1))
    for name in ("invoice.xml", "plan.pdf"):
        document.embfile_add(name, b"%PDF-1.4", filename=name)
    failures = _read(document.tobytes())[0].failures
    assert [(failure.page, failure.code) for failure in failures] == [(None, FailureCode.HAS_ATTACHMENTS)]
    assert "plan.pdf" in failures[0].message
    assert "invoice.xml" not in failures[0].message


@pytest.mark.parametrize("by_annotation", [False, True])
def test_words_that_are_struck_out_are_marked_and_underlined_ones_are_not(by_annotation: bool) -> None:
    document = pymupdf.open()
    page = document.new_page()
    page.insert_text((72, 100), "The valve opens at 140 bar 165 bar.")
    page.insert_text((72, 140), "Never open the lid.")
    struck, lid = page.search_for("140 bar")[0], page.search_for("the lid")[0]
    if by_annotation:
        page.add_strikeout_annot(struck)
    else:
        page.draw_line((struck.x0, 96.5), (struck.x1, 96.5), width=0.6)
    page.draw_line((lid.x0, 141.5), (lid.x1, 141.5), width=0.6)
    lines = [line.text for line in _read(document.tobytes())[0].lines]
    assert lines == ["The valve opens at ~~140 bar~~ 165 bar.", "Never open the lid."]


def test_an_empty_page_is_read_and_is_empty() -> None:
    parsed, _ = _read(_document(lambda page: None))
    assert (len(parsed.pages), parsed.lines, parsed.placements, parsed.failures) == (1, (), (), ())
    assert parsed.pages[0].characters == 0


def test_boxes_are_within_their_page() -> None:
    parsed, _ = _read(_document(lambda page: page.insert_image((500, 800, 700, 900), stream=picture(1))))
    assert _only(parsed).bbox & BBox(0, 0, 595, 842) == _only(parsed).bbox


def test_a_symbol_that_a_clip_shows_of_a_long_row_of_symbols_is_a_picture() -> None:
    row = pymupdf.open()
    row.new_page(width=480, height=40).insert_image((0, 0, 480, 40), stream=picture(1, 480, 40))
    document = pymupdf.open()
    page = document.new_page()
    page.insert_text((72, 90), "Press the symbol of the device to turn it on.", fontsize=11)
    page.show_pdf_page(pymupdf.Rect(72, 100, 108, 136), row, 0, clip=pymupdf.Rect(122, 2, 158, 38))
    page.show_pdf_page(pymupdf.Rect(72, 200, 112, 206), row, 0, clip=pymupdf.Rect(0, 2, 40, 8))
    parsed = parse(open_document(document.tobytes()), "d", ParseOptions(), keep_figure=lambda _name, _data: None)
    (placement,) = [placement for placement in parsed.placements if placement.role in TAGGED]
    assert placement.bbox.iou(BBox(72, 100, 108, 136)) > 0.9


def test_a_layout_model_that_fails_is_told_of_each_page_and_counts_as_partly_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(looks_at: str) -> None:
        raise FileNotFoundError("the model's file is gone")

    monkeypatch.setattr("backends.pdf.page.layout_model", missing)
    data = _document(lambda page: page.insert_text((72, 90), "The pump takes 21 bar."), pages=2)
    parsed = parse(open_document(data), "d", ParseOptions(layout="every_page"), keep_figure=lambda *_: None)
    assert [(failure.page, failure.code) for failure in parsed.failures] == [
        (page, FailureCode.LAYOUT_FAILED) for page in (1, 2)
    ]
    assert parsed.lines, "rules read the pages"
    ledger = [LedgerRow("pump.pdf", "d", 1, "1", Status.INDEXED, "a", pages=2)]
    failures = [
        Failure(source="pump.pdf", doc_id="d", page=failure.page, step="parse", code=failure.code, message=failure.message)
        for failure in parsed.failures
    ]
    assert document_counts(ledger, failures)["partly_read"] == 1
