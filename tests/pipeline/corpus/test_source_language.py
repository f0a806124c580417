"""The text model that a new corpus starts with."""

from pathlib import Path

import pymupdf
import pytest

from pipeline.corpus.languages import text_model_for
from tests.pipeline.records.test_languages import PAGES


def write(folder: Path, *names: str) -> str:
    folder.mkdir()
    for number, name in enumerate(names):
        with pymupdf.open() as pdf:
            font = "china-s" if name == "zh.pdf" else "helv"
            pdf.new_page().insert_textbox((72, 72, 500, 300), " ".join(PAGES[name]), fontname=font, fontsize=11)
            pdf.save(folder / f"{number}-{name}")
    return str(folder)


@pytest.mark.parametrize(
    ("names", "model"),
    [
        (["en.pdf", "en.pdf"], "minilm"),
        (["de.pdf", "en.pdf"], "multilingual"),
        (["zh.pdf"], "multilingual"),
        (["de.pdf", *["en.pdf"] * 9], "minilm"),
        ([], "minilm"),
    ],
)
def test_it_follows_the_languages_of_the_source(tmp_path: Path, names: list[str], model: str) -> None:
    assert text_model_for(write(tmp_path / "pdfs", *names)) == model


def test_what_cannot_be_read_decides_nothing(tmp_path: Path) -> None:
    folder = write(tmp_path / "pdfs", "de.pdf")
    (tmp_path / "pdfs" / "broken.pdf").write_bytes(b"%PDF-1.7 broken")
    assert text_model_for(folder) == "multilingual"
    assert text_model_for(str(tmp_path / "nowhere")) == "minilm"
    assert text_model_for("s3://bucket/prefix") == "minilm"
