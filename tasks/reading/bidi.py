"""Read lines of scripts that run from right to left, by where their letters stand.

Producers write such a line's letters in logical order, or as they stand from left to right, words of other scripts and numbers
in between; MuPDF turns the letters of words around and leaves the words where they were written. What the page shows is certain,
so the order is made from that: the inverse of the Unicode Bidirectional Algorithm (UAX #9) in a right-to-left paragraph.

A glyph that stands for several letters, such as lam-alef, is as many letters in MuPDF's text: the first as wide as the glyph, the
others without width at its right edge. A PDF lists them as they are read; where MuPDF turns a word around, it turns them, too.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from statistics import median
from typing import NamedTuple

_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]")
_FORMS = re.compile("[\ufb1d-\ufdff\ufe70-\ufefc]")
_SIDES = {"R": "R", "AL": "R", "L": "L", "EN": "N", "AN": "N"}
_CLOSING = {"(": ")", "[": "]", "{": "}", "«": "»", "<": ">"}
_MIRRORED = {**_CLOSING, **{closing: opening for opening, closing in _CLOSING.items()}}
UNIT_LETTERS = 2
"""Letters of a word left of a number that is its unit: "40 Nm", and not "Windows 10" (decision 5). Of the 50 pages at hand
with right-to-left letters 5 change at 1 (names in formulas, which read better; none has a unit of two letters), 9 at 4 (names
such as "f(x)", and "Page", go behind their numbers).
"""
BLANK_HEIGHTS = 0.12
"""How much wider than most a gap between letters is that is a blank, by their height. Of the 50 pages at hand with
right-to-left letters 16 change at 0.06 (blanks in formulas: "f (x)"), 19 at 0.24 (words run together).
"""
_SAME_HEIGHTS = 0.01
"""How far apart two edges are at most that MuPDF computes of one glyph's, by its height: what its rounding leaves."""


_HAMZA = "\u0621"


class _Cluster(NamedTuple):
    """A letter with the marks on it. ``side`` is R or L for letters, N for digits, "" for what takes that of its neighbours."""

    text: str
    boxes: tuple[Sequence[float], ...]
    side: str

    @property
    def middle(self) -> float:
        """How far across the page it stands."""
        return (self.boxes[0][0] + self.boxes[0][2]) / 2


def runs_right_to_left(text: str) -> bool:
    """Return whether most letters of a text belong to scripts that run from right to left, such as Arabic and Hebrew."""
    if not has_right_to_left(text):
        return False
    sides = [_SIDES.get(unicodedata.bidirectional(letter)) for letter in text]
    return sides.count("R") >= sides.count("L")


def has_right_to_left(text: str) -> bool:
    """Return whether a letter of a text belongs to a script that runs from right to left."""
    return not text.isascii() and _RIGHT_TO_LEFT.search(text) is not None


def with_ligatures_in_order(text: str, boxes: Sequence[Sequence[float]]) -> tuple[str, list[Sequence[float]]]:
    """Return a level line with the letters of each right-to-left glyph as they are read, all of them with the glyph's box.

    A glyph that begins with a mark has no box, since MuPDF gives marks none, and a blank in its place.
    """
    letters, places = list(text), list(boxes)
    at = 0
    while at < len(letters):
        end = at
        while end < len(letters) and (_is_added(letters[end], places[end]) or (end > at and _is_mark(letters[end]))):
            end += 1
        if end == at:
            at += 1
            continue
        first = at
        while first and _is_mark(letters[first - 1]):
            first -= 1
        blank, has_mark = first - 1, first < at or _is_mark(letters[end - 1])
        if (
            blank >= 0
            and has_mark
            and letters[blank].isspace()
            and abs(places[blank][0] - places[at][0]) <= _slack(places[blank])
        ):
            places[first:end] = [places[blank]] * (end - first)
            del letters[blank], places[blank]
            at = end - 1
            continue
        if end < len(letters) and _ends_at(places[end], places[at]):  # turned around: the glyph's first letter is behind
            letters[at : end + 1] = letters[at : end + 1][::-1]
            places[at : end + 1] = [places[end]] * (end + 1 - at)
            end += 1
        elif at and _ends_at(places[at - 1], places[at]):
            places[at:end] = [places[at - 1]] * (end - at)
        at = end
    return "".join(letters), places


def _is_mark(letter: str) -> bool:
    return unicodedata.bidirectional(letter) == "NSM"


def _is_added(letter: str, box: Sequence[float]) -> bool:
    """Return whether a right-to-left letter has no width, as those behind the first of a glyph have none.

    Hamza joins no letter, and without width it stands above the line between two of them.
    """
    return letter != _HAMZA and box[2] - box[0] <= _slack(box) and _SIDES.get(unicodedata.bidirectional(letter)) == "R"


def _ends_at(glyph: Sequence[float], added: Sequence[float]) -> bool:
    """Return whether a glyph that has width ends where a letter without width stands."""
    return abs(glyph[2] - added[2]) <= _slack(glyph) < glyph[2] - glyph[0]


