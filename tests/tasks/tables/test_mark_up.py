"""Tables as Markdown and HTML, whole and page by page."""

from dataclasses import replace
from html.parser import HTMLParser

from schemas.documents import Block, BlockKind, FoundBy, Region, TablePart
from schemas.geometry import BBox
from schemas.tags import TagTemplate, escape, fill, placeholder, placeholders
from tasks.tables.mark_up import as_html, caption_of, markdown, regions_of, text_on

FIGURE = "cd" * 32
FIRST, SECOND = BBox(72, 600, 472, 760), BBox(72, 80, 472, 200)
ROWS = (("Sign", placeholder(FIGURE)), ("a", "1"), ("b", "2"), ("c", "3"))
TABLE = Block(
    order=3,
    page=1,
    kind=BlockKind.TABLE,
    bbox=BBox(72, 580, 472, 760),
    text=f"Table 1: Signs\n{markdown(ROWS)}",
    rows=ROWS,
    parts=(TablePart(1, FIRST, 2, FoundBy.RULED), TablePart(2, SECOND, 2, FoundBy.RULED)),
)


class _Cells(HTMLParser):
    """Collects the text of each cell."""

    def __init__(self) -> None:
        super().__init__()
        self.cells: list[list[str]] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag == "tr":
            self.cells.append([])
        elif tag in {"th", "td"}:
            self.cells[-1].append("")
        elif tag == "br":
            self.cells[-1][-1] += "\n"

    def handle_data(self, data: str) -> None:
        if self.cells:
            self.cells[-1][-1] += data


def _cells(html: str) -> list[list[str]]:
    parser = _Cells()
    parser.feed(html)
    parser.close()
    return parser.cells


def test_html_gives_back_every_cell_whatever_is_written_in_it() -> None:
    rows = [["Name", "a < b & c"], ["<script>alert(1)</script>", "one\ntwo"], ["&amp;", '"quoted" | piped']]
    html = as_html(rows, "Table 1: <b>")
    assert html.startswith("<table><caption>Table 1: &lt;b&gt;</caption><thead><tr><th>Name</th>")
    assert _cells(html) == [["Name", "a < b & c"], ["<script>alert(1)</script>", "one\ntwo"], ["&amp;", '"quoted" | piped']]


def test_a_picture_keeps_its_tag_in_its_cell_and_a_look_alike_becomes_none() -> None:
    html = as_html([["Sign", "Means"], [placeholder(FIGURE), escape("<image:11111111.png>")]])
    filled = fill(html, lambda name: "<image:00000042.png>")
    assert "<td><image:00000042.png></td>" in filled
    assert TagTemplate().numbers(filled) == ["00000042"]


def test_html_has_no_control_characters() -> None:
    assert as_html([["a\x00b"], ["c\x1b"]]).count("\ufffd") == 2


def test_rows_of_different_lengths_are_filled_up() -> None:
    assert markdown([["a"], ["b", "c"]]).splitlines() == ["| a |  |", "| --- | --- |", "| b | c |"]
    assert _cells(as_html([["a"], ["b", "c"]])) == [["a", ""], ["b", "c"]]


def test_each_page_shows_its_own_rows_of_a_table_and_each_tag_once() -> None:
    assert text_on(TABLE, 1).splitlines() == [
        "Table 1: Signs",
        f"| Sign | {placeholder(FIGURE)} |",
        "| --- | --- |",
        "| a | 1 |",
    ]
    assert text_on(TABLE, 2).splitlines() == ["| Sign |  |", "| --- | --- |", "| b | 2 |", "| c | 3 |"]
    assert text_on(TABLE, 3) == ""
    assert placeholders(text_on(TABLE, 1) + text_on(TABLE, 2)) == [FIGURE]


def test_a_block_of_one_page_is_on_that_page_alone() -> None:
    block = Block(order=0, page=4, kind=BlockKind.TEXT, bbox=FIRST, text="Stop.")
    assert [text_on(block, page) for page in (3, 4, 5)] == ["", "Stop.", ""]


def test_rows_have_their_regions() -> None:
    assert regions_of(TABLE, range(4)) == (Region(1, TABLE.bbox), Region(2, SECOND))
    assert regions_of(TABLE, range(1, 2)) == (Region(1, TABLE.bbox),)
    assert regions_of(TABLE, range(3, 4)) == (Region(2, SECOND),)


def test_a_table_without_a_caption_has_none() -> None:
    assert caption_of(TABLE) == "Table 1: Signs"
    assert caption_of(replace(TABLE, text=f"|x| by y\n{markdown(ROWS)}")) == "|x| by y"
    assert caption_of(Block(order=0, page=1, kind=BlockKind.TABLE, bbox=FIRST, text=markdown(ROWS), rows=ROWS)) == ""
