"""Write a table as Markdown and as HTML."""

import html
import re
from collections.abc import Sequence

from schemas.documents import Block, Region
from schemas.tags import restore, strip

Rows = Sequence[Sequence[str]]

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def markdown(rows: Rows) -> str:
    """Return a table as Markdown with its first row as the header, one line a row, white space collapsed."""
    header, *body = [[flat(cell).replace("|", "\\|") for cell in row] for row in _even(rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (header, ["---"] * len(header), *body))


def flat(cell: str) -> str:
    """Return a cell on one line, white space collapsed."""
    return " ".join(cell.split())


def as_html(rows: Rows, caption: str = "") -> str:
    """Return a table as HTML with its first row as the header; the document's words are escaped, placeholders are kept."""
    header, *body = [[escaped(cell).replace("\n", "<br>") for cell in row] for row in _even(rows)]
    named = f"<caption>{escaped(caption)}</caption>" if caption else ""
    head = f"<thead>{_row(header, 'th')}</thead>"
    return f"<table>{named}{head}<tbody>{''.join(_row(row, 'td') for row in body)}</tbody></table>"


def caption_of(table: Block) -> str:
    """Return a table's caption, the line above its Markdown; "" where it has none."""
    first, *others = table.text.split("\n")
    return first if len(others) > len(table.rows) else ""  # Markdown has a line a row, and one under the header


def rows_on(table: Block, page: int) -> list[list[str]]:
    """Return the rows of a table on a page, below its header; [] for none.

    The header's pictures are on the page where the table begins.
    """
    start = 0
    for part in table.parts:
        own = [list(row) for row in table.rows[start : start + part.rows]]
        if part.page == page:
            return [[strip(cell) for cell in table.rows[0]], *own] if start else own
        start += part.rows
    return []


def text_on(block: Block, page: int) -> str:
    """Return a block's text on a page; "" for none. Each page of a continued table has its own rows."""
    if len(block.parts) < 2 or not (rows := rows_on(block, page)):
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


def _row(cells: Sequence[str], element: str) -> str:
    return f"<tr>{''.join(f'<{element}>{cell}</{element}>' for cell in cells)}</tr>"


def escaped(text: str) -> str:
    """Return a document's words as HTML text; placeholders, in private-use characters, are kept."""
    return html.escape(_CONTROL.sub("\ufffd", restore(text)), quote=False)
