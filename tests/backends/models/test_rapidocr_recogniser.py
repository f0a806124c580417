import io
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image, ImageDraw, ImageFont

import backends.models.rapidocr_recogniser as module
from backends.models.rapidocr_recogniser import CARD, RapidOcr
from backends.models.registry import RECOGNISERS
from schemas.corpus.captions import CaptionOptions
from schemas.errors import BadInputError, ContractError, FailureCode
from schemas.ports import Recogniser

NO_NETWORK = """
import socket, sys
def refuse(*_args): raise AssertionError("a model was looked for on the network")
socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refuse
from backends.models.registry import RECOGNISERS
from schemas.corpus.captions import CaptionOptions
lines = RECOGNISERS.of(CaptionOptions()).load(1).recognise(sys.stdin.buffer.read())
print([line.text for line in lines])
"""


def encoded(image: Image.Image, kind: str = "PNG") -> bytes:
    file = io.BytesIO()
    image.save(file, kind)
    return file.getvalue()


def dialog(scale: int = 1, mode: str = "RGB", paper: str | int | tuple[int, ...] = "white") -> Image.Image:
    image = Image.new(mode, (480 * scale, 200 * scale), paper)
    draw = ImageDraw.Draw(image)
    font = ImageFont.load_default(20 * scale)
    ink = (0, 0, 0, 255) if mode == "RGBA" else "black"
    for text, place in (("Print Quality", (30, 20)), ("Draft mode 300 dpi", (30, 80)), ("Cancel", (340, 150))):
        draw.text((place[0] * scale, place[1] * scale), text, fill=ink, font=font)
    return image


@pytest.fixture(scope="module")
def recogniser() -> RapidOcr:
    return RapidOcr()


def test_reads_lines_in_order_with_their_places(recogniser: RapidOcr) -> None:
    port: Recogniser = recogniser
    lines = port.recognise(encoded(dialog()))
    assert [line.text for line in lines] == ["Print Quality", "Draft mode 300 dpi", "Cancel"]
    for line, (left, top) in zip(lines, ((30, 20), (30, 80), (340, 150)), strict=True):
        assert line.bbox.x0 == pytest.approx(left, abs=8)
        assert top - 8 < line.bbox.y0 < line.bbox.y1 < top + 36
        assert 0.5 <= line.score <= 1


def test_products_of_8_bits_read_what_the_packaged_network_reads(recogniser: RapidOcr) -> None:
    packaged = RapidOcr(int8=False)
    for picture in (encoded(dialog()), encoded(dialog(scale=3)), encoded(Image.new("RGB", (300, 200), "white"))):
        expected, found = packaged.recognise(picture), recogniser.recognise(picture)
        assert [(line.text, line.bbox) for line in found] == [(line.text, line.bbox) for line in expected]
        assert [line.score for line in found] == pytest.approx([line.score for line in expected], abs=0.02)


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


@pytest.mark.parametrize("data", [b"", b"not a picture", encoded(dialog())[:2000]])
def test_broken_pictures_are_bad_input(recogniser: RapidOcr, data: bytes) -> None:
    with pytest.raises(BadInputError) as caught:
        recogniser.recognise(data)
    assert caught.value.code is FailureCode.IMAGE_REJECTED


@pytest.mark.parametrize(
    ("why", "code"),
    [("unexpected input shape", FailureCode.MODEL_FAILED), ("bad allocation", FailureCode.MODEL_CRASHED)],
    ids=["the picture's fault", "for want of memory"],
)
def test_what_the_engine_stumbles_over_is_bad_input(
    recogniser: RapidOcr, monkeypatch: pytest.MonkeyPatch, why: str, code: FailureCode
) -> None:
    def stumble(_pixels: object) -> None:
        raise RuntimeError(f"traceback\nonnxruntime: {why}")

    monkeypatch.setattr(recogniser, "_engine", stumble)
    with pytest.raises(BadInputError, match=why) as caught:
        recogniser.recognise(encoded(dialog()))
    assert caught.value.code is code


def test_works_without_a_network_and_says_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", NO_NETWORK], input=encoded(dialog()), capture_output=True, check=False)
    assert done.stdout.decode().startswith("['Print Quality'"), done.stderr.decode()
    assert done.stderr == b""


def test_other_models_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DETECTOR", ("PP-OCRv6_det_small.onnx", "0" * 64))
    with pytest.raises(ContractError, match="pinned is 000000000000"):
        RapidOcr()
    monkeypatch.setattr(module, "DETECTOR", ("absent.onnx", "0" * 64))
    with pytest.raises(ContractError, match="no file"):
        RapidOcr()


def test_the_card_needs_no_engine() -> None:
    assert RECOGNISERS.card(CaptionOptions()) == CARD
    assert RECOGNISERS.card(CaptionOptions(ocr="none")) is None
    script = "import sys, backends.models.rapidocr_recogniser as m; sys.exit(bool({'rapidocr', 'cv2', 'PIL'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", script], check=False, cwd=Path.cwd()).returncode == 0
