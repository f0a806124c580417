"""What a picture looks like, in 64 bits."""

import io

import pytest
from PIL import Image, ImageDraw

from backends.models.perceptual_hash import perceptual_hash
from schemas.errors import BadInputError


def _scene(size: tuple[int, int] = (640, 480), number: str = "17", **save: object) -> bytes:
    image = Image.new("RGB", (640, 480), "white")
    draw = ImageDraw.Draw(image)
    draw.rectangle((40, 60, 300, 420), fill=(30, 60, 120))
    draw.ellipse((350, 100, 600, 380), fill=(200, 180, 40))
    draw.text((460, 230), number, fill="black")
    written = io.BytesIO()
    image.resize(size).save(written, **({"format": "PNG"} | save))  # type: ignore[arg-type]
    return written.getvalue()


def _bits(first: bytes, second: bytes) -> int:
    return (perceptual_hash(first) ^ perceptual_hash(second)).bit_count()


def test_size_format_and_compression_hardly_change_it() -> None:
    assert 0 <= perceptual_hash(_scene()) < 2**64
    assert _bits(_scene(), _scene((320, 240))) <= 2
    assert _bits(_scene(), _scene(format="JPEG", quality=40)) <= 2


def test_another_picture_has_another_and_one_number_is_not_seen() -> None:
    other = Image.effect_mandelbrot((320, 240), (-2, -1, 1, 1), 40).convert("RGB")
    written = io.BytesIO()
    other.save(written, "PNG")
    assert _bits(_scene(), written.getvalue()) > 10
    assert _bits(_scene(), _scene(number="18")) == 0, "why near duplicates are off unless somebody asks for them"


def test_what_is_no_picture() -> None:
    with pytest.raises(BadInputError):
        perceptual_hash(b"no picture")
