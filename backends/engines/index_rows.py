"""What the index engines share: what filters and BM25 look at, and a first page that ties can't shuffle."""

import math
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, TypeVar

import pyarrow as pa

from backends.engines.analyser import terms
from schemas.errors import ContractError, RequestError
from schemas.evidence import EVIDENCE, Filters
from schemas.words import section_names

Ranked = list[tuple[str, float]]
Name = TypeVar("Name")

MARGIN = 1.25
"""How many times the rows wanted an approximate index is asked for at least: it is least sure of the last ones.

Of 64 rows that LanceDB gives, 51 are as good as .989 of the nearest, and 40 as .997.
"""

SPARE = 3
"""Rows that an exact ranking is asked for beyond those wanted, to see whether a tie decides.

Of 299 questions for ten of 5,811 rows of real documents 1 asks again, with one row to spare 8: too many for the slowest
hundredth. Of 300 for ten of 100,000 made-up rows, which are all of one length, it is 6 and 44.
"""

NAMES, PAGES, SECTIONS, FIGURES = "filter_names", "filter_pages", "filter_sections", "filter_figures"
FILTERED = (
    pa.field(NAMES, pa.list_(pa.string())),
    pa.field(PAGES, pa.list_(pa.int32())),
    pa.field(SECTIONS, pa.list_(pa.string())),
    pa.field(FIGURES, pa.bool_()),
)
"""Columns that an engine adds for filters: what a row's document is called, its pages and sections, whether it has figures."""


def filtered(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return what filters look at, by column.

    A document's names are its id, its sources, their file names, and their folders with a slash at the end.
    """
    names = {row["doc_id"]}
    for source in row["sources"]:
        parts = source.split("/")
        names |= {source, parts[-1], *("/".join(parts[:depth]) + "/" for depth in range(1, len(parts)))}
    return {
        NAMES: sorted(names),
        PAGES: sorted({row["page"], *(region["page"] for region in row["regions"])}),
        SECTIONS: section_names(row["section_path"]),
        FIGURES: bool(row["figure_refs"] or row["figure_id"]),
    }


_TERMS = "terms_"


def terms_column(field: str) -> str:
    """Return the column that an engine adds for the terms of a field."""
    return f"{_TERMS}{field}"


def is_terms(column: str) -> bool:
    """Return whether a column holds terms."""
    return column.startswith(_TERMS)


def kept_columns(schema: pa.Schema, fields: Sequence[str]) -> list["pa.Field[Any]"]:
    """Return the columns of an engine's rows, vectors among them.

    What is there for BM25 alone is kept as terms, and not as it is written.
    """
    rows = [column for column in schema if column.name not in fields or column.name in EVIDENCE.names]
    return [*rows, *FILTERED, *(pa.field(terms_column(field), pa.string()) for field in fields)]


def added_columns(batch: pa.RecordBatch, fields: Sequence[str]) -> dict[str, list[Any]]:
    """Return the columns that an engine adds to rows."""
    looked_at = ["doc_id", "sources", "page", "regions", "section_path", "figure_refs", "figure_id"]
    rows = [filtered(row) for row in batch.select(looked_at).to_pylist()]
    languages = batch.column("language").to_pylist() if "language" in batch.schema.names else [None] * batch.num_rows
    added: dict[str, list[Any]] = {column.name: [row[column.name] for row in rows] for column in FILTERED}
    for field in fields:
        texts: list[Any] = batch.column(field).to_pylist()
        added[terms_column(field)] = [
            terms(text if isinstance(text, str) else "\n".join(text), language)
            for text, language in zip(texts, languages, strict=True)
        ]
    return added


def check_filters(filters: Filters, columns: Container[str]) -> None:
    """Refuse what the rows of a collection can't be narrowed by.

    Args:
        filters: Asked for.
        columns: Of the collection.

    Raises:
        ContractError: Globs, page ranges or phrases are still to be resolved: engines know nothing of them.
        RequestError: The collection is of an earlier release, which kept nothing to compare with.
    """
    if filters.sources or filters.page_ranges or filters.phrases:
        raise ContractError("globs, page ranges and phrases are to be resolved before an engine is asked")
    needed = {
        "a section": SECTIONS if filters.sections else None,
        "figures": FIGURES if filters.has_figure is not None else None,
        "dates": "date" if filters.since or filters.until else None,
        "languages": "language" if filters.languages else None,
        "folders": SECTIONS if any(name.endswith("/") for name in filters.documents) else None,
    }
    if absent := [what for what, column in needed.items() if column is not None and column not in columns]:
        raise RequestError(
            f"this version can't be filtered by {', '.join(absent)}: it was made by an earlier release; refresh the corpus first"
        )


def check_columns(schema: pa.Schema, dimensions: Mapping[str, int], fields: Sequence[str]) -> None:
    """Refuse a schema that lacks what an index is asked to search in.

    Raises:
        ContractError: It does.
    """
    for field in fields:
        if field not in schema.names:
            raise ContractError(f"rows of an index need a column {field}")
    for space, dimension in dimensions.items():
        if dimension_of(schema, space) != dimension:
            raise ContractError(f"column vector_{space} must be a list of {dimension} floats, or a list of those")


def dimension_of(schema: pa.Schema, space: str) -> int | None:
    """Return the length of a space's vectors; None where the schema has no such vectors."""
    if f"vector_{space}" not in schema.names:
        return None
    kind = schema.field(f"vector_{space}").type
    if is_late(schema, space):
        kind = kind.value_type
    return kind.list_size if isinstance(kind, pa.FixedSizeListType) else None


def is_late(schema: pa.Schema, space: str) -> bool:
    """Return whether a row has many vectors in a space."""
    return isinstance(schema.field(f"vector_{space}").type, pa.ListType)


def encodable(text: str) -> str:
    """Replace lone surrogates, which JSON can carry and UTF-8 can't."""
    return text.encode("utf-8", "replace").decode("utf-8")


def first(search: Callable[[int], Ranked], k: int) -> Ranked:
    """Return the best ``k`` of an engine that orders ties as it likes, and finds the same rows however many are asked for.

    Args:
        search: As for ``with_ties``.
        k: Rows wanted; [] where it isn't positive.
    """
    return in_order(with_ties(search, k))[:k]


def in_order(found: Ranked) -> Ranked:
    """Return rows best first, ties by id."""
    return sorted(found, key=lambda pair: (-pair[1], pair[0]))


def with_ties(search: Callable[[int], list[tuple[Name, float]]], k: int, least: int = 0) -> list[tuple[Name, float]]:
    """Return the rows that score as high as the ``k``-th best, in no order: those among which ties decide.

    More rows are asked for until the last one scores below the ``k``-th, so that no tie is cut by chance.

    Args:
        search: Returns the best rows, at most as many as it is asked for; fewer mean that there are no more.
        k: Rows wanted; [] where it isn't positive.
        least: Rows that an approximate index is asked for at least: it finds other rows when it is asked for more, so all that
            want fewer ask for these, and a short answer is the beginning of a longer one. 0: ``SPARE`` more than wanted.
    """
    if k <= 0:
        return []
    limit = least or k + SPARE
    while least and limit < MARGIN * k:
        limit *= 2
    while True:
        found = search(limit)
        scores = sorted((score for _, score in found), reverse=True)
        if len(found) < limit or scores[k - 1] > scores[-1]:
            lowest = scores[k - 1] if k <= len(scores) else -math.inf
            return [pair for pair in found if pair[1] >= lowest]
        limit *= 2