def _slack(box: Sequence[float]) -> float:
    """Return how far apart edges of one glyph may be."""
    return _SAME_HEIGHTS * (box[3] - box[1])


def logical_order(text: str, boxes: Sequence[Sequence[float]]) -> tuple[str, list[Sequence[float]]]:
    """Return the letters of a right-to-left line, and their boxes, in logical order, in which they are read.

    Code points for the form that a letter takes in its word become those of the letter, as one types it to search.

    Args:
        text: The letters, in any order; marks behind what they stand on.
        boxes: Where each stands on a line that is level.
    """
    clusters = _clusters(*with_ligatures_in_order(text, boxes))
    # Letters of a ligature share their place: in the order in which they're read, they are as they were.
    order = sorted(range(len(clusters)), key=lambda at: (clusters[at].middle, at if clusters[at].side in "LN" else -at))
    visual = _with_blanks([clusters[at] for at in order])
    runs = [(left_to_right, [cluster for _, cluster in run]) for left_to_right, run in _runs(visual)]
    mirror = _is_mirrored(
        [cluster.text for left_to_right, run in reversed(runs) if not left_to_right for cluster in reversed(run)]
    )
    letters: list[str] = []
    places: list[Sequence[float]] = []
    for left_to_right, run in reversed(runs):
        for cluster in run if left_to_right else reversed(run):
            letters.append(_MIRRORED.get(cluster.text, cluster.text) if mirror and not left_to_right else cluster.text)
            places += cluster.boxes
    return "".join(letters), places


def _clusters(text: str, boxes: Sequence[Sequence[float]]) -> list[_Cluster]:
    clusters: list[_Cluster] = []
    for letter, box in zip(text, boxes, strict=True):
        typed = unicodedata.normalize("NFKC", letter).lstrip() if _FORMS.match(letter) else letter
        kind = unicodedata.bidirectional(typed[0])
        if kind == "NSM" and clusters:
            whole = clusters.pop()
            clusters.append(_Cluster(whole.text + typed, whole.boxes + (box,) * len(typed), whole.side))
        else:
            clusters.append(_Cluster(typed, (box,) * len(typed), _SIDES.get(kind, "")))
    return clusters


def _with_blanks(visual: Sequence[_Cluster]) -> list[_Cluster]:
    """Set a blank between letters that stand apart, and more so than the others: MuPDF does so only where the pen went right."""
    gaps = [after.boxes[0][0] - before.boxes[0][2] for before, after in pairwise(visual)]
    usual = max(0.0, median(gaps)) if gaps else 0.0
    made = list(visual[:1])
    for gap, cluster in zip(gaps, visual[1:], strict=True):
        x0, y0, _, y1 = cluster.boxes[0]
        blank = made[-1].text.isspace() or cluster.text.isspace()
        if gap > usual + BLANK_HEIGHTS * (y1 - y0) and not blank:
            made.append(_Cluster(" ", ((x0 - gap, y0, x0, y1),), ""))
        made.append(cluster)
    return made


def _runs(visual: Sequence[_Cluster]) -> Iterator[tuple[bool, Iterator[tuple[str, _Cluster]]]]:
    """Cut a line, from the left, into what is read from left to right (other scripts, numbers) and from right to left."""
    sides = _with_separators(visual)
    start = 0
    for side, run in groupby(list(sides)):
        end = start + len(list(run))
        around = {sides[start - 1], sides[end]} if start and end < len(sides) else {""}
        # Left of a number, a word may be its unit, which is read after it ("40 Nm"), or what it numbers ("Windows 10").
        unit = sides[end : end + 1] == ["N"] and sides[max(0, start - UNIT_LETTERS - 1) : start].count("L") <= UNIT_LETTERS
        if not side and around in ({"L"}, {"L", "N"}) and not unit:
            sides[start:end] = ["L"] * (end - start)
        start = end
    return groupby(zip(sides, visual, strict=True), key=lambda pair: pair[0] in {"L", "N"})


def _with_separators(visual: Sequence[_Cluster]) -> list[str]:
    """Return the sides, those of a number's digits given to the separators in it and to the symbols beside it."""
    sides = [cluster.side for cluster in visual]
    for place, cluster in enumerate(visual):
        kind = unicodedata.bidirectional(cluster.text[0])
        beside = [sides[at] == "N" for at in (place - 1, place + 1) if 0 <= at < len(sides)]
        if (kind in {"CS", "ES"} and len(beside) == 2 and all(beside)) or (kind == "ET" and any(beside)):
            sides[place] = "N"
    return sides


def _is_mirrored(letters: Sequence[str]) -> bool:
    """Return whether brackets stand for their shapes on the page: then, in logical order, the closing one is first."""
    brackets = [text for text in letters if text in _MIRRORED]
    pairs = list(pairwise(brackets))
    return sum(_CLOSING.get(two) == one for one, two in pairs) > sum(_CLOSING.get(one) == two for one, two in pairs)
