"""The embedded engine: a LanceDB table for each version, in a folder or S3 prefix beside the rest of the version.

Lexical search keeps stop words: on 529 questions recall@10 was .699 with and .696 without them, and ``if`` or ``same`` stay
findable.
"""

import contextlib
import functools
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
from backends.stores.s3_store import copy_folder
from schemas.access import Allowed
from schemas.base import batched
from schemas.errors import ContractError, DamagedError, InsetError, TransientError, UserError
from schemas.evidence import EVIDENCE
from schemas.filters import ACCESS, Condition, Filters
from schemas.ports import WHOLE_TEXT, SearchIndex, Vector

if TYPE_CHECKING:
    from lancedb.query import FullTextQuery

EXACT_BELOW_ROWS = 20_000
"""Vectors below which dense search scans all of them; from there on it uses an IVF_RQ index."""
BITS = 4
"""Bits for each component of a vector in the index."""

VECTORS_A_CELL = 128
"""Vectors sampled to fit each cell of the index. The engine's default, 256, has the same recall and takes 160 MB more; with 64
some cells of random vectors fall outside the engine's bounds.
"""

REFINE_FACTOR = 1
"""Candidates compared by their full vectors, as a multiple of the rows asked for (decision 12)."""
APPROXIMATED = 64
"""Fewest rows of a vector search, since asking an approximate index for more changes the rows it finds."""

Opened = TypeVar("Opened")

_FIELDS = b"lexical_fields"
_LAYOUT, _LAYOUT_VERSION = b"layout", f"4, terms {ANALYSIS_VERSION}, {BITS} bits".encode()
"""A collection is derived only from one of the same layout version."""

_IDS_A_QUERY = 500
_SPLIT_AT_SPACES: dict[str, Any] = {
    "base_tokenizer": "whitespace",
    **dict.fromkeys(("lower_case", "stem", "remove_stop_words", "ascii_folding"), False),
    "max_token_length": None,
}
_STABLE_ROW_IDS = {"new_table_enable_stable_row_ids": "true"}
"""Makes a changed table's index count words like a fresh one's (decision 15)."""


