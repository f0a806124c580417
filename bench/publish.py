"""What publication costs: ``python -m bench.publish [--rows N] [--sources N] [--json]``.

Rows a second into each engine, beside the bare client's best loop on the same rows: LanceDB in a temporary folder, Weaviate
where ``WEAVIATE_URL`` names a server (its gRPC port in ``WEAVIATE_GRPC_PORT``). And a plan over a ledger of a million sources,
of which one in a hundred changed: seconds, and the most memory its process takes.
"""

import argparse
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from backends.engines.lancedb_index import LanceIndex
from backends.engines.weaviate_index import WeaviateIndex
from backends.engines.weaviate_server import WeaviateServer
from bench.parse import peak_memory
from bench.table import Row, show
from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.records.ledger import write_ledger
from pipeline.records.publication import LIVE, manifest_name
from pipeline.stages.plan import plan
from schemas.evidence import EVIDENCE
from schemas.ids import evidence_id, sha256
from schemas.parquet import Rows
from schemas.ports import DocumentSource, SearchIndex
from schemas.versions import Counts, LedgerRow, Manifest, Pointer, SourceFile, Status

DIMENSION = 384
WORDS = [
    "pump",
    "valve",
    "motor",
    "torque",
    "seal",
    "bearing",
    "housing",
    "filter",
    "switch",
    "cable",
    "sensor",
    "bracket",
    "nozzle",
    "gasket",
    "lever",
    "spindle",
]
SCHEMA = EVIDENCE.append(pa.field("search_text", pa.string())).append(
    pa.field("vector_text", pa.list_(pa.float32(), DIMENSION))
)
BATCHES_OF = 2_000


def main() -> None:
    """Measure, and print a table."""
    about, _, more = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(prog="python -m bench.publish", description=about, epilog=more)
    parser.add_argument("--rows", type=int, default=10_000, help="rows that each engine gets")
    parser.add_argument("--sources", type=int, default=1_000_000, help="sources of the ledger that is planned over")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    show("publication", [*_imports(arguments.rows), *_plans(arguments.sources)])


# ---- rows into engines ----


def _imports(count: int) -> Iterator[Row]:
    rows = _rows(count)
    with tempfile.TemporaryDirectory() as folder:
        _bare_lance(f"{folder}/warm", rows[:1])  # importing it takes seconds
        ours = _rate(count, lambda: _fill(LanceIndex(f"{folder}/ours", "Bench"), rows))
        theirs = _rate(count, lambda: _bare_lance(f"{folder}/theirs", rows))
        yield Row(f"{count} rows into LanceDB", "rows/s", ours, theirs, "lancedb, write and both indexes", "0.9")
    url = os.environ.get("WEAVIATE_URL")
    if url is None:
        sys.stderr.write("WEAVIATE_URL isn't set: rows into Weaviate aren't measured\n")
        return
    server = WeaviateServer(url, int(os.environ.get("WEAVIATE_GRPC_PORT", "50051")))
    try:
        index = WeaviateIndex(server, "InsetBench_ours")
        loops: list[Callable[[], None]] = [
            lambda: _bare_weaviate(server, index, rows, requests=2),
            lambda: _bare_weaviate(server, index, rows, requests=1),
        ]
        theirs = max(_rate(count, loop) for loop in loops)
        ours = _rate(count, lambda: _fill(index, rows))
        index.drop()
    finally:
        server.close()
    yield Row(f"{count} rows into Weaviate", "rows/s", ours, theirs, "weaviate-client, best of its loops", "0.9")


def _rate(count: int, work: Callable[[], None]) -> float:
    began = time.monotonic()
    work()
    return count / (time.monotonic() - began)


def _rows(count: int) -> list[pa.RecordBatch]:
    pick, numbers = random.Random(0), np.random.default_rng(0)
    batches = []
    for start in range(0, count, BATCHES_OF):
        size = min(BATCHES_OF, count - start)
        texts = [" ".join(pick.choice(WORDS) for _ in range(80)) for _ in range(size)]
        vectors = numbers.standard_normal((size, DIMENSION)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        rows = [_row(start + number, text) for number, text in enumerate(texts)]
        flat = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), DIMENSION)
        columns = [pa.array([row[name] for row in rows], SCHEMA.field(name).type) for name in SCHEMA.names[:-1]]
        batches.append(pa.RecordBatch.from_arrays([*columns, flat], schema=SCHEMA))
    return batches


