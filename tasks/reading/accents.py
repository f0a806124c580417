"""Compose letters with the accents that are set over them.

Many producers, TeX with its oldest fonts above all, draw "ü" as "¨" and "u" at the same place, and MuPDF reads one after the
other: "f¨ur" is found by no search for "für". Where the boxes overlap the page shows one letter, so one is read.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import compress

from schemas.documents import Line
from schemas.drawings import Letters, PageLine
from schemas.geometry import BBox, gap, turned, union
from schemas.tags import escape
from tasks.reading.reorder import LineLetters

_MARKS = {
    "`": "\N{COMBINING GRAVE ACCENT}",
    "´": "\N{COMBINING ACUTE ACCENT}",
    "^": "\N{COMBINING CIRCUMFLEX ACCENT}",
    "ˆ": "\N{COMBINING CIRCUMFLEX ACCENT}",
    "~": "\N{COMBINING TILDE}",
    "˜": "\N{COMBINING TILDE}",
    "¨": "\N{COMBINING DIAERESIS}",
    "˚": "\N{COMBINING RING ABOVE}",
    "ˇ": "\N{COMBINING CARON}",
    "˘": "\N{COMBINING BREVE}",
    "¯": "\N{COMBINING MACRON}",
    "˙": "\N{COMBINING DOT ABOVE}",
    "˝": "\N{COMBINING DOUBLE ACUTE ACCENT}",
    "¸": "\N{COMBINING CEDILLA}",
    "˛": "\N{COMBINING OGONEK}",
}
"""The mark that each accent is where it has no place of its own."""

_DOTLESS = {"ı": "i", "ȷ": "j"}
_ACCENT, _LETTER = f"[{re.escape(''.join(_MARKS))}]", r"[^\W\d_]"
_BESIDE_LETTER = re.compile(f"{_ACCENT}(?={_LETTER})|(?<={_LETTER}){_ACCENT}")

_OVERLAP = 0.6
"""Least part of the narrower of the two that an accent and its letter share across.

Of 13,148 accents on the first pages of 146 documents of TeX none shares 0.15 to 0.6 with its letter, and none
more than 0.28 with the one on its other side; those with a place of their own, such as back quotes in programs, share nothing.
"""


def with_accents(lines: Sequence[PageLine], letters: LineLetters) -> Iterator[PageLine]:
    """Yield lines with each accent composed with the letter that it is set over."""
    for line, visible in lines:
        # To look for an accent at all is cheap, and most lines have none.
        has_any = not _MARKS.keys().isdisjoint(line.text) and _BESIDE_LETTER.search(line.text) is not None
        yield PageLine(_composed(line, letters) if has_any else line, visible)


def _composed(line: Line, letters: LineLetters) -> Line:
    level = letters.direction(line)
    text, boxes = letters(line)
    if level is None or len(boxes) != len(text):
        return line
    places = [turned(box, level) for box in boxes]
    made, kept, held = list(text), [True] * len(text), [*map(BBox._make, boxes)]
    for at, accent in enumerate(text):
        if accent not in _MARKS:
            continue
        # TeX draws the accent first, and a cedilla last.
        for over in (at + 1, at - 1):
            if 0 <= over < len(text) and text[over].isalpha() and _share(places[at], places[over]) >= _OVERLAP:
                made[over] = unicodedata.normalize("NFC", _DOTLESS.get(made[over], made[over]) + _MARKS[accent])
                held[over], kept[at] = union((held[over], held[at])), False
                break
    if all(kept):
        return line
    words = [*compress(made, kept)]
    # A letter that Unicode has with no such mark is two characters at one place.
    spread = [box for word, box in zip(words, compress(held, kept), strict=True) for _ in word]
    composed = line._replace(text=escape("".join(words)))
    letters.keep(composed, Letters("".join(words), spread, level))
    return composed


def _share(one: BBox, other: BBox) -> float:
    """Return how much of the narrower box two share across."""
    narrower = min(one.width, other.width)
    return -gap(one.x0, one.x1, other.x0, other.x1) / narrower if narrower > 0 else 0.0
