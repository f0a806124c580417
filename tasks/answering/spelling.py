"""Correct the spelling of a question by the words of the passages nearest to it in meaning."""

import difflib
from collections.abc import Callable, Sequence

from schemas.text import folded_words, words
from tasks.answering.highlight import content_words

SHORTEST = 5
"""Minimum letters of a word that is corrected: shorter ones resemble too many others."""

ALIKE = 0.82
"""Minimum likeness, 2 × shared letters / all letters, of a word and its correction: "heigth" and "height" have 0.83. Of 514
questions with few misspelt words 11 are changed, 7 rightly, 2 wrongly ("lateral" becomes "later")."""

NEAREST = 40
"""Passages whose words may be corrections."""


def spelt(question: str, is_indexed: Callable[[str], bool], passages: Callable[[], Sequence[str]]) -> str:
    """Return a question with each word that no row has replaced by the most similar word of the nearest passages, if any.

    Args:
        question: Its words.
        is_indexed: Returns whether the index finds a row by a word.
        passages: Returns the texts nearest in meaning; called only if a word is in no row.
    """
    own_words = set(folded_words(content_words(question)))
    unknown_words = [
        word
        for word in words(question)
        if word.folded in own_words
        and len(word.folded) >= SHORTEST
        and word.folded.isalpha()
        and not is_indexed(word.folded)
    ]
    vocabulary: set[str] = set()
    corrected = question
    for word in reversed(unknown_words):
        vocabulary = vocabulary or {other for text in passages() for other in folded_words(text) if other.isalpha()}
        similar = difflib.get_close_matches(word.folded, [v for v in vocabulary if v[0] == word.folded[0]], 1, ALIKE)
        if similar:
            corrected = f"{corrected[: word.start]}{similar[0]}{corrected[word.end :]}"
    return corrected
