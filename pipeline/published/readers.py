"""What one reader may see of a version: every way from a request to a row leads through here."""

import threading
import time
from collections import Counter
from collections.abc import Callable, ItemsView, Iterator, Mapping, Sequence, ValuesView
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import compress
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from backends.stores.objects import read_table
from pipeline.published.contents import Contents
from pipeline.published.version import OpenVersion
from pipeline.records.access import read_current, read_rights
from pipeline.records.columns import rights_of_rows
from pipeline.records.evidence import DocumentRows
from pipeline.records.row_parts import DOCUMENTS
from schemas.access import Allowed, Principals
from schemas.evidence import EVIDENCE
from schemas.filters import Filters, Modality, ReaderFilters
from schemas.ids import version_file
from schemas.ports import WHOLE_TEXT, ObjectStore, ReadableIndex, Vector
from schemas.rights import Rights
from schemas.versions import Counts
from tasks.answering.embedded_query import SentenceVectors
from tasks.answering.passages import RowPosition
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


class _ReaderRows(DocumentRows):
    """The rows of documents that a reader may see; of the others none."""

    def __init__(self, rows: DocumentRows, visible: Mapping[str, Any]) -> None:
        self._whole, self._visible = rows, visible

    def files(self, doc_id: str) -> list[str]:
        return self._whole.files(doc_id) if doc_id in self._visible else []

    def of(self, doc_id: str, columns: Sequence[str] = EVIDENCE.names) -> pa.Table:
        return self._whole.of(doc_id if doc_id in self._visible else "", columns)


@dataclass(frozen=True, kw_only=True)
class ReaderVersion(OpenVersion):
    """A version as one reader sees it: what of it may not be seen isn't there.

    Attributes:
        whole: The version as administrators see it.
    """

    whole: OpenVersion
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
        return cls(**attributes, whole=version, rights=rights, principals=principals)

    @property
    def longest(self) -> int:
        """Pages of the longest document, whoever may see it: pages beyond are those of no document."""
        return self.whole.longest

    def are_visible(self, doc_ids: Sequence[str]) -> NDArray[np.bool_]:
        """Return which documents the reader may see."""
        return self.rights.which(doc_ids, self.principals)

    @cached_property
    def contents(self) -> Contents:
        """Its documents, pages, rows, tables and figures, as lists."""
        return Contents(self, self.whole.contents)

    @cached_property
    def document_rows(self) -> DocumentRows:
        """The rows of its documents."""
        return _ReaderRows(self.whole.document_rows, self.sources)

    @property
    def reading_order(self) -> Callable[[str], list[RowPosition]]:
        """Returns the rows of one of its documents in reading order."""
        return lambda doc_id: self.whole.reading_order(doc_id) if doc_id in self.sources else []

    # These two are filtered each time, since the tables of all readers would take memory.

    @property
    def placed_figures(self) -> pa.Table:
        """The placements in its documents that have pixels."""
        return self._of_visible(self._placed)

    @property
    def tagged_figures(self) -> pa.Table:
        """The placements in its documents that have a tag."""
        return self._of_visible(self._tagged)

    def _of_visible(self, table: pa.Table) -> pa.Table:
        doc_ids = list(map(str, table.column("doc_id").to_pylist()))
        return table.filter(pa.array(self.are_visible(doc_ids), pa.bool_()))

    @property
    def sentence_vectors(self) -> SentenceVectors:
        """Vectors of sentences, which say nothing of documents."""
        return self.whole.sentence_vectors

    # Tables of the whole version, of which rows of other documents are left out where they are read.

    @property
    def _placed(self) -> pa.Table:
        return self.whole._placed

    @property
    def _tagged(self) -> pa.Table:
        return self.whole._tagged

    @property
    def _page_rows(self) -> pa.Table:
        return self.whole._page_rows

    @cached_property
    def shown_counts(self) -> Counts:
        """Its contents in numbers; what is counted by version alone is left out."""
        table = self._of_visible(read_table(self.workspace.store, version_file(self.version, DOCUMENTS)))
        rows = {modality: int(pc.sum(table.column(modality)).as_py() or 0) for modality in Modality}
        figures = self.tagged_figures.column("figure_id").unique()
        return Counts(
            documents=len(self.sources),
            pages=sum(self.pages.values()),
            figures=len(figures),
            rows=sum(rows.values()),
            rows_by_modality={str(modality): count for modality, count in rows.items()},
            documents_by_language=_counted(table, "language"),
            documents_by_type=_counted(table, "doc_type"),
        )


def _counted(table: pa.Table, name: str) -> dict[str, int]:
    """Return how many rows have each value of a column, the most frequent first."""
    counts = Counter(value for value in table.column(name).to_pylist() if value is not None)
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))
