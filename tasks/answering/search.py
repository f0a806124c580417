"""What the steps of a search share."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from schemas.corpus import Ranking
from schemas.errors import ContractError, RequestError
from schemas.filters import Filters
from schemas.ports import PassageScorer, SearchIndex, StreamingModel
from tasks.answering.embedded_query import EmbeddedQuery
from tasks.answering.trace import Trace
from tasks.enriching.spaces import DEFAULT

Ranked = list[tuple[str, float]]
"""``(evidence_id, score)``, best first."""

POOL = 200
"""Minimum number of rows from each retriever if rows are reranked or diversified, or more than ``FUSED`` are wanted."""

FUSED = 30
"""Rows from each retriever for a rank fusion of at most as many rows.

On ``dev``, recall at 10 is .927 inside the document and .909 over the corpus; with 50 rows .935 and .912, at 9 to 13 % of a
question's time with Weaviate. Recall at 5 is the same.
"""

NO_WORDS = "there are no words to search by"
"""A trace's note on a step that needs words, for a picture alone."""

SHOWN_CHARS = 600
"""Maximum characters of a text shown to a model or searched for as evidence: some 150 tokens."""

_WORD = re.compile(r"\w+")

STOP_WORDS = frozenset(
    _WORD.findall(
        "a an and are as at be but by for if in into is it no not of on or such that the their then there these they this "
        "to was will with"
    )
)
"""Lucene's English ones."""


def _no_picture(figure_id: str) -> bytes:
    raise ContractError(f"this search can't read pictures, such as {figure_id}")


@dataclass(frozen=True, slots=True)
class ContentsRow:
    """The columns of a row that a table of contents needs."""

    evidence_id: str
    doc_id: str
    title: str
    section_path: tuple[str, ...]


@dataclass(frozen=True)
class Resources:
    """What a plan may need beside the index.

    ``models`` are generative models and scorers by their names in the corpus file, loaded on access; ``contents`` returns the
    rows of documents, by document and in reading order; ``picture`` returns a figure's encoded image.
    """

    models: Mapping[str, Any] = field(default_factory=dict)
    contents: Callable[[Sequence[str]], Iterable[ContentsRow]] = lambda _documents: ()
    has_pages: bool = False
    picture: Callable[[str], bytes] = _no_picture


@dataclass(frozen=True)
class Search:
    """The index, settings, trace and resources of one search."""

    index: SearchIndex
    ranking: Ranking
    trace: Trace
    resources: Resources

    def writer(self, name: str) -> StreamingModel:
        """Return a generative model; raises ``RequestError`` if it only scores, ``UserError`` if it can't be used."""
        model: StreamingModel = self._model(name, "stream", "writes: name one of kind llm or vlm")
        return model

    def scorer(self, name: str) -> PassageScorer:
        """Return a model that scores passages; errors as for ``writer``."""
        model: PassageScorer = self._model(name, "scores", "scores passages: name one of kind cross_encoder or late")
        return model

    def _model(self, name: str, does: str, needed: str) -> Any:
        model = self.resources.models[name]
        if not hasattr(model, does):
            raise RequestError(
                f"retrieval.models.{name} is of another kind than this search needs, which is one that {needed}"
            )
        return model

    def nearest(self, query: EmbeddedQuery, k: int, filters: Filters) -> Ranked:
        """Return the rows nearest to the query's words."""
        return self.index.dense(query.vector(DEFAULT.name), k, filters, DEFAULT.name)

    def rows(self, evidence_ids: Sequence[str]) -> dict[str, Mapping[str, Any]]:
        """Return rows by id, in that order; unknown ones are left out."""
        return {str(row["evidence_id"]): row for row in self.index.fetch(evidence_ids)}


def ids(ranked: Sequence[tuple[str, float]]) -> list[str]:
    """Return the rows of a ranking."""
    return [evidence_id for evidence_id, _ in ranked]


def shortened(text: str) -> str:
    """Return the beginning of a text."""
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…"


def searched(query: str, stop_words: Literal["english"] | Sequence[str]) -> str:
    """Return the words that BM25 searches for."""
    stopped = STOP_WORDS if stop_words == "english" else {word.lower() for word in stop_words}
    return without(query, stopped)


def without(query: str, stopped: frozenset[str] | set[str]) -> str:
    """Return a query without stop words; unchanged if it has no other words."""
    shortened = _WORD.sub(lambda word: "" if word[0].lower() in stopped else word[0], query)
    return shortened if _WORD.search(shortened) else query
