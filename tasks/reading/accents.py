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
from tasks.reading.logical_order import LineLetters

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
_WRITTEN = "`^~"
"""Accents that programs, paths and versions hold, too."""

_LETTERS = "".join(map(chr, range(0x250)))
"""Where Unicode's Latin letters with one accent, and the letters that these are made of, end."""

_OVERLAP = 0.6
"""Least part of the narrower of the two that an accent and its letter share across.

Of 13,148 accents on the first pages of 146 documents of TeX none shares 0.15 to 0.6 with its letter, and none
more than 0.28 with the one on its other side; those with a place of their own, such as back quotes in programs, share nothing.
"""


def _composed_letter(letter: str, accent: str) -> str:
    return unicodedata.normalize("NFC", _DOTLESS.get(letter, letter) + _MARKS[accent])


def _beside_letters() -> Iterator[str]:
    """Yield patterns of what an accent stands between that may be set over a letter."""
    letter, others = r"[^\W\d_]", "".join(_MARKS.keys() - set(_WRITTEN))
    yield f"(?<=[{others}])(?={letter})|(?<={letter}[{others}])"
    for accent in _WRITTEN:
        over = "".join(one for one in _LETTERS if one.isalpha() and len(_composed_letter(one, accent)) == 1)
        yield f"(?<={re.escape(accent)})(?=[{over}])"


_MAY_STAND_OVER = re.compile(f"[{re.escape(''.join(_MARKS))}](?:{'|'.join(_beside_letters())})")
"""An accent beside a letter. One that programs hold, too, counts only before a letter that Unicode has with it.

To see where letters stand is a tenth of what a page takes to read. Of 6,561 first pages of 733 documents it is done on 290,
223 of which have accents that no program holds; on 570 before, mostly for the "~" of a version or the "^" of a formula. None
of those that are passed over holds an accent over its letter in a word.
"""


def with_accents(lines: Sequence[PageLine], letters: LineLetters) -> Sequence[PageLine]:
    """Return lines with each accent composed with the letter that it is set over."""
    if not _MAY_STAND_OVER.search("\n".join([read.line.text for read in lines])):
        return lines  # as on most pages
    return [
        PageLine(_composed(read.line, letters), read.is_visible) if _MAY_STAND_OVER.search(read.line.text) else read
        for read in lines
    ]


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
                made[over] = _composed_letter(made[over], accent)
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
