"""Pictures of pages that are skewed."""

import io

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from schemas.geometry import BBox, skewed, straight
from tasks.figures.pixel_rules import rules_in, straightened


def _page(width: int = 850, height: int = 1100) -> Image.Image:
    """Return a page with text, and a rule across it."""
    image = Image.new("RGB", (width, height), "white")
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(20)
    for number in range(20):
        draw.text((80, 60 + 40 * number), f"Line {number + 1}: close the valve, and wait.", fill="black", font=font)
    draw.rectangle((80, 900, 700, 902), fill="black")
    return image


def _encoded(image: Image.Image, kind: str = "PNG") -> bytes:
    file = io.BytesIO()
    image.save(file, kind)
    return file.getvalue()


def _skewed(image: Image.Image, degrees: float) -> Image.Image:
    return image.rotate(-degrees, Image.Resampling.BICUBIC, expand=True, fillcolor="white")


@pytest.mark.parametrize("turn", [0, 90, 180, 270])
@pytest.mark.parametrize("degrees", [0.5, 1.0, -3.0, 5.0])
def test_the_skew_of_a_page_is_found_whichever_side_is_up(degrees: float, turn: int) -> None:
    straight_page = straightened(_encoded(_skewed(_page(), degrees).rotate(turn, expand=True)))
    assert straight_page is not None
    assert straight_page.degrees == pytest.approx(degrees, abs=0.15)


@pytest.mark.parametrize("side", [1, 3])
@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_the_rule_of_a_straightened_page_is_where_the_given_page_has_it(kind: str, side: int) -> None:
    skewed_page = _skewed(_page().resize((850 * side, 1100 * side)), 4.0)
    straight_page = straightened(_encoded(skewed_page, kind))
    assert straight_page is not None
    pixels = np.asarray(Image.open(io.BytesIO(straight_page.picture)).convert("RGB"))
    rule = max(rules_in(pixels), key=lambda rule: rule.width)  # stems of letters are rules, too
    assert rule.height * straight_page.scale < 8 * side
    box = straight_page.as_given(rule)
    dark = np.argwhere(np.asarray(skewed_page.convert("L"))[: int(1050 * side)] < 100)
    inside = dark[(dark[:, 0] >= box.y0) & (dark[:, 0] <= box.y1) & (dark[:, 1] >= box.x0) & (dark[:, 1] <= box.x1)]
    assert box.width == pytest.approx(620 * side, rel=0.02)
    assert box.height == pytest.approx(620 * side * np.tan(np.radians(4)), rel=0.15)
    assert len(inside) >= 0.9 * 3 * side * 620 * side


@pytest.mark.parametrize("degrees", [0.0, 0.2, 20.0])
def test_an_upright_page_and_one_that_is_turned_further_stay(degrees: float) -> None:
    assert straightened(_encoded(_skewed(_page(), degrees))) is None


def test_a_picture_that_shows_no_skew_stays() -> None:
    noise = np.random.default_rng(1).integers(0, 255, (900, 700, 3), np.uint8)
    assert straightened(_encoded(Image.fromarray(noise))) is None
    assert straightened(_encoded(Image.new("RGB", (900, 700), "white"))) is None
    assert straightened(b"no picture") is None
    assert straightened(_encoded(_skewed(_page(500, 1100), 3.0).crop((0, 0, 560, 1100)))) is None
    assert straightened(_encoded(_skewed(_page(850, 2200), 3.0).crop((0, 0, 900, 2200)))) is None


def test_a_box_that_is_skewed_and_straightened_is_the_same() -> None:
    centre = (300.0, 400.0)
    for box in (BBox(20, 30, 500, 42), BBox(40, 50, 42, 700), BBox(300, 400, 310, 410)):
        turned = skewed(box, -4.0, centre)
        assert turned.area > box.area
        assert straight(turned, -4.0, centre) == pytest.approx(box)
    level = BBox(100, 100, 400, 110)
    flat = straight(level, 4.0, centre)
    assert (flat.width, flat.height) == pytest.approx((300, 10)), "no line turned by 4 degrees is as flat"
