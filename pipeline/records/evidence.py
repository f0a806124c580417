"""Read the rows of a version, one file at a time."""

from collections.abc import Iterator, Sequence
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from backends.stores.objects import read_table, reading
from pipeline.records.row_parts import read_parts
from schemas.evidence import EVIDENCE, PLACEMENTS
from schemas.filters import Modality
from schemas.ports import ObjectStore

FILES_SAMPLED, ROWS_SAMPLED = 10, 50


def row_files(store: ObjectStore, version: str, kind: Literal["evidence", "placements"]) -> list[str]:
    """Return the names of the files of a version's rows."""
    return [getattr(part, kind) for part in read_parts(store, version).parts]


def evidence_parts(store: ObjectStore, version: str) -> Iterator[pa.Table]:
    """Yield a version's evidence, by document id and reading order."""
    return (read_table(store, name, EVIDENCE) for name in row_files(store, version, "evidence"))


def evidence_sample(store: ObjectStore, version: str) -> Iterator[pa.Table]:
    """Yield about ``ROWS_SAMPLED`` rows spread over a version's evidence, from at most ``FILES_SAMPLED`` files."""
    names = row_files(store, version, "evidence")
    sampled_names = names[:: -(-len(names) // FILES_SAMPLED) or 1]
    for name in sampled_names:
        part = read_table(store, name, EVIDENCE)
        step = -(-part.num_rows * len(sampled_names) // ROWS_SAMPLED) or 1
        yield part.take(pa.array(range(0, part.num_rows, step), pa.int64()))


def placement_parts(store: ObjectStore, version: str) -> Iterator[pa.Table]:
    """Yield a version's placements, by document id and order."""
    return (read_table(store, name, PLACEMENTS) for name in row_files(store, version, "placements"))


def read_placements(store: ObjectStore, version: str) -> pa.Table:
    """Return a version's placements as one table."""
    return pa.concat_tables([PLACEMENTS.empty_table(), *placement_parts(store, version)])


class DocumentRows:
    """A version's evidence by document. Files are sorted by document, so one document needs few of them."""

    def __init__(self, store: ObjectStore, version: str) -> None:
        self._store = store
        self._parts = read_parts(store, version)

    def files(self, doc_id: str) -> list[str]:
        """Return the file that may have rows of a document, if there is one."""
        return [part.evidence for part in self._parts.with_documents([doc_id])]

    def of(self, doc_id: str, columns: Sequence[str] = EVIDENCE.names) -> pa.Table:
        """Return a document's rows in reading order, or some columns of them; empty if the version lacks it."""
        schema = pa.schema([EVIDENCE.field(name) for name in dict.fromkeys(["doc_id", *columns])])
        parts = (read_table(self._store, name, schema, columns=schema.names) for name in self.files(doc_id))
        tables = [part.filter(pc.equal(part.column("doc_id"), pa.scalar(doc_id))) for part in parts]
        return pa.concat_tables([schema.empty_table(), *tables]).select(list(columns))


def page_rows(evidence: pa.Table) -> list[tuple[str, int, str]]:
    """Return document, page and picture of each page's row."""
    rows = evidence.select(["modality", "doc_id", "page", "figure_id"])
    rows = rows.filter(pc.equal(rows.column("modality"), pa.scalar(str(Modality.PAGE))))
    return [(row["doc_id"], row["page"], row["figure_id"]) for row in rows.to_pylist()]


def pictured_pages(store: ObjectStore, version: str) -> pa.Table:
    """Return ``evidence_id`` and ``figure_id`` of all rows of pages, by document and order."""
    columns = [*_PICTURED.names, "modality"]
    parts = [_PICTURED.empty_table()]
    for name in row_files(store, version, "evidence"):
        with reading(store, name):
            part = read_table(store, name, columns=columns)
            is_page = pc.equal(part.column("modality"), pa.scalar(str(Modality.PAGE)))
            parts.append(part.filter(is_page).select(_PICTURED.names).cast(_PICTURED))
    return pa.concat_tables(parts)


_PICTURED = pa.schema([EVIDENCE.field("evidence_id"), EVIDENCE.field("figure_id")])


def figures_of(placements: pa.Table) -> frozenset[str]:
    """Return the ids of the placed figures."""
    return frozenset(figure for figure in placements.column("figure_id").to_pylist() if figure is not None)
