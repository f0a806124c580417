"""What is read back of a built collection, and the gates that judge it."""

from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa
import pytest

from backends.engines.lancedb_index import LanceIndex
from backends.engines.memory_index import MemoryIndex
from pipeline.corpus.workspace import open_workspace
from pipeline.records.collection import OF_THE_ENGINE, read_back
from pipeline.refresh import refresh
from schemas.evidence import EVIDENCE
from schemas.versions import GateResult
from tasks.enriching.spaces import TEXT
from tests.contract.test_search_index import ROWS, VECTORS, fill

Row = dict[str, object]


def _gates(evidence: list[Row], held: list[Row]) -> list[GateResult]:
    index = MemoryIndex()
    fill(index, held, VECTORS[: len(held)])
    rows = pa.Table.from_pylist(evidence, schema=EVIDENCE)
    gates = read_back(index, [rows.slice(0, 2), rows.slice(2)], rows.num_rows, [TEXT])
    assert tuple(gate.gate for gate in gates) == OF_THE_ENGINE
    return gates


def test_what_was_written_comes_back() -> None:
    assert all(gate.passed for gate in [*_gates(ROWS, ROWS), *_gates([], [])])


@pytest.mark.parametrize(
    ("lose", "counted"),
    [
        (lambda rows: rows[1:], False),
        (lambda rows: [{**rows[0], "text": "another"}, *rows[1:]], True),
        (lambda rows: [{**rows[0], "bbox": [1.0, 2.0, 3.0, 4.0]}, *rows[1:]], True),
    ],
)
def test_what_does_not_come_back_is_told(lose: Callable[[list[Row]], list[Row]], counted: bool) -> None:
    count, sample = _gates(ROWS, lose(ROWS))
    assert (count.passed, sample.passed) == (counted, False)
    assert f"but not those of {ROWS[0]['sources'][0]} page {ROWS[0]['page']}; the next refresh" in sample.message  # type: ignore[index]


def test_what_an_engine_lost_is_built_again(corpus_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = open_workspace(str(corpus_file))
    real = LanceIndex.add

    def add(index: LanceIndex, batches: Iterable[pa.RecordBatch]) -> None:
        real(index, (batch.slice(1) for batch in batches))

    monkeypatch.setattr(LanceIndex, "add", add)
    refused = refresh(workspace)
    assert [gate.gate for gate in refused.gates if not gate.passed] == list(OF_THE_ENGINE)
    monkeypatch.undo()
    made = refresh(workspace)
    assert made.published
    assert made.version != refused.version
