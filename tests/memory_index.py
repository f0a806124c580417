"""A brute-force engine in memory: what the other engines are compared with, and what unit tests search in."""

import math
import operator
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from backends.engines import index_rows
from backends.engines.analyser import query_terms
from backends.engines.index_rows import (
    Ranked,
    added_columns,
    check_columns,
    check_filters,
    dimension_of,
    filtered,
    is_late,
    terms_column,
)
from schemas.access import Allowed
from schemas.errors import ContractError, DamagedError
from schemas.evidence import EVIDENCE
from schemas.filters import Filters
from schemas.ports import WHOLE_TEXT, SearchIndex, Vector

K1 = 1.2
B = 0.75


class MemoryIndex:
    """A ``SearchIndex`` of plain lists. BM25 sums over fields.

    Args:
        languages: Those of the version's documents, which questions are stemmed by.

    Source:
        Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009; the idf is Lucene's, which
        is never negative.
    """

    def __init__(self, languages: Collection[str] = ()) -> None:
        self._languages = languages
        self._schema: pa.Schema | None = None
        self._rows: dict[str, dict[str, object]] = {}
        self._others: dict[str, dict[str, object]] = {}
        self._words: dict[str, dict[str, Counter[str]]] = {}
        self._vectors: dict[str, dict[str, Vector]] = {}
        self._rarity: dict[str, dict[str, float]] = {}
        self._mean_length: dict[str, float] = {}

    def create(self, schema: pa.Schema, dimensions: Mapping[str, int], fields: Sequence[str] = tuple(WHOLE_TEXT)) -> None:
        """Forget everything."""
        check_columns(schema, dimensions, fields)
        self.drop()
        self._schema = schema
        self._vectors = {space: {} for space in dimensions}
        self._words = {field: {} for field in fields}

    def derive(self, earlier: SearchIndex, schema: pa.Schema, fields: Sequence[str], without: Sequence[str]) -> bool:
        """Keep the rows of another that is made alike, but for some documents'."""
        if not isinstance(earlier, MemoryIndex) or schema != earlier._created() or list(fields) != list(earlier._words):
            return False
        rows, other_columns, earlier_words, earlier_vectors = (
            earlier._rows,
            earlier._others,
            earlier._words,
            earlier._vectors,
        )
        self.drop()  # which may be the earlier one
        self._schema, left_out = schema, set(without)
        self._rows = {name: row for name, row in rows.items() if row["doc_id"] not in left_out}
        self._others = {name: other_columns[name] for name in self._rows}
        self._words = {field: {name: words[name] for name in self._rows} for field, words in earlier_words.items()}
        self._vectors = {
            space: {name: vector for name, vector in vectors.items() if name in self._rows}
            for space, vectors in earlier_vectors.items()
        }
        return True

    def add(self, batches: Iterable[pa.RecordBatch]) -> int:
        """Keep rows, and return how many."""
        self._created()
        row_count = 0
        for batch in batches:
            added = added_columns(batch, [*self._words])
            for index, row in enumerate(batch.to_pylist()):
                name = str(row["evidence_id"])
                self._rows[name] = {column: row.get(column) for column in EVIDENCE.names}
                self._others[name] = {column: value for column, value in row.items() if column not in EVIDENCE.names}
                for field, words in self._words.items():
                    words[name] = Counter(added[terms_column(field)][index].split())
                for space, vectors in self._vectors.items():
                    if (vector := row[f"vector_{space}"]) is not None:
                        vectors[name] = np.asarray(vector, np.float32)
            row_count += batch.num_rows
        return row_count

    def finish(self) -> None:
        """Count in how many rows each word stands."""
        self._created()
        for field, texts in self._words.items():
            total = len(texts)
            holding = Counter(word for words in texts.values() for word in words)
            self._rarity[field] = {
                word: math.log(1 + (total - rows + 0.5) / (rows + 0.5)) for word, rows in holding.items()
            }
            self._mean_length[field] = sum(words.total() for words in texts.values()) / total if total else 1.0

    def count(self, doc_ids: Collection[str] | None = None) -> int:
        """Return how many rows are kept."""
        self._created()
        return sum(doc_ids is None or row["doc_id"] in doc_ids for row in self._rows.values())

    def drop(self) -> None:
        """Forget everything."""
        MemoryIndex.__init__(self, self._languages)

    def bm25(
        self, query: str, k: int, filters: Filters, weights: Mapping[str, float] = WHOLE_TEXT, *, every: bool = False
    ) -> Ranked:
        """Return ``(evidence_id, BM25 score)``; any word may match, or ``every`` one has to.

        Raises:
            ContractError: There is no such field.
        """
        self._created()
        if absent := set(weights) - set(self._words):
            raise ContractError(f"there is no lexical index of {', '.join(sorted(absent))}")
        query_words = query_terms(query, () if every else self._languages)

        def score(name: str) -> float | None:
            contributions = [
                weight * self._rarity[field][word] * words[word] * (K1 + 1) / (words[word] + K1 * (1 - B + B * length))
                for field, weight in weights.items()
                for words in (self._words[field][name],)
                for length in (words.total() / self._mean_length[field],)
                for word in query_words
                if words[word]
            ]
            misses_word = every and not any(
                words[name].keys() >= set(query_words) for words in map(self._words.__getitem__, weights)
            )
            return math.fsum(contributions) if contributions and not misses_word else None

        return self._top(score, k, filters)

    def dense(self, vector: Vector, k: int, filters: Filters, space: str) -> Ranked:
        """Return ``(evidence_id, cosine similarity)``, exact.

        Raises:
            ContractError: There is no such space, or its vectors have another length.
        """
        return self._top(self._similarity(vector[np.newaxis], space, many=False), k, filters)

    def late(self, vectors: Vector, k: int, filters: Filters, space: str) -> Ranked:
        """Return ``(evidence_id, MaxSim)``, exact.

        Raises:
            ContractError: There is no such space of many vectors a row, or they have another length.
        """
        return self._top(self._similarity(vectors, space, many=True), k, filters)

    def fetch(self, evidence_ids: Sequence[str]) -> list[dict[str, object]]:
        """Return the rows of those ids, in that order; unknown ids are left out."""
        self._created()
        return [self._rows[evidence_id] for evidence_id in evidence_ids if evidence_id in self._rows]

    def vectors(self, evidence_ids: Sequence[str], space: str) -> dict[str, Vector]:
        """Return a space's vectors by evidence id; rows that are unknown or have none are left out."""
        self._created()
        vectors_by_id = self._vectors[space]
        return {evidence_id: vectors_by_id[evidence_id] for evidence_id in evidence_ids if evidence_id in vectors_by_id}

    def _created(self) -> pa.Schema:
        if self._schema is None:
            raise DamagedError("there is no index; create it first", "memory")
        return self._schema

    def _similarity(self, query: Vector, space: str, *, many: bool) -> Callable[[str], float | None]:
        schema = self._created()
        if dimension_of(schema, space) != query.shape[-1] or is_late(schema, space) != many:
            raise ContractError(f"there are no vectors '{space}' of length {query.shape[-1]}")
        query_vectors = _unit(query)

        def score(name: str) -> float | None:
            if name not in self._vectors[space]:
                return None
            cosines = query_vectors @ _unit(np.atleast_2d(self._vectors[space][name])).T
            return float(np.clip(cosines, -1, 1).max(axis=1).sum())

        return score

    def _top(self, score: Callable[[str], float | None], k: int, filters: Filters) -> Ranked:
        check_filters(filters, lambda: [*self._created().names, *(column.name for column in index_rows.FILTERED)])
        scored = (
            (name, row_score)
            for name, row in self._rows.items()
            if _allows(filters, row | self._others[name]) and (row_score := score(name)) is not None
        )
        return sorted(scored, key=lambda pair: (-pair[1], pair[0]))[: max(k, 0)]


def _unit(vectors: Vector) -> NDArray[np.float64]:
    wide = vectors.astype(np.float64)
    return np.asarray(wide / np.linalg.norm(wide, axis=1, keepdims=True))


def _allows(filters: Filters, row: Mapping[str, object]) -> bool:
    columns = {**row, **filtered(row)}
    return all(
        _may_be_seen(value, columns)
        if condition.holds == "allows"
        else (not columns[condition.column] or columns["doc_id"] in value)
        if condition.holds == "valid"
        else _holds(condition.holds, value, columns[condition.column])
        for condition, value in filters.conditions()
    )


def _may_be_seen(allowed: Allowed, columns: Mapping[str, Any]) -> bool:
    doc_id = columns["doc_id"]
    if doc_id in allowed.changed or not allowed.principals:
        return doc_id in allowed.allowed
    return not set(allowed.principals).isdisjoint(columns["access"] or ())


def _holds(how: str, value: Any, has: Any) -> bool:
    match how:
        case "shares":
            return not set(value).isdisjoint(has or ())
        case "any":
            return has in value
        case "is":
            return bool(has == value)
        case _:
            compare = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}[how]
            return has is not None and bool(compare(has, value))
