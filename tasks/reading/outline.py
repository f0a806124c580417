"""Find the headings of a document, and the section of each block."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import chain, takewhile
from statistics import median
from typing import NamedTuple

from schemas.documents import NO_FONT, LayoutLabel, Line, OutlineEntry, is_same_size
from schemas.geometry import BBox
from schemas.tags import strip
from schemas.text import NUMBERING, SUPERSCRIPTS, caption_label, same_title, title_letters, without_number
from tasks.reading.blocks import SURE_MARKER

LARGER = 1.15
"""How many times the size of the text a line has that stands out. Of 1,014 pages 597 change at 0.77 (all text stands out), 313
at 1.73 (larger headings become text).
"""
MOST_HEADING_CHARACTERS = 120
"""Of 1,014 pages 71 change at 80 (titles of two lines become text), 26 at 180 (first sentences in bold become headings)."""
MOST_TITLE_LINES = 3
"""Of 1,014 pages 92 change at 2 (titles of three lines become text), 16 at 4 (paragraphs in bold become headings)."""
DEEPEST_LEVEL = 6
LEAST_BOLD_SIZE = 0.97
"""Minimum size of a bold heading, relative to the text."""
MOST_LABELLED_CHARACTERS = 300
"""Maximum length of a heading that the layout model calls one."""
ONE_STYLE_SHARE = 0.9
"""Minimum share of the letters of a block in its style."""
HEADINGS_SHARE = 0.5
"""Minimum share of the blocks in a style that the model calls headings, from which on all are."""
MOST_TITLES = 2
"""Maximum headings of one style that are titles of the document, not sections."""
UPWARD_CHARACTERS = 3
"""Longest text that may be higher than wide and still be horizontal."""
_TWO_LETTERS = re.compile(rf"(?:(?!{SUPERSCRIPTS})[^\W\d_]){{2}}")
_ADMONITION = re.compile(
    r"\W*(?:caution|warning|note|notice|tip|hint|important|danger|attention|achtung|warnung|hinweis|vorsicht|gefahr|remarque"
    r"|avertissement|nota|precaución|advertencia|attenzione|avviso)\W*",
    re.IGNORECASE,
)
"""The label of a note, which isn't a section."""
_QUOTE = re.compile(r"[“„«][^“„«]+[.!?…][”“»]\W*")
"""A sentence that is quoted in large letters beside the text."""
_HEADINGS = frozenset({LayoutLabel.HEADING, LayoutLabel.TITLE})
_NO_HEADING = frozenset(
    {
        LayoutLabel.TABLE,
        LayoutLabel.PICTURE,
        LayoutLabel.CAPTION,
        LayoutLabel.FOOTNOTE,
        LayoutLabel.FORMULA,
        LayoutLabel.FOOT,
    }
)
_NUMBER_ALONE = re.compile(
    r"\s*(?:(?:chapter|part|appendix|section|kapitel|teil|chapitre|partie)\s+)?(?:\d{1,3}|[A-Z]|[IVX]+)[.:]?\s*",
    re.IGNORECASE,
)
_NUMBERED = re.compile(
    r"\s*(?P<first>\d{1,2}|[A-Z]|[IVX]{2,5}(?=\.))(?:(?P<parts>(?:\.\d{1,2})+)\.?\s+\S|\.?\s+[^\W\d_a-z])"
)


def body_size(lines: Sequence[Line]) -> float:
    """Return the type size of most letters, in points, which is that of the text; 0 without lines."""
    sizes: Counter[float] = Counter()
    for line in lines:
        sizes[line.size] += len(line.text)
    return sizes.most_common(1)[0][0] if sizes else 0.0


