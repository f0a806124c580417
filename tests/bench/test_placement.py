"""The benchmark of pictures without a caption: its peer sorts as PyMuPDF does, and the tool's judgement is taken as it is."""

from pathlib import Path
from typing import Any

import pymupdf
import pytest

from bench.placement import distances, judgement, judgement_by_occurrence, sorted_pages

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
TOOL_OF_LINES = """
def distance(text, tag, lines):
    raise AssertionError("the first occurrence only")
def judge(pages, pdf):
    near = {"<image:1.png>": ["Pressstart"], "<image:2.png>": ["unseen"]}
    return [
        ("beside", page["page"], figure["tag"], distance(page["tagged_text"], figure["tag"], near[figure["tag"]]))
        for page in pages
        for figure in page["figures"]
        if figure["tag"]
    ]
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
    assert [
        (judged_figure.way, judged_figure.tag, judged_figure.distance, judged_figure.right) for judged_figure in judged
    ] == [("beside", "<0>", 5, True)]
    assert capsys.readouterr().out == ""


def test_a_missing_tool_is_named(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"beside\.py is not there"):
        judgement(tmp_path / "beside.py")


def test_each_occurrence_of_a_symbol_serves_one_picture(pdf: Path, tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text(TOOL_OF_LINES)
    judge = judgement_by_occurrence(tmp_path / "beside.py")
    far = "x" * 60
    text = f"<image:1.png>{far}Pressstart<image:1.png>{far}<image:2.png>"
    figures = [{"tag": f"<image:{number}.png>"} for number in (1, 1, 1, 2)]
    judged = judge([{"page": 1, "tagged_text": text, "figures": figures}], pdf)
    assert sorted((judged_figure.tag, judged_figure.right, judged_figure.distance or 0) for judged_figure in judged) == [
        ("<image:1.png>", False, 0),
        ("<image:1.png>", False, 60),
        ("<image:1.png>", True, 0),
    ]


def test_of_lines_that_occur_twice_the_nearest_counts_and_other_tags_and_lines_are_no_distance() -> None:
    text = "a" * 9 + "....<image:1.png><image:2.png>" + "b" * 9 + ".." + "a" * 9
    assert distances(text, "<image:1.png>", ["a" * 9]) == [4]
    assert distances(text, "<image:1.png>", ["b" * 9]) == [0]
    assert distances(text + "...<image:2.png>", "<image:2.png>", ["a" * 9]) == [4, 3]
    assert distances(text, "<image:3.png>", ["a" * 9]) == []
    assert distances(text, "<image:1.png>", ["c" * 9]) is None
