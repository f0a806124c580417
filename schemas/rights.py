"""Rights of documents: who may read each."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from schemas.access import EVERYONE, NOBODY, Allowed, Principals

_CLASSES = pa.schema([pa.field(name, pa.list_(pa.string()), nullable=False) for name in ("principals", "documents")])


class Rights:
    """Who may read each document; an unknown document has no readers."""

    def __init__(self, readers: Mapping[str, Principals]) -> None:
        # Documents share their sets, of which a corpus has few.
        sets: dict[Principals, Principals] = {}
        self._readers = {doc_id: sets.setdefault(names, names) for doc_id, names in readers.items()}

    @classmethod
    def of_column(cls, doc_ids: "pa.ChunkedArray[Any]", sets: "pa.ChunkedArray[Any]") -> "Rights":
        """Return the rights that a column of documents' sets has."""
        readers = zip(map(str, doc_ids.to_pylist()), sets.to_pylist(), strict=True)
        return cls({doc_id: frozenset(names or ()) for doc_id, names in readers})

    @classmethod
    def of_table(cls, table: pa.Table) -> "Rights":
        """Return the rights that ``table`` made a table of."""
        return cls({doc_id: frozenset(row["principals"]) for row in table.to_pylist() for doc_id in row["documents"]})

    def table(self) -> pa.Table:
        """Return them as a table, a row a set with the documents that have it: equal rights give equal tables."""
        documents: dict[Principals, list[str]] = {}
        for doc_id, names in self:
            documents.setdefault(names, []).append(doc_id)
        rows = [{"principals": sorted(names), "documents": doc_ids} for names, doc_ids in documents.items()]
        return pa.Table.from_pylist(sorted(rows, key=lambda row: row["principals"]), schema=_CLASSES)

    def __len__(self) -> int:
        """Return the number of documents."""
        return len(self._readers)

    def __iter__(self) -> Iterator[tuple[str, Principals]]:
        """Yield each document with its set, by id."""
        yield from sorted(self._readers.items())

    def readers(self, doc_id: str) -> Principals:
        """Return who may read a document."""
        return self._readers.get(doc_id, NOBODY)

    def knows(self, doc_id: str) -> bool:
        """Return whether it is said who may read a document, even if nobody."""
        return doc_id in self._readers

    def allows(self, doc_id: str, principals: Principals) -> bool:
        """Return whether a reader may see a document; everybody has the principal ``everyone``."""
        return not self.readers(doc_id).isdisjoint(principals | {EVERYONE})

    def which(self, doc_ids: Sequence[str], principals: Principals) -> NDArray[np.bool_]:
        """Return which documents of a list a reader may see, as ``allows`` does."""
        return np.array([self.allows(doc_id, principals) for doc_id in doc_ids], np.bool_)

    def column(self, doc_ids: Iterable[str]) -> "pa.Array[Any]":
        """Return the sets of documents as a column of sorted lists."""
        return pa.array([sorted(self.readers(doc_id)) for doc_id in doc_ids], pa.list_(pa.string()))

    def changed_since(self, earlier: "Rights") -> list[str]:
        """Return the documents of either whose sets differ, sorted; an unknown document counts as one without readers."""
        doc_ids = self._readers.keys() | earlier._readers.keys()
        return sorted(doc_id for doc_id in doc_ids if self.readers(doc_id) != earlier.readers(doc_id))

    def seen_by(self, principals: Principals, rows: "Rights | None", doc_ids: Collection[str]) -> Allowed:
        """Return what a reader may see of a version.

        ``rows`` are the rights that its rows carry, None where they carry none; ``doc_ids`` are its documents.
        """
        if rows is None:
            return Allowed((), (), tuple(sorted(doc_id for doc_id in doc_ids if self.allows(doc_id, principals))))
        changed = [doc_id for doc_id in self.changed_since(rows) if doc_id in doc_ids]
        allowed = (doc_id for doc_id in changed if self.allows(doc_id, principals))
        return Allowed(tuple(sorted(principals | {EVERYONE})), tuple(changed), tuple(allowed))
