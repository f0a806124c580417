"""What is read back of a built collection, and the gates that judge it."""

from collections.abc import Callable

import pyarrow as pa
import pytest

from backends.memory_index import MemoryIndex
from pipeline.build import read_back
from schemas.evidence import EVIDENCE
from tests.contract.test_search_index import ROWS, VECTORS, fill

Row = dict[str, object]


def _gates(evidence: list[Row], held: list[Row]) -> dict[str, bool]:
    index = MemoryIndex()
    fill(index, held, VECTORS[: len(held)])
    return {gate.gate: gate.passed for gate in read_back(index, pa.Table.from_pylist(evidence, schema=EVIDENCE))}


def test_what_was_written_comes_back() -> None:
    assert _gates(ROWS, ROWS) == {"rows read back": True, "sample read back": True}
    assert _gates([], []) == {"rows read back": True, "sample read back": True}


@pytest.mark.parametrize(
    ("lose", "counted"),
    [
        (lambda rows: rows[1:], False),
        (lambda rows: [{**rows[0], "text": "another"}, *rows[1:]], True),
        (lambda rows: [{**rows[0], "bbox": [1.0, 2.0, 3.0, 4.0]}, *rows[1:]], True),
    ],
)
def test_what_does_not_come_back_is_told(lose: Callable[[list[Row]], list[Row]], counted: bool) -> None:
    assert _gates(ROWS, lose(ROWS)) == {"rows read back": counted, "sample read back": False}
