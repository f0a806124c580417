"""Read question sets as people and public datasets keep them."""

import ast
import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from evaluation.questions import Question, mistake_at
from schemas.errors import UserError

Row = Mapping[str, Any]

_LISTS = frozenset({"documents", "pages", "evidence_types", "evidence_sources", "doc_types"})
"""Columns of CSV whose cells hold several values, separated by semicolons."""

_BETWEEN = re.compile(r"[ \t\r\n,]*")
"""What stands between entries of a JSON array."""

_READ = frozenset(Question.model_fields) | {"doc", "evidence_sources"}
"""Keys of our own form."""

_REMEDIES = {
    "id": "give each question an id of its own",
    "question": "write its words",
    "pages": "write pages of the PDF, counted from 1; in CSV as 3; 4 or as pump.pdf#3; winch.pdf#7",
    "regions": "write page and bbox: left, top, right, bottom in PDF points",
    "figures": "write page and bbox: left, top, right, bottom in PDF points",
    "answerable": "write true or false",
}
_REMEDY = "correct the row"


@dataclass(frozen=True)
class Form:
    """A public dataset's form: the keys that all of its rows have, and no other form's, and what reads a row."""

    keys: frozenset[str]
    read: Callable[[Row], Iterator[dict[str, Any]]]


@dataclass(frozen=True)
class QuestionFile:
    """What a file of a form holds; ``mistakes`` is a line a row that can't be read, ``unread`` our own form's unknown keys."""

    form: str
    questions: list[Question] = field(default_factory=list)
    mistakes: list[str] = field(default_factory=list)
    unread: set[str] = field(default_factory=set)


def read_question_file(path: Path, form: str = "auto") -> QuestionFile:
    """Read questions, numbered if without id, from CSV (separated by comma, semicolon or tab), JSONL, or one JSON array.

    ``form`` is ``inset``, a name in ``FORMS``, or ``auto``, which goes by the keys of the rows. Raises ``UserError`` if the file
    can't be read at all.
    """
    rows = list(read_rows(path))
    if form == "auto":
        keys = next((row.keys() for _, row in rows if isinstance(row, dict)), ())
        form = next((name for name, file_form in FORMS.items() if file_form.keys <= set(keys)), OWN)
    question_file = QuestionFile(form)
    number, ids = 0, dict[str, int]()
    for line, row in rows:
        if form == OWN and isinstance(row, dict):
            question_file.unread.update(row.keys() - _READ)
        try:
            question_fields = list(_question_fields(form, row))
        except (ValueError, RecursionError) as error:
            question_file.mistakes.append(mistake_of(f"{path}: line {line}", error))
            number += 1
            continue
        for fields in question_fields:
            number += 1
            try:
                question = Question.model_validate({"id": f"{path.stem}-{number:04}"} | fields)
                if question.id in ids:
                    raise _RowError(f"id: {question.id} is the id of line {ids[question.id]}, too; {_REMEDIES['id']}")
            except (ValueError, RecursionError) as error:
                question_file.mistakes.append(mistake_of(f"{path}: line {line}", error))
            else:
                ids[question.id] = line
                question_file.questions.append(question)
    return question_file


class _RowError(ValueError):
    """A row that isn't in its file's form; says what is wrong and what to do."""


def mistake_of(location: str, error: ValueError | RecursionError) -> str:
    """Return one line that says what is wrong with a row at a place, and what to do."""
    if isinstance(error, _RowError):
        return f"{location}: {error}"
    key = str(error.errors()[0]["loc"][0]) if isinstance(error, ValidationError) and error.errors()[0]["loc"] else ""
    return f"{mistake_at(location, error)}; {_REMEDIES.get(key, _REMEDY)}"


def _question_fields(form: str, row: Any) -> Iterator[dict[str, Any]]:
    if isinstance(row, ValueError | RecursionError):
        raise row
    if not isinstance(row, dict):
        raise _RowError(f"it isn't a JSON object; {_REMEDY}")
    if form == OWN:
        yield {key: value for key, value in row.items() if value is not None}
        return
    if lacking := sorted(FORMS[form].keys - row.keys()):
        raise _RowError(f"{lacking[0]} is missing, which rows of {form} have; {_REMEDY}")
    try:
        yield from FORMS[form].read(row)
    except (AttributeError, KeyError, SyntaxError, TypeError) as error:
        raise _RowError(f"it is not in the form of {form} ({type(error).__name__}: {error}); {_REMEDY}") from error


