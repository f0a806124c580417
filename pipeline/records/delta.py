"""How a version's rows differ from its parent's, so that its collection is derived, or brought forward (decision 12).

Each derivation of a table adds a segment to the vector index and keeps its cells, so tables are filled again now and then.
"""

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, ConfigDict

from backends.stores.objects import read_model
from pipeline.records.evidence import PartWriter, table_parts
from pipeline.records.inherit import Inherited
from pipeline.records.ledger import indexed_pages, indexed_sources, read_ledger
from schemas.errors import DamagedError
from schemas.evidence import EVIDENCE
from schemas.ids import version_file
from schemas.ports import ObjectStore

MOST_DERIVATIONS = 8
"""Most derivations in a row. On 40,000 rows a vector search takes 18 ms after them, and 12 in a filled collection."""

MOST_CHANGED = 0.2
"""Largest share of changed documents since the last fill, or of changed rows since the version that is brought forward."""

_FILE = "delta.json"
_ROWS = "changed"


class Delta(BaseModel):
    """Difference to the parent.

    ``removed`` are the parent's documents whose rows are gone or changed. ``derivations`` and ``documents`` count versions and
    changed documents since the last fill, this version's included; both are 0 where its collection was filled.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    parent: str
    removed: list[str]
    derivations: int
    documents: int

    def allows_derivation(self, documents: int) -> bool:
        """Return whether a table of a version with that many documents is derived once more."""
        return self.derivations <= MOST_DERIVATIONS and self.documents <= MOST_CHANGED * documents


class DeltaWriter:
    """Writes the delta of a version as its rows come; none where too many documents changed.

    ``made`` are the documents whose rows are new.
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
        # Written last: a delta that exists has all its rows.
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
        """Add rows; those of unchanged documents are skipped."""
        if self._delta is None:
            return
        # Rows come a document at a time: filtering each by the set of all changed documents would build a hash table each time.
        documents = set(map(str, rows.column("doc_id").unique().to_pylist()))
        changed = documents & self._changed
        if changed:
            self._rows.add(
                rows if changed == documents else rows.filter(pc.is_in(rows.column("doc_id"), pa.array(sorted(changed))))
            )

    def close(self) -> None:
        """Write the rest and the delta."""
        if self._delta is not None:
            self._rows.close()
            self._store.replace(self._file, self._delta.model_dump_json().encode())


def _delta(store: ObjectStore, parent: str, removed: Set[str], changed: Set[str], documents: int) -> Delta | None:
    count = max(len(changed), len(removed))
    if count > MOST_CHANGED * documents:
        return None
    try:
        before = read_delta(store, parent)
    except DamagedError:
        return None
    derivations = 1
    if before is not None:
        derivations, count = derivations + before.derivations, count + before.documents
    return Delta(parent=parent, removed=sorted(removed), derivations=derivations, documents=count)


def read_delta(store: ObjectStore, version: str) -> Delta | None:
    """Return a version's delta; None where it has none.

    Raises:
        DamagedError: It can't be read.
    """
    try:
        return read_model(store, version_file(version, _FILE), Delta)
    except FileNotFoundError:
        return None


def note_filled(store: ObjectStore, version: str) -> None:
    """Note in a version's delta, if it has one, that its collection was filled."""
    delta = read_delta(store, version)
    if delta is not None and delta.derivations:
        filled = delta.model_copy(update={"derivations": 0, "documents": 0})
        store.replace(version_file(version, _FILE), filled.model_dump_json().encode())


@dataclass(frozen=True)
class Difference:
    """The difference of a version to one of its ancestors.

    ``removed`` are the ancestor's documents whose rows are gone or changed. ``deltas`` are those of the versions since, by name.
    """

    store: ObjectStore
    removed: list[str]
    deltas: Mapping[str, Delta]

    def changed_rows(self) -> Iterator[pa.Table]:
        """Yield the rows of changed and new documents; those that a later version changed again are left out."""
        versions = [*self.deltas]
        for place, version in enumerate(versions, 1):
            gone = {name for later in versions[place:] for name in self.deltas[later].removed}
            for part in changed_rows(self.store, version):
                yield part.filter(pc.invert(pc.is_in(part.column("doc_id"), pa.array(sorted(gone), pa.string()))))


def difference(store: ObjectStore, version: str, ancestor: str) -> Difference | None:
    """Return the difference of a version to one of its ancestors; None where it isn't one, or a delta since is missing.

    Raises:
        DamagedError: A delta, or the ancestor's ledger, can't be read.
    """
    deltas: dict[str, Delta] = {}
    name = version
    while name != ancestor:
        delta = read_delta(store, name)
        if delta is None:
            return None
        deltas[name], name = delta, delta.parent
    removed = {doc_id for delta in deltas.values() for doc_id in delta.removed}
    there = removed & indexed_pages(read_ledger(store, ancestor)).keys()
    return Difference(store, sorted(there), dict(reversed(deltas.items())))


def delete_delta(store: ObjectStore, version: str) -> None:
    """Delete a version's delta, with the rows in it."""
    store.delete(version_file(version, _FILE))
    for name in store.names(version_file(version, _ROWS)):
        store.delete(name)


def changed_rows(store: ObjectStore, version: str) -> Iterator[pa.Table]:
    """Yield the rows of changed and new documents, by document id.

    Raises:
        DamagedError: A part is damaged or missing.
    """
    return table_parts(store, version_file(version, _ROWS), EVIDENCE)
