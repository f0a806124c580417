"""A small corpus."""

from pathlib import Path

import pytest

from tests.manuals import write_manual


@pytest.fixture
def corpus_file(tmp_path: Path) -> Path:
    """A corpus of two manuals; OCR is off, since its own tests cover it."""
    write_manual(tmp_path / "pdfs" / "pump.pdf", "water pump", seed=1)
    write_manual(tmp_path / "pdfs" / "winch.pdf", "steel winch", seed=2)
    return write_corpus(tmp_path)


def write_corpus(folder: Path, more: str = "") -> Path:
    """Write the corpus file; ``more`` is YAML behind it."""
    file = folder / "corpora" / "manuals.yaml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(f"name: manuals\nsource: ../pdfs\ncaptions: {{ocr: none}}\nparse: {{workers: 2}}\n{more}")
    return file
