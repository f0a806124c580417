"""Tags in a tagged PDF, beside the paper's own way of setting them: ``python -m bench.tagged_pdf [FILE.pdf] [--json]``.

The peer is the overlay of "RAG Beyond Text": ``insert_textbox`` at each figure's bbox, 11 pt, in the paper's spelling, which
is ours here as well. Words are those of the tagged pages, as often as they stand there. Tables are those that ``find_tables``
finds on the tagged pages of the original; one is torn where its cells, tags taken out, say anything else in the copy.
"""

import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from backends.pdf.document import open_document
from backends.pdf.inscribe import Inscription, inscribe
from bench.table import Row, show
from schemas.corpus.parse import ParseOptions
from schemas.documents import TAGGED
from schemas.ids import sha256
from schemas.tags import PAPER, TagTemplate
from tasks.reading.parse import parse
from tasks.versions.tag import number_figures

if TYPE_CHECKING:
    import pymupdf

EXAMPLE = Path(__file__).parent.parent / "examples" / "manuals" / "pdfs" / "linuxcnc-user-excerpt.pdf"
TEMPLATE = TagTemplate(PAPER)

Cells = list[list[str]]


@dataclass(frozen=True)
class Measured:
    """What became of a document's tags, words and tables in a copy."""

    tags: int
    verbatim: int
    words_lost: int
    tables_torn: int
    seconds: float
    size: int


def main() -> None:
    """Tag one PDF in both ways and print what is left of tags, words and tables."""
    named = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    path = Path(named[0]) if named else EXAMPLE
    data = path.read_bytes()
    tags = _tags(data)
    tables = {number: _tables(page) for number, page in _pages(data, tags)}
    ours, naive = (_measured(data, tags, way, tables) for way in (inscribe, _overlay))
    wanted, held = len(tags), sum(map(len, tables.values()))
    peer = "insert_textbox"
    rows = [
        Row("tags that can be read back", "tags", ours.tags, naive.tags, peer, f"all {wanted}"),
        Row("tags verbatim", "tags", ours.verbatim, naive.verbatim, peer, f"all {wanted}"),
        Row("words lost", "words", ours.words_lost, naive.words_lost, peer, "0"),
        Row("tables torn", "tables", ours.tables_torn, naive.tables_torn, peer, f"0 of {held}"),
        Row("time", "s", ours.seconds, naive.seconds, peer),
        Row("growth", "%", 100 * (ours.size / len(data) - 1), 100 * (naive.size / len(data) - 1), peer),
    ]
    show(f"tagged PDF of {path.name}, {len(tables)} pages with tags", rows)


def _tags(data: bytes) -> list[Inscription]:
    parsed = parse(open_document(data), sha256(data), ParseOptions(), keep_figure=lambda _name, _data: None)
    placed = [(place, place.figure_id) for place in parsed.placements if place.role in TAGGED and place.figure_id]
    named = {figure_id for _, figure_id in placed}
    numbers = number_figures(
        {figure.figure_id: int(figure.sha1, 16) for figure in parsed.figures if figure.figure_id in named}
    )
    return [Inscription(place.page, place.bbox, TEMPLATE.write(numbers[figure_id])) for place, figure_id in placed]


def _overlay(data: bytes, tags: Sequence[Inscription]) -> bytes:
    import pymupdf

    document = pymupdf.open(stream=data, filetype="pdf")
    for item in tags:
        document[item.page - 1].insert_textbox(tuple(item.bbox), item.tag, fontsize=11)
    return bytes(document.tobytes(no_new_id=True))


def _pages(data: bytes, tags: Sequence[Inscription]) -> list[tuple[int, "pymupdf.Page"]]:
    import pymupdf

    document = pymupdf.open(stream=data, filetype="pdf")
    return [(number, document[number - 1]) for number in sorted({item.page for item in tags})]


def _measured(
    data: bytes,
    tags: Sequence[Inscription],
    way: Callable[[bytes, Sequence[Inscription]], bytes],
    tables: dict[int, list[Cells]],
) -> Measured:
    began = time.monotonic()
    copy = way(data, tags)
    seconds = time.monotonic() - began
    read = verbatim = lost = torn = 0
    for (number, before), (_, after) in zip(_pages(data, tags), _pages(copy, tags), strict=True):
        text = after.get_text()
        wanted = Counter(item.tag for item in tags if item.page == number)
        numbers = Counter(number for tag in wanted.elements() for number in TEMPLATE.numbers(tag))
        read += (Counter(TEMPLATE.numbers(text)) & numbers).total()
        verbatim += sum(min(times, text.count(tag)) for tag, times in wanted.items())
        lost += (_words(before) - _words(after)).total()
        found = _tables(after)
        torn += sum(table not in found for table in tables[number])
    return Measured(read, verbatim, lost, torn, seconds, len(copy))


def _words(page: "pymupdf.Page") -> Counter[str]:
    return Counter(word[4] for word in page.get_text("words"))


def _tables(page: "pymupdf.Page") -> list[Cells]:
    found = page.find_tables(use_layout=False).tables
    return [[[_untagged(cell or "") for cell in row] for row in table.extract()] for table in found]


def _untagged(cell: str) -> str:
    return " ".join("".join(words for words, number in TEMPLATE.split(cell) if number is None).split())


if __name__ == "__main__":
    main()
