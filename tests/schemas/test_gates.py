"""The gates that a corpus file can set: each has one name and one key, and says what to do where it refuses."""

import string
from typing import Any

import pytest

from schemas.corpus.operations import GateOptions
from schemas.gates import COUNTED, GATES, CountedGate, Gate, GateResult, gate_of
from schemas.versions import Counts

COMPARE = "inset diff m a b"


def test_a_corpus_file_can_set_each_gate_by_a_key_of_its_own() -> None:
    assert len({gate.name for gate in GATES}) == len({gate.key for gate in GATES}) == len(GATES)
    assert list(GateOptions().model_dump()) == ["metrics", *(gate.key for gate in GATES)]
    for gate in GATES:
        assert GateOptions().of(gate) == gate.default
        assert 0 <= gate.default <= 1


def test_bounds_outside_their_limits_are_refused() -> None:
    for gate in GATES:
        for bound in (-0.1, 1.1):
            with pytest.raises(ValueError, match=gate.key):
                GateOptions(**{gate.key: bound})
    with pytest.raises(ValueError, match="magic"):
        GateOptions(magic=1)


@pytest.mark.parametrize("gate", GATES, ids=lambda gate: gate.key)
def test_a_gate_that_refuses_names_the_key_that_lets_it_pass(gate: Gate) -> None:
    fields = {name for _, name, _, _ in string.Formatter().parse(gate.remedy) if name and name != "ease"}
    words: dict[str, Any] = dict.fromkeys(fields, "WORD")
    worse = -1.0 if gate.at_least else 2.0
    refused = gate.judge(worse, GateOptions(), "found so", **words)
    assert (refused.passed, refused.gate, refused.bound) == (False, gate.name, gate.default)
    assert refused.message.startswith("found so; ")
    assert refused.message.endswith(f"{'lower' if gate.at_least else 'raise'} gates.{gate.key}")
    verdict = gate.judge(gate.default, GateOptions(), "found so", **words)
    assert (verdict.passed, verdict.message) == (True, "found so")


@pytest.mark.parametrize("gate", GATES, ids=lambda gate: gate.key)
def test_a_verdict_leads_to_its_gate(gate: Gate) -> None:
    assert gate_of(gate.name.format(tokens=256)) is gate


def test_a_rule_without_a_bound_has_no_gate() -> None:
    assert gate_of("rows: a text is never missing") is None


def judge(key: str, now: Counts, before: Counts | None) -> GateResult:
    gate: CountedGate = next(gate for gate in COUNTED if gate.key == key)
    return gate.judge_counts(now, before, GateOptions(), COMPARE)


class TestRowsNotLost:
    @pytest.mark.parametrize(("rows", "parent"), [(100, None), (0, None), (50, 100), (100, 50), (0, 0)])
    def test_holds(self, rows: int, parent: int | None) -> None:
        assert judge("max_row_loss", Counts(rows=rows), None if parent is None else Counts(rows=parent)).passed

    @pytest.mark.parametrize(("rows", "parent"), [(49, 100), (0, 1)])
    def test_fails(self, rows: int, parent: int) -> None:
        gate = judge("max_row_loss", Counts(rows=rows), Counts(rows=parent))
        assert not gate.passed
        assert gate.value == pytest.approx(1 - rows / parent)
        assert gate.message.startswith(f"{rows} rows, the live version has {parent}; a loss of ")
        assert "50% allowed; to see what is gone: inset diff m a b; if that is right, raise gates" in gate.message