class LanceIndex:
    """A ``SearchIndex`` in an embedded LanceDB table, opened on first use.

    Args:
        uri: Folder or ``s3://`` prefix that holds only this version's table.
        table: Name of the table.
        languages: Languages of the version's documents, for stemming queries.
    """

    def __init__(self, uri: str, table: str, *, languages: Collection[str] = ()) -> None:
        self._uri = uri.removeprefix("file://")
        self._name = table
        self._options = _storage_options()
        self._languages = tuple(languages)
        self._opened: Any = None
        self._read_from: LanceTable | None = None
        self._counts_deleted = False

    def __reduce__(self) -> tuple[Callable[..., "LanceIndex"], tuple[Any, ...]]:
        return functools.partial(LanceIndex, languages=self._languages), (self._uri, self._name)

    def create(self, schema: pa.Schema, dimensions: Mapping[str, int], fields: Sequence[str] = tuple(WHOLE_TEXT)) -> None:
        """Create the table, empty; an existing one is dropped. Raises as ``check_columns`` does."""
        check_columns(schema, dimensions, fields)
        self.drop()
        table_schema = _table_schema(schema, fields)
        with self._writing():
            self._opened = self._connect().create_table(
                self._name, schema=table_schema, storage_options={**self._options, **_STABLE_ROW_IDS}
            )

    def derive(self, earlier: SearchIndex, schema: pa.Schema, fields: Sequence[str], without: Sequence[str]) -> bool:
        """Hard-link the immutable files of another version's table, or copy them within S3, and delete rows."""
        if not isinstance(earlier, LanceIndex) or self._is_remote != earlier._is_remote:
            return False
        if not earlier._table().schema.equals(_table_schema(schema, fields), check_metadata=True):
            return False
        self.drop()
        with self._writing():
            source_folder, target_folder = (f"{index._uri}/{index._name}.lance" for index in (earlier, self))
            if self._is_remote:
                copy_folder(source_folder, target_folder)
            else:
                shutil.copytree(source_folder, target_folder, copy_function=_link)
            table = self._table()
            for doc_ids in batched(without, _IDS_A_QUERY):
                table.delete(f"doc_id IN ({listed(doc_ids)})")
        self._counts_deleted = bool(without)
        return True

    def add(self, batches: Iterable[pa.RecordBatch]) -> int:
        """Write rows in one commit and return their number; errors of ``batches`` are raised unchanged."""
        table = self._table()
        schema, fields = table.schema, self._fields()
        row_count = 0
        raised: Exception | None = None

        def extended() -> Iterator[pa.RecordBatch]:
            nonlocal row_count, raised
            try:
                for batch in batches:
                    row_count += batch.num_rows
                    yield _extend(batch, schema, fields)
            except Exception as error:
                raised = error
                raise

        with self._writing():
            try:
                table.add(pa.RecordBatchReader.from_batches(schema, extended()))
            except Exception:
                # The engine wraps errors of its input.
                if raised is not None:
                    raise raised from None
                raise
        # An insert makes the engine count words without those of deleted rows (``_bring_up_to_date``).
        self._counts_deleted &= not row_count
        return row_count

    def finish(self) -> None:
        """Build the full-text indexes and, for many rows, the vector indexes; ``late`` spaces are always scanned."""
        from lancedb.index import FTS, BTree, IvfRq, LabelList

        table = self._table()
        with self._writing():
            # A derived table has the indexes of the earlier version, which are updated and not built again.
            indexed_columns = {column for index in table.list_indices() for column in index.columns}
            if indexed_columns:
                self._bring_up_to_date(table)
            for column in sorted({terms_column(field) for field in self._fields()} - indexed_columns):
                table.create_index(column, config=FTS(**_SPLIT_AT_SPACES))
            # A reader's filter names principals and the documents whose rights changed since the build.
            if ACCESS in table.schema.names:
                for column, scalar_index in ((ACCESS, LabelList()), ("doc_id", BTree())):
                    if column not in indexed_columns:
                        table.create_index(column, config=scalar_index)
            for column in sorted({name for name in table.schema.names if name.startswith("vector_")} - indexed_columns):
                late = is_late(table.schema, column.removeprefix("vector_"))
                if not late and table.count_rows(f"{column} IS NOT NULL") >= EXACT_BELOW_ROWS:
                    vectors = IvfRq(distance_type="cosine", num_bits=BITS, sample_rate=VECTORS_A_CELL)
                    table.create_index(column, config=vectors)

    def _bring_up_to_date(self, table: Any) -> None:
        """Update indexes for added and deleted rows, and remove old files."""
        if self._counts_deleted and (first_row := table.search().limit(1).to_arrow()).num_rows:
            # Without an insert, the engine goes on counting the words of deleted rows.
            table.delete(f"evidence_id = {listed(first_row.column('evidence_id').to_pylist())}")
            table.add(first_row.cast(table.schema))
        self._counts_deleted = False
        table.optimize()
        with warnings.catch_warnings():
            # The engine warns of readers of older states; an unfinished version has none.
            warnings.simplefilter("ignore", UserWarning)
            # The first call leaves the files of replaced indexes.
            table.optimize(cleanup_older_than=timedelta(0), delete_unverified=True)

    def count(self, doc_ids: Collection[str] | None = None) -> int:
        """Return the number of rows, of some documents if these are given."""
        with self._reading():
            return self._reader().count(None if doc_ids is None else f"doc_id IN ({listed(sorted(doc_ids))})")

    def drop(self) -> None:
        """Remove the table and its folder, if they exist."""
        self._opened = self._read_from = None
        if self._is_remote:
            with self._writing():
                self._connect().drop_table(self._name, ignore_missing=True)
        elif self._may_exist():
            # A half-made table can't be opened to be dropped, and the folder holds nothing else.
            with self._writing():
                shutil.rmtree(self._uri)

    def bm25(
        self, query: str, k: int, filters: Filters, weights: Mapping[str, float] = WHOLE_TEXT, *, every: bool = False
    ) -> Ranked:
        """Return ``(evidence_id, BM25 score)``; any term may match, and no character has a special meaning."""
        table, condition = self._narrowed(filters)
        if absent := set(weights) - set(self._fields()):
            raise ContractError(
                f"{self._name} has no lexical index of {', '.join(sorted(absent))}; build the version again"
            )
        words = " ".join(query_terms(encodable(query), () if every else self._languages))
        if not words:
            return []
        columns = {terms_column(field): weight for field, weight in weights.items()}
        full_text = _full_text_query(words, columns, every=every)
        with self._reading():
            hits = with_ties(lambda limit: table.matching(full_text, limit, condition), k)
            return in_order(table.named(hits))[:k]

    def dense(self, vector: Vector, k: int, filters: Filters, space: str) -> Ranked:
        """Return ``(evidence_id, cosine similarity)``; exact below ``EXACT_BELOW_ROWS``."""
        return [
            (evidence_id, max(-1.0, min(1.0, 1 - distance)))
            for evidence_id, distance in self._nearest(vector, k, filters, space)
        ]

    def late(self, vectors: Vector, k: int, filters: Filters, space: str) -> Ranked:
        """Return ``(evidence_id, MaxSim)``, exact."""
        return [
            (evidence_id, len(vectors) - distance) for evidence_id, distance in self._nearest(vectors, k, filters, space)
        ]

    def fetch(self, evidence_ids: Sequence[str]) -> list[dict[str, object]]:
        """Return the rows of some ids, in that order; unknown ids are left out."""
        rows_by_id = {row["evidence_id"]: row for row in self._read(evidence_ids, EVIDENCE.names)}
        return [rows_by_id[evidence_id] for evidence_id in evidence_ids if evidence_id in rows_by_id]

    def vectors(self, evidence_ids: Sequence[str], space: str) -> dict[str, Vector]:
        """Return a space's vectors by evidence id; unknown rows and rows without one are left out."""
        column = f"vector_{space}"
        rows = self._read(evidence_ids, ["evidence_id", column])
        return {row["evidence_id"]: np.asarray(row[column], np.float32) for row in rows if row[column] is not None}

    def _nearest(self, query: Vector, k: int, filters: Filters, space: str) -> Ranked:
        """Return ``(evidence_id, distance)``, nearest first: 1 minus the best cosine, summed over the query's vectors.

        Raises:
            ContractError: The table has no such space, or its vectors have another length.
        """
        table, condition = self._narrowed(filters)
        if dimension_of(table.schema, space) != query.shape[-1] or is_late(table.schema, space) != (query.ndim > 1):
            raise ContractError(
                f"{self._name} has no vectors '{space}' of length {query.shape[-1]}; refresh after changing models"
            )

        def search(limit: int) -> list[tuple[int, float]]:
            hits = table.nearest(f"vector_{space}", query, REFINE_FACTOR, limit, condition)
            return [(row, -distance) for row, distance in hits]

        with self._reading():
            ranked = in_order(table.named(with_ties(search, k, APPROXIMATED)))[:k]
        return [(evidence_id, -score) for evidence_id, score in ranked]

    def _read(self, evidence_ids: Sequence[str], columns: Sequence[str]) -> Iterator[dict[str, Any]]:
        for batch in batched(evidence_ids, _IDS_A_QUERY):
            with self._reading():
                rows = self._reader().rows(columns, batch)
            yield from rows

    def _narrowed(self, filters: Filters) -> tuple[LanceTable, str]:
        """Return the table, and the filters as SQL ("" for none)."""
        table = self._reader()
        check_filters(filters, lambda: table.schema.names)
        return table, _predicate(filters)

    def _fields(self) -> list[str]:
        schema = self._reader().schema if self._opened is None else self._opened.schema
        fields: str = schema.metadata[_FIELDS].decode()
        return fields.split(",")

    def _table(self) -> Any:
        """Return the table for writing."""
        if self._opened is None:
            self._opened = self._open(lambda: self._connect().open_table(self._name))
        return self._opened

    def _reader(self) -> LanceTable:
        """Return the table for reading, reopened after a write."""
        if self._read_from is None:
            self._read_from = self._open(lambda: LanceTable(self._uri, self._name, self._options))
        return self._read_from

    def _open(self, open_engine: Callable[[], Opened]) -> Opened:
        if not self._may_exist():
            raise self._damaged("is missing")
        try:
            with self._reading():
                return open_engine()
        except DamagedError as error:
            if isinstance(error.__cause__, ValueError | FileNotFoundError):
                raise self._damaged("has no table") from error
            raise

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        """Translate read errors of the engine."""
        try:
            yield
        except InsetError:
            raise
        except Exception as error:
            self._opened = self._read_from = None
            # Of a remote table, only a missing file shows damage: any other failure may be the network's.
            if self._is_remote and "not found" not in str(error).lower():
                corpus = self._corpus
                raise TransientError(
                    f"the index at {self._uri} can't be read ({_first_line(error)}); try again, and if that doesn't help: "
                    f"inset doctor {corpus} --deep, then inset refresh {corpus}"
                ) from error
            raise self._damaged(f"is damaged ({_first_line(error)})") from error

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """Translate write errors of the engine; later reads reopen the table."""
        self._read_from = None
        try:
            yield
        except InsetError:
            raise
        except Exception as error:
            self._opened = None
            message = f"the index at {self._uri} can't be written ({_first_line(error)})"
            if isinstance(error, PermissionError) or "ermission denied" in str(error):
                raise UserError(f"{message}; choose another 'store'") from error
            raise TransientError(f"{message}; see that there is room and that it is writable, then try again") from error
        finally:
            self._read_from = None

    def _damaged(self, fault: str) -> DamagedError:
        return DamagedError(
            f"the index at {self._uri} {fault}; to build it again: inset refresh {self._corpus}", self._name
        )

    @property
    def _is_remote(self) -> bool:
        return "://" in self._uri

    @property
    def _corpus(self) -> str:
        return self._name.rsplit("_", 2)[0].lower()

    def _may_exist(self) -> bool:
        # Connecting creates the folder, which reading must not.
        return self._is_remote or Path(self._uri).is_dir()

    def _connect(self) -> Any:
        import lancedb

        return lancedb.connect(self._uri, storage_options=self._options or None)


