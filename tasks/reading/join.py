"""Join the lines of a paragraph into running text."""

import re
from collections import Counter
from collections.abc import Sequence, Set
from itertools import pairwise

import regex

from schemas.documents import Line
from tasks.reading.bidi import runs_right_to_left

_SOLID = r"[[\p{ea=W}\p{ea=F}\p{ea=H}]--\p{Hangul}]|\p{lb=SA}"
"""Characters of scripts without spaces, whose lines break anywhere: CJK without Korean, Thai, Lao."""
_BEGINS_SOLID = regex.compile(rf"(?V1)(?:{_SOLID})")
_FIRST_WORD = regex.compile(
    rf"(?V1)\s*(?=\S)([\p{{Ps}}\p{{Pi}}]*(?:{_SOLID}|\S+?(?={_SOLID}|\s|$))?[\p{{Pe}}\p{{Pf}}\p{{Po}}]*)"
)
_HYPHENATED = re.compile(r"[^\W\d_][-\u00ad\u2010]")
_WORD_BEFORE = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*-$")
_WORD_AFTER = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_WORD_WITH_HYPHEN = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)+")
_LONGEST_WORD = 60


ROOM_EM = 1.5
"""Room that may be left at the end of a wrapped line. Of 1,014 pages 35 change at 1, 32 at 2.25."""
BESIDE_SHARE = 0.5
"""Minimum share of their height that two parts of one line have in common."""


def hyphenated_words(lines: Sequence[Line]) -> frozenset[str]:
    """Return the words broken at their hyphen that the document writes with it elsewhere, as often as without it at least.

    They are in lower case. Of 5,188 words broken at the end of a line in 97 documents 357 are (state-of-the-art, real-time); of
    60 taken at random all are written so.
    """
    # How each broken word is spelled with its hyphen, and how without.
    broken = {
        "-".join(parts): "".join(parts)
        for before, line in pairwise(lines)
        if before.block == line.block and before.page == line.page and (parts := _broken(before.text, line.text))
    }
    if not broken:
        return frozenset()
    texts = [line.text.lower() for line in lines]
    hyphenated_counts = Counter(
        word for text in texts if "-" in text for word in _WORD_WITH_HYPHEN.findall(text) if word in broken
    )
    full_text = "\n".join(texts)
    return frozenset(word for word, times in hyphenated_counts.items() if times >= full_text.count(broken[word]))


def _broken(before: str, after: str) -> tuple[str, str] | None:
    """Return the two parts of a word that a line breaks at a hyphen, in lower case; None without one."""
    before, after = before.rstrip(), after.lstrip()
    if not before.endswith("-") or not after[:1].islower():
        return None
    first, second = _WORD_BEFORE.search(before[-_LONGEST_WORD:]), _WORD_AFTER.match(after)
    return (first[0][:-1].lower(), second[0].lower()) if first and second else None


def join_lines(lines: Sequence[Line], *, keep: bool = False, hyphenated: Set[str] = frozenset()) -> str:
    """Return lines as text.

    A wrapped line is joined with the next one, without its hyphen, by a space unless their script is written without spaces; a
    line that ends early (code, lists, verse) keeps its end.

    Args:
        lines: In reading order.
        keep: Keep every line's end.
        hyphenated: Words that keep their hyphen, as ``hyphenated_words`` returns them.
    """
    if not lines:
        return ""
    column_x0, column_x1 = min([line.bbox.x0 for line in lines]), max([line.bbox.x1 for line in lines])
    text = lines[0].text.strip()
    for before, line in pairwise(lines):
        words = line.text.strip()
        if keep or before.block != line.block or not words:
            text += "\n" + words
        elif before.bbox.gap_y(line.bbox) < -BESIDE_SHARE * min(before.bbox.height, line.bbox.height):
            text += " " + words  # beside each other on one line
        elif not wraps(before, line, column_x0, column_x1):
            text += "\n" + words
        else:
            text = join_broken(text, words, hyphenated)
    return text


def join_broken(text: str, words: str, hyphenated: Set[str] = frozenset()) -> str:
    """Return two parts of a paragraph that was broken between them, without the hyphen of a broken word."""
    if _HYPHENATED.fullmatch(text[-2:]) and words[:1].islower():
        parts = _broken(text, words)
        is_compound = parts is not None and ("-" in parts[0] or "-".join(parts) in hyphenated)  # state-of-the-art
        return (text if is_compound else text[:-1]) + words
    return text + _space_between(text, words) + words


def _space_between(before: str, after: str) -> str:
    """Return what parts two texts that are read as one: a space, and nothing in a script that is written without."""
    return "" if _BEGINS_SOLID.match(before[-1:]) and _BEGINS_SOLID.match(after) else " "


def wraps(line: Line, following: Line, column_x0: float, column_x1: float) -> bool:
    """Return whether a line was wrapped: the next line's first word would not have fitted.

    Args:
        line: The line.
        following: The next one.
        column_x0: Left side of their column, in points.
        column_x1: Right side of it.
    """
    room = line.bbox.x0 - column_x0 if runs_right_to_left(line.text) else column_x1 - line.bbox.x1
    room -= ROOM_EM * line.size
    if room <= 0 or (_HYPHENATED.fullmatch(line.text.rstrip()[-2:]) and following.text.lstrip()[:1].islower()):
        return True
    letter_width = line.bbox.width / max(1, len(line.text.strip()))
    word = _first_word(following.text)
    if _BEGINS_SOLID.match(word):
        letter_width = max(letter_width, line.size)  # as wide as it is high, however narrow the Latin letters beside it are
    return room <= (len(word) + 1) * letter_width


def _first_word(text: str) -> str:
    """Return the first part of a line that can't be broken; "" if it is blank."""
    first_part = _FIRST_WORD.match(text)
    return first_part[1] if first_part else ""
