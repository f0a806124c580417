"""Golden questions."""

import json
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from schemas.errors import UserError


class GoldFigure(BaseModel):
    """A figure that answers; ``bbox`` in PDF points from the page's top left."""

    model_config = ConfigDict(frozen=True)

    page: int
    bbox: tuple[float, float, float, float]


class Question(BaseModel):
    """A golden question. ``doc`` is a source's file name; ``pages`` are those that answer, [] if none does."""

    model_config = ConfigDict(frozen=True)

    id: str
    question: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
    answer: str | None = None
    doc: str | None = None
    pages: list[int] = []
    figures: list[GoldFigure] = []
    answerable: bool = True


def load_questions(path: str) -> list[Question]:
    """Read golden questions from a JSONL file.

    Raises:
        UserError: The file can't be read, or a line is invalid; the message names the line.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UserError(f"can't read the questions {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"can't read the questions {path}: they are not UTF-8; save the file as UTF-8") from error
    questions: list[Question] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            questions.append(Question.model_validate(json.loads(line)))
        except ValidationError as error:
            mistake = error.errors()[0]
            key = ".".join(str(part) for part in mistake["loc"])
            raise UserError(f"{path}: line {number}: {key}: {mistake['msg']}") from error
        except json.JSONDecodeError as error:
            raise UserError(f"{path}: line {number} is not JSON: {error.msg}") from error
        except (ValueError, RecursionError) as error:  # numbers of thousands of digits, or as many brackets
            raise UserError(f"{path}: line {number} holds what no question may: {type(error).__name__}") from error
    return questions
