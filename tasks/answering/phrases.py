"""Find the rows that hold a phrase, in whatever engine: words first, by its own index, then their order, by their text."""

from collections.abc import Sequence

from schemas.evidence import Filters
from schemas.ports import SearchIndex
from schemas.words import folded, words

EXAMINED = 8_000
"""Rows whose text is read at most, those that hold all the words, best first; a tenth of a second for 5,000."""

HOLDERS = 1_000
"""Rows that hold the phrases at most; of more, those that BM25 ranks best by them."""

_FIRST = 500


def holding(index: SearchIndex, filters: Filters) -> list[str]:
    """Return the ids of the rows that hold all of the phrases that filters name, best first; the other filters hold too.

    A phrase is held where its words follow one another in ``text``, whatever case, punctuation and white space. Rows that hold
    all words are looked through, best first, until all are, or ``EXAMINED``, or ``HOLDERS`` are found.

    Raises:
        RequestError: The version can't be narrowed so.
    """
    wanted = [f" {folded(phrase)} " for phrase in filters.phrases]
    # What signs join is one term of an engine as well as several, and a phrase is compared without signs.
    spelled = " ".join(phrase[word.start : word.end] for phrase in filters.phrases for word in words(phrase))
    others = filters.model_copy(update={"phrases": []})
    found: list[str] = []
    seen, limit = 0, _FIRST
    while True:
        ranked = [evidence_id for evidence_id, _ in index.bm25(spelled, limit, others, {"text": 1.0}, every=True)]
        found += _holders(index, ranked[seen:], wanted)
        if len(ranked) < limit or limit == EXAMINED or len(found) >= HOLDERS:
            return found[:HOLDERS]
        seen, limit = limit, min(limit * 4, EXAMINED)


def _holders(index: SearchIndex, evidence_ids: Sequence[str], wanted: Sequence[str]) -> list[str]:
    texts = ((str(row["evidence_id"]), f" {folded(str(row['text']))} ") for row in index.fetch(evidence_ids))
    return [evidence_id for evidence_id, text in texts if all(phrase in text for phrase in wanted)]
