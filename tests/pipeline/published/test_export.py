"""A version's tables written out, a file each."""

from pathlib import Path

import pyarrow.parquet as pq
import pymupdf
import pytest

from pipeline.corpus.workspace import open_workspace
from pipeline.published.export import TABLES, export_tables
from pipeline.run import refresh
from schemas.errors import UserError
from tests.tasks.reading.pages import draw_table

ROWS = [["Torque", "Result"], ["40 Nm", "(1,234)"], ["12.5 Nm", "7"], ["3 Nm", "0.5"]]


def test_tables_have_a_file_each_whose_columns_are_named_by_headers(corpus_file: Path, tmp_path: Path) -> None:
    document = pymupdf.open()
    page = document.new_page()
    page.insert_text((72, 120), "Table 1: Torques", fontsize=9)
    draw_table(page, ROWS, 130)
    document.save(corpus_file.parent.parent / "pdfs" / "torque table.pdf")
    workspace = open_workspace(str(corpus_file))
    version = refresh(workspace).version
    folder = tmp_path / "out" / "tables"
    exported = export_tables(workspace, folder)
    listed = pq.read_table(folder / "tables.parquet")
    assert listed.schema.equals(TABLES)
    assert (exported.version, exported.tables) == (version, listed.num_rows)
    assert {path.name for path in folder.iterdir()} == {*listed.column("file").to_pylist(), "tables.parquet"}
    (row,) = [row for row in listed.to_pylist() if row["sources"] == ["torque table.pdf"]]
    assert (row["page"], row["caption"], row["rows"], row["columns"]) == (1, "Table 1: Torques", 3, 2)
    table = pq.read_table(folder / row["file"])
    assert table.to_pydict() == {
        "Torque": ["40 Nm", "12.5 Nm", "3 Nm"],
        "Result": ["(1,234)", "7", "0.5"],
    }
    rights = "access: {table: access.csv}\nfields: {unit: {}}\nmetadata: {table: fields.csv}\n"
    corpus_file.write_text(corpus_file.read_text() + rights)
    (corpus_file.parent / "access.csv").write_text("source,principals\n*,everyone\ntorque*,group:service\n")
    (corpus_file.parent / "fields.csv").write_text("source,unit\ntorque*,Nm\n")
    limited = open_workspace(str(corpus_file))
    refresh(limited)
    for principals, units in ((frozenset[str](), []), (frozenset({"group:service"}), [["Nm"]])):
        export_tables(limited, tmp_path / f"of {len(principals)}", principals=principals)
        of_reader = pq.read_table(tmp_path / f"of {len(principals)}" / "tables.parquet")
        shown = [row["field_unit"] for row in of_reader.to_pylist() if row["sources"] == ["torque table.pdf"]]
        assert shown == units
    with pytest.raises(UserError, match="isn't empty"):
        export_tables(workspace, folder)
    export_tables(workspace, tmp_path / "csv", csv=True)
    csv_text = (tmp_path / "csv" / row["file"].replace(".parquet", ".csv")).read_text("utf-8")
    assert csv_text.splitlines()[:2] == ['"Torque","Result"', '"40 Nm","(1,234)"']
