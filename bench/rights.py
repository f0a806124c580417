"""What rights cost a search: ``python -m bench.rights [--rows N] [--questions N] [--json]``.

The rows of ``bench.query`` carry 200 classes of rights: sets of one to four groups. Readers are in a group that sees 1, 10 or
90 % of the documents; with no document and with fifty whose rights changed since the version was built. Each question is put to
the same index with rights and without, in turns. Recall is of the visible rows among the best ten by exact cosine.
"""

import itertools
import os
import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pyarrow as pa

from backends.engines.analyser import query_terms
from backends.engines.lancedb_index import LanceIndex
from backends.engines.weaviate_index import WeaviateIndex
from bench.query import (
    COLLECTION,
    DIMENSION,
    ROWS_A_BATCH,
    ROWS_A_DOCUMENT,
    SCHEMA,
    WARM_UP,
    WORDS_A_QUESTION,
    K,
    _batches,
    _texts,
    _vectors,
)
from bench.table import Row, parser_of, show
from schemas.access import Allowed
from schemas.filters import ACCESS, NO_FILTERS, Filters, ReaderFilters
from schemas.ports import SearchIndex

CLASSES = 200
SHARES = (1, 10, 90)
"""Percent of the documents that a reader sees."""
CHANGED = (0, 50)
_SCHEMA = SCHEMA.insert(len(SCHEMA) - 1, pa.field(ACCESS, pa.list_(pa.string())))
GOAL = "ratio at most 1.25"


def main() -> None:
    """Measure, and print a table."""
    parser = parser_of("rights", __doc__)
    parser.add_argument("--rows", type=int, default=100_000, help="rows of the collection")
    parser.add_argument("--questions", type=int, default=200, help="questions put to each")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="inset-") as folder, ExitStack() as stack:
        indexes: list[tuple[str, SearchIndex]] = [("LanceDB", LanceIndex(f"{folder}/lance", COLLECTION))]
        if shutil.which("weaviate") or os.environ.get("WEAVIATE_URL"):
            from tests.weaviate_server import running

            (server_folder := Path(folder) / "weaviate").mkdir()
            indexes.append(("Weaviate", WeaviateIndex(stack.enter_context(running(server_folder)), COLLECTION)))
        for name, index in indexes:
            index.create(_SCHEMA, {"text": DIMENSION})
            index.add(_with_rights(arguments.rows))
            index.finish()
            rows += _compared(name, index, arguments.rows, arguments.questions)
    show(f"{arguments.rows:,} rows, {CLASSES} classes of rights", rows)


def _with_rights(rows: int) -> Iterator[pa.RecordBatch]:
    for batch in _batches(rows):
        groups = [_groups(int(str(doc_id), 16) % CLASSES) for doc_id in batch.column("doc_id").to_pylist()]
        columns = dict(zip(batch.schema.names, batch.columns, strict=True)) | {ACCESS: pa.array(groups)}
        yield pa.RecordBatch.from_pydict({name: columns[name] for name in _SCHEMA.names}, schema=_SCHEMA)


def _groups(rights_class: int) -> list[str]:
    larger = [f"group:see-{share}" for share in SHARES if rights_class < CLASSES * share // 100]
    return [f"group:{rights_class:03}", *larger]


def _reader(share: int, changed: int) -> Filters:
    doc_ids = tuple(f"{document:064x}" for document in range(changed))
    return ReaderFilters.of(NO_FILTERS, Allowed((f"group:see-{share}",), doc_ids, doc_ids[: changed // 2]))


def _compared(name: str, index: SearchIndex, rows: int, count: int) -> Iterator[Row]:
    texts = [
        " ".join(query_terms(text, ())) for text in itertools.islice(_texts(random.Random(5), WORDS_A_QUESTION), count)
    ]
    vectors = _vectors(np.random.default_rng(rows), count)
    everything = np.concatenate(
        [_vectors(np.random.default_rng(start + 1), ROWS_A_BATCH) for start in range(0, rows, ROWS_A_BATCH)]
    )
    cosines = vectors @ everything.T
    for share, changed in itertools.product(SHARES, CHANGED):
        filters = _reader(share, changed)
        documents = np.arange(rows) // ROWS_A_DOCUMENT
        visible = np.where(documents < changed, documents < changed // 2, documents % CLASSES < CLASSES * share // 100)
        best = np.argsort(np.where(visible, -cosines, np.inf), axis=1)[:, :K]
        kinds = itertools.product(("bm25", "dense"), (False, True))
        waits: dict[tuple[str, bool], list[float]] = {kind: [] for kind in kinds}
        shares_found = []
        for number, (text, vector) in enumerate(zip(texts, vectors, strict=True)):
            for kind, limited in sorted(waits, reverse=bool(number % 2)):
                narrowed = filters if limited else NO_FILTERS
                started = time.perf_counter()
                ranked = index.bm25(text, K, narrowed) if kind == "bm25" else index.dense(vector, K, narrowed, "text")
                waits[kind, limited].append(1000 * (time.perf_counter() - started))
                if kind == "dense" and limited:
                    found_cosines = sorted((score for _, score in ranked), reverse=True)
                    expected = np.sort(cosines[number][best[number]])[::-1]
                    shares_found.append(np.mean([cosine >= expected[-1] - 1e-4 for cosine in found_cosines]))
        for kind in ("bm25", "dense"):
            ours, bare = (float(np.median(waits[kind, limited][WARM_UP:])) for limited in (True, False))
            yield Row(f"{name} {kind}, sees {share} %, {changed} changed, p50", "ms", ours, bare, "without rights", GOAL)
        yield Row(f"{name} dense, sees {share} %, {changed} changed, recall", "", float(np.mean(shares_found)), goal="1.0")


if __name__ == "__main__":
    main()