def _first_line(error: Exception) -> str:
    """Return the engine's message without its source location."""
    message = str(error).splitlines()[0] if str(error) else type(error).__name__
    return message.partition(", /r")[0][:200]


def _full_text_query(words: str, columns: Mapping[str, float], *, every: bool) -> "FullTextQuery":
    """Return a query for words in weighted columns; with ``every``, one column must contain all of them."""
    from lancedb.query import BooleanQuery, FullTextOperator, MatchQuery, Occur

    operator = FullTextOperator.AND if every else FullTextOperator.OR
    queries = [MatchQuery(words, column, boost=weight, operator=operator) for column, weight in columns.items()]
    return queries[0] if len(queries) == 1 else BooleanQuery([(Occur.SHOULD, query) for query in queries])


def _storage_options() -> dict[str, str]:
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if endpoint is None:
        return {}
    # LanceDB needs permission for plain http; boto3, which the store uses, doesn't.
    return {"aws_endpoint": endpoint, "allow_http": str(endpoint.startswith("http://")).lower()}


def _table_schema(schema: pa.Schema, fields: Sequence[str]) -> pa.Schema:
    metadata: dict[bytes | str, bytes | str] = {_FIELDS: ",".join(fields).encode(), _LAYOUT: _LAYOUT_VERSION}
    return pa.schema(kept_columns(schema, fields), metadata=metadata)


