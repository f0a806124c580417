"""Structured documents in the store."""

from dataclasses import replace
from pathlib import Path

import pytest

from backends.pdf.document import open_document
from backends.stores.object_store import open_store
from backends.stores.objects import read_rows
from ray_jobs.documents import (
    is_finished,
    pack_structured,
    parsed_folder,
    read_labelled,
    structured_folder,
    write_parsed,
    write_structured,
)
from schemas.corpus.parse import ParseOptions
from schemas.documents import Node
from tasks.reading.contents import grow
from tasks.reading.parse import parse
from tasks.reading.structure import structure
from tests.manuals import write_manual


def test_which_pictures_hold_lines_is_known_without_reading_the_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = write_manual(tmp_path / "pump.pdf", "pump").read_bytes()
    document = parse(open_document(data), "d", ParseOptions(), keep_figure=lambda name, data: None)
    lines = tuple(line._replace(inside=place if place in (1, 3) else None) for place, line in enumerate(document.lines))
    store, folder = open_store(f"{tmp_path / 'store'}"), parsed_folder("d", "key")
    write_parsed(store, folder, replace(document, lines=lines))
    monkeypatch.setattr(type(store), "get", lambda self, name: pytest.fail(f"{name} is read whole"))
    assert read_labelled(store, folder) == {1, 3}


def test_a_documents_evidence_tree_is_stored_with_it(tmp_path: Path) -> None:
    data = write_manual(tmp_path / "pump.pdf", "pump").read_bytes()
    document = structure(parse(open_document(data), "d", ParseOptions(), keep_figure=lambda name, data: None), {})
    store, folder = open_store(f"{tmp_path / 'store'}"), structured_folder("d", "key")
    write_structured(store, folder, pack_structured(document, []))
    assert is_finished(store, folder)
    tree = read_rows(store, f"{folder}/tree.parquet", Node)
    assert list(tree) == grow(document)
    assert [node.title for node in tree if node.parent_id is None] == [
        "1 Service of the pump, part 1",
        "2 Service of the pump, part 2",
    ]
