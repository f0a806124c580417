"""Score pages by the rows found on them."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

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
    if words:
        counts = {
            page: Counter(word for name in names for word in _words(rows[name].text)) for page, names in pages.items()
        }
        weights = _bm25(set(_words(question)), counts)
        most = max(weights.values(), default=0.0)
        for page, weight in weights.items():
            shares[page] += words * weight / most if most else 0.0
    return {name: shares[page] * further**place for page, names in pages.items() for place, name in enumerate(names)}


def _bm25(terms: set[str], pages: Mapping[tuple[str, int], Counter[str]]) -> dict[tuple[str, int], float]:
    holding = Counter(word for counts in pages.values() for word in terms & counts.keys())
    rarity = {word: math.log(1 + (len(pages) - held + 0.5) / (held + 0.5)) for word, held in holding.items()}
    mean = sum(counts.total() for counts in pages.values()) / len(pages) if pages else 1.0
    found = {}
    for page, counts in pages.items():
        length = K1 * (1 - B + B * counts.total() / mean) if mean else K1
        found[page] = math.fsum(
            rarity[word] * counts[word] * (K1 + 1) / (counts[word] + length) for word in sorted(terms & counts.keys())
        )
    return found


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())
