"""The rows of a version, kept and read back."""

import re

import pyarrow as pa

from backends.stores.checksums import damage
from backends.stores.objects import read_table, reading
from pipeline.corpus.workspace import Workspace
from schemas.errors import MissingError
from schemas.evidence import PLACEMENTS, as_evidence
from schemas.ids import version_file
from schemas.parquet import to_parquet
from schemas.ports import ObjectStore
from tasks.enriching.embed import search_text

ROWS_A_FILE = 50_000

_OF = re.compile(r"-of-(\d+)\.parquet$")


def write_evidence(workspace: Workspace, version: str, evidence: pa.Table) -> int:
    """Keep a version's rows, in files of a bounded number of rows; return how many bytes they take."""
    size = 0
    starts = range(0, max(1, evidence.num_rows), ROWS_A_FILE)
    for number, start in enumerate(starts, 1):
        name = version_file(version, f"evidence/part-{number:05d}-of-{len(starts):05d}.parquet")
        data = to_parquet(evidence.slice(start, ROWS_A_FILE))
        workspace.store.replace(name, data)
        size += len(data)
    return size


def read_evidence(store: ObjectStore, version: str) -> pa.Table:
    """Return a version's rows.

    Raises:
        DamagedError: A part of them is damaged, or missing.
    """
    folder = version_file(version, "evidence")
    names = store.names(folder)
    wanted = int(found[1]) if names and (found := _OF.search(names[-1])) else max(1, len(names))
    if len(names) != wanted:
        raise damage(MissingError, store.root, folder, f"has {len(names)} of {wanted} parts")
    parts = []
    for name in names:
        table = read_table(store, name)
        with reading(store, name):
            parts.append(as_evidence(table))
    return pa.concat_tables(parts)


def read_placements(store: ObjectStore, version: str) -> pa.Table:
    """Return where a version's figures stand."""
    return read_table(store, version_file(version, "placements.parquet"), PLACEMENTS)


def figures_of(placements: pa.Table) -> frozenset[str]:
    """Return the figures that stand somewhere."""
    return frozenset(figure for figure in placements.column("figure_id").to_pylist() if figure is not None)


def search_texts(evidence: pa.Table) -> list[str]:
    """Return what BM25 and the embedder see of each row."""
    columns = (evidence.column(name).to_pylist() for name in ("title", "section_path", "text"))
    return [search_text(title, path, text) for title, path, text in zip(*columns, strict=True)]
