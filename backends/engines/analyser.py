"""Terms of a text for BM25, the same in every engine (decision 12).

A word gives itself, in lower case and without accents, and its stem in the document's language. A joined token gives itself and
its parts (``WCP-3200-B``, ``4.7.2``, ``/etc/fstab``, ``M3×12``, also written ``M3 x 12``), and a compound its parts as well. A
part code gives itself without hyphens too, so that ``E104`` and ``E-104`` find each other. Scripts without spaces give single
characters and bigrams, which need no dictionary.

Engines store terms in columns of their own, separated by spaces, and split only there.
"""

import functools
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import chain, combinations, pairwise

import regex

from backends.models.languages import is_word
from schemas.text import with_joined_dimensions

ANALYSIS_VERSION = "3"
"""Raised when a text gives other terms, so that collections are built again."""

STEMMED = frozenset(
    regex.findall(
        r"\w+", "ar ca cs da de el en eo es et eu fa fi fr ga hi hu hy id it lt nb ne nl nn no pl pt ro ru sr sv ta tr yi"
    )
)
"""Languages with a Snowball algorithm."""

LINKS = {
    "da": ("", "s", "e"),
    "de": ("", "s", "n", "en", "es", "e", "er"),
    "nb": ("", "s", "e"),
    "nl": ("", "s", "en", "e"),
    "no": ("", "s", "e"),
    "sv": ("", "s"),
}
"""Linking elements between the parts of a compound."""

SHORTEST_PART = 4
"""Letters. With 3, prefixes count as parts (``Aus-schaltung``); 4 misses ``Tür-schloss``."""

LONGEST_TERM = 128
"""Characters; a longer run is data. A SHA-512 in hexadecimal fits."""

_RUNS_KEPT, _RUN_KEPT = 100_000, 40
"""Size of the cache of runs with their terms, and the longest run in it: 27 MB. Without spaces a paragraph is one run."""

_SPACELESS = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}ー々〇"
_LETTER = rf"[[\p{{L}}\p{{M}}\p{{N}}\u00AD]--[{_SPACELESS}]]"
_JOINER = r"[-_./:@×*+\\\u2010-\u2013\u2212]"
_TOKEN = regex.compile(
    rf"(?V1)[{_SPACELESS}]+|{_LETTER}+(?:(?:{_JOINER}{{1,2}}|(?<=\p{{Nd}}),(?=\p{{Nd}})){_LETTER}+)*(?:\+\+|\#)?"
)
_PART = regex.compile(rf"(?V1){_LETTER}+(?:\+\+|\#)?")
_IS_SPACELESS = regex.compile(rf"(?V1)[{_SPACELESS}]").match
_LATIN = regex.compile(r"\p{Latin}").match
_CLUSTER = regex.compile(r"\X")
_BY = regex.compile(r"(?<=\p{Nd})x(?=\p{Nd})")
_SIGNS = str.maketrans({"×": "x", "*": "x", "‐": "-", "‑": "-", "‒": "-", "–": "-", "−": "-", "\u00ad": None})
_ACCENTS = regex.compile(
    r"(?<!и)[\u0300-\u036f]|[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0640\u064b-\u0655\u0670]"
)
"""Marks that readers leave out, unlike those of Indic scripts, kana and ``й``, which make another letter."""


def terms(text: str, language: str | None) -> str:
    """Return the terms of a text, separated by spaces; words are not stemmed if the language is None."""
    return " ".join(
        [
            (_run_terms if len(run) <= _RUN_KEPT else _run_terms.__wrapped__)(run, language)
            for run in with_joined_dimensions(text).split()
        ]
    )


def query_terms(query: str, languages: Iterable[str]) -> list[str]:
    """Return the terms of a query in each language of a version, without duplicates."""
    kinds = frozenset(languages)
    tokens = _TOKEN.findall(with_joined_dimensions(query))
    return list(dict.fromkeys(term for token in tokens for term in _query_terms(token, kinds)))


