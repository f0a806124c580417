"""What the benchmark of answers counts as a cited region, and as a procedure shown whole."""

from bench.answers import Region, Shown, box_f1, shows_procedure
from schemas.geometry import BBox

PAGE = "folder/manual.pdf"


def _shown(text: str = "", boxes: list[Region] | None = None, figures: list[Region] | None = None) -> Shown:
    return Shown(False, 0, figures or [], [], 0.0, boxes=boxes or [], text=text)


def test_f1_compares_the_areas_of_cited_boxes_and_gold_regions() -> None:
    question = {"doc": "manual.pdf", "regions": [{"page": 2, "bbox": [0, 0, 60, 60]}]}
    half: Region = (PAGE, 2, BBox(0, 0, 60, 30))
    assert box_f1(_shown(boxes=[(PAGE, 2, BBox(0, 0, 60, 60))]), question) == 1.0
    assert box_f1(_shown(boxes=[half, half]), question) == 2 * 50 / 150
    assert box_f1(_shown(boxes=[(PAGE, 3, BBox(0, 0, 60, 60))]), question) == 0.0
    assert box_f1(_shown(), question) == 0.0


def test_a_procedure_is_whole_with_all_steps_in_order_and_each_figure() -> None:
    question = {
        "doc": "manual.pdf",
        "steps": ["Open the valve", "Close it"],
        "figures": [{"page": 1, "bbox": [0, 0, 9, 9]}],
    }
    figures: list[Region] = [(PAGE, 1, BBox(0, 0, 9, 9))]
    assert shows_procedure(_shown("1. Open the valve. 2. Close it.", figures=figures), question)
    assert not shows_procedure(_shown("2. Close it. 1. Open the valve.", figures=figures), question)
    assert not shows_procedure(_shown("1. Open the valve.", figures=figures), question)
    assert not shows_procedure(_shown("1. Open the valve. 2. Close it."), question)
