"""Text: words, titles, code, Roman numerals, raised digits, and labels of figures ("Figure 3-2: …", "see Fig. 3-2")."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

_WORD = re.compile(
    r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]"  # written without spaces: each character counts as a word
    r"|(?:[^\W\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]|[\u0300-\u036f\u00ad])+"
)
_SOFT_HYPHEN = "\u00ad"
_NUMBERED = re.compile(r"\s*((?:[A-Z]\.)?\d+(?:\.\d+)*)[.):]?\s+(?=\S)")


class Word(NamedTuple):
    """A normalised word with its span in the text."""

    folded: str
    start: int
    end: int


def words(text: str) -> Iterator[Word]:
    """Yield the words of a text, in order."""
    for word_match in _WORD.finditer(text):
        if plain := _folded_word(word_match[0]):
            yield Word(plain, word_match.start(), word_match.end())


def _folded_word(word: str) -> str:
    return unicodedata.normalize("NFKC", word.replace(_SOFT_HYPHEN, "")).casefold()


def folded_words(text: str) -> list[str]:
    """Return the words of a text, normalised, in order."""
    return [word.folded for word in words(text)]


_SPACED_DIMENSION = re.compile(r"(?<=\d) [x×*] (?=\d)")


def with_joined_dimensions(text: str) -> str:
    """Return a text with dimensions as one word each: ``M8x40`` for ``M8 x 40``."""
    return _SPACED_DIMENSION.sub("x", text)


def folded(text: str) -> str:
    """Return a text as its words with one space between them."""
    return " ".join(folded_words(text))


def section_names(path: Sequence[str]) -> list[str]:
    """Return every name of the sections around a row, folded: titles, bare titles, numbers, and paths from the top."""
    number_matches = [_NUMBERED.match(title) for title in path]
    bare = [title[number.end() :] if number else title for title, number in zip(path, number_matches, strict=True)]
    paths = [" ".join(titles[:depth]) for titles in (path, bare) for depth in range(1, len(path) + 1)]
    return sorted(
        {folded(name) for name in (*path, *bare, *(number[1] for number in number_matches if number), *paths)} - {""}
    )


NUMBERING = re.compile(
    r"\s*(?:(?:chapter|appendix|section|part|kapitel)\s+)?((?:[A-Z]|[IVX]+|\d{1,3})(?:\.\d{1,3})*)[.:)]?\s+", re.IGNORECASE
)
"""The number before a title."""

_SILENT = re.compile(r"[\W_]+")


def same_title(first: str, second: str) -> bool:
    """Return whether two titles are equal but for case, space, stops and their apparent number: in "2.6.1 X Axis" X isn't one."""
    return not {title_letters(first), without_number(first)}.isdisjoint({title_letters(second), without_number(second)})


def title_letters(text: str) -> str:
    """Return a title without case, white space and stops."""
    return _SILENT.sub("", text).casefold()


def without_number(text: str) -> str:
    """Return a title's letters without its number."""
    number = NUMBERING.match(text)
    return title_letters(text[number.end() :] if number else text)


_FENCED = re.compile(r"^(?P<fence>`{3,})\n(?P<code>.*?)\n(?P=fence)$", re.DOTALL | re.MULTILINE)
_TICKS = re.compile(r"`{3,}")


def fenced(code: str) -> str:
    """Return code between fences that are longer than any in it."""
    fence = "`" * max([3, *(len(ticks) + 1 for ticks in _TICKS.findall(code))])
    return f"{fence}\n{code}\n{fence}"