@functools.lru_cache(_RUNS_KEPT)
def _query_terms(token: str, languages: frozenset[str | None]) -> tuple[str, ...]:
    if _IS_SPACELESS(token):
        pairs = [pair for pair, _ in _pairs(token)]
        # A single character is in too many words, unless it is the whole run.
        forms = pairs or [_folded(token)]
    else:
        stemmers = _stemmers(languages)
        forms = [
            _folded(form) for word in _words(token) for form in (word, *(stem(word) for stem in stemmers if word.isalpha()))
        ]
    return tuple(term for term in forms if 0 < len(term) <= LONGEST_TERM)


def spans(text: str, language: str | None, searched_terms: Collection[str]) -> list[tuple[int, int]]:
    """Return where a displayed text has words with one of some terms: sorted ``[start, stop)``, not overlapping.

    A compound matches if it contains a term; its parts aren't looked up in a dictionary.
    """
    parts = [term for term in searched_terms if len(term) >= SHORTEST_PART] if language in LINKS else []
    languages = frozenset((language,))
    marked_tokens = {
        token
        for token in set(_TOKEN.findall(text))
        if (not token.isascii() and _IS_SPACELESS(token))
        or any(term in searched_terms for term in _query_terms(token, languages))
        or (parts and any(term in _folded(_words(token)[0]) for term in parts))
    }
    matches = list[tuple[int, int]]()
    for token in _TOKEN.finditer(text) if marked_tokens else ():
        if token[0] not in marked_tokens:
            continue
        start, stop = token.span()
        if not _IS_SPACELESS(token[0]):
            matches.append((start, stop))
            continue
        for first, last in _spaceless_spans(token[0], searched_terms):
            if matches and matches[-1][1] >= start + first:
                matches[-1] = matches[-1][0], start + last
            else:
                matches.append((start + first, start + last))
    return matches


@functools.lru_cache(_RUNS_KEPT)
def _run_terms(run: str, language: str | None) -> str:
    """Return the terms of a run between spaces, separated by spaces."""
    stem, split = _stemmer(language), _splitter(language)

    def token_terms(token: str) -> Iterable[str]:
        if _IS_SPACELESS(token):
            return [*map(_folded, _CLUSTER.findall(token)), *(pair for pair, _ in _pairs(token))]
        forms = [[word, *map(stem, [word, *split(word)])] if word.isalpha() else [word] for word in _words(token)]
        return dict.fromkeys(map(_folded, chain.from_iterable(forms)))

    return " ".join(term for token in _TOKEN.findall(run) for term in token_terms(token) if 0 < len(term) <= LONGEST_TERM)


def _words(token: str) -> list[str]:
    """Return a token in lower case, then its parts if it has some."""
    if token.isascii() and token.isalpha():
        return [token.lower()]
    normalized = unicodedata.normalize("NFKC", token).casefold().translate(_SIGNS)
    # In a dimension, M3×12, the sign is an x by now, so it is split here.
    parts = [part for run in _PART.findall(normalized) for part in _BY.split(run)]
    # C++ and C# are found by C as well.
    if normalized.endswith(("++", "#")):
        parts.append(parts[-1].rstrip("+#"))
    # Words joined by hyphens are found by their parts as well.
    plain = parts == [normalized] or all(part.isalpha() for part in normalized.split("-"))
    if plain:
        return parts
    joined = normalized.replace("-", "")
    is_code = joined != normalized and joined.isalnum() and not joined.isdecimal()
    return [normalized, *parts, joined] if is_code else [normalized, *parts]


def _pairs(run: str) -> Iterator[tuple[str, tuple[int, int]]]:
    spans = [cluster.span() for cluster in _CLUSTER.finditer(run)]
    for (start, _), (_, stop) in pairwise(spans):
        yield _folded(run[start:stop]), (start, stop)


