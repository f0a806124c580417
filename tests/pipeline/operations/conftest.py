"""A corpora folder of one's own."""

from collections import Counter
from pathlib import Path

import pytest

from backends.stores.object_store import FolderStore


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose ``corpora/`` is the corpora folder."""
    (tmp_path / "corpora").mkdir()
    monkeypatch.setenv("INSET_CORPORA", str(tmp_path / "corpora"))
    return tmp_path


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often objects are read, by the last part of their names."""
    counts, read = Counter[str](), FolderStore._read

    def counted(self: FolderStore, name: str) -> bytes:
        counts[name.rpartition("/")[2]] += 1
        return read(self, name)

    monkeypatch.setattr(FolderStore, "_read", counted)
    return counts
