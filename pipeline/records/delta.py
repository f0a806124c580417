"""How the rows of a version differ from its parent's: what its collection can be derived by, instead of being filled.

Writing only what changed costs a fraction of writing all (decision 22), but each derivation leaves the vector index with one more
segment, and with cells that were fitted to earlier rows. So every now and then a collection is filled anew.
"""

from collections.abc import Iterator, Set

import pyarrow as pa
from pydantic import BaseModel, ConfigDict

from backends.stores.objects import read_model
from pipeline.records.evidence import PartWriter, table_parts
from pipeline.records.inherit import Inherited
from schemas.errors import DamagedError
from schemas.evidence import EVIDENCE
from schemas.ids import version_file
from schemas.ports import ObjectStore

MOST_DERIVATIONS = 16
"""Versions in a row that are derived one from another."""

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


def delta_from_parent(store: ObjectStore, inherited: Inherited, documents: Set[str], changed: Set[str]) -> Delta | None:
    """Return how a version differs from its parent; None where its collection has to be filled.

    Args:
        store: The corpus's store.
        inherited: What the version takes over.
        documents: All documents of the version.
        changed: Those of them whose rows aren't the parent's.
    """
    if inherited.version is None:
        return None
    try:
        before = read_delta(store, inherited.version)
    except DamagedError:
        return None
    removed = inherited.before - (documents - changed)
    derivations, count = 1, max(len(changed), len(removed))
    if before is not None:
        derivations, count = derivations + before.derivations, count + before.documents
    if derivations > MOST_DERIVATIONS or count > MOST_CHANGED * len(documents):
        return None
    return Delta(parent=inherited.version, removed=sorted(removed), derivations=derivations, documents=count)


class DeltaWriter:
    """Keeps a delta and its rows beside the version; what was kept before goes. ``None`` keeps nothing."""

    def __init__(self, store: ObjectStore, version: str, delta: Delta | None) -> None:
        self._store, self._delta = store, delta
        self._file = version_file(version, _FILE)
        # It is written last, so that whoever finds it finds all its rows.
        store.delete(self._file)
        self._rows = PartWriter(store, version_file(version, _ROWS), EVIDENCE)

    def add(self, changed: pa.Table) -> None:
        """Keep rows of a document that changed."""
        if self._delta is not None:
            self._rows.add(changed)

    def close(self) -> None:
        """Finish it."""
        if self._delta is not None:
            self._rows.close()
            self._store.replace(self._file, self._delta.model_dump_json().encode())


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
