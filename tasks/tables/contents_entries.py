"""Find the entries of a table of contents, which isn't a table of cells."""

import re
from collections.abc import Sequence
from itertools import pairwise

from schemas.documents import Line
from tasks.tables.align import levels_of

FEWEST_ENTRIES = 3
"""Minimum entries with leaders in a table of contents."""
RISING_SHARE = 0.8
"""Minimum share of its entries whose page isn't before that of the entry above."""
MOST_BETWEEN = 4
"""Maximum distance of two entries with leaders, in rows; between them are chapters, or titles of two lines."""
_ENTRY = re.compile(r".*\S\s*(?:[.·_…]\s?){4,}\s*(?P<page>\d{1,4}|[ivxlc]{1,7})\s*")
_ENTRY_BELOW_TITLE = re.compile(r".*\S\s{3,}(?P<page>\d{1,4}|[ivxlc]{1,7})\s*")
_CONTENTS = re.compile(
    r"\W*(?:table of )?(?:contents|inhalt(?:sverzeichnis)?|sommaire|table des matières|índice|indice|目录|目次)\W*",
    re.IGNORECASE,
)
"""The title of a table of contents, below which blanks may stand for leaders."""


def contents_entries(lines: Sequence[Line]) -> list[Line]:
    """Return the lines of a page that are a table of contents: titles, leaders, and numbers of pages that go up."""
    rows = levels_of(lines)
    entry = _ENTRY_BELOW_TITLE if any(_CONTENTS.fullmatch(line.text) for line in lines) else _ENTRY
    numbers = [_page_of_entry(row, _ENTRY, entry) for row in rows]
    entries = [at for at, number in enumerate(numbers) if number is not None]
    pages = [number for number in numbers if number]
    rising = sum(page <= following_page for page, following_page in pairwise(pages))
    if len(entries) < FEWEST_ENTRIES or rising < RISING_SHARE * (len(pages) - 1):
        return []
    entry_rows = [entries[0]]
    for at in entries[1:]:
        entry_rows += range(entry_rows[-1] + 1, at + 1) if at - entry_rows[-1] <= MOST_BETWEEN else [at]
    return [line for at in entry_rows for line in rows[at]]


def _page_of_entry(row: Sequence[Line], *entries: re.Pattern[str]) -> int | None:
    """Return the page that an entry of a table of contents names, 0 for a Roman number; None for any other row."""
    text = "   ".join(line.text.strip() for line in row)
    page = next((match["page"] for entry in entries if (match := entry.fullmatch(text))), None)
    return None if page is None else int(page) if page.isdecimal() else 0
