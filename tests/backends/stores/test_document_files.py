"""Documents in the store."""

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from backends.pdf.document import open_document
from backends.stores.document_files import (
    ParsedDocumentFile,
    StructuredDocumentFile,
    pack_parsed,
    pack_structured,
    parsed_file,
    read_parsed,
    structured_file,
)
from backends.stores.object_store import open_store
from backends.stores.objects import read_table
from schemas.corpus import ParseOptions
from schemas.errors import DamagedError
from schemas.parquet import to_parquet
from tasks.reading.contents import build_tree
from tasks.reading.parse import parse
from tasks.reading.structure import structure
from tests.manuals import write_manual


def test_a_document_is_one_object_and_comes_back_as_it_was(tmp_path: Path) -> None:
    data = write_manual(tmp_path / "pump.pdf", "pump").read_bytes()
    document = parse(open_document(data), "d", ParseOptions(), keep_figure=lambda name, data: None)
    lines = tuple(line._replace(inside=index if index in (1, 3) else None) for index, line in enumerate(document.lines))
    document = replace(document, lines=lines)
    store, file = open_store(f"{tmp_path / 'store'}"), parsed_file("d", "key")
    store.put(file, pack_parsed(document))
    assert read_parsed(store, file) == document
    stored = ParsedDocumentFile(store, file)
    assert (stored.pages, stored.placements) == (document.pages, document.placements)
    assert stored.labelled == {1, 3}


def test_a_structured_document_holds_its_evidence_tree(tmp_path: Path) -> None:
    data = write_manual(tmp_path / "pump.pdf", "pump").read_bytes()
    document = structure(parse(open_document(data), "d", ParseOptions(), keep_figure=lambda name, data: None), {})
    store, file = open_store(f"{tmp_path / 'store'}"), structured_file("d", "key")
    store.put(file, pack_structured(document, build_tree(document), []))
    stored = StructuredDocumentFile(store, file)
    assert stored.blocks == document.blocks
    assert (stored.head.title, stored.head.pages) == (document.title, len(document.pages))
    tree = stored.tree
    assert list(tree) == build_tree(document)
    assert [node.title for node in tree if node.parent_id is None] == [
        "1 Service of the pump, part 1",
        "2 Service of the pump, part 2",
    ]


def test_rows_of_an_earlier_release_lack_no_column_that_may_be_null(tmp_path: Path) -> None:
    store = open_store(f"{tmp_path / 'store'}")
    schema = pa.schema([pa.field("name", pa.string(), nullable=False), pa.field("spans", pa.list_(pa.int32()))])
    store.put("old.parquet", to_parquet(pa.table({"name": ["a"]})))
    store.put("other.parquet", to_parquet(pa.table({"spans": [[1]]})))
    assert read_table(store, "old.parquet", schema).to_pylist() == [{"name": "a", "spans": None}]
    with pytest.raises(DamagedError):
        read_table(store, "other.parquet", schema)
