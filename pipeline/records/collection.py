"""A version's collection in its engine: filled, read back, and looked for."""

from collections.abc import Iterable, Iterator

import pyarrow as pa

from pipeline.corpus.workspace import Report, Workspace, silent
from pipeline.records.cache import ShardedCache
from pipeline.records.evidence import search_texts
from pipeline.records.inventory import check_index_files
from pipeline.records.vectors import vectors_of
from schemas.errors import DamagedError
from schemas.evidence import EVIDENCE
from schemas.laws import EXAMPLES
from schemas.ports import SearchIndex
from schemas.versions import GateResult, Manifest

ROWS_A_BATCH = 5_000
ROWS_SAMPLED = 50

OF_THE_ENGINE = ("rows read back", "sample read back")
"""Gates on what the engine did: what they refuse says nothing about the inputs, so it is built again."""


def fill(
    index: SearchIndex, evidence: pa.Table, vectors: ShardedCache, fields: Iterable[str], report: Report = silent
) -> None:
    """Write rows and their vectors into a fresh collection, and make it searchable.

    Args:
        index: The collection; what there is of it is dropped first.
        evidence: The rows.
        vectors: Where the vector of each row's text is found.
        fields: The texts that BM25 reads.
        report: Told of rows written.

    Raises:
        DamagedError: A row has no vector.
    """
    vector = vectors.schema.field("vector").type
    schema = EVIDENCE.append(pa.field("search_text", pa.string())).append(pa.field("vector_text", vector))
    report("build", 0, evidence.num_rows)
    index.create(schema, {"text": vector.list_size}, tuple(fields))
    index.add(_batches(evidence, vectors, schema, report))
    index.finish()


def holds(workspace: Workspace, manifest: Manifest) -> bool:
    """Say whether the engine still has a version's rows: a server may have lost its disk, or files of the index be damaged.

    Raises:
        TransientError: The engine doesn't answer.
    """
    try:
        check_index_files(workspace, manifest.version)
        return workspace.index(manifest.version).count() == manifest.counts.rows
    except DamagedError:
        return False


def read_back(index: SearchIndex, evidence: pa.Table) -> list[GateResult]:
    """Judge what the engine holds by its own count, and by rows from all over the version, compared value by value."""
    counted = index.count()
    step = -(-evidence.num_rows // ROWS_SAMPLED)
    sample = [row for place in range(0, evidence.num_rows, step or 1) for row in evidence.slice(place, 1).to_pylist()]
    names = [row["evidence_id"] for row in sample]
    found, vectors = {row["evidence_id"]: row for row in index.fetch(names)}, index.vectors(names)
    other = [row for name, row in zip(names, sample, strict=True) if found.get(name) != row or name not in vectors]
    alike = len(sample) - len(other)
    count, rows = OF_THE_ENGINE
    told = f"of {len(sample)} rows asked for, the engine gives {alike} back as they were written"
    if other:
        places = dict.fromkeys(f"{row['sources'][0]} page {row['page']}" for row in other)
        told += f", but not those of {', '.join([*places][:EXAMPLES])}"
    return [
        _of_the_engine(
            count, counted, evidence.num_rows, f"the engine holds {counted} rows, {evidence.num_rows} were written"
        ),
        _of_the_engine(rows, alike, len(sample), told),
    ]


def _of_the_engine(gate: str, value: int, bound: int, told: str) -> GateResult:
    passed = value == bound
    remedy = "" if passed else "; the next refresh builds it again; if it stays so, report it"
    return GateResult(gate=gate, passed=passed, value=value, bound=bound, message=f"{told}{remedy}")


def _batches(evidence: pa.Table, vectors: ShardedCache, schema: pa.Schema, report: Report) -> Iterator[pa.RecordBatch]:
    texts = search_texts(evidence)
    matrix = vectors_of(vectors, texts)
    for start in range(0, evidence.num_rows, ROWS_A_BATCH):
        part = evidence.slice(start, ROWS_A_BATCH)
        stop = start + part.num_rows
        flat = pa.array(matrix[start:stop].reshape(-1), pa.float32())
        columns = [*part.columns, pa.array(texts[start:stop]), pa.FixedSizeListArray.from_arrays(flat, matrix.shape[1])]
        yield from pa.table(columns, schema=schema).to_batches()
        report("build", stop, evidence.num_rows)
