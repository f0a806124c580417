"""Shared by the index engines: columns for filters and BM25, and a stable order of ties."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

import pyarrow as pa

from backends.engines.analyser import terms
from schemas.errors import ContractError
from schemas.evidence import EVIDENCE
from schemas.filters import ACCESS, Filters, ReaderFilters
from schemas.text import section_names

Ranked = list[tuple[str, float]]
Name = TypeVar("Name")

MARGIN = 1.25
"""Fewest candidates of an approximate index, as a multiple of the rows wanted, since its last ones are unreliable.

Of 64 rows that LanceDB returns, 51 are as good as .989 of the nearest, and 40 as .997 (decision 12).
"""

SPARE = 3
"""Extra rows of an exact ranking, to see whether a tie decides; with fewer, many queries have to be repeated."""

NAMES, PAGES, SECTIONS, FIGURES = "filter_names", "filter_pages", "filter_sections", "filter_figures"
LABELS = "filter_labels"
_STRINGS = pa.list_(pa.string())
FILTERED = (
    pa.field(NAMES, _STRINGS),
    pa.field(PAGES, pa.list_(pa.int32())),
    pa.field(SECTIONS, _STRINGS),
    pa.field(FIGURES, pa.bool_()),
    pa.field(LABELS, _STRINGS),
)
"""Columns that engines add for filters: names of the document, pages, sections, whether the row has figures, page labels."""


def filtered(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the filter columns of a row.

    A document's names are its id, its sources, their file names, and their folders with a trailing slash. The label of a page
    is its number if the document has no labels.
    """
    names = {row["doc_id"]}
    for source in row["sources"]:
        parts = source.split("/")
        names |= {source, parts[-1], *("/".join(parts[:depth]) + "/" for depth in range(1, len(parts)))}
    pages = sorted({row["page"], *(region["page"] for region in row["regions"])})
    return {
        NAMES: sorted(names),
        PAGES: pages,
        SECTIONS: section_names(row["section_path"]),
        FIGURES: bool(row["figure_refs"] or row["figure_id"]),
        LABELS: sorted({label.casefold() for label in row["page_labels"] or map(str, pages) if label}),
    }


_TERMS = "terms_"


def terms_column(field: str) -> str:
    """Return the column of a field's terms."""
    return f"{_TERMS}{field}"


def is_terms(column: str) -> bool:
    """Return whether a column holds terms."""
    return column.startswith(_TERMS)


def kept_columns(schema: pa.Schema, fields: Sequence[str]) -> list["pa.Field[Any]"]:
    """Return the columns of an engine's rows, vectors included; fields only for BM25 are stored as terms alone."""
    rows = [column for column in schema if column.name not in fields or column.name in EVIDENCE.names]
    return [*rows, *FILTERED, *(pa.field(terms_column(field), pa.string()) for field in fields)]


def added_columns(batch: pa.RecordBatch, fields: Sequence[str]) -> dict[str, list[Any]]:
    """Return the columns that an engine adds to rows."""
    inputs = ["doc_id", "sources", "page", "regions", "section_path", "figure_refs", "figure_id", "page_labels"]
    rows = [filtered(row) for row in batch.select(inputs).to_pylist()]
    languages = batch.column("language").to_pylist()
    added: dict[str, list[Any]] = {column.name: [row[column.name] for row in rows] for column in FILTERED}
    for field in fields:
        texts: list[Any] = batch.column(field).to_pylist()
        added[terms_column(field)] = [
            terms(text if isinstance(text, str) else "\n".join(text), language)
            for text, language in zip(texts, languages, strict=True)
        ]
    return added


def check_filters(filters: Filters, columns: Callable[[], Collection[str]]) -> None:
    """Raise if a collection with these columns can't apply filters.

    Raises:
        ContractError: There are globs, page ranges or phrases, which engines don't support.
    """
    if filters.sources or filters.page_ranges or filters.phrases:
        raise ContractError("globs, page ranges and phrases must be resolved before a search in an engine")
    if isinstance(filters, ReaderFilters) and filters.allowed.principals and ACCESS not in columns():
        raise ContractError("rows of this index carry no rights, so a reader's principals can't be compared with them")


def check_columns(schema: pa.Schema, dimensions: Mapping[str, int], fields: Sequence[str]) -> None:
    """Raise ``ContractError`` if a schema lacks a field or vector column of the index."""
    for field in fields:
        if field not in schema.names:
            raise ContractError(f"rows of an index need a column {field}")
    for space, dimension in dimensions.items():
        if dimension_of(schema, space) != dimension:
            raise ContractError(f"column vector_{space} must be a list of {dimension} floats, or a list of those")


def dimension_of(schema: pa.Schema, space: str) -> int | None:
    """Return the length of a space's vectors; None if the schema has none."""
    if f"vector_{space}" not in schema.names:
        return None
    kind = schema.field(f"vector_{space}").type
    if is_late(schema, space):
        kind = kind.value_type
    return kind.list_size if isinstance(kind, pa.FixedSizeListType) else None


def is_late(schema: pa.Schema, space: str) -> bool:
    """Return whether rows have several vectors in a space."""
    return isinstance(schema.field(f"vector_{space}").type, pa.ListType)


def encodable(text: str) -> str:
    """Replace lone surrogates, which JSON can carry and UTF-8 can't."""
    return text.encode("utf-8", "replace").decode("utf-8")


def first(search: Callable[[int], Ranked], k: int) -> Ranked:
    """Return the best ``k`` rows of an engine with unordered ties and exact results; arguments as for ``with_ties``."""
    return in_order(with_ties(search, k))[:k]


def in_order(ranked: Ranked) -> Ranked:
    """Return rows best first, ties by id."""
    return sorted(ranked, key=lambda pair: (-pair[1], pair[0]))


def with_ties(search: Callable[[int], list[tuple[Name, float]]], k: int, least: int = 0) -> list[tuple[Name, float]]:
    """Return the rows that score at least as high as the ``k``-th best, unordered, so that ties can be sorted.

    The limit grows until the last row scores below the ``k``-th. ``search`` returns the best rows, up to a limit; fewer mean that
    there are no more. An approximate index is asked for at least ``least`` rows, so that a short answer is the beginning of a
    longer one; 0 means ``k + SPARE``.
    """
    if k <= 0:
        return []
    limit = least or k + SPARE
    while least and limit < MARGIN * k:
        limit *= 2
    while True:
        hits = search(limit)
        scores = sorted((score for _, score in hits), reverse=True)
        if len(hits) < limit or scores[k - 1] > scores[-1]:
            lowest = scores[k - 1] if k <= len(scores) else -math.inf
            return [pair for pair in hits if pair[1] >= lowest]
        limit *= 2
