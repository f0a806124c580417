"""Reads of a LanceDB table."""

import uuid
from pathlib import Path

import pytest

from backends.engines import lance_engine
from backends.engines.lance_engine import LanceTable
from backends.engines.lancedb_index import LanceIndex
from schemas.filters import NO_FILTERS
from tests.contract.test_search_index import DIMENSIONS, FIELDS, SCHEMA, row, table, unit_vectors

ROWS = 60


@pytest.fixture
def index(tmp_path: Path) -> LanceIndex:
    lance_index = LanceIndex(str(tmp_path), "rows_20260101T000000Z_00000001")
    lance_index.create(SCHEMA, DIMENSIONS, FIELDS)
    lance_index.add(table([row(number) for number in range(ROWS)], unit_vectors(ROWS)).to_batches())
    lance_index.finish()
    return lance_index


def test_what_is_written_is_read_by_who_wrote_it(tmp_path: Path) -> None:
    lance_index = LanceIndex(str(tmp_path), "rows_20260101T000000Z_00000001")
    lance_index.create(SCHEMA, DIMENSIONS, FIELDS)
    vectors = unit_vectors(ROWS)
    for part in (slice(0, 40), slice(40, ROWS)):
        lance_index.add(table([row(number) for number in range(ROWS)][part], vectors[part]).to_batches())
        assert lance_index.count() == part.stop


def test_ids_are_the_same_whether_they_were_read_before_or_are_forgotten(
    index: LanceIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = index.dense(unit_vectors(1)[0], 20, NO_FILTERS, "text")
    monkeypatch.setattr(lance_engine, "IDS_KEPT", 3)
    for k in (1, 20, 5, 20):
        assert index.dense(unit_vectors(1)[0], k, NO_FILTERS, "text") == expected[:k]
        expected_ids = [name for name, _ in expected[:k]]
        assert [
            fetched_row["evidence_id"] for fetched_row in index.fetch(["unknown", *expected_ids, "it's unknown"])
        ] == expected_ids


def test_a_table_that_is_not_there_is_an_error(index: LanceIndex, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not found"):
        LanceTable(str(tmp_path), f"t{uuid.uuid4().hex}", {})
