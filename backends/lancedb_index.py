"""The embedded engine: a LanceDB table a version, in a folder or an S3 prefix beside the rest of the version.

Two columns are the engine's own: every name a row's document goes by, and every page a row touches. They turn all filters
into one list predicate each. Lexical search keeps stop words and segments by ICU: on 529 questions over manuals, papers and
slides it found as much as dropping them (recall@10 .699 and .696), and ``if``, ``same`` or 文書 stay findable.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from schemas.errors import ContractError
from schemas.evidence import Filters
from schemas.ports import Vector

Ranked = list[tuple[str, float]]

EXACT_BELOW_ROWS = 20_000
REFINE_FACTOR = 5

_NAMES, _PAGES, _SEARCHED = "filter_names", "filter_pages", "search_text"
_OWN = (pa.field(_NAMES, pa.list_(pa.string())), pa.field(_PAGES, pa.list_(pa.int32())))
_POOL = 128
_IDS_A_QUERY = 500


class LanceIndex:
    """A ``SearchIndex`` in an embedded LanceDB table. Nothing is touched until a method is called.

    Args:
        uri: A folder or ``s3://`` prefix that holds this version's table and nothing else.
        table: Name of the table.
        storage_options: Object store options as LanceDB spells them; credentials and endpoint otherwise come from the
            usual AWS environment variables.
        exact_below: Rows below which dense search scans all vectors; from there on an IVF_RQ index narrows it down.
    """

    def __init__(
        self,
        uri: str,
        table: str,
        storage_options: Mapping[str, str] | None = None,
        *,
        exact_below: int = EXACT_BELOW_ROWS,
    ) -> None:
        self._uri = uri.removeprefix("file://")
        self._name = table
        self._options = _with_endpoint(storage_options or {})
        self._exact_below = exact_below
        self._opened: Any = None

    def __reduce__(self) -> tuple[Callable[..., "LanceIndex"], tuple[str, str, Mapping[str, str], int]]:
        return _reopen, (self._uri, self._name, self._options, self._exact_below)

    def create(self, schema: pa.Schema, dimensions: Mapping[str, int]) -> None:
        """Make the table, empty; what an earlier, unfinished build left of it is dropped.

        Raises:
            ContractError: The schema lacks the text that BM25 reads, or a vector column of the length given.
        """
        if _SEARCHED not in schema.names:
            raise ContractError(f"rows of an index need a column {_SEARCHED}")
        for space, dimension in dimensions.items():
            if f"vector_{space}" not in schema.names or _dimension(schema, space) != dimension:
                raise ContractError(f"column vector_{space} must be a list of {dimension} floats")
        self.drop()
        self._opened = self._connect().create_table(self._name, schema=pa.schema([*schema, *_OWN]))

    def add(self, batches: Iterable[pa.RecordBatch]) -> int:
        """Write rows in one commit and return how many; an error of ``batches`` comes through as it is."""
        table = self._table()
        schema: pa.Schema = table.schema
        written = 0
        raised: Exception | None = None

        def extended() -> Iterator[pa.RecordBatch]:
            nonlocal written, raised
            try:
                for batch in batches:
                    written += batch.num_rows
                    yield _extend(batch, schema)
            except Exception as error:
                raised = error
                raise

        try:
            table.add(pa.RecordBatchReader.from_batches(schema, extended()))
        except Exception:
            # The engine wraps what its input raises into an error of its own.
            if raised is not None:
                raise raised from None
            raise
        return written

    def finish(self) -> None:
        """Build the full-text index and, where there are many rows, the vector indexes."""
        from lancedb.index import FTS, IvfRq

        table = self._table()
        table.create_index(_SEARCHED, config=FTS(base_tokenizer="icu/split", remove_stop_words=False))
        if table.count_rows() >= self._exact_below:
            for column in table.schema.names:
                if column.startswith("vector_"):
                    table.create_index(column, config=IvfRq(distance_type="cosine"))

    def count(self) -> int:
        """Return how many rows the table holds."""
        return int(self._table().count_rows())

    def drop(self) -> None:
        """Remove the table; nothing happens where there is none."""
        self._opened = None
        if self._may_exist():
            self._connect().drop_table(self._name, ignore_missing=True)

    def bm25(self, query: str, k: int, filters: Filters) -> Ranked:
        """Return ``(evidence_id, BM25 score)``; any term may match, and no character of a query has a meaning."""
        from lancedb.query import MatchQuery

        words = _encodable(query)
        if not words.strip():
            return []
        table, where = self._table(), _predicate(filters)

        def search(limit: int) -> Ranked:
            found = table.search(MatchQuery(words, _SEARCHED)).select(["evidence_id", "_score"]).limit(limit)
            return _pairs(found.where(where, prefilter=True) if where else found, "_score")

        return _top(search, k)

    def dense(self, vector: Vector, k: int, filters: Filters, space: str = "text") -> Ranked:
        """Return ``(evidence_id, cosine similarity)``; exact below ``exact_below`` rows.

        Raises:
            ContractError: The table has no such space, or its vectors have another length.
        """
        table, where = self._table(), _predicate(filters)
        column = f"vector_{space}"
        if column not in table.schema.names or _dimension(table.schema, space) != len(vector):
            raise ContractError(
                f"{self._name} has no vectors '{space}' of length {len(vector)}; refresh after changing models"
            )

        def search(limit: int) -> Ranked:
            found = table.search(vector, vector_column_name=column).distance_type("cosine").refine_factor(REFINE_FACTOR)
            found = found.select(["evidence_id", "_distance"]).limit(limit)
            pairs = _pairs(found.where(where, prefilter=True) if where else found, "_distance")
            return [(evidence_id, max(-1.0, min(1.0, 1 - distance))) for evidence_id, distance in pairs]

        return _top(search, k)

    def fetch(self, evidence_ids: Sequence[str]) -> list[dict[str, object]]:
        """Return the rows of those ids, in that order; unknown ids are left out."""
        found: dict[str, dict[str, object]] = {}
        for start in range(0, len(evidence_ids), _IDS_A_QUERY):
            wanted = evidence_ids[start : start + _IDS_A_QUERY]
            rows = self._browse().where(f"evidence_id IN ({_listed(wanted)})").limit(len(wanted)).to_arrow()
            found |= {row["evidence_id"]: row for row in rows.to_pylist()}
        return [found[evidence_id] for evidence_id in evidence_ids if evidence_id in found]

    def rows(self, filters: Filters, limit: int) -> list[dict[str, object]]:
        """Return rows by document id and reading order."""
        from lancedb.query import ColumnOrdering

        if limit <= 0:
            return []
        where = _predicate(filters)
        order = [ColumnOrdering(column_name=name) for name in ("doc_id", "order", "evidence_id")]
        found = self._browse().order_by(order).limit(limit)
        listed: list[dict[str, object]] = (found.where(where) if where else found).to_arrow().to_pylist()
        return listed

    def _browse(self) -> Any:
        table = self._table()
        hidden = {_NAMES, _PAGES, _SEARCHED}
        kept = [name for name in table.schema.names if name not in hidden and not name.startswith("vector_")]
        return table.search().select(kept)

    def _table(self) -> Any:
        if self._opened is None:
            if not self._may_exist():
                raise ContractError(f"there is no index at {self._uri}; build the version again")
            try:
                self._opened = self._connect().open_table(self._name)
            except (ValueError, FileNotFoundError) as error:
                raise ContractError(f"there is no table {self._name} at {self._uri}; build the version again") from error
        return self._opened

    def _may_exist(self) -> bool:
        # Connecting makes a folder; reading must not.
        return "://" in self._uri or Path(self._uri).is_dir()

    def _connect(self) -> Any:
        import lancedb

        return lancedb.connect(self._uri, storage_options=self._options or None)


def _reopen(uri: str, table: str, options: Mapping[str, str], exact_below: int) -> LanceIndex:
    return LanceIndex(uri, table, options, exact_below=exact_below)


def _with_endpoint(options: Mapping[str, str]) -> dict[str, str]:
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if endpoint is None:
        return dict(options)
    # LanceDB refuses plain http unless told otherwise; boto3, which the store uses, takes the endpoint as it is.
    return {"aws_endpoint": endpoint, "allow_http": str(endpoint.startswith("http://")).lower(), **options}


def _dimension(schema: pa.Schema, space: str) -> int | None:
    kind = schema.field(f"vector_{space}").type
    return kind.list_size if isinstance(kind, pa.FixedSizeListType) else None


def _extend(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Add the columns that filters look at."""
    names: list[list[str]] = []
    pages: list[list[int]] = []
    for row in batch.select(["doc_id", "sources", "page", "regions"]).to_pylist():
        files = (source.rpartition("/")[2] for source in row["sources"])
        names.append(sorted({row["doc_id"], *row["sources"], *files}))
        pages.append(sorted({row["page"], *(region["page"] for region in row["regions"])}))
    columns: dict[str, pa.Array[Any]] = {name: batch.column(name) for name in batch.schema.names}
    columns |= {_NAMES: pa.array(names, _OWN[0].type), _PAGES: pa.array(pages, _OWN[1].type)}
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def _pairs(search: Any, score: str) -> Ranked:
    found = search.to_arrow()
    return list(zip(found.column("evidence_id").to_pylist(), found.column(score).to_pylist(), strict=True))


