"""Tell headings and page margins from running text, and say under which headings something stands."""

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence, Set
from itertools import takewhile
from operator import attrgetter
from typing import NamedTuple

from schemas.documents import Line, OutlineEntry, Page
from schemas.geometry import BBox
from schemas.labels import caption_label
from schemas.tags import strip

_MARGIN_SHARE = 0.1
_MARGIN_PAGES = 3
_HEAD, _FOOT = 0, 1
_HEIGHT_PAGES = 4
_HEIGHT_SHARE = 0.25
_KNOWN_SHARE = 0.8
_APART = 0.6
_SAME_HAND = 2
_LARGER = 1.15
_HEADING_CHARACTERS = 120
_TITLE_LINES = 3
_DEEPEST = 6
_NEAR_PT = 48.0
_NUMBERING = re.compile(
    r"\s*(?:(?:chapter|appendix|section|part|kapitel)\s+)?((?:[A-Z]|[IVX]+|\d{1,3})(?:\.\d{1,3})*)[.:)]?\s+", re.IGNORECASE
)
_NUMBERED = re.compile(r"\s*(?:\d{1,2}|[A-Z])((?:\.\d{1,2})*)\.?\s+[^\W\d_a-z]")
_PAGE_AT_END = re.compile(r"\s+(?:[ivxlc]{1,7}|\d{1,4})\s*$")
_BETWEEN = re.compile(r"\s*[|·•–—]\s*|:\s+|\s{3,}")
_PAGE = attrgetter("page")
_SILENT = re.compile(r"[\W_]+")
_PAGE_NUMBER = re.compile(
    r"\W*(?:(?:page|seite|p\.)\s*)?(?:[ivxlc]+|\d{1,4}|[A-Z]{1,2}-\d{1,3})(?:\s*(?:/|of|von|-)\s*\d{1,4})?\W*",
    re.IGNORECASE,
)


