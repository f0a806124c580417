"""Score pages by the rows found on them."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

K1, B = 1.2, 0.75
"""Parameters of BM25: saturation of term frequency, and weight of the page's length."""

_WORD = re.compile(r"\w+")


class PageRow(NamedTuple):
    """A row with its page.

    Attributes:
        doc_id: The document.
        number: The page, from 1.
        text: The row's searched text.
    """

    doc_id: str
    number: int
    text: str


def judge_pages(
    question: str, ranked: Sequence[tuple[str, float]], rows: Mapping[str, PageRow], *, words: float, further: float
) -> dict[str, float]:
    """Return a score a row that ranks page by page: a page's best row first, its further rows later.

    A page's score is its best row's share of the best score, plus ``words`` times the BM25 score of the question's words on it,
    relative to the best page's. BM25 is computed over the candidate pages alone. The n-th row of a page, from 0, gets
    ``further ** n`` of it.

    Args:
        question: Its words, preferably without stop words.
        ranked: ``(evidence_id, score)``, best first.
        rows: The rows; those that are missing get no score.
        words: Weight of words, ≥ 0.
        further: Factor for each further row of a page, 0 to 1.
    """
    best = max((score for _, score in ranked), default=0.0)
    pages: dict[tuple[str, int], list[str]] = {}
    shares: dict[tuple[str, int], float] = {}
    for name, score in ranked:
        if name in rows:
            page = rows[name][:2]
            pages.setdefault(page, []).append(name)
            shares.setdefault(page, max(0.0, score / best) if best > 0 else 0.0)
    if words and pages:
        texts = [" ".join(rows[name].text for name in names) for names in pages.values()]
        weights = _bm25(sorted(set(_words(question))), [Counter(_words(text)) for text in texts])
        max_weight = float(weights.max())
        for page, weight in zip(pages, weights.tolist(), strict=True):
            shares[page] += words * weight / max_weight if max_weight else 0.0
    return {name: shares[page] * further**rank for page, names in pages.items() for rank, name in enumerate(names)}


def _bm25(terms: Sequence[str], pages: Sequence[Counter[str]]) -> NDArray[np.float64]:
    """Return the BM25 score of each page; ``pages`` are the counts of its words."""
    counts = np.array([[page[term] for term in terms] for page in pages], np.float64).reshape(len(pages), len(terms))
    lengths = np.array([page.total() for page in pages], np.float64)
    holding = (counts > 0).sum(axis=0)
    rarity = np.log(1 + (len(pages) - holding + 0.5) / (holding + 0.5))
    penalty = K1 * (1 - B + B * lengths / (lengths.mean() or 1.0))
    weights: NDArray[np.float64] = (rarity * counts * (K1 + 1) / (counts + penalty[:, None])).sum(axis=1)
    return weights


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())
