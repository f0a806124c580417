"""Write docs/reference/tables.md, hard tables beside what Inset makes of them: ``python -m bench.tables_page``."""

import random
from pathlib import Path

from backends.pdf.document import open_document
from schemas.corpus import ParseOptions
from tasks.reading.parse import parse
from tasks.reading.structure import structure
from tasks.tables.mark_up import as_html
from tests.synthetic.hard_tables import STYLES

_DOCS = Path(__file__).parent.parent / "docs"
_SHOWN = [style for style in STYLES if style not in {"rules at head and end", "rotated, rules at head and end"}]
_SEED = 1
_DPI = 90
_MARGIN_PT = 8
_MOST_ROWS = 14
"""Rows shown of a long table."""
_HEAD = """# Tables

What Inset makes of ten tables that are hard to read. The PDFs are synthetic (`tests/synthetic/hard_tables.py`): a test holds the
cells of each style. `python -m bench.tables_page` writes this page.

- A cell over several columns or rows says so: `colspan` and `rowspan` in HTML, `spans` (row, column, rowspan, colspan, counted
  from 0) in `inset parse --json` and the [HTTP API](http-api.md). In Markdown and in `rows` its text is in the first of the cells
  that it covers, the others are empty.
- The header is the first row, and one more for each row of it with a cell over several columns. Each chunk of a table that is
  split has all of it.
- A table over pages is one; a header that is repeated there is left out.
- Spans are those of rules that are left out, and of words that lie across the gutter between columns. A label for several rows of
  a table without rules is in the first of them.
- Tables of scanned pages are read by the same steps ([decision 19](../decisions/0019-tables-on-scanned-pages.md)); words are
  those of OCR. Scans may be skewed by up to 6°.
- `inset export --tables` writes each table [to a file](cli.md).
"""


def main() -> None:
    """Write the page and its pictures."""
    parts = [_HEAD]
    for number, style in enumerate(_SHOWN, 1):
        made = STYLES[style](random.Random(_SEED))
        parsed = parse(open_document(made.pdf), "m", ParseOptions(), keep_figure=lambda _name, _data: None)
        tables = [block for block in structure(parsed, {}).blocks if block.rows]
        picture = _DOCS / "images" / f"table-{number:02}.png"
        _draw(made.pdf, [tuple(table.parts[0].bbox) for table in tables], picture)
        parts += [f"## {number}. {style.capitalize()}\n", f"![{style}](../images/{picture.name})\n"]
        for table in tables:
            parts.append(f"{as_html(table.rows[:_MOST_ROWS], spans=table.spans)}\n")
            if len(table.rows) > _MOST_ROWS:
                pages = len(table.parts)
                parts.append(f"… and {len(table.rows) - _MOST_ROWS} more rows, of {pages} pages.\n")
    (_DOCS / "reference" / "tables.md").write_text("\n".join(parts), encoding="utf-8")


def _draw(pdf: bytes, boxes: list[tuple[float, ...]], file: Path) -> None:
    """Draw the part of the first page that holds tables."""
    import pymupdf

    lefts, tops, rights, bottoms = zip(*boxes, strict=True)
    clip = (min(lefts) - _MARGIN_PT, min(tops) - _MARGIN_PT, max(rights) + _MARGIN_PT, max(bottoms) + _MARGIN_PT)
    with pymupdf.open(stream=pdf) as document:
        document[0].get_pixmap(dpi=_DPI, clip=clip, colorspace=pymupdf.csGRAY).save(file)


if __name__ == "__main__":
    main()
