"""Labels that people give to outcomes, from a file."""

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict

from lab.judging.metrics import METRICS
from lab.outcomes import Outcome
from lab.question_files import mistake_of, read_rows
from schemas.errors import UserError


def _check_metric(metric: object) -> object:
    if metric not in METRICS:
        raise ValueError(f"there is no judged metric {metric!r}; they are {', '.join(METRICS)}")
    return metric


class Label(BaseModel):
    """What a person says of one outcome in one metric, as yes or no, true or false, 1 or 0; a file may have further columns.

    It doesn't count for another ``answer`` than the one that the person read; None or "": it counts for any.
    """

    model_config = ConfigDict(frozen=True)

    system: str
    question_id: Annotated[str, BeforeValidator(str)]
    metric: Annotated[str, BeforeValidator(_check_metric)]
    label: bool
    answer: str | None = None

    def is_of(self, outcome: Outcome) -> bool:
        """Return whether an outcome has the answer that the person read; white space doesn't matter."""
        return not self.answer or self.answer.split() == outcome.answer_text.split()


def load_labels(path: Path) -> list[Label]:
    """Read labels from a file of any kind that holds questions.

    Raises ``UserError``, with the line, if the file can't be read, a line is invalid, or two label the same.
    """
    labels_by_key: dict[tuple[str, str, str], Label] = {}
    for number, row in read_rows(path):
        line_name = f"{path}: line {number}"
        try:
            if isinstance(row, Exception):
                raise row
            label = Label.model_validate(row)
        except (ValueError, RecursionError) as error:
            raise UserError(mistake_of(line_name, error)) from error
        if labels_by_key.setdefault((label.system, label.question_id, label.metric), label) is not label:
            raise UserError(f"{line_name} labels the same as a line before it")
    return list(labels_by_key.values())
