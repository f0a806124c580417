"""Languages: detection by py3langid, words by simplemma, and the languages that text models know; light to import.

py3langid has 140 languages and a model of 4.5 MB in its package, and needs only numpy. On 26,000 passages lingua is a little
better at 96 MB; fastText's small model confuses Chinese and Italian; eld takes 470 MB of memory. simplemma carries the words of
some fifty languages; Chinese, Japanese and Korean aren't among them.
"""

import functools
from importlib.resources import as_file, files
from typing import Any

DETECTION_VERSION = "py3langid 0.4.0"
LEXICON_VERSION = "simplemma 2.0.0"
"""Go up with the pinned releases."""

ENGLISH = frozenset(["en"])

_ENGLISH_ONLY = (
    "baai/bge-base-en",
    "baai/bge-large-en",
    "baai/bge-small-en",
    "intfloat/e5-base",
    "intfloat/e5-large",
    "intfloat/e5-small",
    "mixedbread-ai/mxbai-embed-large-v1",
    "sentence-transformers/all-",
    "sentence-transformers/multi-qa-",
    "thenlper/gte-",
)
"""Prefixes of the names of English models."""

_WORDS_KEPT = 100_000


class Py3LangId:
    """A ``LanguageDetector``: 0.05 ms a text; 1 s and 90 MB once."""

    def probabilities(self, text: str) -> dict[str, float]:
        """Return the probability of each language by ISO 639-1 code, else 639-3, most likely first."""
        return {str(code): float(share) for code, share in _identifier().rank(text)}


@functools.cache
def _identifier() -> Any:
    from py3langid.langid import LanguageIdentifier

    with as_file(files("py3langid").joinpath("data", "model.npz.xz")) as model:
        return LanguageIdentifier.from_modelpath(str(model), norm_probs=True)


class Simplemma:
    """A ``Lexicon``; 0.1 s for the first word of a language, and 0.3 s for the first text."""

    def language_of(self, text: str) -> str | None:
        """Return the likeliest language of a text; None if its words aren't known."""
        language = next(iter(Py3LangId().probabilities(text)))
        try:
            is_word("a", language)
        except ValueError:
            return None
        return language

    def is_word(self, word: str, language: str) -> bool:
        """Return whether a language has a word, in lower case or with a capital."""
        return is_word(word, language)


@functools.lru_cache(_WORDS_KEPT)
def is_word(word: str, language: str) -> bool:
    """Return whether a language has a word, in lower case or with a capital; ``ValueError`` without a list of its words."""
    import simplemma

    name = {"no": "nb"}.get(language, language)
    return any(simplemma.is_known(form, name) for form in (word, word.capitalize()))


def is_in_dictionary(word: str, question: str) -> bool:
    """Return whether English or the question's language has a word; True if the language has no list of words."""
    language = Simplemma().language_of(question)
    # Of a few words the detector may mistake English for another language.
    return language is None or is_word(word, language) or is_word(word, "en")


def languages_of(name: str) -> frozenset[str] | None:
    """Return the languages of a model by its name on the hub; None if unknown."""
    lowered = name.lower()
    in_full = lowered if "/" in lowered else f"sentence-transformers/{lowered}"
    return ENGLISH if in_full.startswith(_ENGLISH_ONLY) else None
