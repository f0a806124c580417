"""Find evidence in one version's index, as a plan says."""

import re
from collections.abc import Iterable, Mapping, Sequence

from schemas.corpus import Ranking
from schemas.errors import RequestError
from schemas.evidence import NO_FILTERS, Filters, Modality
from schemas.models import Embeds
from schemas.ports import SearchIndex
from schemas.retrieval import DocumentStep, Nearness, Preset, Steps, Vectors, Words
from tasks.answering.asked import Asked
from tasks.answering.diversify import diversify
from tasks.answering.fuse import fuse, fuse_scores, in_turn, summed
from tasks.answering.rerank import cosine, reordered
from tasks.answering.trace import Trace
from tasks.enriching.spaces import SPACES, TEXT

POOL = 200
"""Rows each retriever contributes to a fusion, or to a choice of diverse rows, at least: up to there, pages are stable."""

CONTEXT_CHARS = 600
"""Characters of the best text that go along where a retriever asks for evidence: some 150 tokens of 256 that models read."""

Ranked = list[tuple[str, float]]

_WORD = re.compile(r"\w+")

STOP_WORDS = frozenset(
    _WORD.findall(
        "a an and are as at be but by for if in into is it no not of on or such that the their then there these they this "
        "to was will with"
    )
)
"""Lucene's English ones."""

DEFAULT = Ranking()


def retrieve(
    index: SearchIndex,
    asked: Asked,
    plan: Steps,
    *,
    k: int,
    filters: Filters = NO_FILTERS,
    ranking: Ranking = DEFAULT,
    has_pages: bool = False,
    trace: Trace | None = None,
) -> Ranked:
    """Return the best ``k`` rows for a question; fewer of them begin more of them, up to ``POOL``.

    Args:
        index: The version to search.
        asked: The question.
        plan: The steps.
        k: Rows at most, ≥ 1.
        filters: What the search is narrowed to.
        ranking: What the plan leaves open.
        has_pages: Whether the version has rows of whole pages.
        trace: Keeps what each step did.

    Returns:
        ``(evidence_id, score)``, best first, larger is better; scores compare within one call only.

    Raises:
        RequestError: The version has no vectors of a space that the plan needs, or the question has nothing to embed there.
    """
    if absent := lacking(plan.spaces, asked.embedders):
        raise RequestError(
            f"{_called(plan)} needs {', '.join(absent)}, which this version has not; use another preset, or name a model as "
            f"{', '.join(absent.values())} in the corpus file and refresh"
        )
    return _Run(index, asked, ranking, trace or Trace(), has_pages).ranked(plan, k, filters)


def lacking(spaces: Iterable[str], known: Iterable[str]) -> dict[str, str]:
    """Return what is needed and not known, such as ``vectors image``, with the option of the corpus file that brings it."""
    have = set(known)
    return {f"vectors {name}": SPACES[name].option if name in SPACES else name for name in spaces if name not in have}