def _link(file: str, target: str) -> None:
    """Hard-link a file, or copy it if the file system has no links."""
    try:
        os.link(file, target)
    except OSError:
        shutil.copy2(file, target)


def _extend(batch: pa.RecordBatch, schema: pa.Schema, fields: Sequence[str]) -> pa.RecordBatch:
    columns: dict[str, pa.Array[Any]] = {name: batch.column(name) for name in batch.schema.names}
    columns |= {name: pa.array(values, schema.field(name).type) for name, values in added_columns(batch, fields).items()}
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def _predicate(filters: Filters) -> str:
    return " AND ".join(_condition(condition, operand) for condition, operand in filters.conditions())


def _condition(condition: Condition, operand: Any) -> str:
    match condition.holds:
        case "shares":
            are_numbers = isinstance(operand[0], int)
            values = ", ".join(f"CAST({number} AS INT)" for number in operand) if are_numbers else listed(operand)
            return f"array_has_any({condition.column}, make_array({values}))"
        case "any":
            return f"{condition.column} IN ({', '.join(map(_literal, operand))})"
        case "is":
            return f"{condition.column} = {str(operand).lower()}"
        case ">=" | "<=" | ">" | "<":
            return f"{condition.column} {condition.holds} {_literal(operand)}"
        case "valid":
            anyway = f" OR doc_id IN ({listed(operand)})" if operand else ""
            return f"({condition.column} = false{anyway})"
        case "allows":
            return _may_be_seen(operand)


def _literal(value: str | float) -> str:
    return listed([value]) if isinstance(value, str) else repr(value)


def _may_be_seen(allowed: Allowed) -> str:
    conditions = []
    if allowed.principals:
        carries = f"array_has_any({ACCESS}, make_array({listed(allowed.principals)}))"
        unchanged = f" AND doc_id NOT IN ({listed(allowed.changed)})" if allowed.changed else ""
        conditions.append(f"({carries}{unchanged})")
    if allowed.allowed:
        conditions.append(f"doc_id IN ({listed(allowed.allowed)})")
    return f"({' OR '.join(conditions)})" if conditions else "false"
