"""A version's vectors, and its collection in its engine: fill, derive, read back."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from backends.stores.objects import check_object, existing, read_table, unless_damaged
from pipeline.corpus.workspace import Workspace
from pipeline.records.differences import Difference
from pipeline.records.manifests import check_index_files
from schemas.base import batched
from schemas.errors import MissingError
from schemas.evidence import EVIDENCE
from schemas.filters import Filters
from schemas.gates import EXAMPLES, GateResult
from schemas.ids import sha256
from schemas.parquet import to_parquet
from schemas.ports import ObjectStore, SearchIndex, Vector
from schemas.retrieval import LEXICAL_FIELDS
from schemas.stages import Report, silent
from schemas.versions import Manifest, VectorSpace
from tasks.enriching.spaces import SPACES, EmbeddingInput, RowText, Space, searched_text


def passages(evidence: pa.Table) -> list[RowText]:
    """Return the embeddable content of each row."""
    columns = (evidence.column(name).to_pylist() for name in RowText._fields)
    return [RowText(*row) for row in zip(*columns, strict=True)]


def passage_of(row: Mapping[str, Any]) -> RowText:
    """Return the embeddable content of a row."""
    return RowText(*(row[name] for name in RowText._fields))


class SpaceVectors:
    """The stored vectors of a space: a file a document, a record an embedded content, ``id`` that of the content.

    ``column`` is that of an index: a row's vector, or its list of vectors for late interaction; null if it has none.
    """

    def __init__(self, store: ObjectStore, space: Space, key: str, dimension: int) -> None:
        vector = pa.list_(pa.float32(), dimension)
        kind: pa.DataType = pa.list_(vector) if space.late else vector
        self.space, self.dimension, self.column = space, dimension, pa.field(f"vector_{space.name}", kind)
        self.schema = pa.schema((pa.field("id", pa.string(), nullable=False), pa.field("vector", kind, nullable=False)))
        self.folder = f"vectors/{space.name}/{key}"
        self._store = store

    def contents(self, rows: Iterable[RowText]) -> dict[str, EmbeddingInput]:
        """Return the embeddable contents of rows, by record id."""
        return {content.id: content for row in rows if (content := self.space.content(row)) is not None}

    def file(self, doc_id: str, ids: Iterable[str]) -> str:
        """Return the name of the file with these records of a document; other records are another file."""
        return f"{self.folder}/{doc_id}/{sha256(' '.join(sorted(ids)).encode())[:32]}.parquet"

    def read(self, file: str) -> pa.Table:
        """Return the records of a file; raises as ``read_table`` does."""
        return read_table(self._store, file, self.schema)

    def exist(self) -> bool:
        """Return whether any document has vectors."""
        return next(self._store.listing(self.folder), None) is not None

    def check(self, evidence: Iterable[pa.Table]) -> None:
        """Raise ``MissingError`` if a document of some rows lacks vectors."""
        ids_by_file = {
            self.file(doc_id, ids): (doc_id, ids)
            for part in evidence
            for doc_id, rows in documents_of(part)
            if (ids := self.contents(passages(rows)).keys())
        }
        for file in ids_by_file.keys() - existing(self._store, self.folder, ids_by_file.keys()):
            self._search(*ids_by_file[file])

    def _search(self, doc_id: str, ids: Collection[str]) -> pa.Table:
        """Return records from all files of a document: where a fault lost rows, no file is named by those that are left."""
        missing, records = set(ids), [self.schema.empty_table()]
        for file in self._store.names(f"{self.folder}/{doc_id}"):
            table = self.read(file)
            records.append(table.filter(pc.is_in(table.column("id"), pa.array(sorted(missing), pa.string()))))
            missing -= set(map(str, records[-1].column("id").to_pylist()))
        if missing:
            check_object(self._store, self.file(doc_id, ids))
        return pa.concat_tables(records)

    def write(self, doc_id: str, vectors: Mapping[str, Vector], earlier: Iterable[pa.Table] = ()) -> str:
        """Write vectors of a document by record id, each ``(n, dimension)`` for late interaction, beside ``earlier`` records.

        Returns the name of the file.
        """
        values = np.concatenate([np.empty((0, self.dimension), np.float32), *map(np.atleast_2d, vectors.values())])
        column: pa.Array[Any] = pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), self.dimension)
        if self.space.late:
            ends: Any = np.cumsum([0, *(len(vector) for vector in vectors.values())], dtype=np.int32)
            column = pa.ListArray.from_arrays(pa.array(ends), column)
        records = pa.concat_tables(
            [pa.table([pa.array(list(vectors), pa.string()), column], schema=self.schema), *earlier]
        ).combine_chunks()
        ids = [str(name) for name in records.column("id").to_pylist()]
        file = self.file(doc_id, ids)
        self._store.replace(file, to_parquet(records))
        return file

    def of(self, doc_id: str, rows: Iterable[RowText]) -> "pa.Array[Any]":
        """Return the vector of each row of a document, null if nothing of it is embedded; raises as ``read`` does."""
        contents = [self.space.content(row) for row in rows]
        names = pa.array([None if content is None else content.id for content in contents], pa.string())
        if names.null_count == len(names):
            return pa.array([None] * len(names), self.column.type)
        ids = {content.id for content in contents if content is not None}
        try:
            records = self.read(self.file(doc_id, ids)).combine_chunks()
        except MissingError:
            records = self._search(doc_id, ids).combine_chunks()
        indices = pc.index_in(names, records.column("id").combine_chunks())
        return records.column("vector").combine_chunks().take(indices)


Sized = TypeVar("Sized", pa.Table, Sequence[RowText])


def documents_of(evidence: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """Yield the rows of each document; documents lie one behind the other."""
    stop = 0
    for doc_id, rows in groupby(evidence.column("doc_id").to_pylist()):
        start, stop = stop, stop + sum(1 for _ in rows)
        yield str(doc_id), evidence.slice(start, stop - start)


def vector_files(evidence: Iterable[pa.Table], spaces: Sequence[SpaceVectors]) -> Iterator[str]:
    """Yield the names of the files with the vectors of whole documents' rows."""
    for part in evidence:
        for doc_id, rows in documents_of(part):
            texts = passages(rows)
            yield from (vectors.file(doc_id, ids) for vectors in spaces if (ids := vectors.contents(texts)))


