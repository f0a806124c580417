"""Merge rankings."""

from collections.abc import Sequence

from schemas.errors import ContractError


def fuse(rankings: Sequence[Sequence[str]], *, k: int = 60) -> list[tuple[str, float]]:
    """Merge best-first rankings into one by reciprocal rank fusion.

    A ranking gives ``1 / (k + rank)``, rank counted from 1, to each row it names. Raw scores are never compared:
    BM25 and cosine share no scale.

    Args:
        rankings: Evidence ids, best first, one sequence a retriever; may be empty.
        k: Rank offset, > 0; larger flattens the top ranks.

    Returns:
        ``(evidence_id, score)``, best first. Ties go by id, so every engine pages alike.

    Raises:
        ContractError: A ranking names a row twice.

    Source:
        Cormack, Clarke and Büttcher, SIGIR 2009.
    """
    scores: dict[str, float] = {}
    for ranking in rankings:
        if len(set(ranking)) != len(ranking):
            raise ContractError("a ranking names a row twice")
        for rank, evidence_id in enumerate(ranking, 1):
            scores[evidence_id] = scores.get(evidence_id, 0.0) + 1 / (k + rank)
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))
