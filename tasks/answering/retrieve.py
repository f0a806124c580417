"""Find evidence in one version's index, as a plan says."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal

from schemas.corpus import Ranking
from schemas.errors import RequestError
from schemas.evidence import NO_FILTERS, Filters, Modality
from schemas.models import Embeds
from schemas.ports import SearchIndex
from schemas.retrieval import (
    AnyReranker,
    AnyRetriever,
    DocumentStep,
    Nearness,
    Pages,
    Places,
    Preset,
    Steps,
    Vectors,
    Words,
)
from tasks.answering.asked import Asked
from tasks.answering.diversify import diversify
from tasks.answering.fuse import fuse, fuse_scores, fuse_shares, in_turn, summed
from tasks.answering.glossaries import expanded
from tasks.answering.pages import Page, judge_pages
from tasks.answering.places import Label, label_of, labels_named, pages_named
from tasks.answering.rerank import cosine, reordered
from tasks.answering.trace import Trace
from tasks.enriching.embed import search_text, searched_words
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
        self._wanted = asked  # as it was rewritten
        self._ranking = ranking
        self._trace = trace
        self._has_pages = has_pages

    def ranked(self, plan: Steps, k: int, filters: Filters) -> Ranked:
        if plan.rewrite is not None:
            with self._trace.step(f"rewrite: {plan.rewrite.by} {plan.rewrite.name}", self._asked.words) as doing:
                self._wanted = self._asked.reworded(expanded(self._asked.words, plan.rewrite.name))
                doing.note = self._wanted.words
        if plan.documents is not None:
            filters = self._in_documents(plan.documents, filters)
        diversity = self._ranking.diversity if plan.select.diversity is None else plan.select.diversity
        is_chosen = len(plan.retrieve) > 1 or plan.rerank or plan.select.quota or diversity
        depth = max(POOL, k) if is_chosen else k
        rankings: list[Ranked] = []
        for retriever in plan.retrieve:
            rankings.append(self._asks(retriever, depth, filters, rankings))
        ranked = self._fused(plan, rankings, depth)
        for step in plan.rerank:
            ranked = self._reranked(step, ranked)
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

    def _asks(self, retriever: AnyRetriever, depth: int, filters: Filters, before: Sequence[Ranked]) -> Ranked:
        asked = self._wanted if retriever.asks == "question" else self._with_evidence(before)
        k = min(depth, retriever.k or depth)
        with self._trace.step(_title(retriever), asked.words) as doing:
            narrowed = both(filters, retriever.filters)
            if narrowed is None:
                return doing.gave([])
            if self._has_pages and not narrowed.modalities and not _looks(retriever):
                narrowed = without_pages(narrowed)
            match retriever:
                case Words(weights=weights, stop_words=stop_words):
                    words = _searched(asked.words, self._ranking.stop_words if stop_words is None else stop_words)
                    found = self._index.bm25(words, k, narrowed, weights or self._ranking.weights)
                case Vectors(space=space):
                    search = self._index.late if SPACES[space].late else self._index.dense
                    found = search(asked.vector(space), k, narrowed, space)
                case Places():
                    found = self._at_places(k, narrowed)
            return doing.gave(_above(found, retriever.floor))

    def _at_places(self, k: int, filters: Filters) -> Ranked:
        """Return rows on pages, and of figures and tables, that the question names; it isn't embedded for them."""
        if not filters.documents:
            return []
        words = self._asked.words
        found: list[str] = []
        if (pages := pages_named(words)) and (on := both(Filters(pages=sorted(pages)), filters)) is not None:
            found += _ids(self._index.bm25(words, k, on, self._ranking.weights))
            found += _ids(self._index.dense(self._wanted.vector(TEXT.name), k, on, TEXT.name))
        if labels := labels_named(words):
            pictured = both(filters, Filters(modalities=[Modality.FIGURE, Modality.TABLE]))
            found += self._labelled(labels, pictured) if pictured is not None else []
        return [(name, 1.0) for name in sorted(dict.fromkeys(found))][:k]

    def _labelled(self, labels: Collection[Label], filters: Filters) -> list[str]:
        spelled = " ".join(f"{kind} {number}" for kind, number in sorted(labels))
        rows = self._index.fetch(_ids(self._index.bm25(spelled, POOL, filters)))
        return [str(row["evidence_id"]) for row in rows if label_of(str(row["caption"])) in labels]

    def _with_evidence(self, before: Sequence[Ranked]) -> Asked:
        """Return the question with the beginning of the best text found so far."""
        best = next((ranking[0][0] for ranking in before if ranking), None)
        texts = [str(row["text"]) for row in self._index.fetch([best])] if best else []
        return self._asked.reworded("\n".join([self._asked.words, *(text[:CONTEXT_CHARS] for text in texts)]).strip())

    def _fused(self, plan: Steps, rankings: Sequence[Ranked], depth: int) -> Ranked:
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
                case "shares":
                    counts = weights or _shares(plan.retrieve, self._ranking.alpha)
                    return doing.gave(fuse_shares(rankings, counts, depth=depth))
                case "in_turn":
                    return doing.gave(in_turn(rankings))

    def _reranked(self, step: AnyReranker, ranked: Ranked) -> Ranked:
        match step:
            case Nearness():
                return self._nearest_first(step, ranked)
            case Pages():
                return self._pages_first(step, ranked)

    def _pages_first(self, step: Pages, ranked: Ranked) -> Ranked:
        with self._trace.step(f"rerank: {step.by}", self._asked.words) as doing:
            looked_at = ranked[: step.pool]
            rows = {str(row["evidence_id"]): _page_of(row) for row in self._index.fetch(_ids(looked_at))}
            scores = judge_pages(
                without(self._asked.words, STOP_WORDS), looked_at, rows, words=step.words, further=step.further
            )
            return doing.gave(reordered(ranked, scores))

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


