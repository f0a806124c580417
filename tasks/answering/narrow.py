"""Resolve filters into what every engine can compare: documents, pages and rows."""

import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import date
from fnmatch import translate
from types import MappingProxyType
from typing import TypeVar

from schemas.errors import RequestError
from schemas.filters import NO_FILTERS, FieldTest, FieldType, Filters
from schemas.retrieval import Retriever, Steps
from schemas.text import folded

LISTED = 1_000
"""Maximum number of documents listed by name: each costs an engine 10 to 40 µs a search."""

NOTHING = Filters(evidence_ids=["none"])
"""Filters that match no row of any version."""

Plan = TypeVar("Plan", bound=Steps)

_Sources = Mapping[str, Sequence[str]]


def resolve(
    filters: Filters,
    sources: _Sources,
    longest: int,
    fields: Mapping[str, FieldType] = MappingProxyType({}),
    newest: str | None = None,
) -> Filters:
    """Return equivalent filters without globs and page ranges; ``NOTHING`` if they match no row.

    ``sources`` are by document id; ``longest`` is the number of pages of the longest document, ``fields`` are the types of
    the version's own fields, ``newest`` the one that is greatest in valid documents, where others are superseded. Raises
    ``RequestError`` where ``where`` names another field, or a value of another type.
    """
    is_named = bool(filters.documents or filters.evidence_ids or newest in filters.where)
    leaves_out = newest is not None and filters.superseded != "include" and not (filters.superseded is None and is_named)
    # A phrase of no words stands everywhere.
    changes: dict[str, object] = {
        "where": {name: _typed(name, test, fields) for name, test in filters.where.items()},
        "superseded": "exclude" if leaves_out else None,
        "phrases": list(dict.fromkeys(phrase for phrase in filters.phrases if folded(phrase))),
        "documents": list(dict.fromkeys(filters.documents)),
        "languages": [language.lower() for language in filters.languages],
        "page_labels": list(dict.fromkeys(label.casefold() for label in filters.page_labels)),
    }
    existing_pages = [page for page in dict.fromkeys(filters.pages) if page <= longest]
    if filters.pages and not (existing_pages or filters.page_ranges):
        return NOTHING
    changes["pages"] = existing_pages
    if filters.sources:
        doc_ids = _matching_documents(filters.sources, sources)
        if filters.documents:
            document_names = set(filters.documents)
            doc_ids = {doc_id for doc_id in doc_ids if not document_names.isdisjoint(names_of(doc_id, sources[doc_id]))}
        if not doc_ids:
            return NOTHING
        # Globs that fit every document restrict nothing.
        names = [] if len(doc_ids) == len(sources) else sorted(doc_ids)
        changes |= {"sources": [], "documents": _group_by_folder(doc_ids, sources) if len(names) > LISTED else names}
    if filters.page_ranges:
        pages = {*existing_pages}
        for pages_wanted in filters.page_ranges:
            pages.update(range(pages_wanted.first, min(pages_wanted.last or longest, longest) + 1))
        if not pages:
            return NOTHING
        changes |= {"page_ranges": [], "pages": sorted(pages)}
    return filters.model_copy(update=changes)


_ADVICE: Mapping[FieldType, str] = {
    "keyword": "a text, or a list of texts",
    "keywords": "a text, or a list of texts",
    "number": 'a number such as 7, a list of numbers, or bounds such as {">=": 7}',
    "date": 'a day such as 2024-03-31, or bounds such as {">=": "2024-01-01"}',
    "boolean": "true or false",
}


def _typed(name: str, test: FieldTest, fields: Mapping[str, FieldType]) -> FieldTest:
    """Return a test as engines take it: a list, true or false, or bounds. Numbers may be texts."""
    if name not in fields:
        raise RequestError(f"where: this version has no field {name}; known here: {', '.join(fields) or 'none'}")
    kind = fields[name]
    values = test if isinstance(test, list | dict) else [test]
    try:
        match kind, values:
            case "keyword" | "keywords", list() if all(isinstance(value, str) for value in values):
                return [str(value) for value in values]
            case "boolean", [bool() as truth] if len(values) == 1:
                return truth
            case "boolean", [("true" | "false") as text]:
                return text == "true"
            case "number", list():
                return [_number(value) for value in values]
            case "number", dict():
                return {comparison: _number(value) for comparison, value in values.items()}
            case "date", [str() as day]:
                return {">=": date.fromisoformat(day).isoformat(), "<=": date.fromisoformat(day).isoformat()}
            case "date", dict():
                return {comparison: date.fromisoformat(str(value)).isoformat() for comparison, value in values.items()}
    except ValueError:
        pass
    raise RequestError(f"where: {name} is a {kind}; compare it with {_ADVICE[kind]}")


