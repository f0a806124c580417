"""A brute-force engine in memory: what the other engines are compared with, and what unit tests search in."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from schemas.errors import ContractError
from schemas.evidence import EVIDENCE, Filters
from schemas.ports import Vector

K1 = 1.2
B = 0.75

_WORD = re.compile(r"\w+")


class MemoryIndex:
    """A ``SearchIndex`` of plain lists. BM25 reads ``search_text`` by words in lower case, neither stemmed nor stopped.

    Source:
        Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009; the idf is Lucene's, which
        is never negative.
    """

    def __init__(self) -> None:
        self._schema: pa.Schema | None = None
        self._rows: list[dict[str, object]] = []
        self._words: list[Counter[str]] = []
        self._vectors: dict[str, list[Vector]] = {}
        self._rarity: dict[str, float] = {}
        self._mean_length = 1.0

    def create(self, schema: pa.Schema, dimensions: Mapping[str, int]) -> None:
        """Forget everything."""
        self.drop()
        self._schema = schema
        self._vectors = {space: [] for space in dimensions}

    def add(self, batches: Iterable[pa.RecordBatch]) -> int:
        """Keep rows, and return how many."""
        self._created()
        written = 0
        for batch in batches:
            self._rows.extend(batch.select([name for name in EVIDENCE.names if name in batch.schema.names]).to_pylist())
            self._words.extend(Counter(_words(str(text))) for text in batch.column("search_text").to_pylist())
            for space, vectors in self._vectors.items():
                vectors.extend(np.asarray(vector, np.float32) for vector in batch.column(f"vector_{space}").to_pylist())
            written += batch.num_rows
        return written

    def finish(self) -> None:
        """Count in how many rows each word stands."""
        self._created()
        total = len(self._rows)
        holding = Counter(word for words in self._words for word in words)
        self._rarity = {word: math.log(1 + (total - rows + 0.5) / (rows + 0.5)) for word, rows in holding.items()}
        self._mean_length = sum(words.total() for words in self._words) / total if total else 1.0

    def count(self) -> int:
        """Return how many rows are kept."""
        self._created()
        return len(self._rows)

    def drop(self) -> None:
        """Forget everything."""
        MemoryIndex.__init__(self)

    def bm25(self, query: str, k: int, filters: Filters) -> list[tuple[str, float]]:
        """Return ``(evidence_id, BM25 score)``; any word may match."""
        wanted = [word for word in _words(query) if word in self._rarity]

        def score(place: int) -> float | None:
            words = self._words[place]
            length = K1 * (1 - B + B * words.total() / self._mean_length)
            found = [self._rarity[word] * words[word] * (K1 + 1) / (words[word] + length) for word in wanted if words[word]]
            return math.fsum(found) if found else None

        return self._top(score, k, filters)

    def dense(self, vector: Vector, k: int, filters: Filters, space: str = "text") -> list[tuple[str, float]]:
        """Return ``(evidence_id, cosine similarity)``, exact.

        Raises:
            ContractError: There is no such space, or its vectors have another length.
        """
        self._created()
        vectors = self._vectors.get(space)
        if vectors is None or (vectors and len(vectors[0]) != len(vector)):
            raise ContractError(f"there are no vectors '{space}' of length {len(vector)}")

        def score(place: int) -> float:
            other = vectors[place].astype(np.float64)
            return max(-1.0, min(1.0, float(other @ vector / (np.linalg.norm(other) * np.linalg.norm(vector)))))

        return self._top(score, k, filters)

    def fetch(self, evidence_ids: Sequence[str]) -> list[dict[str, object]]:
        """Return the rows of those ids, in that order; unknown ids are left out."""
        self._created()
        found = {str(row["evidence_id"]): row for row in self._rows}
        return [found[evidence_id] for evidence_id in evidence_ids if evidence_id in found]

    def rows(self, filters: Filters, limit: int) -> list[dict[str, object]]:
        """Return rows by document id and reading order."""
        self._created()
        allowed = [row for row in self._rows if _allows(filters, row)]
        allowed.sort(key=lambda row: (row["doc_id"], row["order"], row["evidence_id"]))
        return allowed[: max(limit, 0)]

    def _created(self) -> None:
        if self._schema is None:
            raise ContractError("there is no index; create it first")

    def _top(self, score: Callable[[int], float | None], k: int, filters: Filters) -> list[tuple[str, float]]:
        self._created()
        scored = (
            (str(row["evidence_id"]), found)
            for place, row in enumerate(self._rows)
            if _allows(filters, row) and (found := score(place)) is not None
        )
        return sorted(scored, key=lambda pair: (-pair[1], pair[0]))[: max(k, 0)]


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _allows(filters: Filters, row: Mapping[str, object]) -> bool:
    sources: list[str] = row["sources"]  # type: ignore[assignment]
    regions: list[dict[str, int]] = row["regions"]  # type: ignore[assignment]
    names = {row["doc_id"], *sources, *(source.rpartition("/")[2] for source in sources)}
    pages = {row["page"], *(region["page"] for region in regions)}
    return (
        (not filters.documents or not names.isdisjoint(filters.documents))
        and (not filters.pages or not pages.isdisjoint(filters.pages))
        and (not filters.modalities or row["modality"] in filters.modalities)
    )
