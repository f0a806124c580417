"""How the rows of a version differ from its parent's: what its collection can be derived by, instead of being filled.

Writing only what changed costs a fraction of writing all (decision 12), but each derivation leaves the vector index with one more
segment, and with cells that were fitted to earlier rows. So every now and then a collection is filled anew.
"""

from collections.abc import Iterable, Iterator, Mapping, Set
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, ConfigDict

from backends.stores.objects import read_model
from pipeline.records.evidence import PartWriter, table_parts
from pipeline.records.inherit import Inherited
from pipeline.records.ledger import indexed_sources, read_ledger
from schemas.errors import DamagedError
from schemas.evidence import EVIDENCE
from schemas.ids import version_file
from schemas.ports import ObjectStore

MOST_DERIVATIONS = 8
"""Versions in a row that are derived one from another; on 40,000 rows a vector search then takes 18 ms, 12 once filled."""

MOST_CHANGED = 0.2
"""Share of a corpus's documents that may change before its collection is filled anew."""

_FILE = "delta.json"
_ROWS = "changed"


class Delta(BaseModel):
    """What a version lacks of its parent's rows, and has besides them.

    ``removed`` are documents of the parent whose rows aren't there, or not as they were. ``derivations`` and ``documents`` count
    versions and changed documents, this version's included, since a collection was filled.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    parent: str
    removed: list[str]
    derivations: int
    documents: int


class DeltaWriter:
    """Keeps how a version differs from its parent, beside the version; what was kept there before goes.

    Nothing is kept where the collection has to be filled anyway.

    Args:
        store: The corpus's store.
        version: The version.
        inherited: What it takes over.
        sources: Of each of its documents.
        made: Those of them whose rows are made, and not taken over.
    """

    def __init__(
        self,
        store: ObjectStore,
        version: str,
        inherited: Inherited,
        sources: Mapping[str, tuple[str, ...]],
        made: Iterable[str],
    ) -> None:
        self._store, self._file = store, version_file(version, _FILE)
        # It is written last, so that whoever finds it finds all its rows.
        store.delete(self._file)
        self._rows = PartWriter(store, version_file(version, _ROWS), EVIDENCE)
        self._delta: Delta | None = None
        if inherited.version is not None:
            before = indexed_sources(read_ledger(store, inherited.version))
            moved = (doc_id for doc_id, named in before.items() if named != sources.get(doc_id))
            self._changed = sources.keys() & {*made, *moved}
            removed = before.keys() - (sources.keys() - self._changed)
            self._delta = _delta(store, inherited.version, removed, self._changed, len(sources))

    def add(self, rows: pa.Table) -> None:
        """Keep those rows whose documents changed."""
        if self._delta is None:
            return
        # Rows come a document at a time: a hash table of all documents that changed would be made for each of them.
        documents = set(map(str, rows.column("doc_id").unique().to_pylist()))
        changed = documents & self._changed
        if changed:
            self._rows.add(rows if changed == documents else rows.filter(_are_of(rows, changed)))

    def close(self) -> None:
        """Finish it."""
        if self._delta is not None:
            self._rows.close()
            self._store.replace(self._file, self._delta.model_dump_json().encode())


def _are_of(rows: pa.Table, documents: Iterable[str]) -> Any:
    return pc.is_in(rows.column("doc_id"), pa.array(sorted(documents), pa.string()))


def _delta(store: ObjectStore, parent: str, removed: Set[str], changed: Set[str], documents: int) -> Delta | None:
    try:
        before = read_delta(store, parent)
    except DamagedError:
        return None
    derivations, count = 1, max(len(changed), len(removed))
    if before is not None:
        derivations, count = derivations + before.derivations, count + before.documents
    if derivations > MOST_DERIVATIONS or count > MOST_CHANGED * documents:
        return None
    return Delta(parent=parent, removed=sorted(removed), derivations=derivations, documents=count)


def read_delta(store: ObjectStore, version: str) -> Delta | None:
    """Return how a version's rows differ from its parent's; None where that isn't known.

    Raises:
        DamagedError: It can't be read.
    """
    try:
        return read_model(store, version_file(version, _FILE), Delta)
    except FileNotFoundError:
        return None


def changed_rows(store: ObjectStore, version: str) -> Iterator[pa.Table]:
    """Yield the rows that a version has besides those of its parent, by document id.

    Raises:
        DamagedError: A part is damaged, or missing.
    """
    return table_parts(store, version_file(version, _ROWS), EVIDENCE)
