"""What is pinned of a step holds it to its version."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from schemas.geometry import BBox
from tests.pins import Near, Step, check_pins, digest, fault, renewed

CHUNK = Step("chunk", "5", "CHUNK_VERSION", "tasks/enriching/chunk.py")
MADE = {"a.pdf": ("in", "out"), "b.pdf": ("in", "out")}
PINNED = renewed(None, CHUNK, MADE)


def test_what_is_pinned_holds(tmp_path: Path) -> None:
    file = tmp_path / "outputs.json"
    with pytest.raises(AssertionError, match="not pinned yet"):
        check_pins(file, CHUNK, MADE, update=False)
    check_pins(file, CHUNK, MADE, update=True)
    check_pins(file, CHUNK, MADE, update=False)
    assert json.loads(file.read_text()) == {"chunk": PINNED}


def test_a_changed_output_wants_a_new_version_and_is_not_renewed_without() -> None:
    changed = MADE | {"b.pdf": ("in", "other")}
    message = "the output of `chunk` changed (of b.pdf): raise CHUNK_VERSION (tasks/enriching/chunk.py) and run: make pin"
    assert fault(PINNED, CHUNK, changed) == message
    with pytest.raises(ValueError, match="raise CHUNK_VERSION"):
        renewed(PINNED, CHUNK, changed)
    raised = replace(CHUNK, version="6")
    assert fault(renewed(PINNED, raised, changed), raised, changed) is None


def test_a_new_version_wants_a_new_pin() -> None:
    raised = replace(CHUNK, version="6")
    assert fault(PINNED, raised, MADE) == ("CHUNK_VERSION (tasks/enriching/chunk.py) is 6, pinned is 5; run: make pin")
    assert fault(renewed(PINNED, raised, MADE), raised, MADE) is None, "the output may be what it was"


@pytest.mark.parametrize("other_input", [MADE | {"b.pdf": ("other", "other")}, {"a.pdf": ("in", "out")}])
def test_another_input_wants_a_new_pin_only(other_input: dict[str, tuple[str, str]]) -> None:
    assert str(fault(PINNED, CHUNK, other_input)).endswith("run: make pin")
    assert fault(renewed(PINNED, CHUNK, other_input), CHUNK, other_input) is None


MODEL = Step("model", "1", "SETTINGS_VERSION", "backends/models/model.py")


def vectors(*numbers: float, name: str = "12: a pump") -> dict[str, tuple[str, str | Near]]:
    return {"texts": ("in", Near([(name, numbers)], tolerance=0.002, places=3))}


def test_what_a_model_makes_may_differ_by_rounding_and_does_not_drift() -> None:
    pinned = json.loads(json.dumps(renewed(None, MODEL, vectors(0.5, -0.1234))))
    assert pinned["outputs"] == {"texts": ["in", ["12: a pump: 0.500 -0.123"]]}
    near = vectors(0.5015, -0.1234)
    assert fault(pinned, MODEL, near) is None
    assert renewed(pinned, MODEL, near) == pinned
    assert renewed(pinned, replace(MODEL, version="2"), near)["outputs"] == pinned["outputs"]


@pytest.mark.parametrize(
    "changed", [vectors(0.5, -0.12), vectors(0.5), vectors(0.5, -0.123, name="12: a valve"), {"texts": ("in", Near([], 1))}]
)
def test_what_a_model_makes_otherwise_wants_a_new_version(changed: dict[str, tuple[str, str | Near]]) -> None:
    pinned = renewed(None, MODEL, vectors(0.5, -0.123))
    assert str(fault(pinned, MODEL, changed)).endswith(
        "raise SETTINGS_VERSION (backends/models/model.py) and run: make pin"
    )
    with pytest.raises(ValueError, match="raise SETTINGS_VERSION"):
        renewed(pinned, MODEL, changed)
    raised = replace(MODEL, version="2")
    assert fault(renewed(pinned, raised, changed), raised, changed) is None


def test_a_digest_sees_everything_but_what_nobody_sees() -> None:
    box = BBox(1.0, 2.0, 3.0, 4.0)
    assert digest(box) == digest(box._replace(x0=1.001)) != digest(box._replace(x0=1.01))
    assert digest(CHUNK) != digest(replace(CHUNK, name="cut"))
    assert digest({"a": -0.0}) == digest({"a": 0.0}) != digest({"b": 0.0})
