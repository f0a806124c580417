"""Pictures that anybody may send."""

import io
import struct
import zlib

import pytest
from PIL import ExifTags, Image

from backends.models.pictures import RECEIVED_PIXELS, open_picture, receive
from schemas.errors import BadInputError, RequestError
from tests.tiny_models import draw


def _written(image: Image.Image, encoding: str, **options: object) -> bytes:
    data = io.BytesIO()
    image.save(data, encoding, **options)
    return data.getvalue()


def _declaring(width: int, height: int) -> bytes:
    """Return a PNG of a few bytes that says that it is so large."""

    def part(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = zlib.compress(b"\0" * 100_000)
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", header) + part(b"IDAT", rows) + part(b"IEND", b"")


@pytest.mark.parametrize("side", [5001, 13_000, 60_000])
def test_a_picture_that_would_fill_memory_is_refused_by_what_it_declares(side: int) -> None:
    assert side * side > RECEIVED_PIXELS
    with pytest.raises(RequestError, match="more than 25 million pixels"):
        receive(_declaring(side, side))


@pytest.mark.parametrize(
    ("sent", "line"),
    [
        (b"", "none of PNG, JPEG"),
        (b"<svg/>", "none of PNG, JPEG"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\nshowpage\n", "none of PNG, JPEG"),
        (draw(1)[:-30], "can't be read"),
        (_declaring(300, 300), "can't be read"),
        (_written(Image.new("RGB", (90, 90), "red"), "JPEG")[:300], "can't be read"),
    ],
    ids=["empty", "svg", "postscript", "cut PNG", "short PNG", "cut JPEG"],
)
def test_what_is_no_whole_picture_is_one_clear_line(sent: bytes, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("PIL.ImageFile.LOAD_TRUNCATED_IMAGES", True)  # as WeasyPrint sets it
    with pytest.raises(RequestError, match=line) as refused:
        receive(sent)
    assert "\n" not in refused.value.message


def test_a_cut_picture_is_no_picture_for_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("PIL.ImageFile.LOAD_TRUNCATED_IMAGES", True)  # as WeasyPrint sets it
    with pytest.raises(BadInputError, match="can't be decoded"):
        open_picture(draw(1)[:-30], 64)


def test_a_small_one_keeps_its_bytes_and_a_large_one_is_made_smaller() -> None:
    assert receive(draw(1)) == draw(1)
    photo = _written(Image.effect_mandelbrot((4200, 2100), (-2, -1, 1, 1), 5).convert("RGB"), "JPEG")
    assert Image.open(io.BytesIO(receive(photo))).size == (2048, 1024)
    webp = _written(Image.open(io.BytesIO(draw(1))), "WEBP", lossless=True)
    assert Image.open(io.BytesIO(receive(webp))).tobytes() == Image.open(io.BytesIO(draw(1))).tobytes()


def test_a_photograph_is_seen_the_way_up_it_was_taken() -> None:
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6  # turned a quarter
    photograph = _written(Image.new("RGB", (80, 40), "red"), "JPEG", exif=exif)
    assert Image.open(io.BytesIO(receive(photograph))).size == (40, 80)
