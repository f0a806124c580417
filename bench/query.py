"""What a search costs beside the engine's own client: ``python -m bench.query [--rows N] [--questions N] [--json]``.

A collection is made of made-up rows with vectors of 384 numbers, in LanceDB and, where a ``weaviate`` is on PATH or
WEAVIATE_URL is set, in Weaviate. Each question is put through the port and to the bare client, one behind the other, either
first in turns, so that a busy machine hits both alike and neither finds what the other has warmed. Both give the ids and scores
of the best ten rows of the same collection; embedding is left out.

The bare client is asked as its documentation has it: LanceDB with a refine factor of 5, so that as many vectors are compared as
recall needs, its hybrid with the reranker that it brings, Weaviate's hybrid with an even alpha. What the port adds is in its
figures: ties in the order of ids, a short answer that begins a longer one, and for hybrid 30 rows of either ranking.

Then one question at a time is embedded by the packaged model, alone and while another process keeps a core busy, and in a fresh
process.
"""

import itertools
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from backends.engines.analyser import query_terms
from backends.engines.index_rows import terms_column
from backends.engines.lancedb_index import LanceIndex
from backends.engines.weaviate_index import WeaviateIndex
from backends.models.minilm import MiniLM
from bench.scale import WORDS, vocabulary
from bench.table import Row, parser_of, show
from schemas.errors import DamagedError
from schemas.evidence import EVIDENCE
from schemas.filters import NO_FILTERS
from schemas.ports import SearchIndex, Vector
from tasks.answering.embedded_query import EmbeddedQuery
from tasks.answering.presets import packaged
from tasks.answering.retrieve import retrieve
from tasks.answering.retrievers import Search

K = 10
WARM_UP = 5
DIMENSION = 384
TOPICS = 1_000
WORDS_A_TEXT, WORDS_A_QUESTION = 110, 6
ROWS_A_BATCH, ROWS_A_DOCUMENT = 5_000, 20
COLLECTION = "Bench_20260101T000000Z_00000001"
SCHEMA = pa.schema(
    [*EVIDENCE, pa.field("search_text", pa.string()), pa.field("vector_text", pa.list_(pa.float32(), DIMENSION))]
)
QUESTIONS = Path(__file__).parent.parent / "examples" / "manuals" / "questions.jsonl"
TERMS = terms_column("search_text")
P50, P99 = "ratio at most 1.1", "ratio at most 1.3"

Call = Callable[[str, Vector], Sequence[str]]
"""Takes a question in words and its vector; returns ids, best first."""
BareSearch = Callable[[str, Vector | None, Sequence[str]], Any]
"""Takes words, a vector (none for bm25) and columns; returns a query of LanceDB."""


def main() -> None:
    """Measure, and print a table."""
    parser = parser_of("query", __doc__)
    parser.add_argument("--rows", type=int, default=100_000, help="rows of the collection")
    parser.add_argument("--questions", type=int, default=300, help="questions put to each")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="inset-") as folder, ExitStack() as stack:
        engines: list[tuple[str, SearchIndex, Callable[[], dict[str, Call]]]] = []
        lance = LanceIndex(f"{folder}/lance", COLLECTION)
        engines.append(("LanceDB", lance, lambda: _bare_lancedb(f"{folder}/lance")))
        if shutil.which("weaviate") or os.environ.get("WEAVIATE_URL"):
            from tests.weaviate_server import running

            (place := Path(folder) / "weaviate").mkdir()
            server = stack.enter_context(running(place))
            engines.append(("Weaviate", WeaviateIndex(server, COLLECTION), lambda: _bare_weaviate(server.client())))
        for name, index, bare in engines:
            if not _is_filled(index, arguments.rows):
                _fill(index, arguments.rows)
            rows += _compared(name, _ours(index), bare(), arguments.rows, arguments.questions)
    show(f"{arguments.rows:,} rows", [*rows, *_embedding(arguments.questions)])


