import io

import pymupdf
import pytest
from PIL import Image

from backends.models.rapid_layout_detector import LEAST_SCORE, RapidLayout
from schemas.documents import RegionKind
from schemas.geometry import BBox
from tests.manuals import picture, sentence

FIGURE = BBox(150, 250, 450, 450)


def page(dpi: int) -> bytes:
    """Return the picture of a page with text, a photograph and a ruled table."""
    with pymupdf.open() as document:
        sheet = document.new_page(width=595, height=842)
        for number, top in enumerate((80, 500)):
            text = " ".join(sentence(10 * number + line) for line in range(6))
            sheet.insert_textbox((72, top, 523, top + 160), text, fontsize=11)
        sheet.insert_image(FIGURE, stream=picture(3, 300, 200))
        sheet.insert_text((200, 466), "Figure 1: The pump seen from above", fontsize=10)
        return bytes(sheet.get_pixmap(dpi=dpi).tobytes("png"))


def blank() -> bytes:
    sink = io.BytesIO()
    Image.new("RGB", (600, 800), "white").save(sink, "PNG")
    return sink.getvalue()


@pytest.fixture(scope="module")
def detector() -> RapidLayout:
    return RapidLayout()


@pytest.mark.parametrize("dpi", [72, 300])
def test_a_figure_is_found_in_the_pixels_of_the_picture(detector: RapidLayout, dpi: int) -> None:
    figures = [region for region in detector.detect(page(dpi)) if region.kind is RegionKind.FIGURE]
    truth = BBox(*(side * dpi / 72 for side in FIGURE))
    assert figures[0].bbox.iou(truth) > 0.8
    assert LEAST_SCORE <= figures[0].score <= 1


@pytest.mark.parametrize("turn", [90, 180, 270])
def test_a_turned_page_has_the_regions_of_the_upright_one_where_they_stand(detector: RapidLayout, turn: int) -> None:
    upright = Image.open(io.BytesIO(page(100)))
    sink = io.BytesIO()
    upright.rotate(-turn, expand=True).save(sink, "PNG")
    width, height = upright.size

    def turned(box: BBox) -> BBox:
        x0, y0, x1, y1 = box
        if turn == 90:
            return BBox(height - y1, x0, height - y0, x1)
        return (
            BBox(width - x1, height - y1, width - x0, height - y0) if turn == 180 else BBox(y0, width - x1, y1, width - x0)
        )

    expected = [region for region in detector.detect(page(100)) if region.score > 0.5]
    turned_regions = [region for region in detector.detect(sink.getvalue()) if region.score > 0.5]
    assert len(turned_regions) == len(expected) > 2
    for upright_region in expected:
        assert any(
            upright_region.kind is turned_region.kind and turned(upright_region.bbox).iou(turned_region.bbox) > 0.9
            for turned_region in turned_regions
        )


def test_words_are_told_from_figures(detector: RapidLayout) -> None:
    word_boxes = [
        region.bbox for region in detector.detect(page(72)) if region.kind is RegionKind.WORDS and region.score > 0.5
    ]
    assert word_boxes
    assert not any(box.has_middle_of(FIGURE) for box in word_boxes)


def test_a_blank_page_has_no_regions(detector: RapidLayout) -> None:
    assert detector.detect(blank()) == []
