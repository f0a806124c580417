"""Files of JSON lines: a record each, such as a question."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from schemas.errors import UserError

Record = TypeVar("Record", bound=BaseModel)


def read_records(path: Path, kind: type[Record], noun: str) -> list[Record]:
    """Read records from a JSONL file; empty lines count for nothing.

    Args:
        path: The file.
        kind: The type of a record.
        noun: What they are called in messages, such as "questions".

    Raises:
        UserError: The file can't be read, or a line is invalid; the message names the line.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UserError(f"can't read the {noun} {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"can't read the {noun} {path}: they are not UTF-8; save the file as UTF-8") from error
    records: list[Record] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            records.append(kind.model_validate(json.loads(line)))
        except (ValueError, RecursionError) as error:
            raise UserError(mistake_at(f"{path}: line {number}", error)) from error
    return records


def write_records(records: Iterable[BaseModel], path: Path, *, exclude_defaults: bool = False) -> None:
    """Write records as JSONL.

    Raises:
        UserError: The file can't be written.
    """
    lines = (record.model_dump_json(exclude_defaults=exclude_defaults) for record in records)
    try:
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    except OSError as error:
        raise UserError(f"can't write {path}: {error.strerror}") from error


def mistake_at(location: str, error: ValueError | RecursionError, *, below: str = "") -> str:
    """Return one line that says what is wrong with a record, such as a question, at a place.

    Args:
        location: A file, and perhaps a line of it.
        error: What its validation raised.
        below: Stands before the key, where a part of a record was validated.
    """
    if isinstance(error, ValidationError):
        mistake = error.errors()[0]
        key = ".".join(str(part) for part in mistake["loc"])
        return f"{location}: {below}{key}: {mistake['msg']}"
    if isinstance(error, json.JSONDecodeError):
        return f"{location} is not JSON: {error.msg}"
    return f"{location} holds what no record may: {type(error).__name__}"  # thousands of digits, or as many brackets
