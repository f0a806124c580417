"""What the steps of one search share."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from schemas.corpus.retrieval import Ranking
from schemas.errors import RequestError
from schemas.evidence import Filters
from schemas.ports import PassageScorer, SearchIndex, Writer
from tasks.answering.embedded_query import EmbeddedQuery
from tasks.answering.sections import ContentsRow
from tasks.answering.trace import Trace
from tasks.enriching.spaces import DEFAULT

Ranked = list[tuple[str, float]]
"""``(evidence_id, score)``, best first."""

POOL = 200
"""Rows each retriever contributes at least where rows are chosen from many, or more than ``FUSED`` are wanted."""

FUSED = 30
"""Rows each retriever contributes to a fusion by ranks of which no more are wanted.

With 30 as with 50 a right page is among the first five, on ``dev`` and on held-out documents; on ``dev`` it is among the
first ten in .927 and .909 of the questions (inside the document, over the corpus), with 50 in .935 and .912. To rank 50
takes 9 to 13 % of a question's time with Weaviate (decision 37).
"""

NO_WORDS = "there are no words to search by"
"""What a trace says of a step that looks at words, where a picture is all there is."""

SHOWN_CHARS = 600
"""Characters of a text that go along where a retriever asks for evidence, or that a generative model reads: some 150 tokens."""


@dataclass(frozen=True)
class Resources:
    """What a plan may need beside the index.

    Attributes:
        models: Generative models and scorers of passages, by the names that the corpus file has for them; loaded when asked for.
        contents: Document ids to their rows, by document and in reading order.
        has_pages: Whether the version has rows of whole pages.
    """

    models: Mapping[str, Any] = field(default_factory=dict)
    contents: Callable[[Sequence[str]], Iterable[ContentsRow]] = lambda _documents: ()
    has_pages: bool = False


@dataclass(frozen=True)
class Search:
    """One search: where it looks, what its plan leaves open, and who keeps what it did."""

    index: SearchIndex
    ranking: Ranking
    trace: Trace
    resources: Resources

    def writer(self, name: str) -> Writer:
        """Return a generative model.

        Raises:
            RequestError: It is one that scores passages.
            UserError: It can't be used as the corpus file names it.
        """
        model: Writer = self._model(name, "stream", "writes: name one of kind llm or vlm")
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
        """Return the rows that are nearest to a question's words."""
        return self.index.dense(query.vector(DEFAULT.name), k, filters, DEFAULT.name)

    def rows(self, evidence_ids: Sequence[str]) -> dict[str, Mapping[str, object]]:
        """Return rows by id, in that order; unknown ones are left out."""
        return {str(row["evidence_id"]): row for row in self.index.fetch(evidence_ids)}


def ids(ranked: Sequence[tuple[str, float]]) -> list[str]:
    """Return the rows of a ranking."""
    return [evidence_id for evidence_id, _ in ranked]


def shortened(text: str) -> str:
    """Return the beginning of a text."""
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…"
