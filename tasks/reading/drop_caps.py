"""Join drop caps, large capitals beside the first lines of a paragraph, with the word that they begin."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from schemas.documents import Line
from schemas.geometry import is_level

LARGER = 1.8
"""Minimum size of a drop cap, relative to the text beside it. In 9 found in 810 PDFs it is 2.5 to 5.4."""
GAP_EM = 1.0
"""Maximum gap, or overlap, between a drop cap and the text beside it, in ems of the text."""
FEWEST_CHARACTERS = 8
"""Minimum length of each of the two lines beside it: labels of drawings are shorter."""
_CAPITAL = re.compile(r"\s*([“\"'«„]?[^\W\d_])\s*")
_WORD = re.compile(r"[^\W\d_]+")
_ALONE = frozenset("AÀIO")
"""Capitals that are words of their own."""


def with_drop_caps(lines: Sequence[Line]) -> Sequence[Line]:
    """Return the lines of a document without drop caps, which begin the line beside them."""
    first_lines_by_cap = dict(_lines_with_drop_caps(lines))
    if not first_lines_by_cap:
        return lines
    word_counts = Counter(word for line in lines for word in _WORD.findall(line.text.lower()))
    caps = {cap: first for first, cap in first_lines_by_cap.items()}
    return [
        _joined(first_lines_by_cap[line], line, word_counts) if line in first_lines_by_cap else line
        for line in lines
        if line not in caps
    ]


def _lines_with_drop_caps(lines: Sequence[Line]) -> Iterator[tuple[Line, Line]]:
    """Yield the first line of each paragraph with a drop cap, and the drop cap."""
    for cap in lines:
        letter = _CAPITAL.fullmatch(cap.text)
        if letter is None or not letter[1].isupper():
            continue
        beside = sorted(
            (line for line in lines if line.page == cap.page and _is_beside(line, cap)), key=lambda line: line.bbox.y0
        )
        if len(beside) > 1 and _goes_on(beside[0], cap) and beside[1].bbox.y0 < cap.bbox.y1 - beside[1].bbox.height / 2:
            yield beside[0], cap


def _is_beside(line: Line, cap: Line) -> bool:
    away = abs(line.bbox.x0 - cap.bbox.x1) <= GAP_EM * line.size
    long = len(line.text.strip()) >= FEWEST_CHARACTERS
    return away and long and cap.size >= LARGER * line.size and is_level(line.bbox, cap.bbox)


def _goes_on(first: Line, cap: Line) -> bool:
    """Return whether a line is beside the top of a drop cap and begins inside a word, in lower case or in capitals throughout."""
    text = first.text.lstrip()
    return first.bbox.y0 <= cap.bbox.y0 + first.bbox.height and (text[:1].islower() or text[:2].isupper())


def _joined(cap: Line, first: Line, word_counts: Counter[str]) -> Line:
    """Return a line with its drop cap: a word of its own if the document has the next word, and not the two as one."""
    letter, text = cap.text.strip(), first.text.lstrip()
    first_word = first_match[0].lower() if (first_match := _WORD.match(text)) else ""
    alone = (
        letter[-1:] in _ALONE and word_counts[first_word] > 1 and f"{letter[-1:].lower()}{first_word}" not in word_counts
    )
    return first._replace(text=f"{letter}{' ' if alone else ''}{text}", bbox=first.bbox._replace(x0=cap.bbox.x0))
