"""Find evidence in one version's index."""

import re
from collections.abc import Sequence

from schemas.corpus import Ranking
from schemas.evidence import Filters, Mode
from schemas.ports import SearchIndex, TextEmbedder
from tasks.answering.diversify import diversify
from tasks.answering.fuse import fuse, fuse_scores

POOL = 200
"""Rows each retriever contributes to a fusion, or to a choice of diverse rows, at least: up to there, pages are stable."""

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
    embedder: TextEmbedder,
    query: str,
    *,
    mode: Mode,
    k: int,
    filters: Filters,
    ranking: Ranking = DEFAULT,
) -> list[tuple[str, float]]:
    """Return the best ``k`` rows for a query; fewer of them begin more of them, up to ``POOL``.

    Args:
        index: The version to search.
        embedder: The model that the version's vectors were made by.
        query: What is looked for, in plain words.
        mode: ``bm25``, ``dense`` (cosine), or ``hybrid`` (both, merged as ``ranking`` says).
        k: Rows at most, ≥ 1.
        filters: What the search is narrowed to.
        ranking: Stop words, weights, fusion and diversity.

    Returns:
        ``(evidence_id, score)``, best first, larger is better; scores compare within one call only.
    """
    if ranking.diversity:
        pool = _ranked(index, embedder, query, mode, max(POOL, k), filters, ranking)
        names = [name for name, _ in pool]
        asked = embedder.embed_query(query)
        return diversify(asked, names, index.vectors(names), k=k, relevance=1 - ranking.diversity)
    return _ranked(index, embedder, query, mode, k, filters, ranking)


def _ranked(
    index: SearchIndex, embedder: TextEmbedder, query: str, mode: Mode, k: int, filters: Filters, ranking: Ranking
) -> list[tuple[str, float]]:
    match mode:
        case "bm25":
            return index.bm25(_searched(query, ranking), k, filters, ranking.weights)
        case "dense":
            return index.dense(embedder.embed_query(query), k, filters)
        case "hybrid":
            pool = max(POOL, k)
            lexical = index.bm25(_searched(query, ranking), pool, filters, ranking.weights)
            dense = index.dense(embedder.embed_query(query), pool, filters)
            if ranking.fusion == "weighted":
                return fuse_scores([lexical, dense], [1 - ranking.alpha, ranking.alpha])[:k]
            return fuse([_ids(lexical), _ids(dense)], k=ranking.rrf_k)[:k]


def _searched(query: str, ranking: Ranking) -> str:
    stopped = STOP_WORDS if ranking.stop_words == "english" else {word.lower() for word in ranking.stop_words}
    return without(query, stopped)


def without(query: str, stopped: frozenset[str] | set[str]) -> str:
    """Return a query without stop words; one that is made of nothing else is kept whole, since it means them."""
    shortened = _WORD.sub(lambda word: "" if word[0].lower() in stopped else word[0], query)
    return shortened if _WORD.search(shortened) else query


def _ids(ranked: Sequence[tuple[str, float]]) -> list[str]:
    return [evidence_id for evidence_id, _ in ranked]
