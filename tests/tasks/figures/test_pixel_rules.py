"""Rules found in the pixels of a scanned page."""

import numpy as np
import pytest
from PIL import Image as Pillow
from PIL import ImageDraw

from schemas.geometry import BBox
from tasks.figures.pixel_rules import rules_in

XS, YS = (200, 500, 800), (300, 330, 360)


def _grid(size: tuple[int, int] = (1240, 1754), *, shade: int = 255, rule: int = 0, width: int = 2) -> Pillow.Image:
    image = Pillow.new("L", size, 255)
    draw = ImageDraw.Draw(image)
    draw.rectangle((XS[0], YS[0], XS[-1], YS[1]), fill=shade)
    for y in YS:
        draw.line((XS[0], y, XS[-1], y), fill=rule, width=width)
    for x in XS:
        draw.line((x, YS[0], x, YS[-1]), fill=rule, width=width)
    return image


def _rules(image: Pillow.Image) -> list[BBox]:
    return rules_in(np.asarray(image.convert("RGB")))


def _places(rules: list[BBox]) -> tuple[list[int], list[int]]:
    """Return the x of vertical rules and the y of horizontal ones, to the nearest ten pixels."""
    down = sorted(round((rule.x0 + rule.x1) / 20) * 10 for rule in rules if rule.height > rule.width)
    across = sorted(round((rule.y0 + rule.y1) / 20) * 10 for rule in rules if rule.width > rule.height)
    return down, across


@pytest.mark.parametrize("rule", [0, 200])
@pytest.mark.parametrize("shade", [255, 240])
def test_the_rules_of_a_table_are_found_whole_where_they_cross_and_on_shades(rule: int, shade: int) -> None:
    rules = _rules(_grid(shade=shade, rule=rule))
    assert _places(rules) == (list(XS), list(YS))
    assert all(rule.height >= YS[-1] - YS[0] - 8 for rule in rules if rule.height > rule.width)


def test_rules_of_a_larger_picture_are_in_its_own_pixels() -> None:
    large = _grid().resize((2480, 3508), Pillow.Resampling.BOX)
    assert _places(_rules(large)) == ([2 * x for x in XS], [2 * y for y in YS])


def test_letters_and_shades_are_no_rules() -> None:
    image = Pillow.new("L", (1240, 1754), 255)
    draw = ImageDraw.Draw(image)
    for row in range(40):
        draw.text((100, 100 + 24 * row), "Illicit mill, HLTF: the pump is stopped before the valve " * 3, fill=0)
    draw.rectangle((100, 1200, 900, 1300), fill=60)
    assert _rules(image) == []


def test_a_photograph_has_no_rules() -> None:
    stripes = np.tile(np.repeat(np.arange(1754) % 4 < 2, 1).astype(np.uint8)[:, None] * 255, (1, 1240))
    stripes[:, ::60] = 128
    assert _rules(Pillow.fromarray(stripes)) == []
