"""Judge pages by what was found of them."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

K1, B = 1.2, 0.75
"""Of BM25: how soon a word's repetitions count less, and how much a page's length counts."""

_WORD = re.compile(r"\w+")


class PageRow(NamedTuple):
    """A row as its page has it.

    Attributes:
        doc_id: The document.
        number: The page, from 1.
        text: What is searched of the row.
    """

    doc_id: str
    number: int
    text: str


def judge_pages(
    question: str, ranked: Sequence[tuple[str, float]], rows: Mapping[str, PageRow], *, words: float, further: float
) -> dict[str, float]:
    """Return a score a row, by which pages come one after another: their best row first, their further rows later.

    A page's score is the share that its best row has of the best score of all, plus ``words`` times the share that the
    question's words on it have of those on the best page. Words are weighed by BM25 over the pages at hand, so those that
    tell these pages apart count, whatever they are worth elsewhere. The n-th row of a page, from 0, gets ``further ** n`` of it.

    Args:
        question: Its words; stop words are better left out.
        ranked: ``(evidence_id, score)``, best first.
        rows: What each of them is; those left out get no score.
        words: What words count, ≥ 0.
        further: What each further row of a page keeps, 0 to 1.
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