def _spaceless_spans(run: str, searched_terms: Collection[str]) -> Iterator[tuple[int, int]]:
    pairs = [span for pair, span in _pairs(run) if pair in searched_terms]
    yield from pairs or (cluster.span() for cluster in _CLUSTER.finditer(run) if _folded(cluster[0]) in searched_terms)


def _folded(word: str) -> str:
    if word.isascii():
        return word.lower()
    apart = unicodedata.normalize("NFD", unicodedata.normalize("NFKC", word).casefold())
    return unicodedata.normalize("NFC", _ACCENTS.sub("", apart))


Stem = Callable[[str], str]


@functools.cache
def _stemmer(language: str | None) -> Stem:
    """Return the stemmer of a language; Latin words in other scripts are stemmed as English."""
    if language is None:
        return lambda word: word
    stem = _snowball(_algorithm(language))
    if language in _NOT_LATIN:
        english = _snowball("en")
        return lambda word: english(word) if _LATIN(word) else stem(word)
    return stem


_NOT_LATIN = frozenset(
    regex.findall(
        r"\w+", "be bg kk mk ru sr uk ar fa he ug ur yi bn gu hi kn ml mr ne pa ta te ja km ko lo my th zh am el hy ka"
    )
)
"""Languages written in another script, where Latin words are foreign."""


@functools.lru_cache(8)
def _stemmers(languages: frozenset[str | None]) -> list[Stem]:
    """Return the stemmers of texts in some languages, each once."""
    kinds = {(_algorithm(language), language in _NOT_LATIN): language for language in languages}
    return [_stemmer(kinds[kind]) for kind in sorted(kinds)]


def _algorithm(language: str | None) -> str:
    """Return the name of a language's Snowball algorithm; "" without one."""
    if language in ("nb", "nn"):
        return "no"
    return language if language and language in STEMMED else ""


@functools.cache
def _snowball(algorithm: str) -> Stem:
    if not algorithm:
        return lambda word: word
    import Stemmer

    # No cache of its own, since threads share it.
    stem: Stem = Stemmer.Stemmer(algorithm, 0).stemWord
    return stem


@functools.cache
def _splitter(language: str | None) -> Callable[[str], Iterable[str]]:
    """Return a function that gives the parts of a compound, nested ones included; () for other words."""
    if language not in LINKS:
        return lambda _word: ()
    links = LINKS[language]

    def is_part(part: str) -> bool:
        return len(part) >= SHORTEST_PART and is_word(part, language)

    def is_modifier(part: str) -> bool:
        return any(part.endswith(link) and is_part(part.removesuffix(link)) for link in links)

    def cut(word: str) -> tuple[str, ...]:
        """Return the fewest parts of a word; () if it has fewer than two."""
        # The word is read from its end: ``best`` has the fewest parts of what begins at each letter.
        best: dict[int, tuple[str, ...]] = {len(word): ()}
        for start in range(len(word) - SHORTEST_PART, -1, -1):
            splits = [
                (word[start:stop], *best[stop])
                for stop in range(start + SHORTEST_PART, len(word) + 1)
                if stop in best and stop - start < len(word)
                if (is_part if stop == len(word) else is_modifier)(word[start:stop])
            ]
            if splits:
                best[start] = min(splits, key=len)
        return best.get(0, ())

    def parts(word: str) -> Iterator[str]:
        if len(word) < 2 * SHORTEST_PART or not word.isalpha():
            return
        pieces = cut(word)
        # Parts are split in turn: of Druckerwarteschlangen, first Warteschlangen is a term, and then Schlangen.
        for start, stop in combinations(range(len(pieces) + 1), 2):
            if stop - start < len(pieces):
                part = "".join(pieces[start:stop])
                yield from (part if stop == len(pieces) else bare(part), *parts(part))

    def bare(part: str) -> str:
        return next(
            (part.removesuffix(link) for link in links if part.endswith(link) and is_part(part.removesuffix(link))), part
        )

    return lambda word: dict.fromkeys(parts(word))
