"""In which language a document is written, by passages from all over it."""

from collections import Counter
from collections.abc import Sequence

from schemas.documents import Chunk
from schemas.evidence import Modality
from schemas.ports import LanguageDetector

PASSAGES = 16
PASSAGE_CHARACTERS = 300
LEAST_LETTERS = 40
"""Letters of a passage below which it is no evidence: part numbers, a heading."""

LEAST_SHARE = 0.5
"""What of the evidence a language must have."""


def language_of(rows: Sequence[Chunk], detector: LanguageDetector) -> str | None:
    """Return the language that most of a document is in, by its code in ISO 639-1 (639-3 where it has none).

    Each passage has one vote, which the detector divides, so that a page of code or of names decides nothing alone.

    Args:
        rows: Of the document, in order.
        detector: Says how likely each language is.

    Returns:
        None where no language has half of the votes, or nothing is there to judge by.
    """
    texts = [row.text for row in rows if row.modality == Modality.TEXT and _letters(row.text) >= LEAST_LETTERS]
    votes: Counter[str] = Counter()
    chosen = texts[:: -(-len(texts) // PASSAGES) or 1]
    for text in chosen:
        votes.update(detector.probabilities(text[:PASSAGE_CHARACTERS]))
    best, count = max(votes.items(), key=lambda vote: (vote[1], vote[0]), default=(None, 0.0))
    return best if chosen and count >= LEAST_SHARE * len(chosen) else None


def _letters(text: str) -> int:
    return sum(map(str.isalpha, text[:PASSAGE_CHARACTERS]))
