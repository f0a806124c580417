"""Stage 6: a fresh physical collection for the version, its rows counted back."""

import time
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.corpus.workspace import Report, Workspace, silent
from pipeline.records.cache import ShardedCache
from pipeline.records.evidence import read_evidence, search_texts
from pipeline.records.inventory import check_index_files
from pipeline.records.notes import StageNote, write_note
from pipeline.stages.enrich import text_vectors
from schemas.corpus import LEXICAL_FIELDS
from schemas.errors import DamagedError
from schemas.evidence import EVIDENCE
from schemas.laws import EXAMPLES
from schemas.ports import SearchIndex
from schemas.versions import GateResult, Manifest
from tasks.enriching.embed import text_id

ROWS_A_BATCH = 5_000
ROWS_SAMPLED = 50

OF_THE_ENGINE = ("rows read back", "sample read back")
"""Gates on what the engine did: what they refuse says nothing about the inputs, so it is built again."""


def build(workspace: Workspace, version: str, report: Report = silent) -> StageNote:
    """Join evidence with its vectors and write the version's collection; whatever a killed build left is dropped first.

    Raises:
        DamagedError: A row has no vector.
    """
    started = time.monotonic()
    evidence = read_evidence(workspace.store, version)
    workspace.settle_index(version)
    index = workspace.index(version)
    fill(index, evidence, text_vectors(workspace), LEXICAL_FIELDS, report)
    gates = read_back(index, evidence)
    note = StageNote(seconds=time.monotonic() - started, gates=gates, counts={"rows_built": index.count()})
    return write_note(workspace.store, version, "build", note)


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


def vectors_of(vectors: ShardedCache, texts: list[str]) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """Return the cached vector of each text, one a row.

    Raises:
        DamagedError: A text has none.
    """
    names = [text_id(text) for text in texts]
    found = vectors.read(sorted(set(names)))
    places = {name: place for place, name in enumerate(found.column("id").to_pylist())}
    if absent := [name for name in names if name not in places]:
        raise vectors.lacking(len(absent))
    dimension = vectors.schema.field("vector").type.list_size
    matrix = np.asarray(pc.list_flatten(found.column("vector")), np.float32).reshape(-1, dimension)
    return matrix[[places[name] for name in names]]


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
