"""The embedded engine: a LanceDB table a version, in a folder or an S3 prefix beside the rest of the version.

Lexical search keeps stop words: on 529 questions over manuals, papers and slides it found as much as dropping them (recall@10
.699 and .696), and ``if`` or ``same`` stay findable.
"""

import contextlib
import os
import shutil
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa

from backends.engines.analyser import ANALYSIS_VERSION, query_terms
from backends.engines.index_rows import (
    FIGURES,
    NAMES,
    PAGES,
    SECTIONS,
    Ranked,
    added_columns,
    check_columns,
    check_filters,
    dimension_of,
    encodable,
    in_order,
    is_late,
    kept_columns,
    terms_column,
    with_ties,
)
from backends.engines.lance_engine import LanceTable, listed
from schemas.errors import ContractError, DamagedError, InsetError, TransientError, UserError
from schemas.evidence import EVIDENCE, Filters
from schemas.ports import WHOLE_TEXT, SearchIndex, Vector
from schemas.words import folded

if TYPE_CHECKING:
    from lancedb.query import FullTextQuery

EXACT_BELOW_ROWS = 20_000
BITS = 4
"""Of a vector's component in the index."""

VECTORS_A_CELL = 128
"""Vectors that are read for each cell of the index, to fit it. With the engine's 256 as much is found (recall@10 .995 of 322,000
vectors made of real ones), for 160 MB more for a moment; with 64 some cells of random vectors fall outside the engine's bounds.
"""

REFINE_FACTOR, REFINE_FACTOR_OF_ONE_BIT = 1, 5
"""Times the rows asked for whose vectors are compared: with one bit, 640 of them are as good as 128 with four."""
APPROXIMATED = 64
"""Rows that a vector search asks for at least: to approximate them is what finds other rows when more are asked for."""

Opened = TypeVar("Opened")

_FIELDS = b"lexical_fields"
_LAYOUT, _LAYOUT_VERSION = b"layout", f"3, terms {ANALYSIS_VERSION}".encode()
"""What a table is made like; goes up when a collection of today could not be told from one that is filled."""

_BITS = b"vector_bits"
"""Absent from tables of earlier releases, whose vector indexes have one."""

_IDS_A_QUERY = 500
_STABLE_ROW_IDS = {"new_table_enable_stable_row_ids": "true"}
"""With them the index of a changed table counts words as the index of a fresh one does (decision 12)."""