class Headings:
    """Which lines are headings: by the PDF's own outline, else by size, weight and numbering."""

    def __init__(self, lines: Sequence[Line], outline: Sequence[OutlineEntry], margins: Set[Line] = frozenset()) -> None:
        self._margins = margins
        # On one page its own order is that of the text.
        self._outline = sorted((entry for entry in outline if title_letters(entry.title)), key=lambda entry: entry.page)
        self._body = body_size(lines)
        self._found: set[OutlineEntry] = set()
        self._wholes: dict[Line, Sequence[Line]] = {}
        self._level: dict[Line, int] = self._by_outline(lines)
        heads = self._heads(lines)
        if outline:
            self._level |= self._below_outline(lines, heads)
        else:
            self._level = self._levels(self._with_numbers_apart([head for head, _ in heads]))

    def is_heading(self, line: Line) -> bool:
        """Return whether a line is a heading, or a part of one."""
        return line in self._level

    def continues(self, line: Line, following: Line) -> bool:
        """Return whether two lines are one heading by the outline, even in separate blocks."""
        return following in self._wholes.get(line, ())

    def level_of(self, line: Line) -> int | None:
        """Return the level of a heading, from 1; None for other lines."""
        return self._level.get(line)

    def path(self) -> "SectionPath":
        """Return a walk through the document that gives each block its section."""
        return SectionPath(self._outline, self._found)

    def _by_outline(self, lines: Sequence[Line]) -> dict[Line, int]:
        """Find each entry of the outline on its page: the line or lines with the same words."""
        on_page: dict[int, list[Line]] = {entry.page: [] for entry in self._outline}
        for line in lines:
            if line.page in on_page:
                on_page[line.page].append(line)
        runs = {page: [*_title_runs(page_lines)] for page, page_lines in on_page.items()}
        levels: dict[Line, int] = {}
        for entry in self._outline:
            title = title_letters(entry.title)
            self._note(entry, [run.lines for run in runs[entry.page] if title in (run.letters, run.bare)], levels)
        # Then without their numbers, so that none takes the heading of another with the same words.
        for entry in self._outline:
            title, number = without_number(entry.title), _number(entry.title)
            if number and entry not in self._found:
                same = [
                    run for run in runs[entry.page] if title == run.letters or (title, number) == (run.bare, run.number)
                ]
                self._note(entry, [run.lines for run in same], levels)
        return levels

    def _note(self, entry: OutlineEntry, titles: Sequence[Sequence[Line]], levels: dict[Line, int]) -> None:
        """Take as an entry's heading the title nearest to its destination, of those the largest; no margin, and none twice."""
        matches = [title for title in titles if title[0] not in levels and title[0] not in self._margins]
        if matches:
            self._found.add(entry)
            heading = min(matches, key=lambda match: (_away(match[0], entry), -match[0].size))
            levels.update(dict.fromkeys(heading, min(DEEPEST_LEVEL, entry.level)))
            if heading[0].block != heading[-1].block:
                self._wholes.update(dict.fromkeys(heading, heading))

    def _below_outline(self, lines: Sequence[Line], heads: Sequence[tuple[Sequence[Line], bool]]) -> dict[Line, int]:
        """Return the level of headings that the PDF's outline leaves out, below the section that they are in."""
        listed = {(line.page, line.block) for line in self._level}
        first = min((line.page for line in self._level), default=0)
        further = [
            head
            for head, in_style in heads
            if in_style
            and head[0].label is LayoutLabel.HEADING
            and (head[0].size > self._body or _text(head).isupper())
            and head[0].page >= first
            and (head[0].page, head[0].block) not in listed
        ]
        ranks = self._levels(further)
        # A heading's rank among those left out counts from the level of the last listed one above it.
        below: dict[Line, int] = {}
        level = 0
        for line in lines:
            level = self._level.get(line, level)
            if line in ranks:
                below[line] = min(DEEPEST_LEVEL, level + ranks[line])
        return below

    def _heads(self, lines: Sequence[Line]) -> list[tuple[Sequence[Line], bool]]:
        """Return the lines that look like headings, and whether the layout model calls most blocks in their style so."""
        blocks: dict[tuple[int, int], list[Line]] = defaultdict(list)
        upward: Counter[int] = Counter()
        for line in lines:
            if line.inside is None and line.label not in _NO_HEADING and line not in self._margins:
                blocks[line.page, line.block].append(line)
            upward[line.page] += len(line.text) if _runs_upward(line) else -len(line.text)
        # A stamp along the edge of the page isn't a heading, whatever its size.
        level = [block for block in blocks.values() if _runs_upward(block[0]) == (upward[block[0].page] > 0)]
        styles = _heading_styles(level)
        return [(head, _style(block) in styles) for block in level if (head := self._head(block, styles))]

    def _with_numbers_apart(self, heads: Sequence[Sequence[Line]]) -> list[Sequence[Line]]:
        """Return headings, "Chapter 2" joined with the title below it."""
        joined: list[Sequence[Line]] = []
        for head in heads:
            before = joined[-1] if joined else []
            is_apart = before and before[0].page == head[0].page and _NUMBER_ALONE.fullmatch(_text(before))
            if is_apart and not _NUMBERED.match(_text(head)):
                joined[-1] = [*before, *head]
                self._wholes.update(dict.fromkeys(joined[-1], joined[-1]))
            else:
                joined.append(head)
        return joined

    def _levels(self, heads: Sequence[Sequence[Line]]) -> dict[Line, int]:
        """Return the level of each line of headings: by size, numbered ones of one depth on one level."""
        kinds: dict[_Kind, list[Sequence[Line]]] = defaultdict(list)
        for head in heads:
            numbering = _numbering(_text(head))
            kinds[numbering or _Kind(None, "", _style(head))].append(head)

        def rank(kind: _Kind) -> tuple[float, bool, int]:
            members = kinds[kind]
            size = median([max(line.size for line in head) for head in members])
            bold = sum(head[0].bold for head in members) * 2 > len(members)
            return -round(size * 2) / 2, not bold, order[kind]

        order = {kind: at for at, kind in enumerate(kinds)}
        ranked = sorted(kinds, key=rank)
        # Numbered headings keep the ranks of their sizes, but share them out by depth: 2.1 is below 2, however large it is.
        numbered = iter(
            sorted((kind for kind in ranked if kind.depth is not None), key=lambda kind: (kind.depth, order[kind]))
        )
        ranked = [kind if kind.depth is None else next(numbered) for kind in ranked]
        # The title of the document, and that of its contents, have no number: they aren't sections around the numbered ones.
        first = next((at for at, kind in enumerate(ranked) if kind.depth is not None), 0)
        titles = [kind for kind in ranked[:first] if len(kinds[kind]) <= MOST_TITLES]
        levels = {kind: 1 + sum(outer not in titles for outer in ranked[:at]) for at, kind in enumerate(ranked)}
        return {line: min(DEEPEST_LEVEL, level) for kind, level in levels.items() for head in kinds[kind] for line in head}

    def _head(self, block: Sequence[Line], styles: Set["_Style"]) -> Sequence[Line]:
        """Return the first lines of a block that are a heading; [] if there are none."""
        if not block:
            return []
        first, block_text = block[0], _text(block)
        if (
            SURE_MARKER.match(block_text)
            or _QUOTE.fullmatch(block_text)
            or _ADMONITION.fullmatch(block_text.replace(" ", ""))
            or all(line.mono for line in block)
        ):
            return []
        # The layout model decides first, by label and then by style; capitals, size and weight decide on what is left.
        if (
            first.label in _HEADINGS
            and (block_text.isupper() or _NUMBERED.match(block_text) or first.font.startswith(NO_FONT))
            and _may_be_title(block_text, MOST_HEADING_CHARACTERS)
        ):
            return block
        if _style(block) in styles and _may_be_title(
            block_text, MOST_LABELLED_CHARACTERS if first.label in _HEADINGS else MOST_HEADING_CHARACTERS
        ):
            return block
        is_full_size = first.size >= LEAST_BOLD_SIZE * self._body
        if len(block) <= MOST_TITLE_LINES and block_text.isupper() and _NUMBERED.match(block_text) and is_full_size:
            return block  # "2 RELATED WORK", often in small capitals behind a larger number
        same = [line for line in block if is_same_size(line.size, first.size) and line.bold == first.bold]
        head = block[: next((at for at, line in enumerate(block) if line not in same), len(block))]
        text = _text(head)
        if first.label in _HEADINGS and _NUMBER_ALONE.fullmatch(text) and (title := self._head(block[len(head) :], styles)):
            return [*head, *title]  # which is larger than "Chapter 2" above it
        if len(head) > MOST_TITLE_LINES or not _may_be_title(text, MOST_HEADING_CHARACTERS):
            return []
        larger = first.size >= LARGER * self._body
        continues = len(head) < len(block) and block[len(head)].text.lstrip()[:1].islower()
        if continues and not larger:
            return []  # a sentence with bold words
        bold = first.bold and is_full_size and not text.endswith((".", ":"))
        return head if larger or (bold and (_NUMBERED.match(text) or len(head) < len(block) or len(head) == 1)) else []


