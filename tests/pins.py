"""Digests of what the steps make, pinned with the steps' versions: a changed output without a new version poisons every cache."""

import dataclasses
import enum
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

DECIMALS = 2
"""Places of a coordinate that count, in points: what lies below differs between processors, and nobody sees it."""

Outputs = Mapping[str, tuple[str, str]]
"""Digests of a step's input and of what it makes of it, by the input's name."""


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
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
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
            return {str(name): _plain(held) for name, held in value.items()}
        case set() | frozenset():
            return sorted(map(_plain, value))
        case tuple() | list():
            return [_plain(held) for held in value]
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
        named = ", ".join(changed)
        return f"the output of `{step.name}` changed (of {named}): raise {step.constant} ({step.file}) and run: make pin"
    if pinned["outputs"] != {name: list(found) for name, found in outputs.items()}:
        return f"`{step.name}` is given something else than what is pinned; run: make pin"
    return None


def _changed(pinned: Mapping[str, Any], outputs: Outputs) -> list[str]:
    before = {name: tuple(found) for name, found in pinned["outputs"].items()}
    return [
        name
        for name, (given, made) in outputs.items()
        if name in before and before[name][0] == given and before[name][1] != made
    ]


def renewed(pinned: Mapping[str, Any] | None, step: Step, outputs: Outputs) -> dict[str, Any]:
    """Return what to pin of a step.

    Raises:
        ValueError: It makes something else of the same input under the same version.
    """
    if pinned is not None and pinned["version"] == step.version and _changed(pinned, outputs):
        raise ValueError(fault(pinned, step, outputs))
    return {"version": step.version, "outputs": {name: list(found) for name, found in outputs.items()}}


def check_pins(file: Path, step: Step, outputs: Outputs, *, update: bool) -> None:
    """Hold a step to what ``file`` pins of it, or pin it anew."""
    pins: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    if update:
        pins[step.name] = renewed(pins.get(step.name), step, outputs)
        file.write_text(json.dumps(pins, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    wrong = fault(pins.get(step.name), step, outputs)
    if wrong is not None:
        raise AssertionError(wrong)