def _top(search: Callable[[int], Ranked], k: int) -> Ranked:
    """Return the best ``k`` of an engine that orders ties as it likes.

    More rows are asked for until the last one scores below the ``k``-th, so that no tie is cut by chance. The first
    request is the same for every small ``k``: a short answer is the beginning of a longer one.
    """
    if k <= 0:
        return []
    limit = _POOL
    while limit <= k:
        limit *= 2
    while True:
        ranked = sorted(search(limit), key=lambda pair: (-pair[1], pair[0]))
        if len(ranked) < limit or ranked[k - 1][1] > ranked[-1][1]:
            return ranked[:k]
        limit *= 2


def _predicate(filters: Filters) -> str:
    parts = []
    if filters.documents:
        parts.append(f"array_has_any({_NAMES}, make_array({_listed(filters.documents)}))")
    if filters.pages:
        numbers = ", ".join(f"CAST({int(page)} AS INT)" for page in filters.pages)
        parts.append(f"array_has_any({_PAGES}, make_array({numbers}))")
    if filters.modalities:
        parts.append(f"modality IN ({_listed(filters.modalities)})")
    return " AND ".join(parts)


def _listed(values: Sequence[str]) -> str:
    """Spell strings as SQL literals, where a doubled quote is the only escape there is."""
    return ", ".join("'" + _encodable(value).replace("'", "''") + "'" for value in values)


def _encodable(text: str) -> str:
    """Replace lone surrogates, which JSON can carry and UTF-8 can't."""
    return text.encode("utf-8", "replace").decode("utf-8")
