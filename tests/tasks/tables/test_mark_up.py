"""Tables as Markdown and HTML, whole and page by page."""

from dataclasses import replace
from html.parser import HTMLParser

from schemas.documents import Block, BlockKind, CellSpan, FoundBy, Region, TableOnPage
from schemas.geometry import BBox
from schemas.tags import TagTemplate, escape, fill, placeholder, placeholders
from tasks.tables.mark_up import (
    MOST_HEAD_ROWS,
    as_html,
    caption_of,
    head_rows,
    markdown,
    regions_of,
    spans_in,
    text_on_page,
)

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
    parts=(TableOnPage(1, FIRST, 2, FoundBy.RULED), TableOnPage(2, SECOND, 2, FoundBy.RULED)),
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
    assert text_on_page(TABLE, 1).splitlines() == [
        "Table 1: Signs",
        f"| Sign | {placeholder(FIGURE)} |",
        "| --- | --- |",
        "| a | 1 |",
    ]
    assert text_on_page(TABLE, 2).splitlines() == ["| Sign |  |", "| --- | --- |", "| b | 2 |", "| c | 3 |"]
    assert text_on_page(TABLE, 3) == ""
    assert placeholders(text_on_page(TABLE, 1) + text_on_page(TABLE, 2)) == [FIGURE]


def test_a_block_of_one_page_is_on_that_page_alone() -> None:
    block = Block(order=0, page=4, kind=BlockKind.TEXT, bbox=FIRST, text="Stop.")
    assert [text_on_page(block, page) for page in (3, 4, 5)] == ["", "Stop.", ""]


def test_rows_have_their_regions() -> None:
    assert regions_of(TABLE, range(4)) == (Region(1, TABLE.bbox), Region(2, SECOND))
    assert regions_of(TABLE, range(1, 2)) == (Region(1, TABLE.bbox),)
    assert regions_of(TABLE, range(3, 4)) == (Region(2, SECOND),)


def test_a_table_without_a_caption_has_none() -> None:
    assert caption_of(TABLE) == "Table 1: Signs"
    assert caption_of(replace(TABLE, text=f"|x| by y\n{markdown(ROWS)}")) == "|x| by y"
    assert caption_of(Block(order=0, page=1, kind=BlockKind.TABLE, bbox=FIRST, text=markdown(ROWS), rows=ROWS)) == ""


GROUPED = (("Load", "Torque", ""), ("", "cold", "hot"), ("Cover", "40", "44"), ("", "41", "45"))
SPANS = (CellSpan(0, 0, 2, 1), CellSpan(0, 1, 1, 2), CellSpan(2, 0, 2, 1))


def test_cells_over_several_columns_and_rows_say_so_in_html() -> None:
    assert as_html(GROUPED, spans=SPANS) == (
        '<table><thead><tr><th rowspan="2">Load</th><th colspan="2">Torque</th></tr><tr><th>cold</th><th>hot</th></tr></thead>'
        '<tbody><tr><td rowspan="2">Cover</td><td>40</td><td>44</td></tr><tr><td>41</td><td>45</td></tr></tbody></table>'
    )


def test_the_header_goes_on_below_each_row_with_a_cell_over_several_columns() -> None:
    assert head_rows(GROUPED, SPANS) == 2
    assert head_rows(GROUPED, ()) == 1
    assert head_rows(GROUPED, (CellSpan(2, 0, 2, 1), CellSpan(2, 1, 1, 2))) == 1
    assert head_rows(GROUPED[:1], SPANS) == 1
    assert head_rows([["title", ""]] * 9, [CellSpan(row, 0, 1, 2) for row in range(9)]) == MOST_HEAD_ROWS


def test_spans_of_a_part_end_where_it_is_cut() -> None:
    assert spans_in(SPANS, [0, 1, 3]) == SPANS[:2]
    assert spans_in(SPANS, [0, 1, 2]) == SPANS[:2]
    assert spans_in((CellSpan(1, 0, 3, 1),), [0, 1, 2]) == (CellSpan(1, 0, 2, 1),)
    assert spans_in((CellSpan(1, 0, 1, 2),), [0, 1, 1]) == ()


def test_a_page_of_a_continued_table_has_all_rows_of_its_header() -> None:
    parts = (TableOnPage(1, FIRST, 3, FoundBy.RULED), TableOnPage(2, SECOND, 1, FoundBy.RULED))
    table = replace(TABLE, rows=GROUPED, spans=SPANS, parts=parts)
    assert text_on_page(table, 2) == markdown([*GROUPED[:2], GROUPED[3]])
