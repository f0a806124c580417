"""Find evidence in one version's index."""

from collections.abc import Sequence

from schemas.evidence import Filters, Mode
from schemas.ports import SearchIndex, TextEmbedder
from tasks.fuse import fuse

POOL = 50
"""Rows each retriever contributes to a fusion at least."""


def retrieve(
    index: SearchIndex, embedder: TextEmbedder, query: str, *, mode: Mode, k: int, filters: Filters, rrf_k: int = 60
) -> list[tuple[str, float]]:
    """Return the best ``k`` rows for a query.

    Args:
        index: The version to search.
        embedder: The model that the version's vectors were made by.
        query: What is looked for, in plain words.
        mode: ``bm25``, ``dense`` (cosine), or ``hybrid`` (both, merged by reciprocal rank fusion).
        k: Rows at most, ≥ 1.
        filters: What the search is narrowed to.
        rrf_k: Rank offset of the fusion.

    Returns:
        ``(evidence_id, score)``, best first, larger is better; scores compare within one call only.
    """
    match mode:
        case "bm25":
            return index.bm25(query, k, filters)
        case "dense":
            return index.dense(embedder.embed_query(query), k, filters)
        case "hybrid":
            pool = max(POOL, k)
            lexical = index.bm25(query, pool, filters)
            dense = index.dense(embedder.embed_query(query), pool, filters)
            return fuse([_ids(lexical), _ids(dense)], k=rrf_k)[:k]


def _ids(ranked: Sequence[tuple[str, float]]) -> list[str]:
    return [evidence_id for evidence_id, _ in ranked]