def _compared(name: str, ours: dict[str, Call], bare: dict[str, Call], rows: int, count: int) -> Iterator[Row]:
    # As engines look for them, so that the bare client asks for the same terms.
    words = [
        " ".join(query_terms(text, ())) for text in itertools.islice(_texts(random.Random(5), WORDS_A_QUESTION), count)
    ]
    vectors = _vectors(np.random.default_rng(rows), count)
    for kind, our_call in ours.items():
        calls = (our_call, bare[kind])
        for asked in itertools.islice(zip(words, vectors, strict=True), WARM_UP):
            for call in calls:
                call(*asked)
        waits: tuple[list[float], list[float]] = ([], [])
        found: list[tuple[Sequence[str], Sequence[str]]] = []
        for place, asked in enumerate(zip(words, vectors, strict=True)):
            answers: list[Sequence[str]] = [(), ()]
            for who in (0, 1) if place % 2 else (1, 0):
                began = time.perf_counter()
                answers[who] = calls[who](*asked)
                waits[who].append(1000 * (time.perf_counter() - began))
            found.append((answers[0], answers[1]))
        (our50, our99), (their50, their99) = (np.percentile(one, (50, 99)) for one in waits)
        yield Row(f"{name} {kind}, p50", "ms", our50, their50, "the bare client's call", P50)
        yield Row(f"{name} {kind}, p99", "ms", our99, their99, "the bare client's call", P99)
        if kind == "dense":
            nearest = _nearest(rows, vectors)
            ours_found, theirs_found = (
                float(np.mean([len(nearest[place] & set(pair[who])) / K for place, pair in enumerate(found)]))
                for who in (0, 1)
            )
            yield Row(f"{name} dense, recall at {K}", "", ours_found, theirs_found, "the bare client's call")


# ---- who is asked ----


def _ours(index: SearchIndex) -> dict[str, Call]:
    def hybrid(words: str, vector: Vector) -> list[str]:
        return _ids(retrieve(Search(index), EmbeddedQuery({"text": _Embedded(vector)}, words), plan, k=K))

    plan = packaged()["hybrid"]
    return {
        "bm25": lambda words, _: _ids(index.bm25(words, K, NO_FILTERS)),
        "dense": lambda _, vector: _ids(index.dense(vector, K, NO_FILTERS, "text")),
        "hybrid": hybrid,
    }


class _Embedded:
    """A model that has embedded the question already."""

    name, revision, dimension = "", "", DIMENSION

    def __init__(self, vector: Vector) -> None:
        self._vector = vector

    def embed_query(self, text: str) -> Vector:
        return self._vector


def _bare_lancedb(uri: str) -> dict[str, Call]:
    import lancedb

    searches = bare_searches(lancedb.connect(uri).open_table(COLLECTION))

    def call(search: BareSearch) -> Call:
        return lambda words, vector: [row["evidence_id"] for row in search(words, vector, ["evidence_id"]).to_list()]

    return {name: call(search) for name, search in searches.items()}


def bare_searches(table: Any) -> dict[str, BareSearch]:
    """Return searches of LanceDB's own client, as its documentation has them, for the best ten rows."""
    from lancedb.query import MatchQuery

    def bm25(words: str, _: Vector | None, columns: Sequence[str]) -> Any:
        return table.search(MatchQuery(words, TERMS)).select([*columns, "_score"]).limit(K)

    def dense(_: str, vector: Vector | None, columns: Sequence[str]) -> Any:
        search = table.search(vector, vector_column_name="vector_text").distance_type("cosine").refine_factor(5)
        return search.select([*columns, "_distance"]).limit(K)

    def hybrid(words: str, vector: Vector | None, columns: Sequence[str]) -> Any:
        search = table.search(query_type="hybrid", vector_column_name="vector_text", fts_columns=TERMS)
        search = search.vector(vector).text(words).distance_type("cosine").refine_factor(5)
        return search.select(list(columns)).limit(K)

    return {"bm25": bm25, "dense": dense, "hybrid": hybrid}


def _bare_weaviate(client: Any) -> dict[str, Call]:
    from weaviate.classes.query import MetadataQuery

    ask = client.collections.use(COLLECTION).query
    near: dict[str, Any] = {"limit": K, "return_metadata": MetadataQuery(distance=True), "return_properties": False}
    scored = near | {"return_metadata": MetadataQuery(score=True), "query_properties": [TERMS]}

    def ids(found: Any) -> list[str]:
        return [str(row.uuid) for row in found.objects]

    return {
        "bm25": lambda words, _: ids(ask.bm25(words, **scored)),
        "dense": lambda _, vector: ids(ask.near_vector(vector.tolist(), target_vector="text", **near)),
        "hybrid": lambda words, vector: ids(
            ask.hybrid(words, vector=vector.tolist(), target_vector="text", alpha=0.5, **scored)
        ),
    }


def _ids(ranked: Sequence[tuple[str, float]]) -> list[str]:
    return [evidence_id for evidence_id, _ in ranked]


# ---- what is searched ----


def _is_filled(index: SearchIndex, rows: int) -> bool:
    """Return whether a server holds the rows of an earlier run."""
    try:
        return index.count() == rows
    except DamagedError:
        return False


