"""A version's rows in files: written in pieces, read back by file, by document."""

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pyarrow as pa
import pytest

from backends.stores.object_store import FolderStore
from pipeline.records.evidence import (
    DocumentRows,
    evidence_parts,
    evidence_writer,
    placement_writer,
    version_rows,
)
from schemas.errors import DamagedError
from schemas.evidence import EVIDENCE, PLACEMENTS
from schemas.ids import version_file
from schemas.parquet import to_parquet
from schemas.ports import ObjectStore
from tests.versions import read_evidence

VERSION = "20261122T120000Z-00000000"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    monkeypatch.setattr("pipeline.records.evidence.ROWS_A_FILE", 5)
    return FolderStore(tmp_path)


def test_the_same_rows_give_the_same_files_whatever_the_pieces(store: ObjectStore) -> None:
    rows = _evidence({"a": 3, "b": 9, "c": 1})
    written = []
    for pieces in ([13], [1] * 13, [4, 0, 6, 3]):
        writer = evidence_writer(store, VERSION)
        start = 0
        for piece in pieces:
            writer.add(rows.slice(start, piece))
            start += piece
        writer.close()
        names = store.names(version_file(VERSION, "evidence"))
        written.append({name: store.get(name) for name in names})
        assert (writer.rows, writer.bytes) == (13, sum(map(len, written[-1].values())))
    assert written[0] == written[1] == written[2]
    assert len(written[0]) == 3
    assert read_evidence(store, VERSION).equals(rows)


def test_a_table_written_again_with_fewer_rows_leaves_none_of_the_first(store: ObjectStore) -> None:
    _write(store, {"a": 12})
    _write(store, {"b": 2})
    assert read_evidence(store, VERSION).column("doc_id").to_pylist() == ["b", "b"]


def test_a_version_of_an_earlier_release_is_read_without_later_columns(store: ObjectStore) -> None:
    rows = _evidence({"a": 3})
    _write(store, {"a": 3})
    (name,) = store.names(version_file(VERSION, "evidence"))
    store.replace(name, to_parquet(rows.drop_columns(["doc_type", "node_id", "parent_id"])))
    assert read_evidence(store, VERSION).equals(rows)
    assert rows.column("doc_type").null_count == 3
    store.replace(name, to_parquet(rows.drop_columns(["page", "doc_type", "node_id", "parent_id"])))
    with pytest.raises(DamagedError, match="isn't what was written"):
        read_evidence(store, VERSION)


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_lost_file_is_damage_and_not_fewer_rows(store: ObjectStore, lost: int) -> None:
    _write(store, {"a": 12})
    store.delete(store.names(version_file(VERSION, "evidence"))[lost])
    with pytest.raises(DamagedError, match=r"versions/.*/evidence"):
        list(evidence_parts(store, VERSION))


@pytest.mark.parametrize("counts", [{"a": 5, "b": 5}, {"a": 1, "b": 14, "d": 2}, {"b": 3}, {}])
def test_rows_come_document_by_document_each_whole_with_its_placements(store: ObjectStore, counts: dict[str, int]) -> None:
    _write(store, counts)
    placed = {"a": 2, "c": 11, "d": 1}
    writer = placement_writer(store, VERSION)
    writer.add(_placements(placed))
    writer.close()
    seen: list[str] = []
    for rows in version_rows(store, VERSION):
        evidence, placements = (
            [str(doc_id) for doc_id in table.column("doc_id").to_pylist()] for table in (rows.evidence, rows.placements)
        )
        here = sorted({*evidence, *placements})
        assert not seen or not here or seen[-1] < here[0]
        assert all(evidence.count(doc_id) == counts.get(doc_id, 0) for doc_id in here)
        assert all(placements.count(doc_id) == placed.get(doc_id, 0) for doc_id in here)
        seen += here
    assert seen == sorted({*counts, *placed})


@pytest.mark.parametrize("counts", [{"a": 5, "b": 5}, {"a": 1, "b": 14, "d": 2, "e": 1}, {"b": 3}, {}])
def test_the_rows_of_a_document_are_found_in_its_own_files(store: ObjectStore, counts: dict[str, int]) -> None:
    _write(store, counts)
    rows = DocumentRows(store, VERSION)
    assert {doc_id: rows.of(doc_id).num_rows for doc_id in "abcde"} == {doc_id: counts.get(doc_id, 0) for doc_id in "abcde"}


def test_few_files_are_read_for_a_document(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(store, {f"{number:03}": 5 for number in range(128)})
    get, part = Mock(side_effect=store.get), Mock(side_effect=store.open)
    monkeypatch.setattr(store, "get", get)
    monkeypatch.setattr(store, "open", part)
    assert DocumentRows(store, VERSION).of("077").num_rows == 5
    assert get.call_count <= 2
    assert 0 < part.call_count < 20


def _write(store: ObjectStore, counts: dict[str, int]) -> None:
    writer = evidence_writer(store, VERSION)
    writer.add(_evidence(counts))
    writer.close()


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
