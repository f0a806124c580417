"""The rows of a version, kept and read back."""

import pyarrow as pa

from pipeline.stages import version_file
from pipeline.workspace import Workspace
from schemas.evidence import EVIDENCE, PLACEMENTS
from schemas.parquet import from_parquet, to_parquet
from schemas.ports import ObjectStore
from tasks.embed import search_text

ROWS_A_FILE = 50_000


def write_evidence(workspace: Workspace, version: str, evidence: pa.Table) -> int:
    """Keep a version's rows, in files of a bounded number of rows; return how many bytes they take."""
    size = 0
    for number, start in enumerate(range(0, max(1, evidence.num_rows), ROWS_A_FILE)):
        name = version_file(version, f"evidence/part-{number:05d}.parquet")
        data = to_parquet(evidence.slice(start, ROWS_A_FILE))
        workspace.store.replace(name, data)
        size += len(data)
    return size


def read_evidence(store: ObjectStore, version: str) -> pa.Table:
    """Return a version's rows."""
    names = store.names(version_file(version, "evidence"))
    return pa.concat_tables([from_parquet(store.get(name)) for name in names]).cast(EVIDENCE)


def read_placements(store: ObjectStore, version: str) -> pa.Table:
    """Return where a version's figures stand."""
    return from_parquet(store.get(version_file(version, "placements.parquet"))).cast(PLACEMENTS)


def search_texts(evidence: pa.Table) -> list[str]:
    """Return what BM25 and the embedder see of each row."""
    columns = (evidence.column(name).to_pylist() for name in ("title", "section_path", "text"))
    return [search_text(title, path, text) for title, path, text in zip(*columns, strict=True)]