class LanceIndex:
    """A ``SearchIndex`` in an embedded LanceDB table. Nothing is touched until a method is called.

    Args:
        uri: A folder or ``s3://`` prefix that holds this version's table and nothing else.
        table: Name of the table.
        storage_options: Object store options as LanceDB spells them; credentials and endpoint otherwise come from the
            usual AWS environment variables.
        exact_below: Vectors of a space below which dense search scans all; from there on an IVF_RQ index narrows it down.
        languages: Those of the version's documents, which questions are stemmed by.
    """

    def __init__(
        self,
        uri: str,
        table: str,
        storage_options: Mapping[str, str] | None = None,
        *,
        exact_below: int = EXACT_BELOW_ROWS,
        languages: Collection[str] = (),
    ) -> None:
        self._uri = uri.removeprefix("file://")
        self._name = table
        self._options = _with_endpoint(storage_options or {})
        self._exact_below = exact_below
        self._languages = tuple(languages)
        self._opened: Any = None
        self._read_from: LanceTable | None = None
        self._counts_deleted = False

    def __reduce__(self) -> tuple[Callable[..., "LanceIndex"], tuple[Any, ...]]:
        return _reopen, (self._uri, self._name, self._options, self._exact_below, self._languages)

    def create(self, schema: pa.Schema, dimensions: Mapping[str, int], fields: Sequence[str] = tuple(WHOLE_TEXT)) -> None:
        """Make the table, empty; what an earlier, unfinished build left of it is dropped.

        Raises:
            ContractError: The schema lacks a text that BM25 reads, or a vector column of the length given.
        """
        check_columns(schema, dimensions, fields)
        self.drop()
        made = _table_schema(schema, fields)
        with self._writing():
            self._opened = self._connect().create_table(
                self._name, schema=made, storage_options={**self._options, **_STABLE_ROW_IDS}
            )

    def derive(self, earlier: SearchIndex, schema: pa.Schema, fields: Sequence[str], without: Sequence[str]) -> bool:
        """Link the files of another version's table, which the engine never changes, and delete rows of it.

        Each table keeps links of its own, so that either can be dropped. An object store has no links: there it's False.
        """
        if not isinstance(earlier, LanceIndex) or "://" in self._uri + earlier._uri:
            return False
        if not earlier._table().schema.equals(_table_schema(schema, fields), check_metadata=True):
            return False
        self.drop()
        with self._writing():
            shutil.copytree(earlier._uri, self._uri, copy_function=_link)
            Path(self._uri, f"{earlier._name}.lance").rename(Path(self._uri, f"{self._name}.lance"))
            table = self._table()
            for start in range(0, len(without), _IDS_A_QUERY):
                table.delete(f"doc_id IN ({listed(without[start : start + _IDS_A_QUERY])})")
        self._counts_deleted = bool(without)
        return True

    def add(self, batches: Iterable[pa.RecordBatch]) -> int:
        """Write rows in one commit and return how many; an error of ``batches`` comes through as it is."""
        table = self._table()
        schema, fields = table.schema, self._fields()
        written = 0
        raised: Exception | None = None

        def extended() -> Iterator[pa.RecordBatch]:
            nonlocal written, raised
            try:
                for batch in batches:
                    written += batch.num_rows
                    yield _extend(batch, schema, fields)
            except Exception as error:
                raised = error
                raise

        with self._writing():
            try:
                table.add(pa.RecordBatchReader.from_batches(schema, extended()))
            except Exception:
                # The engine wraps what its input raises into an error of its own.
                if raised is not None:
                    raise raised from None
                raise
        self._counts_deleted &= not written
        return written

    def finish(self) -> None:
        """Build the full-text indexes and, where there are many rows, the vector indexes; ``late`` always scans."""
        from lancedb.index import FTS, IvfRq

        table = self._table()
        with self._writing():
            there = {column for index in table.list_indices() for column in index.columns}
            if there:
                self._bring_up_to_date(table)
            for column in (column for field in self._fields() if (column := terms_column(field)) not in there):
                table.create_index(column, config=_as_written(FTS))
            for column in (name for name in table.schema.names if name.startswith("vector_") and name not in there):
                late = is_late(table.schema, column.removeprefix("vector_"))
                if not late and table.count_rows(f"{column} IS NOT NULL") >= self._exact_below:
                    table.create_index(
                        column, config=IvfRq(distance_type="cosine", num_bits=BITS, sample_rate=VECTORS_A_CELL)
                    )

    def _bring_up_to_date(self, table: Any) -> None:
        """Take the rows that were added into the indexes, those that were deleted out of them, and remove older files."""
        if self._counts_deleted and (kept := table.search().limit(1).to_arrow()).num_rows:
            # Where rows are deleted and none is added, the engine goes on counting their words.
            table.delete(f"evidence_id = {listed(kept.column('evidence_id').to_pylist())}")
            table.add(kept.cast(table.schema))
        self._counts_deleted = False
        table.optimize()
        with warnings.catch_warnings():
            # The engine warns of others that read older states of the table; nobody does before the version is finished.
            warnings.simplefilter("ignore", UserWarning)
            # A second time, for the first leaves the files of the indexes that it replaces.
            table.optimize(cleanup_older_than=timedelta(0), delete_unverified=True)

    def count(self) -> int:
        """Return how many rows the table holds."""
        with self._reading():
            return self._reader().count()

    def drop(self) -> None:
        """Remove the table, and its folder; nothing happens where there is none."""
        self._opened = self._read_from = None
        if "://" in self._uri:
            with self._writing():
                self._connect().drop_table(self._name, ignore_missing=True)
        elif self._may_exist():
            # The folder holds nothing else, and a table that a killed build left half made can't be opened to be dropped.
            with self._writing():
                shutil.rmtree(self._uri)

    def bm25(
        self, query: str, k: int, filters: Filters, weights: Mapping[str, float] = WHOLE_TEXT, *, every: bool = False
    ) -> Ranked:
        """Return ``(evidence_id, BM25 score)``; any term may match, and no character of a query has a meaning.

        Raises:
            ContractError: The table was made without one of the fields.
        """
        table, where = self._narrowed(filters)
        if absent := set(weights) - set(self._fields()):
            raise ContractError(
                f"{self._name} has no lexical index of {', '.join(sorted(absent))}; build the version again"
            )
        analysed = terms_column(next(iter(weights))) in table.schema.names  # one of an earlier release splits words itself
        words = " ".join(query_terms(encodable(query), () if every else self._languages)) if analysed else encodable(query)
        if not words.strip():
            return []
        columns = {terms_column(field) if analysed else field: weight for field, weight in weights.items()}
        together = _full_text_query(words, columns, every=every)
        with self._reading():
            found = with_ties(lambda limit: table.matching(together, limit, where), k)
            return in_order(table.named(found))[:k]

    def dense(self, vector: Vector, k: int, filters: Filters, space: str) -> Ranked:
        """Return ``(evidence_id, cosine similarity)``; exact below ``exact_below`` rows.

        Raises:
            ContractError: The table has no such space, or its vectors have another length.
        """
        return [
            (evidence_id, max(-1.0, min(1.0, 1 - away))) for evidence_id, away in self._nearest(vector, k, filters, space)
        ]

    def late(self, vectors: Vector, k: int, filters: Filters, space: str) -> Ranked:
        """Return ``(evidence_id, MaxSim)``, exact.

        Raises:
            ContractError: The table has no such space, or its vectors have another length.
        """
        return [(evidence_id, len(vectors) - away) for evidence_id, away in self._nearest(vectors, k, filters, space)]

    def fetch(self, evidence_ids: Sequence[str]) -> list[dict[str, object]]:
        """Return the rows of those ids, in that order; unknown ids are left out."""
        columns = [name for name in EVIDENCE.names if name in self._reader().schema.names]
        found = {row["evidence_id"]: row for row in self._read(evidence_ids, columns)}
        return [found[evidence_id] for evidence_id in evidence_ids if evidence_id in found]

    def vectors(self, evidence_ids: Sequence[str], space: str) -> dict[str, Vector]:
        """Return a space's vectors by evidence id; rows that are unknown or have none are left out."""
        column = f"vector_{space}"
        rows = self._read(evidence_ids, ["evidence_id", column])
        return {row["evidence_id"]: np.asarray(row[column], np.float32) for row in rows if row[column] is not None}

    def _nearest(self, query: Vector, k: int, filters: Filters, space: str) -> Ranked:
        """Return ``(evidence_id, distance)``, nearest first: what the best cosine of each query vector lacks to 1, summed."""
        table, where = self._narrowed(filters)
        if dimension_of(table.schema, space) != query.shape[-1] or is_late(table.schema, space) != (query.ndim > 1):
            raise ContractError(
                f"{self._name} has no vectors '{space}' of length {query.shape[-1]}; refresh after changing models"
            )

        has_one_bit = _BITS not in (table.schema.metadata or {})
        refine = REFINE_FACTOR_OF_ONE_BIT if has_one_bit else REFINE_FACTOR

        def search(limit: int) -> list[tuple[int, float]]:
            found = table.nearest(f"vector_{space}", query, refine, limit, where)
            return [(row, -distance) for row, distance in found]

        with self._reading():
            ranked = in_order(table.named(with_ties(search, k, APPROXIMATED)))[:k]
        return [(evidence_id, -score) for evidence_id, score in ranked]

    def _read(self, evidence_ids: Sequence[str], columns: Sequence[str]) -> Iterator[dict[str, Any]]:
        for start in range(0, len(evidence_ids), _IDS_A_QUERY):
            wanted = evidence_ids[start : start + _IDS_A_QUERY]
            with self._reading():
                found = self._reader().rows(columns, wanted)
            yield from found

    def _narrowed(self, filters: Filters) -> tuple[LanceTable, str]:
        """Return the table, and the filters in its language; "" where there are none."""
        table = self._reader()
        check_filters(filters, table.schema.names)
        return table, _predicate(filters)

    def _fields(self) -> list[str]:
        schema = self._reader().schema if self._opened is None else self._opened.schema
        named = (schema.metadata or {}).get(_FIELDS)
        return named.decode().split(",") if named else list(WHOLE_TEXT)

    def _table(self) -> Any:
        """Return the table as the package opens it, to write."""
        if self._opened is None:
            self._opened = self._open(lambda: self._connect().open_table(self._name))
        return self._opened

    def _reader(self) -> LanceTable:
        """Return the table to read, as it is when nothing has been written since."""
        if self._read_from is None:
            self._read_from = self._open(lambda: LanceTable(self._uri, self._name, self._options))
        return self._read_from

    def _open(self, how: Callable[[], Opened]) -> Opened:
        if not self._may_exist():
            raise self._damaged("is missing")
        try:
            with self._reading():
                return how()
        except DamagedError as error:
            if isinstance(error.__cause__, ValueError | FileNotFoundError):
                raise self._damaged("has no table") from error
            raise

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        """Turn what the engine says of files that it can't read into ours."""
        try:
            yield
        except InsetError:
            raise
        except Exception as error:
            self._opened = self._read_from = None
            if "://" in self._uri and "not found" not in str(error).lower():
                corpus = self._corpus
                raise TransientError(
                    f"the index at {self._uri} can't be read ({_first_line(error)}); try again, and where that doesn't help: "
                    f"inset doctor {corpus} --deep, then inset refresh {corpus}"
                ) from error
            raise self._damaged(f"is damaged ({_first_line(error)})") from error

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Turn what the engine says of files that it can't write into ours; what is read afterwards is opened anew."""
        self._read_from = None
        try:
            yield
        except InsetError:
            raise
        except Exception as error:
            self._opened = None
            message = f"the index at {self._uri} can't be written ({_first_line(error)})"
            if isinstance(error, PermissionError) or "ermission denied" in str(error) or "ead-only" in str(error):
                raise UserError(f"{message}; choose another 'store'") from error
            raise TransientError(f"{message}; see that there is room, then try again") from error
        finally:
            self._read_from = None

    def _damaged(self, what: str) -> DamagedError:
        return DamagedError(f"the index at {self._uri} {what}; to build it again: inset refresh {self._corpus}", self._name)

    @property
    def _corpus(self) -> str:
        return self._name.rsplit("_", 2)[0].lower()

    def _may_exist(self) -> bool:
        # Connecting makes a folder; reading must not.
        return "://" in self._uri or Path(self._uri).is_dir()

    def _connect(self) -> Any:
        import lancedb

        return lancedb.connect(self._uri, storage_options=self._options or None)


