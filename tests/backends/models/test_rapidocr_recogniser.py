import io

import pytest
from PIL import Image, ImageDraw, ImageFont

from backends.models.rapidocr_recogniser import RapidOcr


def encoded(image: Image.Image, kind: str = "PNG") -> bytes:
    file = io.BytesIO()
    image.save(file, kind)
    return file.getvalue()


def dialog(scale: int = 1, mode: str = "RGB", paper: str | int | tuple[int, ...] = "white") -> Image.Image:
    image = Image.new(mode, (480 * scale, 200 * scale), paper)
    draw = ImageDraw.Draw(image)
    font = ImageFont.load_default(20 * scale)
    ink = (0, 0, 0, 255) if mode == "RGBA" else "black"
    for text, position in (("Print Quality", (30, 20)), ("Draft mode 300 dpi", (30, 80)), ("Cancel", (340, 150))):
        draw.text((position[0] * scale, position[1] * scale), text, fill=ink, font=font)
    return image


@pytest.fixture(scope="module")
def recogniser() -> RapidOcr:
    return RapidOcr()


def test_reads_lines_in_order_with_their_places(recogniser: RapidOcr) -> None:
    lines = recogniser.recognise(encoded(dialog()))
    assert [line.text for line in lines] == ["Print Quality", "Draft mode 300 dpi", "Cancel"]
    for line, (left_edge, top) in zip(lines, ((30, 20), (30, 80), (340, 150)), strict=True):
        assert line.bbox.x0 == pytest.approx(left_edge, abs=8)
        assert top - 8 < line.bbox.y0 < line.bbox.y1 < top + 36
        assert 0.5 <= line.score <= 1


def test_int8_matmul_gives_the_results_of_the_packaged_network(recogniser: RapidOcr) -> None:
    packaged = RapidOcr(int8=False)
    for picture in (encoded(dialog()), encoded(dialog(scale=3)), encoded(Image.new("RGB", (300, 200), "white"))):
        expected, lines = packaged.recognise(picture), recogniser.recognise(picture)
        assert [(line.text, line.bbox) for line in lines] == [(line.text, line.bbox) for line in expected]
        assert [line.score for line in lines] == pytest.approx([line.score for line in expected], abs=0.02)


def test_boxes_of_a_large_picture_are_in_its_own_pixels(recogniser: RapidOcr) -> None:
    lines = recogniser.recognise(encoded(dialog(scale=6)))
    assert [line.text for line in lines] == ["Print Quality", "Draft mode 300 dpi", "Cancel"]
    assert lines[2].bbox.x0 == pytest.approx(340 * 6, abs=40)
    assert lines[2].bbox.x1 < 480 * 6


def test_transparency_is_white(recogniser: RapidOcr) -> None:
    lines = recogniser.recognise(encoded(dialog(mode="RGBA", paper=(0, 0, 0, 0))))
    assert [line.text for line in lines][:1] == ["Print Quality"]


@pytest.mark.parametrize("mode", ["1", "L", "P", "CMYK"])
def test_reads_every_mode_of_picture(recogniser: RapidOcr, mode: str) -> None:
    kind = "TIFF" if mode == "CMYK" else "PNG"
    lines = recogniser.recognise(encoded(dialog().convert(mode), kind))
    assert "Print Quality" in [line.text for line in lines]


@pytest.mark.parametrize("size", [(300, 200), (11, 400), (400, 11), (1, 1), (12, 12), (2500, 14), (14, 2500), (9000, 13)])
def test_pictures_without_words_give_no_lines(recogniser: RapidOcr, size: tuple[int, int]) -> None:
    assert recogniser.recognise(encoded(Image.new("RGB", size, "white"))) == []


@pytest.fixture(scope="module")
def page() -> Image.Image:
    image = Image.new("RGB", (850, 1100), "white")
    font = ImageFont.load_default(24)
    for number in range(20):
        text = f"Line {number + 1} of the manual: close the valve and wait."
        ImageDraw.Draw(image).text((80, 60 + 50 * number), text, fill="black", font=font)
    return image


@pytest.mark.parametrize("turn", [0, 90, 180, 270])
def test_a_turned_page_is_read_and_its_boxes_are_where_the_words_stand(
    recogniser: RapidOcr, page: Image.Image, turn: int
) -> None:
    turned_page = page.rotate(-turn, expand=True)
    lines = recogniser.recognise(encoded(turned_page))
    assert [line.text[:7].strip() for line in lines[:9]] == [f"Line {number}" for number in range(1, 10)]
    assert {line.turn for line in lines} == {turn}
    for line in lines:
        left_edge, top, right, bottom = map(int, line.bbox)
        cut = turned_page.crop((left_edge - 4, top - 4, right + 4, bottom + 4)).convert("L")
        inked = sum(cut.histogram()[:128])
        assert inked > 0.02 * cut.width * cut.height
        assert (line.bbox.width > line.bbox.height) == (turn in (0, 180))


def test_a_figure_is_never_turned(recogniser: RapidOcr) -> None:
    lines = recogniser.recognise(encoded(dialog().rotate(180)))
    assert {line.turn for line in lines} <= {0}
