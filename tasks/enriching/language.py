"""Detect the language of a document by passages from all over it."""

from collections import Counter
from collections.abc import Sequence

from schemas.documents import Chunk
from schemas.filters import Modality
from schemas.ports import LanguageDetector

LANGUAGE_VERSION = "1"

PASSAGES = 8
PASSAGE_CHARACTERS = 200
"""Size and number of the passages; 0.1 ms each."""

LEAST_LETTERS = 40
"""Minimum letters of a passage that counts."""

LEAST_SHARE = 0.5
"""Minimum share of the votes."""


def language_of(rows: Sequence[Chunk], detector: LanguageDetector) -> str | None:
    """Return the language of most of a document, in ISO 639-1, else 639-3; None without a majority."""
    return language_of_texts([row.text for row in rows if row.modality == Modality.TEXT], detector)


def language_of_texts(all_texts: Sequence[str], detector: LanguageDetector) -> str | None:
    """Return the language of most of some texts, in ISO 639-1, else 639-3; None without a majority of the passages' votes."""
    texts = [text for text in all_texts if len(text) >= LEAST_LETTERS]
    votes: Counter[str] = Counter()
    spread = (text[:PASSAGE_CHARACTERS] for text in texts[:: -(-len(texts) // PASSAGES) or 1])
    chosen = [passage for passage in spread if sum(map(str.isalpha, passage)) >= LEAST_LETTERS]
    for passage in chosen:
        votes.update(detector.probabilities(passage))
    best, count = max(votes.items(), key=lambda vote: (vote[1], vote[0]), default=(None, 0.0))
    return best if chosen and count >= LEAST_SHARE * len(chosen) else None