def _first_line(error: Exception) -> str:
    """Return what the engine says, without where in its own source."""
    said = str(error).splitlines()[0] if str(error) else type(error).__name__
    return said.partition(", /r")[0][:200]


def _reopen(uri: str, table: str, options: Mapping[str, str], exact_below: int, languages: Collection[str]) -> LanceIndex:
    return LanceIndex(uri, table, options, exact_below=exact_below, languages=languages)


def _full_text_query(words: str, columns: Mapping[str, float], *, every: bool) -> "FullTextQuery":
    """Return the query for words in columns, by their weights; a row holds every word in one column, or any."""
    from lancedb.query import BooleanQuery, FullTextOperator, MatchQuery, Occur

    operator = FullTextOperator.AND if every else FullTextOperator.OR
    queries = [MatchQuery(words, column, boost=weight, operator=operator) for column, weight in columns.items()]
    return queries[0] if len(queries) == 1 else BooleanQuery([(Occur.SHOULD, query) for query in queries])


def _as_written(full_text: Callable[..., Any]) -> Any:
    """Return how a column of terms is indexed: as they are, with spaces between."""
    return full_text(
        base_tokenizer="whitespace",
        lower_case=False,
        stem=False,
        remove_stop_words=False,
        ascii_folding=False,
        max_token_length=None,
    )