def read_rows(path: Path) -> Iterator[tuple[int, Any]]:
    """Yield line and row, or an error for a row that isn't CSV or JSON; raises ``UserError`` if the file can't be read."""
    try:
        content = path.read_bytes()
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise UserError(f"can't read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(
            f"can't read {path}: it is not UTF-8; save it, or the sheet of a workbook, as CSV in UTF-8"
        ) from error
    if path.suffix.lower() in {".csv", ".tsv"}:
        yield from _csv_rows(text)
    elif text.lstrip()[:1] == "[":
        yield from _array_rows(path, text)
    else:
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip():
                try:
                    yield number, json.loads(line)
                except (ValueError, RecursionError) as error:
                    yield number, error


def _array_rows(path: Path, text: str) -> Iterator[tuple[int, Any]]:
    decoder = json.JSONDecoder()
    line, counted_to, position = 1, 0, text.index("[") + 1
    while True:
        between = _BETWEEN.match(text, position)
        position = between.end() if between else position
        line, counted_to = line + text.count("\n", counted_to, position), position
        if text.startswith("]", position):
            return
        try:
            row, position = decoder.raw_decode(text, position)
        except (ValueError, RecursionError) as error:
            raise UserError(f"{mistake_at(f'{path}: line {line}', error)}; correct the file") from error
        yield line, row


def _csv_rows(text: str) -> Iterator[tuple[int, Any]]:
    """Yield the rows of a table whose first line names the columns."""
    first_line = text.partition("\n")[0]
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=max(",;\t", key=first_line.count))
    names: list[str] | None = None
    line, next_line = 1, 1
    try:
        for cells in reader:
            line, next_line = next_line, reader.line_num + 1
            if names is None:
                names = [name.strip() for name in cells]
            elif len(cells) > len(names) and any(cells[len(names) :]):
                mistake = f"it has {len(cells)} cells and the header {len(names)}; put cells with separators into quotes"
                yield line, _RowError(mistake)
            elif any(cell.strip() for cell in cells):
                yield line, _parse_cells(dict(zip(names, cells, strict=False)))
    except csv.Error as error:
        yield next_line, _RowError(f"it is not CSV ({error}), and the rest isn't read; {_REMEDY}")


def _parse_cells(cells: Mapping[str, str]) -> dict[str, Any] | ValueError | RecursionError:
    """Return the values of a row of CSV, or what is wrong with it."""
    row: dict[str, Any] = {}
    try:
        for name, cell in cells.items():
            value = cell.strip()
            if not value:
                continue
            if value[0] in "[{" and name in _READ - {"id", "question", "answer"}:
                row[name] = json.loads(value)
            elif name in _LISTS:
                row[name] = [part.strip() for part in value.split(";") if part.strip()]
            else:
                row[name] = value
        if isinstance(pages := row.get("pages"), list):
            row["pages"] = [_page(page) for page in pages]
    except (ValueError, RecursionError) as error:
        return error
    return row


def _page(page: Any) -> Any:
    """Return the page of ``3`` or ``pump.pdf#3``; what is neither stays, and is refused as a page."""
    if not isinstance(page, str):
        return page
    document, _, number = page.rpartition("#")
    if not (number.isascii() and number.isdecimal()):
        return page
    return {"page": int(number), "doc": document} if document else int(number)


def _mmlongbench(row: Row) -> Iterator[dict[str, Any]]:
    yield {
        "question": row["question"],
        "answer": row["answer"],
        "doc": row["doc_id"],
        "pages": _parse_list(row["evidence_pages"]),
        "evidence_types": _kinds(_parse_list(row["evidence_sources"])),
        "doc_types": [row["doc_type"]],
        "answerable": row["answer"] != "Not answerable",
    }


def _mmdocir(row: Row) -> Iterator[dict[str, Any]]:
    for question_row in row["questions"]:
        kinds = question_row["type"]
        yield {
            "question": question_row["Q"],
            "answer": question_row["A"],
            "doc": row["doc_name"],
            "pages": [_page_from_one(page) for page in question_row["page_id"]],
            "regions": [
                {"page": _page_from_one(region["page"]), "bbox": region["bbox"]}
                for region in question_row["layout_mapping"]
            ],
            "evidence_types": _kinds(_parse_list(kinds) if kinds.startswith("[") else [kinds]),
            "doc_types": [row["domain"]],
        }


