"""The benchmark of pictures without a caption: its peer sorts as PyMuPDF does, and the tool's judgement is taken as it is."""

from pathlib import Path
from typing import Any

import pymupdf
import pytest

from bench.placement import judgement, sorted_pages

TOOL = """
import json, sys
def judge(pages, pdf):
    shown = [(page, figure["tag"]) for page in pages for figure in page["figures"] if figure["tag"]]
    return [("beside", page["page"], tag, page["tagged_text"].find(tag)) for page, tag in shown]
def main(found, folder):
    with open(found) as lines:
        print(sum(1 for line in lines))
main(*sys.argv[1:])
"""


@pytest.fixture
def pdf(tmp_path: Path) -> Path:
    document = pymupdf.open()
    page = document.new_page(width=300, height=300)
    for y, text in ((250, "lowest"), (50, "highest"), (150, "middle")):
        page.insert_text((20, y), text)
    page.set_rotation(90)
    document.save(tmp_path / "made.pdf")
    return tmp_path / "made.pdf"


def _page(*boxes: tuple[float, float, float, float]) -> dict[str, Any]:
    figures = [{"tag": f"<{number}>", "bbox": box} for number, box in enumerate(boxes)]
    return {"page": 1, "tagged_text": "", "figures": [*figures, {"tag": None, "bbox": (0, 0, 1, 1)}]}


def test_the_peer_sets_text_and_figures_by_their_lower_edge(pdf: Path) -> None:
    [page] = sorted_pages(pdf, [_page((100, 200, 150, 260), (100, 100, 150, 140))])
    assert page["tagged_text"].split() == ["highest", "<1>", "middle", "lowest", "<0>"]


def test_a_tool_that_is_a_script_is_asked_and_stays_silent(
    pdf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "beside.py").write_text(TOOL)
    judge = judgement(tmp_path / "beside.py")
    judged = judge([_page((0, 0, 9, 9)) | {"tagged_text": "words<0>"}, _page((0, 0, 9, 9))], pdf)
    assert [(one.way, one.tag, one.distance, one.right) for one in judged] == [("beside", "<0>", 5, True)]
    assert capsys.readouterr().out == ""


def test_a_missing_tool_is_named(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"beside\.py is not there"):
        judgement(tmp_path / "beside.py")
