import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from backends.models.files import packaged_file
from backends.models.rapidocr_recogniser import EXACT, READER, LineReader


def line(text: str, size: int = 32) -> NDArray[np.uint8]:
    font = ImageFont.load_default(size)
    left, top, right, bottom = font.getbbox(text)
    image = Image.new("RGB", (int(right - left) + 12, int(bottom - top) + 12), "white")
    ImageDraw.Draw(image).text((6 - left, 6 - top), text, fill="black", font=font)
    return np.asarray(image)


@pytest.fixture(scope="module")
def reader() -> LineReader:
    return LineReader(packaged_file("rapidocr", f"models/{READER[0]}", READER[1], "a test"), 1, EXACT)


def test_reads_lines_of_any_width(reader: LineReader) -> None:
    texts = [
        "OK",
        "Settings",
        "Torque 25 Nm, then a quarter turn",
        "50% of all 1,234 bolts are tightened in the order of the drawing above",
    ]
    read = reader.read([line(text) for text in texts])
    assert [text for text, _ in read] == texts
    assert all(0.9 < score <= 1 for _, score in read)


def test_what_is_read_depends_on_no_other_line(reader: LineReader) -> None:
    one, other, long = line("Cancel"), line("Open file"), line("Remove the four screws and lift off the cover", 20)
    alone = [reader.read([pixels])[0] for pixels in (one, other, long)]
    assert reader.read([long, one, other]) == [alone[2], alone[0], alone[1]]


def test_a_line_without_characters_is_empty(reader: LineReader) -> None:
    assert reader.read([np.full((40, 300, 3), 255, np.uint8)]) == [("", 0.0)]
    assert reader.read([]) == []