def _number(value: object) -> float:
    if isinstance(value, bool) or not math.isfinite(number := float(str(value))):
        raise ValueError("no number")
    return number


def _both_where(ours: Mapping[str, FieldTest], theirs: Mapping[str, FieldTest]) -> dict[str, FieldTest] | None:
    """Return the tests that hold where both hold; None where no value can."""
    tests_by_field = {**ours}
    for name, test in theirs.items():
        earlier_test = tests_by_field.setdefault(name, test)
        if earlier_test == test:
            continue
        if not (isinstance(earlier_test, dict) and isinstance(test, dict)):
            common = (
                [value for value in earlier_test if value in test]
                if isinstance(earlier_test, list) and isinstance(test, list)
                else []
            )
            if not common:
                return None
            tests_by_field[name] = common
        else:
            tests_by_field[name] = {
                comparison: (max if comparison.startswith(">") else min)(
                    bounds[comparison] for bounds in (earlier_test, test) if comparison in bounds
                )
                for comparison in earlier_test | test
            }
    return tests_by_field


def both(first: Filters, second: Filters) -> Filters | None:
    """Return the intersection of two resolved filters; None if it is empty."""
    fields: dict[str, object] = {}
    for name in Filters.model_fields:
        ours, theirs = getattr(first, name), getattr(second, name)
        if theirs in (None, [], {}, ours):
            continue
        if ours in (None, [], {}):
            fields[name] = theirs
        elif name == "where":
            if (common_tests := _both_where(ours, theirs)) is None:
                return None
            fields[name] = common_tests
        elif name in ("since", "until"):
            fields[name] = (max if name == "since" else min)(ours, theirs)
        elif name == "has_figure" or not (common := [value for value in ours if value in theirs]):
            # Opposite answers, and lists without a common value, match no row.
            return None
        else:
            fields[name] = common
    return first.model_copy(update=fields)


def with_filters(plan: Plan, resolve_filters: Callable[[Filters], Filters]) -> Plan:
    """Return a plan with the filters of its steps replaced by ``resolve_filters`` of them."""

    def narrowed(retriever: Retriever) -> Retriever:
        filters = retriever.filters
        if filters == NO_FILTERS:
            return retriever
        # Whether superseded documents are left out is said by the query alone.
        filters = filters.model_copy(update={"superseded": filters.superseded or "include"})
        return retriever.model_copy(update={"filters": resolve_filters(filters)})

    changes: dict[str, object] = {"retrieve": [narrowed(retriever) for retriever in plan.retrieve]}
    if plan.documents is not None:
        changes["documents"] = plan.documents.model_copy(update={"by": narrowed(plan.documents.by)})
    return plan.model_copy(update=changes)


def _matching_documents(globs: Sequence[str], sources: _Sources) -> set[str]:
    doc_ids: set[str] = set()
    for glob in globs:
        matches = re.compile(translate(glob)).match
        doc_ids |= {doc_id for doc_id, document_sources in sources.items() if any(map(matches, document_sources))}
    return doc_ids


def names_of(doc_id: str, sources: Sequence[str]) -> Iterator[str]:
    """Yield the names of a document: its id, its sources, and their file names."""
    yield doc_id
    for source in sources:
        yield source
        yield source.rpartition("/")[2]
        yield from _folders(source)


def _group_by_folder(doc_ids: Collection[str], sources: _Sources) -> list[str]:
    """Name many documents briefly: by the outermost folders that hold no others, else by id."""
    mixed = {
        folder
        for doc_id, document_sources in sources.items()
        if doc_id not in doc_ids
        for source in document_sources
        for folder in _folders(source)
    }
    return sorted(
        {
            next((folder for source in sources[doc_id] for folder in _folders(source) if folder not in mixed), doc_id)
            for doc_id in doc_ids
        }
    )


def _folders(source: str) -> Iterator[str]:
    """Yield the folders around a source, outermost first, each with a final slash."""
    for position, character in enumerate(source):
        if character == "/":
            yield source[: position + 1]