def _fill(index: SearchIndex, rows: int) -> None:
    index.create(SCHEMA, {"text": DIMENSION})
    index.add(_batches(rows))
    index.finish()


def _batches(rows: int) -> Iterator[pa.RecordBatch]:
    texts = _texts(random.Random(1), WORDS_A_TEXT)
    for start in range(0, rows, ROWS_A_BATCH):
        made = [_row(number, next(texts)) for number in range(start, min(start + ROWS_A_BATCH, rows))]
        vectors = _vectors(np.random.default_rng(start + 1), len(made))
        columns = [pa.array([row.get(field.name) for row in made], field.type) for field in SCHEMA][:-1]
        flat = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), DIMENSION)
        yield pa.RecordBatch.from_arrays([*columns, flat], schema=SCHEMA)


def _row(number: int, text: str) -> dict[str, object]:
    document, order = divmod(number, ROWS_A_DOCUMENT)
    page, box = 1 + order // 4, [72.0, 72.0, 540.0, 200.0]
    title = f"Manual {document}"
    return {
        "evidence_id": _name(number),
        "modality": "text" if number % 4 else "figure",
        "doc_id": f"{document:064x}",
        "sources": [f"manuals/manual-{document}.pdf"],
        "page": page,
        "bbox": box,
        "regions": [{"page": page, "bbox": box}],
        "order": order,
        "section_path": ["Operation"],
        "title": title,
        "text": text,
        "tagged_text": text,
        "figure_refs": [],
        "caption": "",
        "search_text": f"{title} Operation {text}",
    }


def _name(number: int) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, str(number)))


def _texts(chance: random.Random, words: int) -> Iterator[str]:
    """Yield texts of made-up words, few of them frequent and most rare, as in any language."""
    known = vocabulary()
    while True:
        yield " ".join(known[int(WORDS ** chance.random()) - 1] for _ in range(words))


def _vectors(chance: np.random.Generator, count: int) -> Vector:
    """Return vectors of unit length, each near to that of one of a thousand topics."""
    topics = np.random.default_rng(0).standard_normal((TOPICS, DIMENSION)).astype(np.float32)
    vectors = topics[chance.integers(0, TOPICS, count)] + 0.8 * chance.standard_normal((count, DIMENSION)).astype(
        np.float32
    )
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


def _nearest(rows: int, questions: Vector) -> list[set[str]]:
    sizes = ((start, min(ROWS_A_BATCH, rows - start)) for start in range(0, rows, ROWS_A_BATCH))
    near = np.concatenate([_vectors(np.random.default_rng(start + 1), size) @ questions.T for start, size in sizes])
    return [{_name(int(number)) for number in column} for column in np.argsort(-near, axis=0)[:K].T]


# ---- embedding ----


def _embedding(count: int) -> list[Row]:
    questions = [json.loads(line)["question"] for line in QUESTIONS.read_text(encoding="utf-8").splitlines()]
    model = MiniLM()
    model.embed_query(questions[0])

    def waits() -> list[float]:
        taken = []
        for question in itertools.islice(itertools.cycle(questions), count):
            began = time.perf_counter()
            model.embed_query(question)
            taken.append(1000 * (time.perf_counter() - began))
        return taken

    began = time.process_time()
    alone = waits()
    cpu = 1000 * (time.process_time() - began) / count
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        try:
            beside = waits()
        finally:
            busy.kill()
    first = f"import time; began = time.perf_counter()\n{_FIRST}\nprint(time.perf_counter() - began)"
    fresh = subprocess.run(
        [sys.executable, "-c", first, questions[0]], stdout=subprocess.PIPE, check=True, text=True, cwd=QUESTIONS.parents[2]
    )
    (alone50, alone99), (beside50, beside99) = (np.percentile(one, (50, 99)) for one in (alone, beside))
    busy_core = "the same on an idle machine"
    return [
        Row("embedding a question, p50", "ms", alone50, goal="at most 10"),
        Row("embedding a question, CPU", "ms", cpu),
        Row("embedding a question, p99", "ms", alone99),
        Row("beside a busy core, p50", "ms", beside50, alone50, busy_core, "ratio at most 2"),
        Row("beside a busy core, p99", "ms", beside99, alone99, busy_core),
        Row("model's load and first question", "s", float(fresh.stdout)),
    ]


_FIRST = """import sys
from backends.models.minilm import MiniLM
MiniLM().embed_query(sys.argv[1])"""


if __name__ == "__main__":
    main()
