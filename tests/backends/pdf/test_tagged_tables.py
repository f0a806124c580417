"""The tags of a PDF tell a table where neither rules nor a layout model do."""

from backends.conversion.printing import print_pdf
from backends.pdf.document import open_document
from schemas.corpus import ParseOptions
from schemas.documents import ParsedDocument
from tasks.reading.parse import parse

PAGE = """<html><head><style>td, th { border: none; padding: 1pt 9pt 1pt 0; vertical-align: top }
@page { @bottom-center { content: counter(page) } }</style></head><body><h1>Valves</h1><p>The valves are below.</p>
<table><tr><th>Name</th><th>Opens</th><th>Remark</th></tr>
<tr><td>Valve 1</td><td>at 8 bar</td><td>At the inlet, behind the filter of the pump, where the operator reaches it from the
platform without a ladder</td></tr>
<tr><td>Valve 2</td><td></td><td>Never opened by hand</td></tr>
<tr><td>Valve 3</td><td>at 12 bar</td><td></td></tr>{more}</table><p>Grease them each spring.</p></body></html>"""


def _read(page: str) -> ParsedDocument:
    pdf = print_pdf(page, "valves.html", {})
    return parse(
        open_document(pdf, []),
        "0" * 64,
        ParseOptions(layout="every_page"),
        keep_figure=lambda _name, _picture: None,
        opened=lambda _pages: None,
    )


def test_a_table_without_rules_and_with_empty_cells_is_read() -> None:
    (table,) = _read(PAGE.replace("{more}", "")).tables
    names = [" ".join(row[0].split()) for row in table.rows]
    assert names == ["Name", "Valve 1", "Valve 2", "Valve 3"]
    assert (table.rows[2][1], table.rows[3][2]) == ("", "")
    assert table.rows[1][2].split()[-1] == "ladder"


def test_a_cell_over_several_columns_is_left_to_other_evidence() -> None:
    wide = "<tr><td colspan=3>All valves open at once where the pressure of the inlet is above 16 bar</td></tr>"
    tables = _read(PAGE.replace("{more}", wide)).tables
    assert not any("All valves" in cell and len(cell) < 40 for table in tables for row in table.rows for cell in row), (
        "the cell isn't cut at the edges of the columns"
    )


def test_paragraphs_laid_out_in_a_table_without_a_head_are_none() -> None:
    prose = "Close the valve at the inlet before the filter is cleaned, and open it slowly when the pump runs again. " * 4
    row = f"<tr><td>{prose}</td><td>{prose}</td></tr>"
    page = f"<style>td {{ border: none; padding-right: 20pt }}</style><table>{row}{row}</table>"
    assert _read(page).tables == ()
