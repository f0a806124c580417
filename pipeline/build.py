"""Stage 6: a fresh physical collection for the version, its rows counted back."""

import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipeline.assemble import read_evidence
from pipeline.enrich import vector_cache
from pipeline.stages import StageNote, write_note
from pipeline.workspace import Report, Workspace, silent
from schemas.errors import ContractError
from schemas.evidence import EVIDENCE
from schemas.versions import GateResult
from tasks.embed import search_text, text_id

ROWS_A_BATCH = 5_000


def build(workspace: Workspace, version: str, report: Report = silent) -> StageNote:
    """Join evidence with its vectors and write the version's collection; whatever a killed build left is dropped first.

    Raises:
        ContractError: A row has no vector.
    """
    started = time.monotonic()
    evidence = read_evidence(workspace, version)
    dimension = workspace.text_model.dimension or 0
    workspace.settle_index(version)
    index = workspace.index(version)
    schema = EVIDENCE.append(pa.field("search_text", pa.string())).append(
        pa.field("vector_text", pa.list_(pa.float32(), dimension))
    )
    index.create(schema, {"text": dimension}, tuple(workspace.corpus.index.weights))
    report("build", 0, evidence.num_rows)
    index.add(_batches(workspace, evidence, schema, dimension, report))
    index.finish()
    counted = index.count()
    gate = GateResult(
        gate="rows read back",
        passed=counted == evidence.num_rows,
        value=counted,
        bound=evidence.num_rows,
        message=f"the engine holds {counted} rows, {evidence.num_rows} were written",
    )
    note = StageNote(seconds=time.monotonic() - started, gates=[gate], counts={"rows_built": counted})
    return write_note(workspace.store, version, "build", note)


def search_texts(evidence: pa.Table) -> list[str]:
    """Return what BM25 and the embedder see of each row."""
    columns = (evidence.column(name).to_pylist() for name in ("title", "section_path", "text"))
    return [search_text(title, path, text) for title, path, text in zip(*columns, strict=True)]


def vectors_of(workspace: Workspace, texts: list[str]) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """Return the cached vector of each text, one a row.

    Raises:
        ContractError: A text has none.
    """
    dimension = workspace.text_model.dimension or 0
    names = [text_id(text) for text in texts]
    found = vector_cache(workspace.store, workspace.keys.vectors, dimension).read(sorted(set(names)))
    places = {name: place for place, name in enumerate(found.column("id").to_pylist())}
    if absent := [name for name in names if name not in places]:
        raise ContractError(f"{len(absent)} rows have no vector; run the enrich stage again")
    matrix = np.asarray(pc.list_flatten(found.column("vector")), np.float32).reshape(-1, dimension)
    return matrix[[places[name] for name in names]]


def _batches(
    workspace: Workspace, evidence: pa.Table, schema: pa.Schema, dimension: int, report: Report
) -> Iterator[pa.RecordBatch]:
    texts = search_texts(evidence)
    vectors = vectors_of(workspace, texts)
    for start in range(0, evidence.num_rows, ROWS_A_BATCH):
        part = evidence.slice(start, ROWS_A_BATCH)
        stop = start + part.num_rows
        flat = pa.array(vectors[start:stop].reshape(-1), pa.float32())
        columns = [*part.columns, pa.array(texts[start:stop]), pa.FixedSizeListArray.from_arrays(flat, dimension)]
        yield from pa.table(columns, schema=schema).to_batches()
        report("build", stop, evidence.num_rows)