def open_vectors(store: ObjectStore, spaces: Mapping[str, VectorSpace]) -> list[SpaceVectors]:
    """Open the vectors of a workspace's spaces, or of a manifest's; unknown spaces are left out."""
    return [
        SpaceVectors(store, SPACES[name], vector_space.key, vector_space.model.dimension or 0)
        for name, vector_space in spaces.items()
        if name in SPACES
    ]


ROWS_A_BATCH, LATE_ROWS_A_BATCH = 1_000, 100
"""Rows in memory with their vectors, but for long documents. Under late interaction, a page has some 400 KB of vectors."""

_READERS = 8
"""Threads that read files of vectors: in S3 each is a request."""

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
    report: Report = silent,
    columns: pa.Table | None = None,
) -> int:
    """Write rows and their vectors into a fresh collection, index it, and return the number of rows.

    ``columns`` are those that rows have by their document, as ``read_columns`` returns them.

    An existing collection is dropped first. ``evidence`` returns the rows of whole documents, in parts. Raises
    ``MissingError`` where a document lacks its vectors.
    """
    total, written_count = sum(part.num_rows for part in evidence()), 0
    report("build", 0, total)
    for vectors in spaces:
        vectors.check(evidence())

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal written_count
        for batch in _record_batches(evidence(), spaces, columns):
            yield batch
            written_count += batch.num_rows
            report("build", written_count, total)

    # Only here is the existing collection dropped, since all vectors are there.
    index.create(_schema(spaces, columns), {vectors.space.name: vectors.dimension for vectors in spaces}, LEXICAL_FIELDS)
    index.add(batches())
    index.finish()
    return total


def derive(
    index: SearchIndex,
    earlier: SearchIndex,
    removed: Sequence[str],
    changed: Iterable[pa.Table],
    spaces: Sequence[SpaceVectors],
    columns: pa.Table | None = None,
) -> int | None:
    """Make a collection of an earlier version's, index it, and return the number of rows written.

    Rows of ``removed`` documents are left out; ``changed`` are the rows of changed and new documents, in parts, and
    ``columns`` is as for ``fill``. Returns None if the engine can't derive one from the other. Raises ``DamagedError``
    where a document lacks its vectors.
    """
    if not index.derive(earlier, _schema(spaces, columns), LEXICAL_FIELDS, removed):
        return None
    row_count = index.add(_record_batches(changed, spaces, columns))
    index.finish()
    return row_count


