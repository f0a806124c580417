"""What a refresh reads from its store and writes to it: a number that the documents of the corpus don't change."""

from collections import Counter
from pathlib import Path

import pytest

from backends.stores.object_store import FolderStore
from pipeline.corpus.workspace import Workspace
from pipeline.run import refresh
from tests.manuals import write_manual

FIGURES = 22
MOST_READS, MOST_WRITES = 60, 40


@pytest.mark.slow
def test_a_refresh_of_one_new_document_reads_and_writes_few_objects(
    published: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, reads, writes = Path(published.store.root), Counter[str](), Counter[str]()
    opened, write = Path.open, FolderStore._write

    def counted_open(path: Path, mode: str = "r", *rest: object, **named: object) -> object:
        file = opened(path, mode, *rest, **named)  # type: ignore[call-overload]
        if path.is_relative_to(root) and mode == "rb":
            reads[path.relative_to(root).as_posix()] += 1
        return file

    def counted_write(path: Path, data: bytes) -> None:
        writes[path.relative_to(root).as_posix()] += 1
        write(path, data)

    write_manual(tmp_path / "pdfs" / "crane.pdf", "tower crane", seed=50, pages=FIGURES)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", counted_open)
        patched.setattr(FolderStore, "_write", staticmethod(counted_write))
        assert refresh(published).published
    # Files of an embedded index are the engine's: their digests are taken once, to tell damage.
    objects = {name: count for name, count in reads.items() if "/lance/" not in name}
    index_reads = {name: count for name, count in reads.items() if "/lance/" in name}
    assert sum(name.startswith("figures/") for name in objects) >= FIGURES
    assert set(index_reads.values()) == {1}
    assert sum(objects.values()) <= MOST_READS, objects
    assert writes.total() <= MOST_WRITES, writes
