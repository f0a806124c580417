"""What the index engines share: what filters and BM25 look at, and a first page that ties can't shuffle."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import pyarrow as pa

from backends.engines.analyser import terms
from schemas.errors import ContractError
from schemas.evidence import EVIDENCE

Ranked = list[tuple[str, float]]
Name = TypeVar("Name")

LEAST = 16
"""Rows that an engine is asked for at least."""

MARGIN = 1.25
"""How many times the rows wanted an engine is asked for at least: an approximate index is least sure of the last ones.

Of 64 rows that LanceDB gives, 51 are as good as .989 of the nearest, and 40 as .997 (decision 37).
"""

NAMES, PAGES = "filter_names", "filter_pages"
FILTERED = (pa.field(NAMES, pa.list_(pa.string())), pa.field(PAGES, pa.list_(pa.int32())))
"""Columns that an engine adds, so that every filter is a list predicate: what a row's document is called, and its pages."""


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
    rows = batch.select(["doc_id", "sources", "page", "regions"]).to_pylist()
    languages = batch.column("language").to_pylist() if "language" in batch.schema.names else [None] * batch.num_rows
    added: dict[str, list[Any]] = {NAMES: [names_of(row) for row in rows], PAGES: [pages_of(row) for row in rows]}
    for field in fields:
        texts: list[Any] = batch.column(field).to_pylist()
        added[terms_column(field)] = [
            terms(text if isinstance(text, str) else "\n".join(text), language)
            for text, language in zip(texts, languages, strict=True)
        ]
    return added


def names_of(row: Mapping[str, Any]) -> list[str]:
    """Return every name that a row's document goes by: its id, its sources and their file names."""
    files = (source.rpartition("/")[2] for source in row["sources"])
    return sorted({row["doc_id"], *row["sources"], *files})


def pages_of(row: Mapping[str, Any]) -> list[int]:
    """Return every page that a row touches."""
    return sorted({row["page"], *(region["page"] for region in row["regions"])})


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
    """Return the best ``k`` of an engine that orders ties as it likes.

    Args:
        search: As for ``deciding``.
        k: Rows wanted; [] where it isn't positive.
    """
    return in_order(deciding(search, k))[:k]


def in_order(found: Ranked) -> Ranked:
    """Return rows best first, ties by id."""
    return sorted(found, key=lambda pair: (-pair[1], pair[0]))


def deciding(search: Callable[[int], list[tuple[Name, float]]], k: int, least: int = LEAST) -> list[tuple[Name, float]]:
    """Return the rows that score as high as the ``k``-th best, in no order: those among which ties decide.

    More rows are asked for until the last one scores below the ``k``-th, so that no tie is cut by chance.

    Args:
        search: Returns the best rows, at most as many as it is asked for; fewer mean that there are no more.
        k: Rows wanted; [] where it isn't positive.
        least: Rows asked for at least. Where an engine finds other rows when it is asked for more, all that want fewer ask for
            these, so that a short answer is the beginning of a longer one.
    """
    if k <= 0:
        return []
    limit = least
    while limit < MARGIN * k:
        limit *= 2
    while True:
        found = search(limit)
        scores = sorted((score for _, score in found), reverse=True)
        if len(found) < limit or scores[k - 1] > scores[-1]:
            lowest = scores[k - 1] if k <= len(scores) else -math.inf
            return [pair for pair in found if pair[1] >= lowest]
        limit *= 2