def find_margins(lines: Sequence[Line], pages: Sequence[Page], outline: Sequence[OutlineEntry] = ()) -> frozenset[Line]:
    """Return the running headers, footers and page numbers among a document's lines.

    A line belongs to the margin when it stands in the outer tenth of its page, as the page's reader sees it, and is a page
    number, or stands there on several pages with nothing but numbers changed, or says there, at the height at which most
    pages do, which chapter or section its page belongs to.

    Args:
        lines: Page after page.
        pages: All pages of the document.
        outline: The PDF's own, if it has one: it tells a title from the running head that says it again.
    """
    sheets = {page.page: page for page in pages}
    edge: dict[tuple[str, int], list[Line]] = defaultdict(list)
    heights: dict[tuple[int, int, float], list[Line]] = defaultdict(list)
    margins: set[Line] = set()
    sizes = _sizes(lines)
    body = sizes.most_common(1)[0][0] if sizes else 0.0
    for line in lines:
        place = _edge_of(line.bbox, sheets[line.page])
        if place is None:
            continue
        side, away = place
        if _PAGE_NUMBER.fullmatch(line.text.strip()):
            margins.add(line)
        elif line.size <= _LARGER * body + 0.5:
            edge[_pattern(line.text), side].append(line)
            if line.size <= body + 0.5:
                heights[side, away, line.size].append(line)
    least = max(_MARGIN_PAGES, len(pages) // 50)
    for repeated in edge.values():
        if len({line.page for line in repeated}) >= least:
            margins.update(repeated)
    least = max(_HEIGHT_PAGES, int(_HEIGHT_SHARE * len(pages)))
    often = [(side, alike) for (side, *_), alike in heights.items() if len({line.page for line in alike}) >= least]
    if not all(margins.issuperset(alike) for _, alike in often):
        heads = _RunningHeads(lines, sheets, outline, body)
        margins.update([line for side, alike in often for line in heads.among(alike, side, margins)])
    return frozenset(margins)


class _RunningHeads:
    """Tells running heads that change with the chapter or section from all else that stands at their height."""

    def __init__(
        self, lines: Sequence[Line], sheets: Mapping[int, Page], outline: Sequence[OutlineEntry], body: float
    ) -> None:
        self._lines = lines
        self._sheets = sheets
        self._begins: dict[str, set[int]] = defaultdict(set)
        larger = ((line.text, line.page) for line in lines if line.size >= _LARGER * body)
        for title, page in ((entry.title, entry.page) for entry in outline) if outline else larger:
            for name in filter(None, (_letters(title), _bare(title))):
                self._begins[name].add(page)

    def among(self, alike: Sequence[Line], side: int, margins: Set[Line]) -> list[Line]:
        """Return the running heads among what stands at one height of many pages, in letters of one size.

        Text may begin there as well, or the headers of tables. So nearly all of it must be known for what it is: it stands
        there on several pages, or on the next one, or is the title of a section that goes on; and no text may be near.
        """
        open_ = [line for line in alike if line not in margins]
        again = _said_again(alike)
        heads = [line for line in open_ if (line in again and not self._is_slide(line)) or self._goes_on(line, side)]
        if len(alike) - len(open_) + len(heads) < _KNOWN_SHARE * len(alike):
            return []
        known = margins | set(heads)
        return [line for line in heads if self._is_apart(line, known) and not (side == _HEAD and self._is_heading(line))]

    def _goes_on(self, line: Line, side: int) -> bool:
        """Say whether a line is the title of a section that began before it."""
        pages = {page for name in _names(line.text) for page in self._begins.get(name, ())}
        return any(page < line.page for page in pages) or (
            line.page in pages and not (side == _HEAD and self._is_heading(line))
        )

    def _is_heading(self, line: Line) -> bool:
        """Say whether a line names a section which begins on its page, and no other there does that is as large."""
        names = _names(line.text)
        return any(line.page in self._begins.get(name, ()) for name in names) and not any(
            other is not line
            and other.size >= line.size
            and not names.isdisjoint((_letters(other.text), _bare(other.text)))
            for other in self._page_of(line)
        )

    def _is_slide(self, line: Line) -> bool:
        """Say whether a line stands on a page wider than high, where its own title may be said again on the next."""
        page = self._sheets[line.page]
        return (page.width_pt > page.height_pt) != (page.rotation % 180 == 90)

    def _is_apart(self, line: Line, margins: Set[Line]) -> bool:
        """Say whether nothing but margins is near a line, above or below."""
        page = self._sheets[line.page]
        top, bottom, _ = _span(line.bbox, page)
        near = _APART * line.size
        for other in self._page_of(line):
            above, below, _ = _span(other.bbox, page)
            is_near = below > top - near and above < bottom + near
            if is_near and (below <= top or above >= bottom) and other not in margins:
                return False
        return True

    def _page_of(self, line: Line) -> Sequence[Line]:
        first = bisect_left(self._lines, line.page, key=_PAGE)
        return self._lines[first : bisect_right(self._lines, line.page, lo=first, key=_PAGE)]


def _said_again(alike: Sequence[Line]) -> set[Line]:
    """Return the lines whose words stand again on the same page, on the next, or on the next of the same hand."""
    again: set[Line] = set()
    last: dict[str, Line] = {}
    for line in alike:
        pattern = _pattern(line.text)
        before = last.get(pattern)
        if before is not None and line.page - before.page <= _SAME_HAND:
            again.update((before, line))
        last[pattern] = line
    return again


def _names(text: str) -> set[str]:
    """Return the letters of a title as a running head may have them: beside other words, and with or without its number."""
    parts = [text, _PAGE_AT_END.sub("", text)]
    parts += _BETWEEN.split(parts[1])
    return {name for part in parts for name in (_letters(part), _bare(part)) if name}


def _sizes(lines: Sequence[Line]) -> Counter[float]:
    sizes: Counter[float] = Counter()
    for line in lines:
        sizes[line.size] += len(line.text)
    return sizes


def _pattern(text: str) -> str:
    return re.sub(r"\d+|\b[ivxlc]+\b", "#", " ".join(text.casefold().split()))


def _edge_of(box: BBox, page: Page) -> tuple[int, int] | None:
    """Return at which end of its page a box stands, as the page is read, and how many points away; None in between."""
    top, bottom, height = _span(box, page)
    if bottom <= _MARGIN_SHARE * height:
        return _HEAD, round(bottom)
    return (_FOOT, round(height - bottom)) if top >= (1 - _MARGIN_SHARE) * height else None


def _span(box: BBox, page: Page) -> tuple[float, float, float]:
    """Return from where to where a box reaches down its page, as the page is read, and how far down that goes."""
    match page.rotation % 360:
        case 0:
            return box.y0, box.y1, page.height_pt
        case 90:
            return box.x0, box.x1, page.width_pt
        case 180:
            return page.height_pt - box.y1, page.height_pt - box.y0, page.height_pt
        case _:
            return page.width_pt - box.x1, page.width_pt - box.x0, page.width_pt


class Headings:
    """Knows which lines are headings: by the PDF's own outline, else by size, weight and numbering."""

    def __init__(self, lines: Sequence[Line], outline: Sequence[OutlineEntry], margins: Set[Line] = frozenset()) -> None:
        self._margins = margins
        self._outline = sorted(outline, key=lambda entry: entry.page)  # on one page its own order is that of the text
        sizes = _sizes(lines)
        self._body = sizes.most_common(1)[0][0] if sizes else 0.0
        self._found: set[OutlineEntry] = set()
        self._wholes: dict[Line, Sequence[Line]] = {}
        self._level: dict[Line, int] = self._by_outline(lines) if outline else self._by_look(lines, sizes)

    def is_heading(self, line: Line) -> bool:
        """Say whether a line is a heading, or a part of one."""
        return line in self._level

    def goes_on(self, line: Line, following: Line) -> bool:
        """Say whether two lines are one heading by the outline, though they may be blocks of their own."""
        return following in self._wholes.get(line, ())

    def stands_out(self, line: Line) -> bool:
        """Say whether a heading is one by the outline or by its size, and not merely bold as a table's header may be."""
        return line in self._level and (bool(self._outline) or line.size >= _LARGER * self._body)

    def level_of(self, lines: Sequence[Line]) -> int | None:
        """Return the level of a heading, from 1; None for what is none."""
        return self._level.get(lines[0]) if lines else None

    def path(self) -> "SectionPath":
        """Return what says, block after block, under which headings a block stands."""
        return SectionPath([entry for entry in self._outline if _letters(entry.title)], self._found)

    def _by_outline(self, lines: Sequence[Line]) -> dict[Line, int]:
        """Find each entry of the outline on its page: the line, or the few lines, that say the same."""
        on_page: dict[int, list[_Spelled]] = {entry.page: [] for entry in self._outline}
        for line in lines:
            if line.page in on_page:
                letters = _letters(line.text)
                on_page[line.page].append(_Spelled(line, letters, _bare(f"{line.text} ", letters)))
        levels: dict[Line, int] = {}
        for entry in self._outline:
            self._note(entry, self._said(entry, _letters(entry.title), "", on_page[entry.page], levels), levels)
        # Only then without their numbers, lest one takes the heading of another that has the same words.
        for entry in self._outline:
            number = _number(entry.title)
            if number and entry not in self._found:
                found = self._said(entry, _bare(entry.title), number, on_page[entry.page], levels)
                self._note(entry, [place for place in found if self._may_be_title(place, entry)], levels)
        return levels

    def _said(
        self, entry: OutlineEntry, title: str, number: str, page: Sequence["_Spelled"], levels: Mapping[Line, int]
    ) -> list[list[Line]]:
        """Return where an entry's title is said on its page, in lines that are neither margins nor headings yet."""
        places: list[list[Line]] = []
        for start, (line, letters, alone) in enumerate(page if title else ()):
            begins = letters and title.startswith((letters, alone))
            if not begins or line in levels or line.size < 0.9 * self._body or line in self._margins:
                continue
            most = _TITLE_LINES if alone else _TITLE_LINES + 1  # the number may have a line of its own
            found = _match(page[start : start + most], title, number)
            if found and not _begins_with_stray_letter(found):
                places.append(found)
        return places

    def _note(self, entry: OutlineEntry, places: Sequence[list[Line]], levels: dict[Line, int]) -> None:
        """Take as an entry's heading the place that says its title in the largest letters, nearest to where it points."""
        if places:
            self._found.add(entry)
            heading = min(places, key=lambda place: _away(place[0], entry) - 10 * place[0].size)
            levels.update(dict.fromkeys(heading, min(_DEEPEST, entry.level)))
            if heading[0].block != heading[-1].block:
                self._wholes.update(dict.fromkeys(heading, heading))

    def _may_be_title(self, place: Sequence[Line], entry: OutlineEntry) -> bool:
        """Say whether lines that say a title without its number look like one, or stand where the outline points to."""
        first = place[0]
        return first.bold or first.size >= _LARGER * self._body or (entry.y is not None and _away(first, entry) <= _NEAR_PT)

    def _by_look(self, lines: Sequence[Line], sizes: Counter[float]) -> dict[Line, int]:
        blocks: dict[tuple[int, int], list[Line]] = defaultdict(list)
        for line in lines:
            if line.inside is None:
                blocks[line.page, line.block].append(line)
        found: dict[Line, int | None] = {}
        upward: Counter[int] = Counter()
        for line in lines:
            upward[line.page] += len(line.text) if _runs_upward(line) else -len(line.text)
        for block in blocks.values():
            # A stamp along the edge of the page is no heading, however large it is set.
            across = _runs_upward(block[0]) != (upward[block[0].page] > 0)
            head = [] if across else self._head(block)
            for line in head:
                found[line] = _depth(" ".join(line.text.strip() for line in head))
        larger = sorted({round(line.size) for line in found if line.size >= _LARGER * self._body}, reverse=True)
        rank = {size: place for place, size in enumerate(larger, 1)}
        return {
            line: min(_DEEPEST, depth if depth is not None else rank.get(round(line.size), len(rank) + 1))
            for line, depth in found.items()
        }

    def _head(self, block: Sequence[Line]) -> Sequence[Line]:
        """Return the lines at the head of a block that are set like a heading; [] where there are none."""
        first = block[0]
        whole = " ".join(line.text.strip() for line in block)
        if len(block) <= _TITLE_LINES and whole.isupper() and _NUMBERED.match(whole) and first.size >= 0.97 * self._body:
            return block  # "2 RELATED WORK", often in small capitals behind a larger number
        same = [line for line in block if abs(line.size - first.size) <= 0.3 and line.bold == first.bold]
        head = block[: next((place for place, line in enumerate(block) if line not in same), len(block))]
        text = " ".join(line.text.strip() for line in head)
        if len(head) > _TITLE_LINES or len(text) > _HEADING_CHARACTERS or not re.search(r"[^\W\d_]{2}", text):
            return []
        if caption_label(text) is not None or text.endswith((",", ";")):
            return []
        larger = first.size >= _LARGER * self._body
        goes_on = len(head) < len(block) and block[len(head)].text.lstrip()[:1].islower()
        if goes_on and not larger:
            return []  # a sentence with words in bold
        bold = first.bold and first.size >= 0.97 * self._body and not text.endswith((".", ":"))
        return head if larger or (bold and (_NUMBERED.match(text) or len(head) < len(block) or len(head) == 1)) else []


class _Spelled(NamedTuple):
    """A line with its letters, and those without its number."""

    line: Line
    letters: str
    bare: str


class SectionPath:
    """Walks a document in reading order and says under which headings each block stands."""

    def __init__(self, outline: Sequence[OutlineEntry], found: Set[OutlineEntry]) -> None:
        self._found = found
        self._waiting = list(outline)
        self._by_outline = bool(outline)
        self._path: list[tuple[int, str]] = []

    def at(self, page: int, box: BBox, heading: str | None, level: int | None) -> tuple[str, ...]:
        """Return the titles over a block, outermost first, its own included where it is a heading.

        Args:
            page: The block's page; blocks come in reading order.
            box: Where it stands.
            heading: Its words where it is a heading.
            level: The heading's level.
        """
        if self._by_outline:
            # An entry whose heading was not found on its page (a picture, say) counts from where it points to.
            while self._waiting and self._is_passed(self._waiting[0], page, box):
                entry = self._waiting.pop(0)
                self._enter(entry.level, entry.title)
            if heading is not None and level is not None:
                near = takewhile(lambda entry: entry.page <= page, self._waiting)
                own = next((entry for entry in near if same_title(entry.title, heading)), None)
                while own is not None and self._waiting:
                    entry = self._waiting.pop(0)
                    self._enter(entry.level, entry.title)
                    if entry is own:
                        break
        elif heading is not None and level is not None:
            self._enter(level, heading)
        return tuple(title for _, title in self._path)

    def _is_passed(self, entry: OutlineEntry, page: int, box: BBox) -> bool:
        if entry.page != page:
            return entry.page < page
        return entry not in self._found and (entry.y or 0.0) <= box.y0 + box.height / 2

    def _enter(self, level: int, title: str) -> None:
        self._path = [*(entry for entry in self._path if entry[0] < level), (level, " ".join(strip(title).split()))]


def _runs_upward(line: Line) -> bool:
    return len(line.text.strip()) > 3 and line.bbox.height > line.bbox.width


def same_title(one: str, other: str) -> bool:
    """Say whether two titles are the same but for case, white space, stops and their number."""
    return _letters(one) == _letters(other) or _bare(one) == _bare(other)


def _away(line: Line, entry: OutlineEntry) -> float:
    return abs(line.bbox.y0 - entry.y) if entry.y is not None else 0.0


def _begins_with_stray_letter(lines: Sequence[Line]) -> bool:
    """Say whether a letter over a title is no number of it: music fonts draw notes as letters."""
    if len(lines) < 2 or len(_letters(lines[0].text)) != 1 or not lines[0].text.strip().isalpha():
        return False
    letter, title = lines[0].bbox, next(line.bbox for line in lines[1:] if _letters(line.text))
    return not title.y0 <= (letter.y0 + letter.y1) / 2 <= title.y1


def _match(lines: Sequence[_Spelled], title: str, number: str) -> list[Line]:
    """Return the first lines that together say a title, with or without a number; where one is given, with no other."""
    letters = ""
    for count, spelled in enumerate(lines, 1):
        letters += spelled.letters
        if letters.endswith(title):
            said = [line for line, *_ in lines[:count]]
            words = " ".join(line.text for line in said)
            if letters == title or (_bare(words) == title and number in ("", _number(words))):
                return said
    return []


def _letters(text: str) -> str:
    return _SILENT.sub("", text).casefold()


def _bare(text: str, letters: str | None = None) -> str:
    """Return a title's letters without its number, given those with it where they are known."""
    number = _NUMBERING.match(text)
    if number is not None:
        return _letters(text[number.end() :])
    return _letters(text) if letters is None else letters


def _number(text: str) -> str:
    """Return the number before a title, in letters of one case; "" where it has none."""
    number = _NUMBERING.match(text)
    return number[1].casefold() if number is not None else ""


def _depth(text: str) -> int | None:
    """Return how deep a heading's own number says it stands; None for one without a number."""
    found = _NUMBERED.match(text)
    return found[1].count(".") + 1 if found else None
