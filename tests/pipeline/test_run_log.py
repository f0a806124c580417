"""Log lines of a refresh's steps."""

import logging

import pytest

from pipeline.records.notes import StageNote
from pipeline.run_log import log_note
from schemas.gates import GateResult
from schemas.stages import Stage


def _gate(name: str, message: str, *, passed: bool) -> GateResult:
    return GateResult(gate=name, passed=passed, value=None, bound=None, message=message)


def test_gates_that_refuse_come_first_and_the_others_are_one_line(caplog: pytest.LogCaptureFixture) -> None:
    gates = [
        _gate("rows", "12 rows", passed=True),
        _gate("recall", "it fell\nERROR forged", passed=False),
        _gate("documents", "1 of 3 are gone", passed=False),
        _gate("tags", "all there", passed=True),
    ]
    with caplog.at_level(logging.INFO):
        log_note(Stage.CHECK, StageNote(seconds=1.0, gates=gates, counts={"rows": 12}))
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("ERROR", r"gate recall REFUSES: it fell\nERROR forged"),
        ("ERROR", "gate documents REFUSES: 1 of 3 are gone"),
        ("INFO", "gates that hold: rows (12 rows); tags (all there)"),
        ("INFO", "check: 12 rows"),
    ]
