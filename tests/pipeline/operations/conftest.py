"""A corpora folder of one's own."""

from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose ``corpora/`` is the corpora folder."""
    (tmp_path / "corpora").mkdir()
    monkeypatch.setenv("INSET_CORPORA", str(tmp_path / "corpora"))
    return tmp_path
