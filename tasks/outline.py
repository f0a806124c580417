"""Tell headings and page margins from running text, and say under which headings something stands."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence, Set
from itertools import takewhile
from typing import NamedTuple

from schemas.documents import Line, OutlineEntry, Page
from schemas.geometry import BBox
from schemas.labels import caption_label
from schemas.tags import strip

_MARGIN_SHARE = 0.1
_MARGIN_PAGES = 3
_LARGER = 1.15
_HEADING_CHARACTERS = 120
_TITLE_LINES = 3
_DEEPEST = 6
_NUMBERING = re.compile(
    r"\s*(?:(?:chapter|appendix|section|part|kapitel)\s+)?(?:[A-Z]|[IVX]+|\d{1,3})(?:\.\d{1,3})*[.:)]?\s+", re.IGNORECASE
)
_NUMBERED = re.compile(r"\s*(?:\d{1,2}|[A-Z])((?:\.\d{1,2})*)\.?\s+[^\W\d_a-z]")
_SILENT = re.compile(r"[\W_]+")
_PAGE_NUMBER = re.compile(
    r"\W*(?:(?:page|seite|p\.)\s*)?(?:[ivxlc]+|\d{1,4}|[A-Z]{1,2}-\d{1,3})(?:\s*(?:/|of|von|-)\s*\d{1,4})?\W*",
    re.IGNORECASE,
)


def find_margins(lines: Sequence[Line], pages: Sequence[Page]) -> frozenset[Line]:
    """Return the running headers, footers and page numbers among a document's lines.

    A line belongs to the margin when it stands in the outer tenth of its page, as the page's reader sees it, and is a page
    number, or stands there on several pages with nothing but numbers changed.
    """
    sheets = {page.page: page for page in pages}
    edge: dict[tuple[str, int], list[Line]] = defaultdict(list)
    margins: set[Line] = set()
    sizes = _sizes(lines)
    body = sizes.most_common(1)[0][0] if sizes else 0.0
    for line in lines:
        side = _edge_of(line.bbox, sheets[line.page])
        if side is None:
            continue
        if _PAGE_NUMBER.fullmatch(line.text.strip()):
            margins.add(line)
        elif line.size <= _LARGER * body + 0.5:
            edge[_pattern(line.text), side].append(line)
    least = max(_MARGIN_PAGES, len(pages) // 50)
    for repeated in edge.values():
        if len({line.page for line in repeated}) >= least:
            margins.update(repeated)
    return frozenset(margins)


def _sizes(lines: Sequence[Line]) -> Counter[float]:
    sizes: Counter[float] = Counter()
    for line in lines:
        sizes[line.size] += len(line.text)
    return sizes


def _pattern(text: str) -> str:
    return re.sub(r"\d+|\b[ivxlc]+\b", "#", " ".join(text.casefold().split()))


def _edge_of(box: BBox, page: Page) -> int | None:
    """Return at which end of its page a box stands, as the page is read: 0 the head, 1 the foot, None in between."""
    width, height = max(page.width_pt, 1.0), max(page.height_pt, 1.0)
    match page.rotation % 360:
        case 90:
            top, bottom = box.x0 / width, box.x1 / width
        case 180:
            top, bottom = 1 - box.y1 / height, 1 - box.y0 / height
        case 270:
            top, bottom = 1 - box.x1 / width, 1 - box.x0 / width
        case _:
            top, bottom = box.y0 / height, box.y1 / height
    if bottom <= _MARGIN_SHARE:
        return 0
    return 1 if top >= 1 - _MARGIN_SHARE else None


class Headings:
    """Knows which lines are headings: by the PDF's own outline, else by size, weight and numbering."""

    def __init__(self, lines: Sequence[Line], outline: Sequence[OutlineEntry]) -> None:
        self._outline = sorted(outline, key=lambda entry: entry.page)  # on one page its own order is that of the text
        sizes = _sizes(lines)
        self._body = sizes.most_common(1)[0][0] if sizes else 0.0
        self._found: set[OutlineEntry] = set()
        self._level: dict[Line, int] = self._by_outline(lines) if outline else self._by_look(lines, sizes)

    def is_heading(self, line: Line) -> bool:
        """Say whether a line is a heading, or a part of one."""
        return line in self._level

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
            title = _letters(entry.title)
            candidates: list[tuple[float, list[Line]]] = []
            page = on_page[entry.page] if title else []
            for start, (line, letters, alone) in enumerate(page):
                begins = letters and title.startswith((letters, alone))
                if not begins or line in levels or line.size < 0.9 * self._body:
                    continue
                found = _match(page[start : start + _TITLE_LINES], title)
                if found:
                    away = abs(line.bbox.y0 - entry.y) if entry.y is not None else 0.0
                    candidates.append((away - 10 * line.size, found))
            if candidates:
                self._found.add(entry)
                for line in min(candidates, key=lambda candidate: candidate[0])[1]:
                    levels[line] = min(_DEEPEST, entry.level)
        return levels

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


def _match(lines: Sequence[_Spelled], title: str) -> list[Line]:
    """Return the first lines that together say a title, with or without its number."""
    letters = ""
    for count, spelled in enumerate(lines, 1):
        letters += spelled.letters
        if letters.endswith(title):
            said = [line for line, *_ in lines[:count]]
            if letters == title or _bare(" ".join(line.text for line in said)) == title:
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


def _depth(text: str) -> int | None:
    """Return how deep a heading's own number says it stands; None for one without a number."""
    found = _NUMBERED.match(text)
    return found[1].count(".") + 1 if found else None