def _row(number: int, text: str) -> dict[str, object]:
    doc_id = sha256(str(number // 100).encode())
    box = [72.0, 72.0, 500.0, 300.0]
    return {
        "evidence_id": evidence_id(doc_id, "text", number, text),
        "modality": "text",
        "doc_id": doc_id,
        "sources": [f"manual-{number // 100}.pdf"],
        "page": 1 + number % 100,
        "bbox": box,
        "regions": [{"page": 1 + number % 100, "bbox": box}],
        "order": number,
        "section_path": ["1 Service"],
        "title": "Manual",
        "text": text,
        "tagged_text": text,
        "figure_refs": [],
        "caption": "",
        "figure_id": None,
        "search_text": f"Manual\n1 Service\n{text}",
    }


def _fill(index: SearchIndex, rows: list[pa.RecordBatch]) -> None:
    index.create(SCHEMA, {"text": DIMENSION})
    index.add(rows)
    index.finish()


def _bare_lance(folder: str, rows: list[pa.RecordBatch]) -> None:
    import lancedb
    from lancedb.index import FTS, IvfRq

    table = lancedb.connect(folder).create_table("rows", pa.Table.from_batches(rows))
    table.create_index("search_text", config=FTS())
    table.create_index("vector_text", config=IvfRq(distance_type="cosine"))


def _bare_weaviate(server: WeaviateServer, like: WeaviateIndex, rows: list[pa.RecordBatch], *, requests: int) -> None:
    """Import with the client's own batches into a collection of the same schema, and wait as long for its indexes."""
    like.create(SCHEMA, {"text": DIMENSION})
    collection = server.client().collections.use(like.collection)
    with collection.batch.fixed_size(batch_size=200, concurrent_requests=requests) as batch:
        for rows_ in rows:
            vectors = np.asarray(pc.list_flatten(rows_.column("vector_text")), np.float32).reshape(-1, DIMENSION)
            for row, vector in zip(rows_.drop_columns(["vector_text"]).to_pylist(), vectors, strict=True):
                name = row.pop("evidence_id")
                kept = {key: value for key, value in row.items() if key not in ("regions", "figure_id")}
                batch.add_object(properties=kept, uuid=name, vector={"text": vector.tolist()})
    assert not collection.batch.failed_objects, collection.batch.failed_objects[0].message
    like.finish()


# ---- a plan over many sources ----


@dataclass(frozen=True)
class _Listed:
    """A source of files that nobody has to make: one in a hundred has changed since the ledger."""

    count: int

    def files(self) -> list[SourceFile]:
        return [SourceFile(source=_source(n), size=1000 + n, stamp=str(n % 100 == 0)) for n in range(self.count)]

    def digest(self, source: str) -> str:
        return sha256(self.read(source))

    def read(self, source: str) -> bytes:
        return f"changed {source}".encode()


class _Large(Workspace):
    def source(self) -> DocumentSource:
        return _Listed(int(self.file.read_text().rpartition("# ")[2]))


def _source(number: int) -> str:
    return f"manuals/{number // 1000:04}/{number:07}.pdf"


def _plans(count: int) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        _alone(_write_ledger, folder, count)
        seconds, peak = _alone(_plan, folder)
    yield Row(f"plan over {count:,} sources", "s", seconds, goal="30")
    yield Row(f"plan over {count:,} sources", "MiB", peak, goal="2048")


def _alone(work: Callable[..., Any], *arguments: object) -> Any:
    """Run in a process of its own, whose memory is nobody else's."""
    with ProcessPoolExecutor(max_workers=1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, *arguments).result()


def _opened(folder: str) -> Workspace:
    workspace = open_workspace(f"{folder}/large.yaml")
    return _Large(**vars(workspace))


def _write_ledger(folder: str, count: int) -> None:
    Path(folder, "large.yaml").write_text(f"name: large\nsource: {folder}\nstore: {folder}/store\n# {count}")
    workspace = _opened(folder)
    version = "20260101T000000Z-00000000"
    rows = (
        LedgerRow(
            source=_source(number),
            doc_id=sha256(_source(number).encode()),
            size=1000 + number,
            stamp="False",
            status=Status.INDEXED,
            attempt=workspace.keys.attempt,
            pages=10,
        )
        for number in range(count)
    )
    write_ledger(workspace.store, version, Rows.of(LedgerRow, rows))
    manifest = Manifest(
        version=version,
        corpus="large",
        fingerprint="0" * 16,
        parent=None,
        created=datetime.now(UTC),
        run_id="bench",
        code_version="",
        keys=vars(workspace.keys),
        models={},
        spaces={},
        parameters={},
        counts=Counts(),
        collection="",
    )
    workspace.store.put(manifest_name(version), manifest.model_dump_json().encode())
    parsed = Path(workspace.store.root, "parsed")
    parsed.mkdir()
    for row in rows:
        parsed.joinpath(row.doc_id).mkdir()
    pointer = Pointer(version=version, previous=None, since=datetime.now(UTC))
    workspace.store.swap(LIVE, pointer.model_dump_json().encode(), None)


def _plan(folder: str) -> tuple[float, float]:
    began = time.monotonic()
    made = plan(_opened(folder), "bench")
    seconds = time.monotonic() - began
    assert made.summary.changed * 99 == made.summary.kept, made.summary.changed
    assert made.summary.to_parse == made.summary.changed
    return seconds, peak_memory()


if __name__ == "__main__":
    main()
