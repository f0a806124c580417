"""The benchmark of tables: what it reads with each tool, and what it takes from the scorer."""

import argparse
from collections.abc import Callable
from pathlib import Path

import pymupdf
import pytest

from bench.tables import Pages, figures_of, inset_pages, pymupdf4llm_pages, scores_of

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


def test_the_scorer_runs_as_a_program_of_its_own(pdf: Path) -> None:
    scorer = pdf.with_name("scorer.py")
    scorer.write_text(SCORER)
    figures, _ = scores_of(inset_pages, argparse.Namespace(pdfs=pdf.parent, truth=pdf, scorer=scorer))
    assert figures["perfect"] == 1
    assert figures["neighbours"] == 0.875
    assert figures["below half"] == 0


def test_a_scorer_that_prints_something_else_is_one_clear_line() -> None:
    with pytest.raises(SystemExit, match=r"no below half, neighbours, perfect: 'tables 3 false 0'"):
        figures_of("tables 3 false 0\n")