def _with_endpoint(options: Mapping[str, str]) -> dict[str, str]:
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if endpoint is None:
        return dict(options)
    # LanceDB refuses plain http unless configured otherwise; boto3, which the store uses, takes the endpoint as it is.
    return {"aws_endpoint": endpoint, "allow_http": str(endpoint.startswith("http://")).lower(), **options}


def _table_schema(schema: pa.Schema, fields: Sequence[str]) -> pa.Schema:
    metadata: dict[bytes | str, bytes | str] = {_FIELDS: ",".join(fields).encode(), _LAYOUT: _LAYOUT_VERSION}
    metadata[_BITS] = str(BITS).encode()
    return pa.schema(kept_columns(schema, fields), metadata=metadata)


def _link(file: str, place: str) -> None:
    """Make a second name for a file, or a copy where the file system has no such thing."""
    try:
        os.link(file, place)
    except OSError:
        shutil.copy2(file, place)


def _extend(batch: pa.RecordBatch, schema: pa.Schema, fields: Sequence[str]) -> pa.RecordBatch:
    """Add the columns that filters and BM25 look at."""
    columns: dict[str, pa.Array[Any]] = {name: batch.column(name) for name in batch.schema.names}
    columns |= {name: pa.array(values, schema.field(name).type) for name, values in added_columns(batch, fields).items()}
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def _predicate(filters: Filters) -> str:
    parts = []
    if filters.documents:
        parts.append(f"array_has_any({NAMES}, make_array({listed(filters.documents)}))")
    if filters.pages:
        numbers = ", ".join(f"CAST({int(page)} AS INT)" for page in filters.pages)
        parts.append(f"array_has_any({PAGES}, make_array({numbers}))")
    if filters.modalities:
        parts.append(f"modality IN ({listed(filters.modalities)})")
    if filters.languages:
        parts.append(f"language IN ({listed(filters.languages)})")
    if filters.sections:
        parts.append(f"array_has_any({SECTIONS}, make_array({listed([folded(name) for name in filters.sections])}))")
    if filters.has_figure is not None:
        parts.append(f"{FIGURES} = {str(filters.has_figure).lower()}")
    if filters.since is not None:
        parts.append(f"date >= '{filters.since}'")
    if filters.until is not None:
        parts.append(f"date <= '{filters.until}'")
    if filters.evidence_ids:
        parts.append(f"evidence_id IN ({listed(filters.evidence_ids)})")
    return " AND ".join(parts)
