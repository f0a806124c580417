"""Words of some fifty languages by simplemma, which carries their lists; Chinese, Japanese and Korean aren't among them."""

import functools

from backends.models.language import Py3LangId

LEXICON_VERSION = "simplemma 2.0.0"
"""Goes up with the pinned release."""

_WORDS_KEPT = 100_000


class Simplemma:
    """A ``Lexicon``; 0.1 s for the first word of a language, and 0.3 s for the first text."""

    def language_of(self, text: str) -> str | None:
        """Return the likeliest language of a text; None if its words aren't known."""
        language = next(iter(Py3LangId().probabilities(text)))
        return language if _has_words(language) else None

    def is_word(self, word: str, language: str) -> bool:
        """Return whether a language has a word, in lower case or with a capital."""
        return is_word(word, language)


@functools.lru_cache(_WORDS_KEPT)
def is_word(word: str, language: str) -> bool:
    """Return whether a language has a word, in lower case or with a capital.

    Raises:
        ValueError: There is no list of its words.
    """
    import simplemma

    name = {"no": "nb"}.get(language, language)
    return any(simplemma.is_known(form, name) for form in (word, word.capitalize()))


def _has_words(language: str) -> bool:
    try:
        is_word("a", language)
    except ValueError:
        return False
    return True