def bring_forward(
    index: SearchIndex,
    difference: Difference,
    spaces: Sequence[SpaceVectors],
    rows: int,
    columns: pa.Table | None = None,
) -> int | None:
    """Make the collection of an earlier version that of a later one in place, and return the number of rows written.

    Returns None if the engine can't, or where the collection then lacks some of the version's ``rows``, has rows of gone
    documents, or doesn't find changed ones. Raises as ``derive`` does.
    """
    row_count = derive(index, index, difference.removed, difference.changed_rows(), spaces, columns)
    return row_count if row_count is not None and _is_forwarded(index, difference, spaces, rows) else None


def _is_forwarded(index: SearchIndex, difference: Difference, spaces: Sequence[SpaceVectors], rows: int) -> bool:
    counts, sample = Counter[str](), list[dict[str, Any]]()
    for part in difference.changed_rows():
        counts.update(map(str, part.column("doc_id").to_pylist()))
        sample += part.slice(0, _FOUND_ROWS - len(sample)).to_pylist()
    for names in batched(sorted({*difference.removed, *counts}), _DOCUMENTS_A_COUNT):
        # A gone document must have 0 rows, and a changed one as many as it has now: a killed attempt may have left others.
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
    # BM25 can't find a row without letters or digits, such as a line of dashes.
    words = searched_text(passage_of(row))
    return not any(map(str.isalnum, words)) or bool(index.bm25(words[:_FOUND_CHARACTERS], 1, own_row_only))


def holds(workspace: Workspace, manifest: Manifest) -> bool:
    """Return whether the engine still has all rows of a version; raises ``TransientError`` if it doesn't answer."""

    def has_rows() -> bool:
        check_index_files(workspace, manifest.version)
        # Their files are those whose rows were read back; importing the engine takes longer than all else here.
        if workspace.index_options(manifest.version).engine == "lancedb":
            return True
        return workspace.index(manifest.version).count() == manifest.counts.rows

    return bool(unless_damaged(has_rows))


def read_back(index: SearchIndex, sample: Iterable[pa.Table], rows: int, spaces: Iterable[Space]) -> list[GateResult]:
    """Judge a collection by its count and a sample of its rows, compared value by value, of vectors only their presence."""
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


def _record_batches(
    evidence: Iterable[pa.Table], spaces: Sequence[SpaceVectors], columns: pa.Table | None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of whole documents with their vectors and the ``columns`` of documents, some documents together."""
    schema = _schema(spaces, columns)
    size = LATE_ROWS_A_BATCH if any(vectors.space.late for vectors in spaces) else ROWS_A_BATCH

    def with_vectors(document: tuple[str, pa.Table]) -> pa.Table:
        doc_id, rows = document
        texts = passages(rows)
        searched = pa.array([searched_text(text) for text in texts], pa.string())
        added: list[Any] = []
        if columns is not None:
            of_rows = pc.index_in(rows.column("doc_id").combine_chunks(), columns.column("doc_id").combine_chunks())
            added = columns.drop_columns(["doc_id"]).take(of_rows).columns
        return pa.table(
            [*rows.columns, searched, *added, *(vectors.of(doc_id, texts) for vectors in spaces)], schema=schema
        )

    with ThreadPoolExecutor(_READERS) as pool:
        for documents in batched_rows((document for part in evidence for document in documents_of(part)), size):
            yield from pa.concat_tables(pool.map(with_vectors, documents)).combine_chunks().to_batches(max_chunksize=size)


def batched_rows(documents: Iterable[tuple[str, Sized]], size: int) -> Iterator[list[tuple[str, Sized]]]:
    """Yield documents with their rows, in lists of at least ``size`` rows, but for the last one."""
    batch, row_count = list[tuple[str, Sized]](), 0
    for doc_id, rows in documents:
        batch.append((doc_id, rows))
        row_count += len(rows)
        if row_count >= size:
            yield batch
            batch, row_count = [], 0
    if batch:
        yield batch


def _schema(spaces: Iterable[SpaceVectors], columns: pa.Table | None) -> pa.Schema:
    added = [] if columns is None else [column for column in columns.schema if column.name != "doc_id"]
    return pa.schema([*EVIDENCE, pa.field("search_text", pa.string()), *added, *(vectors.column for vectors in spaces)])
