"""The benchmark of tables: what it reads with each tool, and what it takes from the scorer."""

import argparse
import json
import random
from collections.abc import Callable
from pathlib import Path

import pymupdf
import pytest

from bench.tables import (
    Pages,
    figures_of,
    inset_pages,
    moved,
    pymupdf4llm_pages,
    recognised_pages,
    scores_of,
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
    assert [region["found_by"] for region in table["regions"]] == ["recognised"]
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
        assert neighbours_f1(table["rows"], synthetic.tables[0].rows) >= 0.95
        assert table["bbox"] == pytest.approx(list(pymupdf.Rect(straight["bbox"]) * matrix), abs=8)


@pytest.mark.slow
def test_a_table_in_a_picture_on_a_page_with_text_has_its_cells_and_the_picture_stays(tmp_path: Path) -> None:
    synthetic, pdf = STYLES["grouped, ruled, labels over rows"](random.Random(1)), tmp_path / "manual.pdf"
    (true,) = synthetic.tables
    with pymupdf.open(stream=synthetic.pdf) as document:
        drawn = document[0].get_pixmap(dpi=150, clip=(60, 150, 535, 170 + 15 * len(true.rows))).tobytes("png")
    with pymupdf.open() as document:
        page = document.new_page()
        page.insert_textbox((72, 60, 500, 120), "The screws are tightened crosswise, and once more after a day. " * 3)
        page.insert_image((72, 150, 522, 168 + 14.2 * len(true.rows)), stream=drawn)
        document.save(pdf)
    (page,) = recognised_pages(pdf)
    (table,), (figure,) = page["tables"], page["figures"]
    assert neighbours_f1(table["rows"], true.rows) >= 0.95
    assert [region["found_by"] for region in table["regions"]] == ["recognised"]
    before, _, after = page["tagged_text"].partition(figure["tag"])
    assert "crosswise" in before
    assert "| Part |" in after


def test_true_tables_are_moved_to_where_the_skewed_pages_show_them(pdf: Path) -> None:
    truth = pdf.with_name("truth.jsonl")
    table = {"doc": "manual", "regions": [{"page": 1, "bbox": [72, 100, 272, 172]}], "cells": []}
    truth.write_text(json.dumps(table) + "\n")
    scan = pdf.with_name("scan.pdf")
    matrices = write_pictures(pdf, scan, 100, 5)
    (line,) = moved(truth, {"manual": matrices})
    (region,) = json.loads(line)["regions"]
    with pymupdf.open(scan) as document:
        pixels = document[0].get_pixmap(dpi=72, colorspace=pymupdf.csGRAY)
        inked = [(x, y) for y in range(pixels.height) for x in range(pixels.width) if pixels.pixel(x, y)[0] < 200]
    xs, ys = zip(*inked, strict=True)
    assert region["bbox"] == pytest.approx([min(xs), min(ys), max(xs), max(ys)], abs=2)
    assert region["bbox"][3] - region["bbox"][1] > 72 + 10, "the box is around the slanted table"


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