def _page_of(row: Mapping[str, Any]) -> Page:
    words = searched_words(row["modality"], row["text"], row.get("description"))
    return Page(row["doc_id"], row["page"], search_text(row["title"], row["section_path"], words))


def _looks(retriever: AnyRetriever) -> bool:
    """Return whether a retriever looks at pictures: only such a one finds rows of whole pages unasked."""
    return isinstance(retriever, Vectors) and SPACES[retriever.space].embeds is not Embeds.TEXTS


def _title(retriever: AnyRetriever) -> str:
    return f"retrieve: {retriever.by}" + (f" {retriever.space}" if isinstance(retriever, Vectors) else "")


def _above(ranked: Ranked, floor: float | None) -> Ranked:
    return ranked if floor is None else [pair for pair in ranked if pair[1] >= floor]


def _shares(retrievers: Sequence[AnyRetriever], alpha: float) -> list[float]:
    """Return what each ranking counts in a weighted fusion: ``alpha`` is shared by the dense ones, the rest by the lexical."""
    dense = [isinstance(retriever, Vectors) for retriever in retrievers]
    if len(set(dense)) == 1:
        return [1 / len(dense)] * len(dense)
    return [alpha / sum(dense) if one else (1 - alpha) / (len(dense) - sum(dense)) for one in dense]


def _searched(query: str, stop_words: Literal["english"] | Sequence[str]) -> str:
    stopped = STOP_WORDS if stop_words == "english" else {word.lower() for word in stop_words}
    return without(query, stopped)


def without(query: str, stopped: frozenset[str] | set[str]) -> str:
    """Return a query without stop words; one that is made of nothing else is kept whole, since it means them."""
    shortened = _WORD.sub(lambda word: "" if word[0].lower() in stopped else word[0], query)
    return shortened if _WORD.search(shortened) else query


def _ids(ranked: Sequence[tuple[str, float]]) -> list[str]:
    return [evidence_id for evidence_id, _ in ranked]
