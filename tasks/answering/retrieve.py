"""Find evidence in one version's index."""

import functools
import re
from collections.abc import Callable, Mapping, Sequence

from schemas.corpus import Ranking
from schemas.errors import RequestError
from schemas.evidence import Filters
from schemas.ports import Embedder, SearchIndex, Vector
from tasks.answering.diversify import diversify
from tasks.answering.fuse import fuse, fuse_scores
from tasks.answering.modes import Dense, Lexical, Mode, Retriever
from tasks.enriching.spaces import TEXT

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
    embedders: Mapping[str, Embedder],
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
        embedders: The model of each space that the version's vectors were made by, by the space's name.
        query: What is looked for, in plain words.
        mode: What is asked of the index.
        k: Rows at most, ≥ 1.
        filters: What the search is narrowed to.
        ranking: Stop words, weights, fusion and diversity.

    Returns:
        ``(evidence_id, score)``, best first, larger is better; scores compare within one call only.

    Raises:
        RequestError: The version has no vectors of a space that the mode needs.
    """
    wanted = [one.space for one in mode.retrievers if isinstance(one, Dense)]
    if absent := {space.name: space.option for space in wanted if space.name not in embedders}:
        raise RequestError(
            f"mode {mode.name} needs vectors {', '.join(absent)}, which this version has not; use another mode, or name a model "
            f"as {', '.join(absent.values())} in the corpus file and refresh"
        )
    asked = functools.cache(lambda space: embedders[space].embed_query(query))
    if not ranking.diversity:
        return _ranked(index, asked, query, mode, k, filters, ranking)
    pool = _ranked(index, asked, query, mode, max(POOL, k), filters, ranking)
    names = [name for name, _ in pool]
    # Of many vectors a row, none says how alike two rows are.
    space = next((space.name for space in wanted if not space.late), TEXT.name)
    return diversify(asked(space), names, index.vectors(names, space), k=k, relevance=1 - ranking.diversity)


def _ranked(
    index: SearchIndex,
    asked: Callable[[str], Vector],
    query: str,
    mode: Mode,
    k: int,
    filters: Filters,
    ranking: Ranking,
) -> list[tuple[str, float]]:
    """Return the best rows of a mode; ``asked`` gives the question's vector in a space."""

    def rank(retriever: Retriever, k: int) -> list[tuple[str, float]]:
        match retriever:
            case Lexical():
                return index.bm25(_searched(query, ranking), k, filters, ranking.weights)
            case Dense(space):
                search = index.late if space.late else index.dense
                return search(asked(space.name), k, filters, space.name)

    if len(mode.retrievers) == 1:
        return rank(mode.retrievers[0], k)
    rankings = [rank(retriever, max(POOL, k)) for retriever in mode.retrievers]
    if ranking.fusion == "weighted":
        return fuse_scores(rankings, _shares(mode.retrievers, ranking.alpha))[:k]
    return fuse([_ids(one) for one in rankings], k=ranking.rrf_k)[:k]


def _shares(retrievers: Sequence[Retriever], alpha: float) -> list[float]:
    """Return what each ranking counts in a weighted fusion: ``alpha`` is shared by the dense ones, the rest by the lexical."""
    dense = [isinstance(retriever, Dense) for retriever in retrievers]
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
