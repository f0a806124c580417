"""Manuals in HTML, read as sections and rows."""

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

ROW_WORDS = 150
"""Words of a row at most, as in Inset's."""

VOID = {"area", "base", "br", "col", "hr", "img", "input", "link", "meta", "source", "wbr"}
SKIPPED = {"script", "style", "head", "nav", "form", "header", "footer", "select", "button"}
NAVIGATION = re.compile(r"nav|toc|sidebar|footer|header|related|breadcrumb|menu\b|search|contents", re.IGNORECASE)
INDEX_PAGE = re.compile(r"genindex|bookindex|theindex|^ix\d+|-Index\b|^index-|doc_index")
BLOCKS = {
    "p",
    "li",
    "dt",
    "dd",
    "pre",
    "caption",
    "figcaption",
    "tr",
    "blockquote",
    "div",
    "td",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
}
NUMBERING = re.compile(
    r"^(?:(?:chapter|appendix|section|part)\s+)?(?:[\dA-Z]{1,2}(?:\.\d+)*)[.:)]?\s*[-–—]?\s+(?=\S)|[¶§#]\s*$", re.IGNORECASE
)


@dataclass
class Section:
    """A heading with its text: the kind of each block is its HTML element."""

    path: tuple[str, ...]
    page: str
    blocks: list[tuple[str, str]] = field(default_factory=list)


class Manual(HTMLParser):
    """Pages of one manual: sections in order, where anchors are, and links."""

    def __init__(self) -> None:
        super().__init__()
        self.sections: list[Section] = []
        self.anchors: dict[str, tuple[int, int]] = {}
        self.links: list[tuple[str, str, str, str]] = []  # page, target, its words, the words before it in its block

    def read(self, page: str, html: str) -> None:
        """Read a page; ``page`` is its path."""
        self.reset()
        self._page, self._titles = page, dict[int, str]()
        self._open: list[str] = []
        self._skipped: int | None = None
        self._words: list[str] = []
        self._cells: set[str] = set()
        self._link: tuple[str, int] | None = None
        self.sections.append(Section((), page))
        self._anchor("")
        self.feed(html)
        self._flush()

    def _anchor(self, name: str) -> None:
        self.anchors.setdefault(f"{self._page}#{name}", (len(self.sections) - 1, len(self.sections[-1].blocks)))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open an element."""
        values = {name: value or "" for name, value in attrs}
        if tag in VOID:
            self._words.append(" ")
            return
        if tag in BLOCKS and not (tag in ("p", "div", "td", "li") and "tr" in self._open and tag != "tr"):
            self._flush()
        self._open.append(tag)
        if self._skipped is None and (
            tag in SKIPPED
            or (
                tag in ("div", "ul", "table", "td", "p")
                and NAVIGATION.search(f"{values.get('class', '')} {values.get('id', '')[:12]}")
            )
        ):
            self._skipped = len(self._open)
        for name in {values.get("id"), values.get("name") if tag == "a" else None} - {None, ""}:
            self._pending = str(name)
            self._anchor(str(name))
        if tag == "a" and values.get("href") and self._skipped is None:
            self._link = (values["href"], len(self._words))
        if tag in ("td", "th"):
            self._cells.add(tag)
            self._words.append(" | ")

    def handle_endtag(self, tag: str) -> None:
        """Close an element, and those in it that were left open."""
        if tag not in self._open:
            return
        if tag == "a" and self._link is not None:
            target, start = self._link
            words, before = spaced("".join(self._words[start:])), spaced("".join(self._words[:start]))
            self.links.append((self._page, target, words, before))
            self._link = None
        if tag in BLOCKS and not (tag in ("p", "div", "td", "li") and "tr" in self._open):
            self._flush()
        while self._open.pop() != tag:
            pass
        if self._skipped is not None and len(self._open) < self._skipped:
            self._skipped = None

    def handle_data(self, data: str) -> None:
        """Add words."""
        if self._skipped is None:
            self._words.append(data)

    def _flush(self) -> None:
        text, self._words, self._link = spaced("".join(self._words)).strip("| "), [], None
        cells, self._cells = self._cells, set()
        if not text:
            return
        kind = next((tag for tag in reversed(self._open) if tag in BLOCKS and tag not in ("div", "td")), "p")
        kind = "th" if kind == "tr" and cells == {"th"} else kind
        if re.fullmatch(r"h\d", kind):
            level = int(kind[1])
            self._titles = {n: title for n, title in self._titles.items() if n < level} | {level: NUMBERING.sub("", text)}
            moved = [
                name for name, at in self.anchors.items() if at == (len(self.sections) - 1, len(self.sections[-1].blocks))
            ]
            self.sections.append(Section(tuple(self._titles[n] for n in sorted(self._titles)), self._page))
            self.anchors.update({name: (len(self.sections) - 1, 0) for name in moved[-4:] if not name.endswith("#")})
        else:
            self.sections[-1].blocks.append((kind, text))


def spaced(text: str) -> str:
    """Return words with one space between them."""
    return " ".join(text.replace("¶", " ").split())


@dataclass(frozen=True)
class Row:
    """Consecutive blocks of a section, as Inset's rows are."""

    section: int
    path: tuple[str, ...]
    blocks: tuple[tuple[str, str], ...]
    first: int = 0

    @property
    def text(self) -> str:
        """The words."""
        return " ".join(text for _, text in self.blocks)


def rows_of(manual: Manual) -> list[Row]:
    """Return the rows of a manual."""
    rows: list[Row] = []
    for number, section in enumerate(manual.sections):
        if INDEX_PAGE.search(section.page.rpartition("/")[2]):
            continue
        held: list[tuple[str, str]] = []
        first = 0
        for place, block in enumerate([*section.blocks, ("", "")]):
            if held and (not block[0] or sum(len(text.split()) for _, text in [*held, block]) > ROW_WORDS):
                rows.append(Row(number, section.path, tuple(held), first))
                held, first = [], place
            held.append((block[0], " ".join(block[1].split()[: ROW_WORDS * 2])))
    return [row for row in rows if len(row.text.split()) >= 8]