def split_fenced(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the parts of a text, each with whether it is code, without its fences; blank ones of other text are left out."""
    end = 0
    for fenced_code in _FENCED.finditer(text):
        if before := text[end : fenced_code.start()].strip():
            yield before, False
        yield fenced_code["code"], True
        end = fenced_code.end()
    if trailing_text := text[end:].strip():
        yield trailing_text, False


ROMAN = r"(?=[ivxlc])c{0,3}(?:xc|xl|l?x{0,3})(?:ix|iv|v?i{0,3})(?<=[ivxlc])"
"""A Roman numeral in its only correct spelling, up to 399, in lower case: "civil" and "ill" are words. Needs an end after it."""

_VALUES = {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100, "d": 500, "m": 1000}


def roman_value(numeral: str) -> int:
    """Return the value of a Roman numeral of ``ROMAN``, in any case."""
    values = [_VALUES[letter] for letter in numeral.lower()]
    return sum(-value if value < after else value for value, after in pairwise([*values, 0]))


_NUMERALS = re.findall(r"\w+", "m cm d cd c xc l xl x ix v iv i")
_MOST = 3999


def roman(number: int) -> str:
    """Return a number as a lower-case Roman numeral; in digits below 1 and above 3999."""
    if not 0 < number <= _MOST:
        return str(number)
    numeral = ""
    for digit in _NUMERALS:
        times, number = divmod(number, roman_value(digit))
        numeral += digit * times
    return numeral


_PLAIN = "0123456789+-"
_RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻"
_RAISE = str.maketrans(f"{_PLAIN}−–", f"{_RAISED}⁻⁻")
SUPERSCRIPTS = f"[{_RAISED}]"
"""A pattern of one of them."""
RAISED_SIZE = 0.85
"""Maximum size of raised digits, relative to that of their line. Of 97 documents marks have 0.56 to 0.81 of it."""
_MAY_BE_RAISED = re.compile(r"\s*(?:[-+−–]?\d{1,3}|[-+−–])\s*")
_BEHIND_WORD = re.compile(rf"(?:(?<=[^\W\d_]{{3}})|(?<=\d)|(?<=[.,;:!?)\]”’\"']))(?={SUPERSCRIPTS})")


def may_be_raised(text: str) -> bool:
    """Return whether a text is a number or sign as it stands in a mark or exponent."""
    return _MAY_BE_RAISED.fullmatch(text) is not None


def as_superscript(text: str) -> str:
    """Return a text of the same length with its digits and signs as superscripts."""
    return text.translate(_RAISE)


def separate_superscripts(text: str) -> str:
    """Return a text with a blank before each superscript behind a word, number or sentence; units keep theirs: m², cm³."""
    return _BEHIND_WORD.sub(" ", text)


class LabelKind(StrEnum):
    """The kind of a labelled thing."""

    FIGURE = "figure"
    TABLE = "table"


@dataclass(frozen=True, slots=True)
class CaptionLabel:
    """The label of a caption or mention, such as figure ``3-2``; ``number`` is "" for a caption without one."""

    kind: LabelKind
    number: str


_FIGURE = (
    r"figures?|figs?|fig|illustration|diagram|chart|exhibit|plate|scheme|abbildung(?:en)?|abb|bild|figuren|figuras?|figura|schéma|"
    r"schema|figurer|figur|figuur|afbeelding|рисунок|рисунки|рисунке|рисунка|рисунку|рис|малюнок|мал|фигура|rysunek|rysunku|rys|"
    r"obrázek|obr|slika|kuva|şekil|hình|gambar|σχήμα|εικόνα|איור|באיור|תרשים|בתרשים|شكل|الشكل|بالشكل|شکل|تصویر"
)
_TABLE = (
    r"tables?|tab|tabellen?|tabella|tabell|tabel|tablas?|tableaux?|tabelas?|tabela|tabulka|tablica|taulukko|tablo|bảng|"
    r"таблица|таблице|таблицы|таблиця|таблиці|табл|πίνακας|טבלה|בטבלה|جدول|الجدول|بالجدول"
)
# A particle may follow these and their number at once. Korean names for them end other words too.
_CJK = "(?:[图圖図表]|(?<![가-힣])(?:그림|표))"
_NUMBER = rf"(?:(?:[A-Z]{{1,2}}[.\-–]?)?\d+(?:[.\-–]\d+)*[a-z]?|{ROMAN.upper()})(?![\w])"
_CJK_NUMBER = r"[A-Z]?\d+(?:[.\-–]\d+)*"
_LABEL_WORD = rf"(?:(?P<figure>(?i:{_FIGURE}))|(?P<table>(?i:{_TABLE})))(?:\.|\b)"

_LATIN = rf"{_LABEL_WORD}[\s\u00a0]*\(?(?P<number>{_NUMBER})"
_EAST = rf"(?P<cjk>{_CJK})[\s\u00a0\u3000]*(?P<cjk_number>{_CJK_NUMBER})"
# Most words begin with none of these letters, and need not be compared with every word there is for a figure.
_INITIALS = "".join(sorted({word[0] for word in f"{_FIGURE}|{_TABLE}".split("|")}))
_MENTION = re.compile(rf"(?<!\w)(?=(?i:[{_INITIALS}])){_LATIN}|{_EAST}")
_FURTHER = re.compile(
    rf"[\s\u00a0]*(?:,|&|\band\b|\bund\b|\bet\b|\by\b|\bto\b)[\s\u00a0]*(?:and\b\s*)?(?P<number>{_NUMBER})"
)
_CAPTION = re.compile(rf"\s*(?:{_LATIN}|{_EAST})")
_BRACKETS = r"[<\[【〈［]\u2060?"  # what looks like a tag is escaped
# Behind the closing bracket of a mere mention follows a particle.
_BRACKETED = re.compile(rf"\s*{_BRACKETS}{_EAST}\s*[>\]】〉］](?![에은는이가를을과와의도로]|[にはのをでがと])")
_UNNUMBERED = re.compile(rf"\s*(?:{_LABEL_WORD}|(?P<cjk>{_CJK}))\s*[:：]\s*\S")

_CONTINUED = re.compile(r"\s*\((?:cont|forts|suite|segu|vervolg)\w*\.?\)\W*", re.IGNORECASE)
"""What may stand between a label and its title: "(continued)"."""
_STOPS = frozenset(":.|–—-)：．。、")


def caption_label(text: str) -> CaptionLabel | None:
    """Return the label of a line that begins a caption; None for any other line, mentions included.

    A caption's number is followed by a stop, a capitalised title, or nothing: a sentence that begins with "Figure 3"
    continues in lower case.
    """
    bracketed = _BRACKETED.match(text)
    if bracketed is not None:
        return _label(bracketed, bracketed["cjk_number"])
    caption_match = _CAPTION.match(text)
    if caption_match is None:
        unnumbered = _UNNUMBERED.match(text)
        return _label(unnumbered, "") if unnumbered else None
    after_label = text[caption_match.end() :]
    continued = _CONTINUED.match(after_label)
    title = after_label[continued.end() if continued else 0 :].lstrip()
    if not title or title[0] in _STOPS:
        return _label(caption_match)
    if caption_match["cjk"]:
        return _label(caption_match) if after_label != title else None
    return _label(caption_match) if title[0] not in "(,;'’" and not title[0].islower() and after_label != title else None


def mentions(text: str) -> list[CaptionLabel]:
    """Return all labels that a text mentions, in order; "Figures 3 and 4" mentions two."""
    labels: list[CaptionLabel] = []
    for mention_match in _MENTION.finditer(text):
        labels.append(_label(mention_match))
        further = _FURTHER.match(text, mention_match.end())
        while further:
            labels.append(CaptionLabel(labels[-1].kind, _plain(further["number"])))
            further = _FURTHER.match(text, further.end())
    return labels


def _label(label_match: re.Match[str], number: str | None = None) -> CaptionLabel:
    groups = label_match.groupdict()
    is_table = groups.get("table") or groups.get("cjk") in ("表", "표")
    if number is None:
        number = groups["number"] or groups["cjk_number"]
    return CaptionLabel(LabelKind.TABLE if is_table else LabelKind.FIGURE, _plain(number or ""))


def _plain(number: str) -> str:
    """Normalise a number: hyphens, small letters, ASCII digits."""
    digits = "".join([str(unicodedata.decimal(character)) if character.isdecimal() else character for character in number])
    return re.sub(r"[–.]", "-", digits).casefold()
