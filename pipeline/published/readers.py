"""What one reader may see of a version: every way from a request to a row leads through here."""

import threading
import time
from collections.abc import Callable, ItemsView, Iterator, Mapping, Sequence, ValuesView
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import compress
from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.published.version import OpenVersion
from pipeline.records.access import read_current, read_rights
from pipeline.records.columns import rights_of_rows
from pipeline.records.notes import counts_of
from pipeline.records.row_parts import count_documents, read_documents
from schemas.access import Allowed, Principals
from schemas.filters import Filters, ReaderFilters
from schemas.ports import WHOLE_TEXT, ObjectStore, ReadableIndex, Vector
from schemas.rights import Rights
from schemas.versions import Counts
from tasks.answering.retrievers import Ranked

RIGHTS_S = 10.0
"""Seconds for which rights are used before the store is asked whether newer ones hold."""

READERS_KEPT = 32
"""Views of a version that are kept, one for readers with the same principals: some KB each, and 100 bytes a changed document."""

Value = TypeVar("Value")


class RightsReader:
    """The rights that hold now, read again when others are applied. Thread-safe."""

    def __init__(self, store: ObjectStore, clock: Callable[[], float] = time.monotonic) -> None:
        self._store, self._clock = store, clock
        self._lock = threading.Lock()
        self._digest, self._rights = "", Rights({})
        self._valid_until = -1.0

    def __call__(self) -> Rights:
        """Return the rights, the same object while they don't change.

        Raises:
            TransientError: They can't be read, so nothing may be shown.
        """
        with self._lock:
            if self._clock() >= self._valid_until:
                digest = read_current(self._store).digest
                if digest != self._digest:
                    self._rights = read_rights(self._store, digest)
                    self._digest = digest
                self._valid_until = self._clock() + RIGHTS_S
            return self._rights


class ReaderIndex:
    """A version's index without the rows of documents that a reader may not see."""

    def __init__(
        self, index: ReadableIndex, allowed: Allowed, sees: Callable[[str], bool], valid: Sequence[str] = ()
    ) -> None:
        self._index, self._allowed, self._sees, self._valid = index, allowed, sees, valid

    def bm25(
        self, query: str, k: int, filters: Filters, weights: Mapping[str, float] = WHOLE_TEXT, *, every: bool = False
    ) -> Ranked:
        """Return ``(evidence_id, BM25 score)``; frequencies of words are those of all rows."""
        return self._index.bm25(query, k, self._seen(filters), weights, every=every)

    def dense(self, vector: Vector, k: int, filters: Filters, space: str) -> Ranked:
        """Return ``(evidence_id, cosine similarity)``."""
        return self._index.dense(vector, k, self._seen(filters), space)

    def late(self, vectors: Vector, k: int, filters: Filters, space: str) -> Ranked:
        """Return ``(evidence_id, MaxSim)``."""
        return self._index.late(vectors, k, self._seen(filters), space)

    def fetch(self, evidence_ids: Sequence[str]) -> list[dict[str, object]]:
        """Return the rows of some ids that the reader may see; the others are left out as unknown ids are."""
        return [row for row in self._index.fetch(evidence_ids) if self._sees(str(row["doc_id"]))]

    def vectors(self, evidence_ids: Sequence[str], space: str) -> dict[str, Vector]:
        """Return a space's vectors of the rows that the reader may see."""
        return self._index.vectors([str(row["evidence_id"]) for row in self.fetch(evidence_ids)], space)

    def _seen(self, filters: Filters) -> Filters:
        return ReaderFilters.of(filters, self._allowed, self._valid)


class _Visible(Mapping[str, Value]):
    """A mapping by document without the documents that a reader may not see; nothing of it is copied."""

    def __init__(self, values: Mapping[str, Value], rights: Rights, principals: Principals) -> None:
        self._whole, self._rights, self._principals = values, rights, principals

    def __getitem__(self, doc_id: str) -> Value:
        if not self._rights.allows(doc_id, self._principals):
            raise KeyError(doc_id)
        return self._whole[doc_id]

    def __iter__(self) -> Iterator[str]:
        doc_ids = list(self._whole)
        return compress(doc_ids, self._rights.which(doc_ids, self._principals))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def items(self) -> ItemsView[str, Value]:
        return {doc_id: self._whole[doc_id] for doc_id in self}.items()

    def values(self) -> ValuesView[Value]:
        return {doc_id: self._whole[doc_id] for doc_id in self}.values()


@dataclass(frozen=True, kw_only=True)
class ReaderVersion(OpenVersion):
    """A version as one reader sees it: what of it may not be seen isn't there."""

    rights: Rights
    principals: Principals

    @classmethod
    def of(cls, version: OpenVersion, rights: Rights, principals: Principals) -> "ReaderVersion":
        """Return a version as a reader with some principals sees it."""

        def sees(doc_id: str) -> bool:
            return rights.allows(doc_id, principals)

        allowed = rights.seen_by(principals, rights_of_rows(version.workspace.store, version.version), version.sources)
        visible = {
            name: None if documents is None else _Visible(documents, rights, principals)
            for name, documents in (("sources", version.sources), ("pages", version.pages), ("tagged", version.tagged))
        }
        attributes = {field.name: getattr(version, field.name) for field in fields(OpenVersion)} | visible
        # A revision is valid for a reader who may see none of those that supersede it.
        valid = version.own_fields.valid_for(lambda doc_ids: rights.which(doc_ids, principals))
        attributes["index"] = ReaderIndex(version.index, allowed, sees, valid)
        return cls(**attributes, rights=rights, principals=principals)

    def are_visible(self, doc_ids: Sequence[str]) -> NDArray[np.bool_]:
        """Return which documents the reader may see."""
        return self.rights.which(doc_ids, self.principals)

    def visible_part(self, table: pa.Table) -> pa.Table:
        """Return the rows of documents that the reader may see, each time anew: those of all readers would take memory."""
        doc_ids = list(map(str, table.column("doc_id").to_pylist()))
        return table.filter(pa.array(self.are_visible(doc_ids), pa.bool_()))

    @cached_property
    def shown_counts(self) -> Counts:
        """Its contents in numbers; what is counted by version alone is left out."""
        documents = [
            facts for doc_id, facts in read_documents(self.workspace.store, self.version).items() if doc_id in self.sources
        ]
        own_counts = {
            "documents": len(self.sources),
            "pages": sum(self.pages.values()),
            "figures": len(self.tagged_figures.column("figure_id").unique()),
        }
        return counts_of(count_documents(documents) | own_counts)
