"""Find the rows that hold a phrase, in any engine: candidates by BM25, word order by their text."""

from collections.abc import Sequence

from schemas.filters import Filters
from schemas.ports import SearchIndex
from schemas.text import folded, words

EXAMINED = 8_000
"""Maximum number of rows whose text is read; 5,000 take a tenth of a second."""

HOLDERS = 1_000
"""Maximum number of rows returned."""

_FIRST = 500


def holding(index: SearchIndex, filters: Filters) -> list[str]:
    """Return the ids of the rows that hold all phrases of the filters, best first; the other filters apply too.

    A phrase is its words in sequence in ``text``, ignoring case, punctuation and white space. Rows with all words are examined,
    best first, up to ``EXAMINED`` or until ``HOLDERS`` are found.

    Raises:
        RequestError: The version can't be filtered so.
    """
    padded_phrases = [f" {folded(phrase)} " for phrase in filters.phrases]
    # What signs join is one term of an engine as well as several, and a phrase is compared without signs.
    query_words = " ".join(phrase[word.start : word.end] for phrase in filters.phrases for word in words(phrase))
    plain_filters = filters.model_copy(update={"phrases": []})
    evidence_ids: list[str] = []
    examined, limit = 0, _FIRST
    while True:
        ranked = [
            evidence_id for evidence_id, _ in index.bm25(query_words, limit, plain_filters, {"text": 1.0}, every=True)
        ]
        evidence_ids += _rows_with_phrases(index, ranked[examined:], padded_phrases)
        if len(ranked) < limit or limit == EXAMINED or len(evidence_ids) >= HOLDERS:
            return evidence_ids[:HOLDERS]
        examined, limit = limit, min(limit * 4, EXAMINED)


def _rows_with_phrases(index: SearchIndex, evidence_ids: Sequence[str], padded_phrases: Sequence[str]) -> list[str]:
    texts = ((str(row["evidence_id"]), f" {folded(str(row['text']))} ") for row in index.fetch(evidence_ids))
    return [evidence_id for evidence_id, text in texts if all(phrase in text for phrase in padded_phrases)]