def _ohrbench(row: Row) -> Iterator[dict[str, Any]]:
    pages = row["evidence_page_no"]
    yield {
        "id": row["ID"],
        "question": row["questions"],
        "answer": row["answers"],
        "doc": _pdf(row["doc_name"]),
        "pages": [_page_from_one(page) for page in (pages if isinstance(pages, list) else [pages])],
        "evidence_types": _kinds([row["evidence_source"]]),
        "doc_types": [row["doc_type"]],
    }


def _financebench(row: Row) -> Iterator[dict[str, Any]]:
    pages = [(_pdf(evidence["doc_name"]), _page_from_one(evidence["evidence_page_num"])) for evidence in row["evidence"]]
    yield {
        "id": row["financebench_id"],
        "question": row["question"],
        "answer": row["answer"],
        "documents": [_pdf(row["doc_name"])],
        "pages": [{"doc": doc, "page": page} for doc, page in dict.fromkeys(pages)],
        "doc_types": [row["doc_type"]] if row.get("doc_type") else [],
    }


def _mmdocrag(row: Row) -> Iterator[dict[str, Any]]:
    quotes = {quote["quote_id"]: quote for quote in [*row["text_quotes"], *row["img_quotes"]]}
    yield {
        "id": str(row["q_id"]),
        "question": row["question"],
        "answer": row["answer_short"],
        "doc": _pdf(row["doc_name"]),
        "pages": sorted({_page_from_one(quotes[name]["page_id"]) for name in row["gold_quotes"]}),
        "evidence_types": _kinds(row["evidence_modality_type"]),
        "doc_types": [row["domain"]],
    }


OWN = "inset"
FORMS = {
    "mmlongbench": Form(frozenset({"doc_id", "question", "answer", "evidence_pages", "evidence_sources"}), _mmlongbench),
    "mmdocir": Form(frozenset({"doc_name", "domain", "questions", "layout_indices"}), _mmdocir),
    "ohrbench": Form(frozenset({"ID", "doc_name", "questions", "answers", "evidence_page_no"}), _ohrbench),
    "financebench": Form(frozenset({"financebench_id", "doc_name", "question", "answer", "evidence"}), _financebench),
    "mmdocrag": Form(frozenset({"q_id", "doc_name", "question", "gold_quotes", "text_quotes", "img_quotes"}), _mmdocrag),
}
"""Forms of public datasets: MMLongBench-Doc, MMDocIR, OHR-Bench, FinanceBench, MMDocRAG. All but the first count pages from 0."""

_KINDS = {
    "pure-text": "text",
    "generalized-text": "layout",
    "text-only": "text",
    "multimodal-t": "table",
    "multimodal-f": "figure",
    "meta-data": "layout",
}
"""Our names of evidence types that datasets call otherwise; those of DocBench are in MMDocIR."""


def _kinds(names: list[str]) -> list[str]:
    """Return evidence types in lower case, without what is in brackets, each once."""
    plain_names = [name.partition("(")[0].strip().lower() for name in names]
    return list(dict.fromkeys(_KINDS.get(name, name) for name in plain_names))


def _parse_list(cell: Any) -> Any:
    """Return the list that a string such as ``['Chart']`` writes in Python."""
    return ast.literal_eval(cell) if isinstance(cell, str) else cell


def _page_from_one(page: int) -> int:
    """Return a page counted from 1 that is counted from 0."""
    return page + 1


def _pdf(name: str) -> str:
    """Return the file name of a document that a dataset names by folder, without its ending."""
    last = name.rpartition("/")[2]
    return last if last.lower().endswith(".pdf") else f"{last}.pdf"


def write_questions(questions: Sequence[Question], path: Path) -> None:
    """Write questions as JSONL; errors as for ``write_records``."""
    write_records(questions, path, exclude_defaults=True)


def write_records(records: Iterable[BaseModel], path: Path, *, exclude_defaults: bool = False) -> None:
    """Write records as JSONL; raises ``UserError`` if the file can't be written."""
    lines = (record.model_dump_json(exclude_defaults=exclude_defaults) for record in records)
    try:
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    except OSError as error:
        raise UserError(f"can't write {path}: {error.strerror}") from error
