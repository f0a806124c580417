"""The benchmark of tables: what it reads with each tool, and what it takes from the scorer."""

import random
from collections.abc import Callable
from pathlib import Path

import pymupdf
import pytest

from bench.tables import (
    Pages,
    inset_pages,
    pymupdf4llm_pages,
    recognised_pages,
    write_pictures,
)
from tests.synthetic.hard_tables import STYLES, neighbours_f1

SCORER = """
import json, sys
found = [json.loads(line) for line in open(sys.argv[2])]
perfect = sum(table["rows"][1] == ["Cover", "40"] for one in found for page in one["pages"] for table in page["tables"])
print("worst: none")
print(f"tables 1 found 1 false 0 cells 1.000 neighbours 0.875 perfect {perfect} below half 0")
"""


@pytest.fixture
def pdf(tmp_path: Path) -> Path:
    document = pymupdf.open()
    page = document.new_page()
    for row, cells in enumerate((("Name", "Torque"), ("Cover", "40"), ("Bolt", "12"))):
        for column, text in enumerate(cells):
            box = pymupdf.Rect(72 + 100 * column, 100 + 24 * row, 172 + 100 * column, 124 + 24 * row)
            page.draw_rect(box)
            page.insert_text((box.x0 + 6, box.y0 + 16), text, fontsize=10)
    document.save(tmp_path / "manual.pdf")
    return tmp_path / "manual.pdf"


@pytest.mark.parametrize("read", [inset_pages, pymupdf4llm_pages])
def test_each_tool_gives_the_rows_of_its_tables(read: Callable[[Path], Pages], pdf: Path) -> None:
    (page,) = read(pdf)
    (table,) = page["tables"]
    assert [[cell.strip() for cell in row] for row in table["rows"]] == [
        ["Name", "Torque"],
        ["Cover", "40"],
        ["Bolt", "12"],
    ]


@pytest.mark.slow
def test_pages_as_pictures_give_the_rows_of_their_tables_by_ocr(pdf: Path) -> None:
    scan = pdf.with_name("scan.pdf")
    write_pictures(pdf, scan, dpi=150)
    with pymupdf.open(scan) as document:
        assert document[0].get_text() == ""
    (pdf_page,), (page,) = inset_pages(pdf), recognised_pages(scan)
    (expected,), (table,) = pdf_page["tables"], page["tables"]
    assert table["rows"] == expected["rows"]
    assert table["bbox"] == pytest.approx(expected["bbox"], abs=3)


def test_a_rotated_page_as_a_picture_is_rotated_as_well(pdf: Path) -> None:
    with pymupdf.open(pdf) as document:
        document[0].set_rotation(90)
        document.saveIncr()
        displayed = document[0].get_pixmap(dpi=72)
    scan = pdf.with_name("scan.pdf")
    write_pictures(pdf, scan, dpi=72)
    with pymupdf.open(scan) as document:
        assert document[0].rotation == 90
        drawn = document[0].get_pixmap(dpi=72)
    assert (drawn.width, drawn.height) == (displayed.width, displayed.height)
    differences = [
        abs(drawn_sample - displayed_sample)
        for drawn_sample, displayed_sample in zip(drawn.samples, displayed.samples, strict=True)
    ]
    assert sum(differences) < len(differences), "less than a level on the mean"


@pytest.mark.slow
@pytest.mark.parametrize("skew", [3.0, -5.0])
def test_a_skewed_synthetic_table_as_a_picture_has_its_cells(tmp_path: Path, skew: float) -> None:
    for style in ("grouped, ruled, labels over rows", "rules between rows"):
        synthetic = STYLES[style](random.Random(1))
        pdf, scan = tmp_path / "hard.pdf", tmp_path / "scan.pdf"
        pdf.write_bytes(synthetic.pdf)
        ((matrix, *_), (pdf_page, *_)) = write_pictures(pdf, scan, 150, skew), inset_pages(pdf)
        (page,) = recognised_pages(scan)
        (table,), (straight,) = page["tables"], pdf_page["tables"]
        assert neighbours_f1(table["rows"], synthetic.tables[0].rows) >= 0.93
        assert table["bbox"] == pytest.approx(list(pymupdf.Rect(straight["bbox"]) * matrix), abs=8)