class _Style(NamedTuple):
    font: str
    size: float


class _Kind(NamedTuple):
    """Headings of one level: numbered ones of one depth, in Roman or Arabic numbers or letters, or ones in one style."""

    depth: int | None
    form: str
    style: _Style | None


def _letters_by_style(lines: Iterable[Line]) -> Counter[_Style]:
    letters: Counter[_Style] = Counter()
    for line in lines:
        letters[_Style(line.font, round(line.size, 1))] += len(line.text.strip())
    return letters


def _style(lines: Sequence[Line]) -> _Style | None:
    """Return the style of nearly all letters of lines; None if they have several."""
    letters = _letters_by_style(lines)
    style, count = letters.most_common(1)[0]
    return style if style.font and count >= ONE_STYLE_SHARE * letters.total() else None


def _heading_styles(blocks: Sequence[Sequence[Line]]) -> frozenset[_Style]:
    """Return the styles in which most short blocks are headings by the layout model; never that of most letters."""
    letters = _letters_by_style(chain.from_iterable(blocks))
    body = letters.most_common(1)[0][0] if letters else None
    labelled: Counter[_Style] = Counter()
    short: Counter[_Style] = Counter()
    for block in blocks:
        style = _style(block)
        if style is not None and style != body and not all(line.mono for line in block):
            labelled[style] += block[0].label in _HEADINGS
            short[style] += 1
    return frozenset(style for style, count in labelled.items() if count >= HEADINGS_SHARE * short[style])


