"""A version's rows in parts that versions share; read by file, by document."""

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest

from backends.stores.object_store import FolderStore
from backends.stores.temporary_tables import TemporaryTables
from pipeline.records.differences import difference
from pipeline.records.evidence import DocumentRows, evidence_parts, read_placements, row_files
from pipeline.records.row_parts import (
    Facts,
    new_rows,
    read_documents,
    read_part_rows,
    read_parts,
    write_version_rows,
)
from schemas.errors import DamagedError
from schemas.evidence import EVIDENCE, PLACEMENTS, VersionRows
from schemas.ports import ObjectStore
from tests.versions import read_evidence, write_version

VERSION = "20261122T120000Z-00000000"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    monkeypatch.setattr("pipeline.records.row_parts.ROWS_A_PART", 5)
    return FolderStore(tmp_path)


def test_a_part_holds_whole_documents_and_is_named_by_its_bytes(store: ObjectStore) -> None:
    rows = _evidence({"a": 3, "b": 9, "c": 1, "d": 4})
    write_version(store, VERSION, rows)
    parts = read_parts(store, VERSION)
    assert [(part.first, part.last, part.rows) for part in parts.parts] == [("a", "a", 3), ("b", "b", 9), ("c", "d", 5)]
    assert read_evidence(store, VERSION).equals(rows)
    write_version(store, "20261123T120000Z-00000000", rows)
    assert read_parts(store, "20261123T120000Z-00000000") == parts


def test_a_version_names_the_parts_of_unchanged_documents(store: ObjectStore) -> None:
    """Documents change, come, go, come before the first and behind the last: as a fresh version, at the cost of the change."""
    counts = {f"{number:02}": 2 + number % 3 for number in range(10, 60)}
    write_version(store, VERSION, _evidence(counts), _placements(counts))
    base = read_parts(store, VERSION)
    documents = read_documents(store, VERSION)
    later = {doc_id: count for doc_id, count in counts.items() if doc_id not in ("20", "59")} | {"05": 1, "30": 7, "77": 2}
    changed = ["05", "30", "77"]
    changed_rows = [
        (doc_id, VersionRows(*(_table(schema, {doc_id: later[doc_id]}) for schema in _SCHEMAS))) for doc_id in changed
    ]
    new_version = "20261123T120000Z-00000000"
    with TemporaryTables() as tables:
        facts = Facts(store, base, tables)
        counted = write_version_rows(
            store, new_version, base, documents, {"20", "30", "59"}, [new_rows(changed_rows)], facts
        )
    parts = read_parts(store, new_version)
    assert read_evidence(store, new_version).equals(_evidence(later))
    assert read_placements(store, new_version).equals(_placements(later))
    assert len({*parts.parts} - {*base.parts}) <= 6 < len(parts.parts)
    rewritten = write_version(store, "20261124T120000Z-00000000", _evidence(later), _placements(later))
    assert counted | {"evidence_bytes": 0} == rewritten | {"evidence_bytes": 0}
    assert read_documents(store, new_version) == read_documents(store, "20261124T120000Z-00000000")
    diff = difference(store, new_version, VERSION)
    assert (diff.removed, diff.changed) == (["20", "30", "59"], changed)
    assert [str(name) for part in diff.changed_rows() for name in part.column("doc_id").unique().to_pylist()] == changed


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_lost_part_is_damage_and_not_fewer_rows(store: ObjectStore, lost: int) -> None:
    write_version(store, VERSION, _evidence({"a": 5, "b": 5, "c": 5}))
    store.delete(row_files(store, VERSION, "evidence")[lost])
    with pytest.raises(DamagedError, match="rows/"):
        list(evidence_parts(store, VERSION))


@pytest.mark.parametrize("counts", [{"a": 5, "b": 5}, {"a": 1, "b": 14, "d": 2}, {"b": 3}, {}])
def test_rows_come_document_by_document_each_whole_with_its_placements(store: ObjectStore, counts: dict[str, int]) -> None:
    placed = {"a": 2, "c": 11, "d": 1}
    write_version(store, VERSION, _evidence(counts), _placements(placed))
    doc_ids: list[str] = []
    parts = read_parts(store, VERSION)
    for rows in (read_part_rows(store, part) for part in parts.parts):
        evidence, placements = (
            [str(doc_id) for doc_id in table.column("doc_id").to_pylist()] for table in (rows.evidence, rows.placements)
        )
        part_doc_ids = sorted({*evidence, *placements})
        assert not doc_ids or not part_doc_ids or doc_ids[-1] < part_doc_ids[0]
        assert all(evidence.count(doc_id) == counts.get(doc_id, 0) for doc_id in part_doc_ids)
        assert all(placements.count(doc_id) == placed.get(doc_id, 0) for doc_id in part_doc_ids)
        doc_ids += part_doc_ids
    assert doc_ids == sorted({*counts, *placed})


@pytest.mark.parametrize("counts", [{"a": 5, "b": 5}, {"a": 1, "b": 14, "d": 2, "e": 1}, {"b": 3}, {}])
def test_the_rows_of_a_document_are_found_in_its_own_files(store: ObjectStore, counts: dict[str, int]) -> None:
    write_version(store, VERSION, _evidence(counts))
    rows = DocumentRows(store, VERSION)
    assert {doc_id: rows.of(doc_id).num_rows for doc_id in "abcde"} == {doc_id: counts.get(doc_id, 0) for doc_id in "abcde"}


def test_few_files_are_read_for_a_document(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    write_version(store, VERSION, _evidence({f"{number:03}": 5 for number in range(128)}))
    rows = DocumentRows(store, VERSION)
    get = Mock(side_effect=store.get)
    monkeypatch.setattr(store, "get", get)
    assert rows.of("077").num_rows == 5
    assert get.call_count <= 2


_SCHEMAS = (EVIDENCE, PLACEMENTS)


def _evidence(counts: dict[str, int]) -> pa.Table:
    return _table(EVIDENCE, counts)


def _placements(counts: dict[str, int]) -> pa.Table:
    return _table(PLACEMENTS, counts)


def _table(schema: pa.Schema, counts: dict[str, int]) -> pa.Table:
    """Return so many rows of each document, with something in each column that has to have it."""
    rows = [(doc_id, order) for doc_id, count in sorted(counts.items()) for order in range(count)]
    return pa.Table.from_pylist([_row(schema, doc_id, order) for doc_id, order in rows], schema=schema)


def _row(schema: pa.Schema, doc_id: str, order: int) -> dict[str, Any]:
    row = {field.name: _least(field.type) for field in schema if not field.nullable}
    return row | {"doc_id": doc_id, "order": order}


def _least(kind: pa.DataType) -> Any:
    if pa.types.is_fixed_size_list(kind):
        return [_least(kind.value_type)] * kind.list_size
    if pa.types.is_list(kind):
        return []
    return "" if pa.types.is_string(kind) else 0
