"""Labels that people give to outcomes, from a file."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from evaluation.json_lines import mistake_at
from evaluation.judging.metrics import METRICS
from evaluation.outcomes import Outcome
from schemas.errors import UserError


def _known(metric: object) -> object:
    if metric not in METRICS:
        raise ValueError(f"there is no judged metric {metric!r}; they are {', '.join(METRICS)}")
    return metric


class Label(BaseModel):
    """What a person says of one outcome in one metric; a file may have further columns.

    Attributes:
        system: The id of a system.
        question_id: The id of a question.
        metric: A judged metric.
        label: yes or no, true or false, 1 or 0.
        answer: The answer that the person read; the label doesn't count for another. None or "": it counts for any.
    """

    model_config = ConfigDict(frozen=True)

    system: str
    question_id: Annotated[str, BeforeValidator(str)]
    metric: Annotated[str, BeforeValidator(_known)]
    label: bool
    answer: str | None = None

    def is_of(self, outcome: Outcome) -> bool:
        """Return whether an outcome has the answer that the person read; white space doesn't matter."""
        return not self.answer or self.answer.split() == outcome.answer_text.split()


def load_labels(path: Path) -> list[Label]:
    """Read labels from a CSV file with a line of names, or from a JSONL file.

    Raises:
        UserError: The file can't be read, a line is invalid, or two label the same; the message names the line.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UserError(f"can't read the labels {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"can't read the labels {path}: they are not UTF-8; save the file as UTF-8") from error
    found: dict[tuple[str, str, str], Label] = {}
    number = 1
    try:
        for number, row in _csv(text) if path.suffix.lower() == ".csv" else _jsonl(text):
            label = Label.model_validate(row)
            if found.setdefault((label.system, label.question_id, label.metric), label) is not label:
                raise UserError(f"{path}: line {number} labels the same as a line before it")
    except ValidationError as error:
        raise UserError(mistake_at(f"{path}: line {number}", error)) from error
    except (ValueError, csv.Error, RecursionError) as error:
        raise UserError(f"{path}: after line {number}: this is no label: {error}") from error
    return list(found.values())


def _csv(text: str) -> Iterator[tuple[int, Any]]:
    rows = csv.DictReader(text.splitlines(keepends=True), restkey="more", skipinitialspace=True)
    for row in rows:
        yield rows.line_num, {name.strip(): value for name, value in row.items()}


def _jsonl(text: str) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            yield number, json.loads(line)
