"""Digests of what the steps make, pinned with the steps' versions: a changed output without a new version poisons every cache."""

import dataclasses
import enum
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

DECIMALS = 2
"""Places of a coordinate that count, in points: what lies below differs between processors, and nobody sees it."""


@dataclasses.dataclass(frozen=True)
class Near:
    """What a model makes: processors differ in the last bits of its numbers, which no digest would forgive.

    Attributes:
        rows: A name, which counts exactly, and numbers, of which none may be further off than the tolerance.
        tolerance: In the numbers' own unit.
        places: Decimal places that are pinned.
    """

    rows: Sequence[tuple[str, Sequence[float]]]
    tolerance: float
    places: int = 0

    def pinned(self) -> list[str]:
        """Return the rows as they are written down, a line each."""
        return [f"{name}: {' '.join(f'{number:.{self.places}f}' for number in numbers)}" for name, numbers in self.rows]

    def is_as(self, pinned: object) -> bool:
        """Return whether the rows are those that were written down."""
        if not isinstance(pinned, list) or len(pinned) != len(self.rows):
            return False
        for line, (name, numbers) in zip(pinned, self.rows, strict=True):
            pinned_name, _, values = line.rpartition(":")
            before = [float(number) for number in values.split()]
            if pinned_name != name or len(before) != len(numbers):
                return False
            if any(abs(expected - actual) > self.tolerance for expected, actual in zip(before, numbers, strict=True)):
                return False
        return True


Outputs = Mapping[str, tuple[str, str | Near]]
"""The digest of a step's input, and that of what it makes of it, or numbers that are near it; by the input's name."""


@dataclasses.dataclass(frozen=True)
class Step:
    """A step of the build, its version, and where that stands."""

    name: str
    version: str
    constant: str
    file: str


def digest(value: object) -> str:
    """Digest nouns, tables, bytes and plain values, field names included: they are columns of what is kept."""
    return hashlib.sha256(json.dumps(_plain(value), sort_keys=True, ensure_ascii=False).encode()).hexdigest()[:32]


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        held_by_name = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        if held_by_name.get("pdf", "") is None:  # of a PDF nothing is converted, and its outputs are as before
            del held_by_name["pdf"]
        return {name: _plain(item) for name, item in held_by_name.items()}
    if isinstance(value, pa.Table):
        return [str(value.schema), _plain(value.to_pylist())]
    match value:
        case float():
            return round(value, DECIMALS) + 0.0  # no negative zero
        case bytes():
            return hashlib.sha256(value).hexdigest()
        case enum.Enum():
            return str(value.value)
        case Mapping():
            return {str(name): _plain(item) for name, item in value.items()}
        case set() | frozenset():
            return sorted(map(_plain, value))
        case tuple() | list():
            return [_plain(item) for item in value]
        case _:
            return value


def fault(pinned: Mapping[str, Any] | None, step: Step, outputs: Outputs) -> str | None:
    """Say what is wrong with a step's outputs against what is pinned of it; None where nothing is.

    A step may make something else of another input: its key covers the input. What it makes of the same input is bound to
    its version.
    """
    if pinned is None:
        return f"the output of `{step.name}` is not pinned yet; run: make pin"
    if pinned["version"] != step.version:
        return f"{step.constant} ({step.file}) is {step.version}, pinned is {pinned['version']}; run: make pin"
    if changed := _changed(pinned, outputs):
        names = ", ".join(changed)
        return f"the output of `{step.name}` changed (of {names}): raise {step.constant} ({step.file}) and run: make pin"
    if {name: input_digest for name, (input_digest, _) in pinned["outputs"].items()} != {
        name: input_digest for name, (input_digest, _) in outputs.items()
    }:
        return f"`{step.name}` is given something else than what is pinned; run: make pin"
    return None


def _changed(pinned: Mapping[str, Any], outputs: Outputs) -> list[str]:
    before = pinned["outputs"]
    return [
        name
        for name, (input_digest, output) in outputs.items()
        if name in before and before[name][0] == input_digest and not _is_as(output, before[name][1])
    ]


def _is_as(output: str | Near, pinned: object) -> bool:
    return output.is_as(pinned) if isinstance(output, Near) else output == pinned


def renewed(pinned: Mapping[str, Any] | None, step: Step, outputs: Outputs) -> dict[str, Any]:
    """Return what to pin of a step.

    Raises:
        ValueError: It makes something else of the same input under the same version.
    """
    if pinned is not None and pinned["version"] == step.version and _changed(pinned, outputs):
        raise ValueError(fault(pinned, step, outputs))
    pinned_outputs = {} if pinned is None else pinned["outputs"]
    # What is near enough stays as it was pinned first: from pin to pin it would drift away.
    new_outputs = {
        name: pinned_outputs[name][1]
        if name in pinned_outputs and _is_as(output, pinned_outputs[name][1])
        else (output.pinned() if isinstance(output, Near) else output)
        for name, (_, output) in outputs.items()
    }
    return {
        "version": step.version,
        "outputs": {name: [input_digest, new_outputs[name]] for name, (input_digest, _) in outputs.items()},
    }


def check_pins(file: Path, step: Step, outputs: Outputs, *, update: bool) -> None:
    """Hold a step to what ``file`` pins of it, or pin it again."""
    pins: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    if update:
        pins[step.name] = renewed(pins.get(step.name), step, outputs)
        file.write_text(json.dumps(pins, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    wrong = fault(pins.get(step.name), step, outputs)
    if wrong is not None:
        raise AssertionError(wrong)
