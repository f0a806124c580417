"""The grammar of labels: how captions begin ("Figure 3-2: …") and how text speaks of them ("see Fig. 3-2")."""

import re
from dataclasses import dataclass
from enum import StrEnum


class LabelKind(StrEnum):
    """What a label names."""

    FIGURE = "figure"
    TABLE = "table"


@dataclass(frozen=True, slots=True)
class Label:
    """What a caption or a mention names, such as figure ``3-2``; ``number`` is "" for a caption without one."""

    kind: LabelKind
    number: str


_FIGURE = (
    r"figures?|figs?|fig|abbildung(?:en)?|abb|bild|figuras?|figura|schéma|schema|illustration|diagram|chart|exhibit|plate|scheme|"
    r"рисунок|рисунки|рис|rysunek|rys|obrázek|afbeelding"
)
_TABLE = r"tables?|tab|tabelle|tabla|tableau|tabela|таблица|табл"
_CJK_FIGURE, _CJK_TABLE = "[图圖図]", "表"
_NUMBER = r"(?:[A-Z]{1,2}[.\-–]?)?\d+(?:[.\-–]\d+)*[a-z]?(?![\w])|[IVXLC]+(?![\w])"
_WORD = rf"(?:(?P<figure>{_FIGURE})|(?P<table>{_TABLE}))(?:\.|\b)|(?P<cjk_figure>{_CJK_FIGURE})|(?P<cjk_table>{_CJK_TABLE})"

_MENTION = re.compile(rf"(?<![\w])(?:{_WORD})[\s\u00a0]*\(?(?P<number>(?-i:{_NUMBER}))", re.IGNORECASE)
# A caption's number is followed by a stop, by a title that begins like one, or by nothing; a sentence goes on in lower case.
_CAPTION = re.compile(
    rf"^\s*(?:{_WORD})[\s\u00a0]*(?P<number>(?-i:{_NUMBER}))\s*(?P<stop>[:.|–—\-)]|$|(?=[\s\u3000]*(?-i:[^\sa-z(,;])))",
    re.IGNORECASE,
)


def caption_label(text: str) -> Label | None:
    """Return what a line that begins a caption names; None for a line that doesn't, a mere mention included."""
    found = _CAPTION.match(text)
    return _label(found) if found else None


def mentions(text: str) -> list[Label]:
    """Return everything that a text speaks of, in order."""
    return [_label(found) for found in _MENTION.finditer(text)]


def _label(found: re.Match[str]) -> Label:
    is_figure = found["figure"] or found["cjk_figure"]
    number = re.sub(r"[–.]", "-", found["number"]).casefold()
    return Label(LabelKind.FIGURE if is_figure else LabelKind.TABLE, number)