class _Run:
    """One search."""

    def __init__(self, index: SearchIndex, asked: Asked, ranking: Ranking, trace: Trace, has_pages: bool) -> None:
        self._index = index
        self._asked = asked
        self._ranking = ranking
        self._trace = trace
        self._has_pages = has_pages

    def ranked(self, plan: Steps, k: int, filters: Filters) -> Ranked:
        if plan.documents is not None:
            filters = self._in_documents(plan.documents, filters)
        diversity = self._ranking.diversity if plan.select.diversity is None else plan.select.diversity
        is_chosen = len(plan.retrieve) > 1 or plan.rerank or plan.select.quota or diversity
        depth = max(POOL, k) if is_chosen else k
        rankings: list[Ranked] = []
        for retriever in plan.retrieve:
            rankings.append(self._asks(retriever, depth, filters, rankings))
        ranked = self._fused(plan, rankings)
        for step in plan.rerank:
            ranked = self._nearest_first(step, ranked)
        return self._selected(plan, ranked, k, diversity)

    def _in_documents(self, step: DocumentStep, filters: Filters) -> Filters:
        """Narrow a search to the documents whose rows rank best; a row adds to its document what rank fusion gives it."""
        rows = _ids(self._asks(step.by, POOL, filters, []))
        with self._trace.step("documents", self._asked.words) as doing:
            documents = {str(row["evidence_id"]): str(row["doc_id"]) for row in self._index.fetch(rows)}
            votes = [
                (documents[row], 1 / (self._ranking.rrf_k + rank)) for rank, row in enumerate(rows, 1) if row in documents
            ]
            best = doing.gave(summed([[vote] for vote in votes])[: step.k])
        return filters.model_copy(update={"documents": _ids(best)}) if best else filters

    def _asks(self, retriever: Words | Vectors, depth: int, filters: Filters, before: Sequence[Ranked]) -> Ranked:
        asked = self._asked if retriever.asks == "question" else self._with_evidence(before)
        k = min(depth, retriever.k or depth)
        with self._trace.step(_title(retriever), asked.words) as doing:
            narrowed = both(filters, retriever.filters)
            if narrowed is None:
                return doing.gave([])
            if self._has_pages and not narrowed.modalities and not _looks(retriever):
                narrowed = without_pages(narrowed)
            match retriever:
                case Words(weights=weights):
                    words = _searched(asked.words, self._ranking)
                    found = self._index.bm25(words, k, narrowed, weights or self._ranking.weights)
                case Vectors(space=space):
                    search = self._index.late if SPACES[space].late else self._index.dense
                    found = search(asked.vector(space), k, narrowed, space)
            return doing.gave(_above(found, retriever.floor))

    def _with_evidence(self, before: Sequence[Ranked]) -> Asked:
        """Return the question with the beginning of the best text found so far."""
        best = next((ranking[0][0] for ranking in before if ranking), None)
        texts = [str(row["text"]) for row in self._index.fetch([best])] if best else []
        return self._asked.reworded("\n".join([self._asked.words, *(text[:CONTEXT_CHARS] for text in texts)]).strip())

    def _fused(self, plan: Steps, rankings: Sequence[Ranked]) -> Ranked:
        if len(rankings) == 1:
            return rankings[0]
        method, weights = plan.fuse.method or self._ranking.fusion, plan.fuse.weights
        with self._trace.step(f"fuse: {method}") as doing:
            match method:
                case "rrf":
                    k = plan.fuse.rrf_k or self._ranking.rrf_k
                    return doing.gave(fuse([_ids(one) for one in rankings], k=k, weights=weights))
                case "weighted":
                    return doing.gave(fuse_scores(rankings, weights or _shares(plan.retrieve, self._ranking.alpha)))
                case "in_turn":
                    return doing.gave(in_turn(rankings))

    def _nearest_first(self, step: Nearness, ranked: Ranked) -> Ranked:
        with self._trace.step(f"rerank: {step.by} {step.space}", self._asked.words) as doing:
            looked_at = _ids(ranked[: step.pool])
            vectors = self._index.vectors(looked_at, step.space)
            asked = self._asked.vector(step.space)
            return doing.gave(reordered(ranked, {name: cosine(asked, vector) for name, vector in vectors.items()}))

    def _selected(self, plan: Steps, ranked: Ranked, k: int, diversity: float) -> Ranked:
        select = plan.select
        if not (select.quota or diversity or select.floor is not None):
            return ranked[:k]
        with self._trace.step("select") as doing:
            ranked = _above(ranked, select.floor)
            if select.quota:
                ranked = self._within(select.quota, ranked)
            if diversity:
                pool = _ids(ranked[: max(select.pool, k)])
                # Of many vectors a row, none says how alike two rows are.
                space = next((name for name in plan.spaces if not SPACES[name].late), TEXT.name)
                vectors = self._index.vectors(pool, space)
                ranked = diversify(self._asked.vector(space), pool, vectors, k=k, relevance=1 - diversity)
            return doing.gave(ranked[:k])

    def _within(self, quota: Mapping[Modality, int], ranked: Ranked) -> Ranked:
        modalities = {str(row["evidence_id"]): Modality(str(row["modality"])) for row in self._index.fetch(_ids(ranked))}
        left = dict(quota)
        kept = []
        for name, score in ranked:
            modality = modalities.get(name)
            if modality is not None and left.get(modality, 0) > 0:
                left[modality] -= 1
                kept.append((name, score))
        return kept


def _called(plan: Steps) -> str:
    return f"preset {plan.name}" if isinstance(plan, Preset) else "this search"


def both(one: Filters, other: Filters) -> Filters | None:
    """Return filters that let through what both do; None where that is nothing. What can't be joined is as ``one`` has it."""
    joined: dict[str, object] = {}
    for name in other.model_fields_set:
        here, there = getattr(one, name), getattr(other, name)
        if isinstance(here, list) and here and there:
            there = [value for value in here if value in there]
            if not there:
                return None
        elif name in one.model_fields_set:
            there = here
        joined[name] = there
    return one.model_copy(update=joined)


def without_pages(filters: Filters) -> Filters:
    """Narrow a search to other rows than those of whole pages: they repeat the words of others, and would take their places."""
    return filters.model_copy(update={"modalities": [one for one in Modality if one is not Modality.PAGE]})


def _looks(retriever: Words | Vectors) -> bool:
    """Return whether a retriever looks at pictures: only such a one finds rows of whole pages unasked."""
    return isinstance(retriever, Vectors) and SPACES[retriever.space].embeds is not Embeds.TEXTS


def _title(retriever: Words | Vectors) -> str:
    return f"retrieve: {retriever.by}" + (f" {retriever.space}" if isinstance(retriever, Vectors) else "")


def _above(ranked: Ranked, floor: float | None) -> Ranked:
    return ranked if floor is None else [pair for pair in ranked if pair[1] >= floor]


def _shares(retrievers: Sequence[Words | Vectors], alpha: float) -> list[float]:
    """Return what each ranking counts in a weighted fusion: ``alpha`` is shared by the dense ones, the rest by the lexical."""
    dense = [isinstance(retriever, Vectors) for retriever in retrievers]
    if len(set(dense)) == 1:
        return [1 / len(dense)] * len(dense)
    return [alpha / sum(dense) if one else (1 - alpha) / (len(dense) - sum(dense)) for one in dense]


def _searched(query: str, ranking: Ranking) -> str:
    stopped = STOP_WORDS if ranking.stop_words == "english" else {word.lower() for word in ranking.stop_words}
    return without(query, stopped)


def without(query: str, stopped: frozenset[str] | set[str]) -> str:
    """Return a query without stop words; one that is made of nothing else is kept whole, since it means them."""
    shortened = _WORD.sub(lambda word: "" if word[0].lower() in stopped else word[0], query)
    return shortened if _WORD.search(shortened) else query


def _ids(ranked: Sequence[tuple[str, float]]) -> list[str]:
    return [evidence_id for evidence_id, _ in ranked]