def _may_be_title(text: str, limit: int) -> bool:
    if len(text) > limit or not _TWO_LETTERS.search(text):
        return False
    return caption_label(text) is None and not text.endswith((",", ";"))


class _TitleRun(NamedTuple):
    """Lines that may be a title, with their letters, those without a number, and the number."""

    lines: Sequence[Line]
    letters: str
    bare: str
    number: str


def _title_runs(lines: Sequence[Line]) -> Iterator[_TitleRun]:
    """Yield the runs of lines of a page that are short enough for a title, whose number may be alone on its line."""
    for start, line in enumerate(lines):
        if title_letters(line.text):
            line_limit = MOST_TITLE_LINES + (not without_number(f"{line.text} "))
            for end in range(start + 1, min(start + line_limit, len(lines)) + 1):
                words = _text(lines[start:end])
                yield _TitleRun(lines[start:end], title_letters(words), without_number(words), _number(words))


class SectionPath:
    """Walks a document in reading order and returns the headings above each block."""

    def __init__(self, outline: Sequence[OutlineEntry], matched_entries: Set[OutlineEntry]) -> None:
        self._found = matched_entries
        self._waiting = list(outline)
        self._path: list[tuple[int, str]] = []

    def at(self, page: int, box: BBox, heading: str | None, level: int | None) -> tuple[str, ...]:
        """Return the titles above a block, outermost first; a heading's own is included."""
        # An entry whose heading was not found (a picture, say) counts from its destination.
        passed = sum(1 for _ in takewhile(lambda entry: self._is_passed(entry, page, box), self._waiting))
        self._enter_first(passed)
        if heading is not None and level is not None:
            # Entries before that of this heading are entered on the way, so that the path has the sections around it.
            near = takewhile(lambda entry: entry.page <= page, self._waiting)
            matching = next((number for number, entry in enumerate(near, 1) if same_title(entry.title, heading)), 0)
            self._enter_first(matching)
            if not matching:
                self._enter(level, heading)
        return tuple(title for _, title in self._path)

    def _enter_first(self, count: int) -> None:
        """Enter the sections of the first waiting entries."""
        for entry in self._waiting[:count]:
            self._enter(entry.level, entry.title)
        del self._waiting[:count]

    def _is_passed(self, entry: OutlineEntry, page: int, box: BBox) -> bool:
        if entry.page != page:
            return entry.page < page
        return entry not in self._found and (entry.y or 0.0) <= box.y0 + box.height / 2

    def _enter(self, level: int, title: str) -> None:
        self._path = [*(entry for entry in self._path if entry[0] < level), (level, " ".join(strip(title).split()))]


def _runs_upward(line: Line) -> bool:
    return len(line.text.strip()) > UPWARD_CHARACTERS and line.bbox.height > line.bbox.width


def _away(line: Line, entry: OutlineEntry) -> float:
    return abs(line.bbox.y0 - entry.y) if entry.y is not None else 0.0


def _number(text: str) -> str:
    """Return the number before a title, case-folded; "" if it has none."""
    number = NUMBERING.match(text)
    return number[1].casefold() if number is not None else ""


def _text(head: Sequence[Line]) -> str:
    return " ".join(line.text.strip() for line in head)


def _numbering(text: str) -> _Kind | None:
    """Return the level of a heading by its own number; None without one."""
    numbering = _NUMBERED.match(text)
    if numbering is None:
        return None
    first, parts = numbering["first"], numbering["parts"] or ""
    form = "digit" if first.isdigit() else "roman" if len(first) > 1 or first in "IVX" else "letter"
    return _Kind(parts.count(".") + 1, "" if parts else form, None)
