"""Questions with known answers."""

import json
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from schemas.errors import UserError
from schemas.filters import PageNumber
from schemas.geometry import Box


class GoldPage(BaseModel):
    """A page that answers; ``doc`` is a source's file name, None for any document."""

    model_config = ConfigDict(frozen=True)

    page: PageNumber
    doc: str | None = None


class GoldRegion(GoldPage):
    """A part of a page that answers: a figure, a table, or text; ``bbox`` in PDF points from the page's top left."""

    bbox: Box


class Question(BaseModel):
    """A question, its answer and its evidence.

    In files, ``doc`` with page numbers in ``pages``, and ``figures`` or ``regions`` without ``doc``, is the short form for
    questions of one document.

    Attributes:
        id: Unique in its file.
        question: The words.
        answer: The expected answer.
        documents: File names of the sources that hold evidence.
        pages: Pages that answer.
        regions: Parts of pages that answer.
        figures: Figures that a good answer shows, in their order.
        evidence: Judged rows: grade by evidence id, 0 for irrelevant ones; {} if none was judged. Valid for one version.
        evidence_documents: File names of the sources of its relevant judged rows.
        evidence_types: Kinds of evidence it needs, such as text, table, figure.
        doc_types: Kinds of its documents, such as manual.
        answerable: Whether the corpus holds an answer.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    question: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
    answer: str | None = None
    documents: list[str] = []
    pages: list[GoldPage] = []
    regions: list[GoldRegion] = []
    figures: list[GoldRegion] = []
    evidence: dict[str, int] = {}
    evidence_documents: list[str] = []
    evidence_types: list[str] = Field([], validation_alias=AliasChoices("evidence_types", "evidence_sources"))
    doc_types: list[str] = []
    answerable: bool = True

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, question: Any) -> Any:
        if not isinstance(question, dict):
            return question
        doc = question.get("doc")
        if doc is not None and not isinstance(doc, str):
            raise ValueError("doc: write a source's file name")

        def placed(entry: Any) -> Any:
            entry = {"page": entry} if isinstance(entry, int) else entry
            return {"doc": doc, **entry} if isinstance(entry, dict) else entry

        long = {name: value for name, value in question.items() if name != "doc"}
        document_names = [*(question.get("documents") or []), *([doc] if doc else [])]
        for name in ("pages", "regions", "figures"):
            if isinstance(entries := question.get(name), list):
                long[name] = [placed(entry) for entry in entries]
                document_names += [entry["doc"] for entry in long[name] if isinstance(entry, dict) and entry.get("doc")]
        return long | {"documents": list(dict.fromkeys(document_names))}


def load_questions(path: str) -> list[Question]:
    """Read questions from a JSONL file; errors as for ``read_records``."""
    return read_records(Path(path), Question, "questions")


Record = TypeVar("Record", bound=BaseModel)


def read_records(path: Path, kind: type[Record], noun: str) -> list[Record]:
    """Read records from a JSONL file, called ``noun`` in messages; empty lines count for nothing.

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


def mistake_at(location: str, error: ValueError | RecursionError, *, below: str = "") -> str:
    """Return one line that says what is wrong with a record at a file's line; ``below`` stands before the key of a part of it."""
    if isinstance(error, ValidationError):
        mistake = error.errors()[0]
        key = ".".join(str(part) for part in mistake["loc"])
        return f"{location}: {below}{key}: {mistake['msg']}"
    if isinstance(error, json.JSONDecodeError):
        return f"{location} is not JSON: {error.msg}"
    return f"{location} holds what no record may: {type(error).__name__}"  # thousands of digits, or as many brackets
