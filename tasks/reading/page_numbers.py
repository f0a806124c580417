"""Read the numbers of pages in their margins, and label the pages by them."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from schemas.documents import Line
from schemas.text import ROMAN, roman, roman_value

FEWEST_RUNNING = 3
"""Minimum pages with numbers that increase with the pages, or of chapters that number their own."""
LABELLED_SHARE = 0.25
"""Minimum share of a document's pages that have a number: fewer are those of an appendix or of plates."""
_NUMBER = rf"(?:(?P<part>[A-Z]{{1,2}}|\d{{1,2}})(?P<dash>[-–.]))?(?:(?P<roman>{ROMAN})|(?P<arabic>\d{{1,4}}))"
_ALONE = re.compile(
    rf"\W*(?:(?:page|seite|p\.)\s*)?{_NUMBER}(?:\s*(?:/|of|von)\s*(?:{ROMAN}|\d{{1,4}}))?\W*", re.IGNORECASE
)
_FIRST = re.compile(rf"{_NUMBER}(?=\s|[|·•]).*", re.IGNORECASE)
_LAST = re.compile(rf".*(?<=[\s|·•]){_NUMBER}", re.IGNORECASE)


class Run(NamedTuple):
    """Numbers that increase with the pages; ``part`` is the chapter with its dash in "A-1", ``offset`` number minus page."""

    part: str
    style: str
    offset: int

    def label(self, page: int) -> str:
        """Return the label of a page; "" before the first."""
        value = page + self.offset
        if value < 1:
            return ""
        numeral = str(value) if self.style == "arabic" else roman(value)
        return self.part + (numeral.upper() if self.style == "ROMAN" else numeral)


def printed_labels(margins: Iterable[Line], pages: int) -> tuple[str, ...]:
    """Return the label of each page, "" if none is known; () if the document has none, or they are the numbers of pages.

    A number is a label if those of other pages differ from it by as much as the pages do. A page between two of a run has
    the number between theirs, and pages without one before the first of a run, such as the opening of a chapter, count back to 1.

    Args:
        margins: The running heads, feet and page numbers.
        pages: Number of pages of the document.
    """
    numbered: dict[Run, set[int]] = defaultdict(set)
    chapters: set[Run] = set()
    for line in margins:
        for run, is_alone in numbers_of(line):
            numbered[run].add(line.page)
            if run.part and is_alone:
                chapters.add(run)
    # Chapters that number their own pages may have few each, so they count together.
    chapter_pages = {page for run in chapters for page in numbered[run]}
    labelled: dict[int, Run] = {}
    for run, run_pages in sorted(numbered.items(), key=lambda pair: len(pair[1])):
        if len(chapter_pages if run in chapters else run_pages) >= FEWEST_RUNNING:
            labelled |= dict.fromkeys(run_pages, run)  # if a page has two, the longer run's is kept
    if len(labelled) < LABELLED_SHARE * pages:
        return ()
    labels = [""] * pages
    # From the last page back, `following` is the run of the next page with a number, from which the page counts back.
    following: Run | None = None
    for page in range(pages, 0, -1):
        following = labelled.get(page, following)
        labels[page - 1] = "" if following is None else following.label(page)
    return own_labels(labels)


def own_labels(labels: Sequence[str]) -> tuple[str, ...]:
    """Return the labels of pages; () if they are no others than the numbers of pages."""
    return () if all(label in ("", str(page)) for page, label in enumerate(labels, 1)) else tuple(labels)


def numbers_of(line: Line) -> Iterator[tuple[Run, bool]]:
    """Yield the runs that a line's numbers may be of, and whether the number is all of the line."""
    text = line.text.strip()
    alone = _ALONE.fullmatch(text)
    for number_match in [alone] if alone else filter(None, (_FIRST.fullmatch(text), _LAST.fullmatch(text))):
        numeral = number_match["roman"] or number_match["arabic"]
        if number_match["arabic"]:
            style, value = "arabic", int(numeral)
        elif numeral.islower() or numeral.isupper():
            style, value = ("roman" if numeral.islower() else "ROMAN"), roman_value(numeral)
        else:
            continue
        yield (
            Run(f"{number_match['part']}{number_match['dash']}" if number_match["part"] else "", style, value - line.page),
            alone is not None,
        )
