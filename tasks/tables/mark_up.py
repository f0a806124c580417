"""Write a table as Markdown and as HTML, and a block's text on a page."""

import html
import re
from collections.abc import Sequence
from itertools import takewhile

from schemas.documents import Block, BlockKind, CellSpan, Region
from schemas.tags import restore, strip
from schemas.text import fenced

Rows = Sequence[Sequence[str]]

MOST_HEAD_ROWS = 4
"""Maximum rows of a header."""
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def markdown(rows: Rows) -> str:
    """Return a table as Markdown with its first row as the header, one line a row, white space collapsed."""
    header, *body = [[on_one_line(cell).replace("|", "\\|") for cell in row] for row in _even(rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, ["---"] * len(header), *body))


def on_one_line(cell: str) -> str:
    """Return a cell on one line, white space collapsed."""
    return " ".join(cell.split())


def as_html(rows: Rows, caption: str = "", spans: Sequence[CellSpan] = ()) -> str:
    """Return a table as HTML with its header in ``thead``; the document's words are escaped, placeholders are kept."""
    heads = head_rows(rows, spans)
    wide = {(span.row, span.column): span for span in spans}
    covered = {covered_cell for span in spans for covered_cell in _places(span)[1:]}
    lines = [
        "".join(
            _cell(escaped(cell).replace("\n", "<br>"), "th" if number < heads else "td", wide.get((number, column)))
            for column, cell in enumerate(row)
            if (number, column) not in covered
        )
        for number, row in enumerate(_even(rows))
    ]
    caption_html = f"<caption>{escaped(caption)}</caption>" if caption else ""
    head, body = ("".join(f"<tr>{line}</tr>" for line in part) for part in (lines[:heads], lines[heads:]))
    return f"<table>{caption_html}<thead>{head}</thead><tbody>{body}</tbody></table>"


def head_rows(rows: Rows, spans: Sequence[CellSpan]) -> int:
    """Return how many rows are the header: the first, and one more for each in it with a cell over several columns."""
    grouped = {span.row for span in spans if span.colspan > 1}
    most_rows = min(MOST_HEAD_ROWS, len(rows) - 1)
    return max(1, min(most_rows, 1 + sum(1 for _ in takewhile(grouped.__contains__, range(most_rows)))))


def spans_in(spans: Sequence[CellSpan], numbers: Sequence[int]) -> tuple[CellSpan, ...]:
    """Return the spans of a part of a table, given the number of each of its rows; a row in two pieces has none."""
    part_spans: list[CellSpan] = []
    for span in spans:
        if numbers.count(span.row) != 1:
            continue
        row = numbers.index(span.row)
        rows = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(numbers[row:], _rows_of(span), strict=False)))
        if rows > 1 or span.colspan > 1:
            part_spans.append(CellSpan(row, span.column, rows, span.colspan))
    return tuple(part_spans)


def _rows_of(span: CellSpan) -> range:
    return range(span.row, span.row + span.rowspan)


def _places(span: CellSpan) -> list[tuple[int, int]]:
    return [(row, column) for row in _rows_of(span) for column in range(span.column, span.column + span.colspan)]


def caption_of(table: Block) -> str:
    """Return a table's caption, the line above its Markdown; "" if it has none."""
    first, *markdown_lines = table.text.split("\n")
    return first if len(markdown_lines) > len(table.rows) else ""  # Markdown has a line a row, and one under the header


def rows_on_page(table: Block, page: int) -> list[list[str]]:
    """Return the rows of a table on a page, below its header; [] for none.

    The header's pictures are on the page where the table begins.
    """
    numbers = row_numbers_on_page(table, page)
    again = 0 if page == table.page else head_rows(table.rows, table.spans)
    return [
        [strip(cell) for cell in table.rows[number]] if at < again else list(table.rows[number])
        for at, number in enumerate(numbers)
    ]


def row_numbers_on_page(table: Block, page: int) -> list[int]:
    """Return the numbers of a table's rows on a page, its header's first; [] for none."""
    start = 0
    for part in table.parts:
        if part.page == page:
            heads = range(head_rows(table.rows, table.spans) if start else 0)
            return [*heads, *range(start, start + part.rows)]
        start += part.rows
    return []


def text_on_page(block: Block, page: int) -> str:
    """Return a block's text on a page; "" for none. Code is fenced; each page of a continued table has its own rows."""
    if block.kind is BlockKind.CODE:
        return fenced(block.text) if block.page == page else ""
    if len(block.parts) < 2 or not (rows := rows_on_page(block, page)):
        return block.text if block.page == page else ""
    return "\n".join(filter(None, (caption_of(block) if block.page == page else "", markdown(rows))))


def regions_of(table: Block, rows: range) -> tuple[Region, ...]:
    """Return the regions of some of a table's rows; the first row's includes the caption."""
    regions: list[Region] = []
    start = 0
    for part in table.parts:
        if start < rows.stop and rows.start < start + part.rows:
            regions.append(Region(part.page, table.bbox if start == 0 else part.bbox))
        start += part.rows
    return tuple(regions) or (Region(table.page, table.bbox),)


def _even(rows: Rows) -> list[list[str]]:
    width = max(map(len, rows))
    return [[*row, *[""] * (width - len(row))] for row in rows]


def _cell(content: str, element: str, span: CellSpan | None) -> str:
    sizes = {} if span is None else {"rowspan": span.rowspan, "colspan": span.colspan}
    over = "".join(f' {name}="{size}"' for name, size in sizes.items() if size > 1)
    return f"<{element}{over}>{content}</{element}>"


def escaped(text: str) -> str:
    """Return a document's words as HTML text; placeholders, in private-use characters, are kept."""
    return html.escape(_CONTROL.sub("\ufffd", restore(text)), quote=False)
