"""A version's collection in its engine: fill, derive, read back."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from backends.stores.temporary_tables import TemporaryTables
from pipeline.corpus.workspace import Workspace
from pipeline.records.inventory import check_index_files
from pipeline.records.row_parts import Difference
from pipeline.records.vectors import SpaceVectors, VectorJoin, passage_of, passages, search_texts
from schemas.batches import batched
from schemas.errors import DamagedError
from schemas.evidence import EVIDENCE, Filters
from schemas.ports import SearchIndex
from schemas.progress import Report, silent
from schemas.versions import GateResult, Manifest
from schemas.violations import EXAMPLES
from tasks.enriching.spaces import Space, searched_text

ROWS_A_BATCH, LATE_ROWS_A_BATCH = 1_000, 100
"""Rows in memory with their vectors. The second is for late interaction, where a page has some 400 KB of vectors."""

_FOUND_ROWS = 20
"""Changed rows of a collection that was brought forward which are searched for."""
_FOUND_CHARACTERS = 200
_DOCUMENTS_A_COUNT = 100

ENGINE_GATES = ("rows read back", "sample read back")
"""Gates that judge the engine and not the inputs: a version that they refuse is built again."""


def fill(
    index: SearchIndex,
    evidence: Callable[[], Iterable[pa.Table]],
    spaces: Sequence[SpaceVectors],
    fields: Iterable[str],
    report: Report = silent,
) -> int:
    """Write rows and their vectors into a fresh collection, index it, and return the number of rows.

    An existing collection is dropped first. ``evidence`` returns the rows in parts; it is called twice, since vectors come
    in another order.

    Raises:
        DamagedError: A row lacks a vector.
    """
    schema = _schema(spaces)
    with TemporaryTables() as tables:
        joins = [VectorJoin(tables, vectors) for vectors in spaces]
        total = 0
        for part in evidence():
            rows = passages(part)
            total += len(rows)
            for join in joins:
                join.expect(rows)
        for join in joins:
            join.write()
        report("build", 0, total)
        index.create(schema, {vectors.space.name: vectors.dimension for vectors in spaces}, tuple(fields))
        index.add(_batches(evidence(), spaces, joins, schema, total, report))
    index.finish()
    return total


def derive(
    index: SearchIndex,
    earlier: SearchIndex,
    removed: Sequence[str],
    changed: Iterable[pa.Table],
    spaces: Sequence[SpaceVectors],
    fields: Iterable[str],
) -> int | None:
    """Make a collection of an earlier version's, index it, and return the number of rows written.

    Rows of ``removed`` documents are left out; ``changed`` are the rows of changed and new documents, in parts.

    Returns:
        None where the engine can't derive one from the other: then fill it.

    Raises:
        DamagedError: A row lacks a vector, or the earlier collection can't be read.
    """
    schema = _schema(spaces)
    if not index.derive(earlier, schema, tuple(fields), removed):
        return None
    slices = (rows for part in changed for rows in _slices(part, spaces))
    row_count = index.add(batch for rows in slices for batch in _embedded(rows, spaces, schema))
    for vectors in spaces:
        vectors.cache.close()
    index.finish()
    return row_count


def is_forwarded(index: SearchIndex, difference: Difference, spaces: Sequence[SpaceVectors], rows: int) -> bool:
    """Return whether a collection that was brought forward has all rows, none of gone documents, and finds changed ones."""
    counts, sample = Counter[str](), list[dict[str, Any]]()
    for part in difference.changed_rows():
        counts.update(map(str, part.column("doc_id").to_pylist()))
        sample += part.slice(0, _FOUND_ROWS - len(sample)).to_pylist()
    for names in batched(sorted({*difference.removed, *counts}), _DOCUMENTS_A_COUNT):
        if index.count(names) != sum(counts[name] for name in names):
            return False
    return index.count() == rows and all(_is_found(index, row, spaces) for row in sample)


def _is_found(index: SearchIndex, row: Mapping[str, Any], spaces: Iterable[SpaceVectors]) -> bool:
    """Return whether a row is as it was written, and is found by its own words and vectors."""
    name, own_row_only = row["evidence_id"], Filters(evidence_ids=(row["evidence_id"],))
    if index.fetch([name]) != [row]:
        return False
    for vectors in spaces:
        vector = index.vectors([name], vectors.space.name).get(name)
        if (vector is None) != (vectors.space.content(passage_of(row)) is None):
            return False
        if vector is not None and not vectors.space.late and not index.dense(vector, 1, own_row_only, vectors.space.name):
            return False
    words = searched_text(passage_of(row))
    return not any(map(str.isalnum, words)) or bool(index.bm25(words[:_FOUND_CHARACTERS], 1, own_row_only))


def holds(workspace: Workspace, manifest: Manifest) -> bool:
    """Return whether the engine still has all rows of a version.

    Raises:
        TransientError: The engine doesn't answer.
    """
    try:
        check_index_files(workspace, manifest.version)
        return workspace.index(manifest.version).count() == manifest.counts.rows
    except DamagedError:
        return False


def read_back(index: SearchIndex, sample: Iterable[pa.Table], rows: int, spaces: Iterable[Space]) -> list[GateResult]:
    """Judge a collection by its own count and by a sample of its rows, compared value by value.

    Of vectors only their presence is compared.
    """
    counted = index.count()
    expected_rows = {row["evidence_id"]: row for part in sample for row in part.to_pylist()}
    names = list(expected_rows)
    stored_rows = {row["evidence_id"]: row for row in index.fetch(names)}
    differing = {name for name, row in expected_rows.items() if stored_rows.get(name) != row}
    for space in spaces:
        embedded = {name for name, row in expected_rows.items() if space.content(passage_of(row)) is not None}
        differing |= embedded ^ index.vectors(names, space.name).keys()
    differing_rows = [row for name, row in expected_rows.items() if name in differing]
    equal_count = len(expected_rows) - len(differing_rows)
    count, sampled = ENGINE_GATES
    summary = f"the engine returns {equal_count} of {len(expected_rows)} sampled rows as they were written"
    if differing_rows:
        pages = dict.fromkeys(f"{row['sources'][0]} page {row['page']}" for row in differing_rows)
        summary += f", but not those of {', '.join([*pages][:EXAMPLES])}"
    return [
        _engine_gate(count, counted, rows, f"the engine holds {counted} rows of {rows}"),
        _engine_gate(sampled, equal_count, len(expected_rows), summary),
    ]


def _engine_gate(gate: str, value: int, bound: int, summary: str) -> GateResult:
    passed = value == bound
    remedy = "" if passed else "; the next refresh builds it again; report it if this persists"
    return GateResult(gate=gate, passed=passed, value=value, bound=bound, message=f"{summary}{remedy}")


def _batches(
    evidence: Iterable[pa.Table],
    spaces: Sequence[SpaceVectors],
    joins: Sequence[VectorJoin],
    schema: pa.Schema,
    total: int,
    report: Report,
) -> Iterator[pa.RecordBatch]:
    stop = 0
    for part in evidence:
        for rows in _slices(part, spaces):
            start, stop = stop, stop + rows.num_rows
            yield from _record_batches(rows, (join.read(start, stop) for join in joins), schema)
            report("build", stop, total)


def _embedded(rows: pa.Table, spaces: Sequence[SpaceVectors], schema: pa.Schema) -> list[pa.RecordBatch]:
    embedded = passages(rows)
    return _record_batches(rows, (vectors.of(embedded) for vectors in spaces), schema)


def _slices(part: pa.Table, spaces: Iterable[SpaceVectors]) -> Iterator[pa.Table]:
    size = LATE_ROWS_A_BATCH if any(vectors.space.late for vectors in spaces) else ROWS_A_BATCH
    return (part.slice(first, size) for first in range(0, part.num_rows, size))


def _record_batches(rows: pa.Table, vectors: Iterable["pa.Array[Any]"], schema: pa.Schema) -> list[pa.RecordBatch]:
    return pa.table([*rows.columns, pa.array(search_texts(rows)), *vectors], schema=schema).combine_chunks().to_batches()


def _schema(spaces: Iterable[SpaceVectors]) -> pa.Schema:
    return pa.schema([*EVIDENCE, pa.field("search_text", pa.string()), *(vectors.column for vectors in spaces)])
