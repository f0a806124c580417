"""The grammar of figure labels: captions ("Figure 3-2: …") and mentions ("see Fig. 3-2")."""

import re
import unicodedata
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from schemas.text import ROMAN


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
_HAN = "图圖図表"
_HANGUL = "그림|표"
_CJK = f"(?:[{_HAN}]|(?<![가-힣])(?:{_HANGUL}))"
_NUMBER = rf"(?:(?:[A-Z]{{1,2}}[.\-–]?)?\d+(?:[.\-–]\d+)*[a-z]?|{ROMAN.upper()})(?![\w])"
_CJK_NUMBER = r"[A-Z]?\d+(?:[.\-–]\d+)*"
_WORD = rf"(?:(?P<figure>(?i:{_FIGURE}))|(?P<table>(?i:{_TABLE})))(?:\.|\b)"

_LATIN = rf"{_WORD}[\s\u00a0]*\(?(?P<number>{_NUMBER})"
_EAST = rf"(?P<cjk>{_CJK})[\s\u00a0\u3000]*(?P<cjk_number>{_CJK_NUMBER})"
# Most words begin with none of these letters, and need not be compared with every word there is for a figure.
_INITIALS = "".join(sorted({word[0] for word in f"{_FIGURE}|{_TABLE}".split("|")}))
_MENTION = re.compile(rf"(?<!\w)(?=(?i:[{_INITIALS}])){_LATIN}|{_EAST}")
# Text that has none of the words need not be searched for what follows them: most has none. "Fig" stands for "figure", too.
_WORDS = [re.split(r"\w?\?|\(", word)[0].casefold() for word in f"{_FIGURE}|{_TABLE}|{_HANGUL}".split("|")] + list(_HAN)
_STEMS = [word for word in dict.fromkeys(_WORDS) if not any(other in word and other != word for other in _WORDS)]
_ASCII_STEMS = [stem for stem in _STEMS if stem.isascii()]
_FURTHER = re.compile(
    rf"[\s\u00a0]*(?:,|&|\band\b|\bund\b|\bet\b|\by\b|\bto\b)[\s\u00a0]*(?:and\b\s*)?(?P<number>{_NUMBER})"
)
_CAPTION = re.compile(rf"\s*(?:{_LATIN}|{_EAST})")
_BRACKETS = r"[<\[【〈［]\u2060?"  # what looks like a tag is escaped
# Behind the closing bracket of a mere mention follows a particle.
_BRACKETED = re.compile(rf"\s*{_BRACKETS}{_EAST}\s*[>\]】〉］](?![에은는이가를을과와의도로]|[にはのをでがと])")
_BEGINNINGS = frozenset(word[:2].casefold() for word in f"{_FIGURE}|{_TABLE}".split("|"))
_EAST_BEGINNINGS = re.compile(rf"\s*(?:{_BRACKETS})?{_CJK}")
_UNNUMBERED = re.compile(rf"\s*(?:{_WORD}|(?P<cjk>{_CJK}))\s*[:：]\s*\S")

_STOPS = frozenset(":.|–—-)：．。、")


@lru_cache(1024)
def caption_label(text: str) -> CaptionLabel | None:
    """Return the label of a line that begins a caption; None for any other line, mentions included.

    A caption's number is followed by a stop, a capitalised title, or nothing: a sentence that begins with "Figure 3"
    continues in lower case.
    """
    if _folded(text.lstrip()[:2]) not in _BEGINNINGS and (text.isascii() or _EAST_BEGINNINGS.match(text) is None):
        return None  # as most lines: they need not be compared with every word there is
    bracketed = _BRACKETED.match(text)
    if bracketed is not None:
        return _label(bracketed, bracketed["cjk_number"])
    caption_match = _CAPTION.match(text)
    if caption_match is None:
        unnumbered = _UNNUMBERED.match(text)
        return _label(unnumbered, "") if unnumbered else None
    after_label = text[caption_match.end() :]
    title = after_label.lstrip()
    if not title or title[0] in _STOPS:
        return _label(caption_match)
    if caption_match["cjk"]:
        return _label(caption_match) if after_label != title else None
    return _label(caption_match) if title[0] not in "(,;'’" and not title[0].islower() and after_label != title else None


def mentions(text: str) -> list[CaptionLabel]:
    """Return all labels that a text mentions, in order; "Figures 3 and 4" mentions two."""
    labels: list[CaptionLabel] = []
    folded = _folded(text)
    if not [stem for stem in (_ASCII_STEMS if folded.isascii() else _STEMS) if stem in folded]:
        return labels
    for mention_match in _MENTION.finditer(text):
        labels.append(_label(mention_match))
        further = _FURTHER.match(text, mention_match.end())
        while further:
            labels.append(CaptionLabel(labels[-1].kind, _plain(further["number"])))
            further = _FURTHER.match(text, further.end())
    return labels


def _folded(text: str) -> str:
    """Casefold a text; Turkish has a dotted and a dotless i."""
    return text.casefold().replace("\u0307", "").replace("ı", "i")


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
