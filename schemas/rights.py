"""Rights of documents as classes of documents with equal sets of principals."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from schemas.access import EVERYONE, NOBODY, Allowed, Principals

_CLASSES = pa.schema([pa.field(name, pa.list_(pa.string()), nullable=False) for name in ("principals", "documents")])

_Ids = NDArray[np.bytes_]


class Rights:
    """Who may read each document, kept as classes of documents with equal sets. An unknown document has no readers.

    Args:
        ids: Documents, in any order.
        class_of: The index of each document's set.
        classes: The sets, each once.
    """

    def __init__(self, ids: _Ids, class_of: NDArray[np.int32], classes: Sequence[Principals]) -> None:
        order = np.argsort(ids)
        self._ids, self._class_of, self._classes = ids[order], class_of[order], classes

    @classmethod
    def of(cls, principals_by_document: Mapping[str, Principals]) -> "Rights":
        """Return the rights of documents."""
        numbers: dict[Principals, int] = {}
        class_of = [numbers.setdefault(names, len(numbers)) for names in principals_by_document.values()]
        return cls(np.array([*principals_by_document], np.bytes_), np.array(class_of, np.int32), [*numbers])

    @classmethod
    def of_column(cls, doc_ids: "pa.ChunkedArray[Any]", sets: "pa.ChunkedArray[Any]") -> "Rights":
        """Return the rights that a column of documents' sets has."""
        # No principal has a semicolon, so joined sets are equal where the sets are.
        arrays: Any = sets.combine_chunks()
        joined: Any = pc.binary_join(arrays, ";")
        encoded = joined.fill_null("").dictionary_encode()
        classes = [frozenset(names.split(";")) if names else frozenset() for names in encoded.dictionary.to_pylist()]
        return cls(np.asarray(doc_ids, np.bytes_), np.asarray(encoded.indices, np.int32), classes)

    @classmethod
    def of_table(cls, table: pa.Table) -> "Rights":
        """Return the rights that ``table`` made a table of."""
        documents: Any = table.column("documents").combine_chunks()
        ids, class_of = pc.list_flatten(documents), pc.list_parent_indices(documents)
        classes = [frozenset(names or ()) for names in table.column("principals").to_pylist()]
        return cls(np.asarray(ids, np.bytes_), np.asarray(class_of, np.int32), classes)

    def table(self) -> pa.Table:
        """Return them as a table, a row a class: equal rights give equal tables."""
        ids = self._ids.astype(np.str_)
        rows = [
            {"principals": sorted(names), "documents": ids[self._class_of == index].tolist()}
            for index, names in enumerate(self._classes)
        ]
        return pa.Table.from_pylist(sorted(rows, key=lambda row: row["principals"]), schema=_CLASSES)

    def __len__(self) -> int:
        """Return the number of documents."""
        return len(self._ids)

    def __iter__(self) -> Iterator[tuple[str, Principals]]:
        """Yield each document with its set, by id."""
        sets = (self._classes[index] for index in self._class_of)
        yield from zip(self._ids.astype(np.str_).tolist(), sets, strict=True)

    @property
    def classes(self) -> int:
        """The number of different sets."""
        return len(self._classes)

    def readers(self, doc_id: str) -> Principals:
        """Return who may read a document."""
        return self._classes[self._class_of[self._index(doc_id)]] if self.knows(doc_id) else NOBODY

    def knows(self, doc_id: str) -> bool:
        """Return whether it is said who may read a document, even if nobody."""
        index = self._index(doc_id)
        return index < len(self._ids) and bool(self._ids[index] == doc_id.encode())

    def _index(self, doc_id: str) -> int:
        return int(np.searchsorted(self._ids, doc_id.encode()))

    def allows(self, doc_id: str, principals: Principals) -> bool:
        """Return whether a reader may see a document; everybody has the principal ``everyone``."""
        return not self.readers(doc_id).isdisjoint(principals | {EVERYONE})

    def which(self, doc_ids: Sequence[str], principals: Principals) -> NDArray[np.bool_]:
        """Return which documents of a list a reader may see, as ``allows`` does."""
        ids = np.array(doc_ids, np.bytes_)
        if not len(self._ids):
            return np.zeros(len(ids), np.bool_)
        positions = np.minimum(np.searchsorted(self._ids, ids), len(self._ids) - 1)
        mine = np.array([not names.isdisjoint(principals | {EVERYONE}) for names in self._classes], np.bool_)
        return np.asarray((self._ids[positions] == ids) & mine[self._class_of[positions]], np.bool_)

    def readable(self, principals: Principals) -> list[str]:
        """Return the documents that a reader may see."""
        mine = np.array([not names.isdisjoint(principals | {EVERYONE}) for names in self._classes], np.bool_)
        return [*map(str, self._ids[mine[self._class_of]].astype(np.str_))]

    def column(self, doc_ids: Iterable[str]) -> "pa.Array[Any]":
        """Return the sets of documents as a column of sorted lists."""
        return pa.array([sorted(self.readers(doc_id)) for doc_id in doc_ids], pa.list_(pa.string()))

    def changed_since(self, earlier: "Rights") -> list[str]:
        """Return the documents of either whose sets differ, sorted; an unknown document counts as one without readers."""
        ids = np.union1d(self._ids, earlier._ids)
        numbers: dict[Principals, int] = {frozenset(): -1}
        now, before = (rights._numbered(ids, numbers) for rights in (self, earlier))
        return [*map(str, ids[now != before].astype(np.str_))]

    def seen_by(self, principals: Principals, rows: "Rights | None", doc_ids: Collection[str]) -> Allowed:
        """Return what a reader may see of a version.

        ``rows`` are the rights that its rows carry, None where they carry none; ``doc_ids`` are its documents.
        """
        mine = principals | {EVERYONE}
        if rows is None:
            return Allowed((), (), tuple(sorted(set(self.readable(principals)).intersection(doc_ids))))
        changed = [doc_id for doc_id in self.changed_since(rows) if doc_id in doc_ids]
        allowed = (doc_id for doc_id in changed if self.allows(doc_id, principals))
        return Allowed(tuple(sorted(mine)), tuple(changed), tuple(allowed))

    def _numbered(self, ids: _Ids, numbers: dict[Principals, int]) -> NDArray[np.int32]:
        """Return the number of each document's set; equal sets have equal numbers, which ``numbers`` keeps."""
        by_class = np.array([numbers.setdefault(names, len(numbers)) for names in self._classes], np.int32)
        numbered = np.full(len(ids), -1, np.int32)
        numbered[np.searchsorted(ids, self._ids)] = by_class[self._class_of]
        return numbered
