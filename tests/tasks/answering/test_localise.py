"""Where the figures of a hit stand."""

from schemas.evidence import CitedRegion
from tasks.answering.cite import localise

DOC, OTHER = "d1" * 32, "d2" * 32
FIGURE = "f1" * 32


def _placement(
    page: int, top: float, order: int, doc_id: str = DOC, figure_id: str = FIGURE, caption: str = ""
) -> dict[str, object]:
    bbox = [100.0, top, 200.0, top + 50]
    return {"doc_id": doc_id, "figure_id": figure_id, "number": "00000001", "page": page, "bbox": bbox} | {
        "order": order,
        "caption": caption,
    }


def _places(regions: list[tuple[int, float, float]], *placements: dict[str, object]) -> list[tuple[int, float]]:
    pieces = [CitedRegion(page=page, bbox=(50, top, 500, bottom)) for page, top, bottom in regions]
    return [(figure.page, figure.bbox[1]) for figure in localise([FIGURE], DOC, pieces, placements)]


def test_a_chunk_over_two_pages_shows_its_figure_on_the_second() -> None:
    assert _places([(3, 600, 800), (4, 50, 300)], _placement(4, 100, 7)) == [(4, 100)]


def test_a_figure_mentioned_from_afar_keeps_its_own_page() -> None:
    assert _places([(3, 600, 800)], _placement(12, 100, 40)) == [(12, 100)]


def test_of_several_placements_the_one_inside_the_piece_counts_then_the_nearest_page_then_the_first() -> None:
    twice = [_placement(3, 100, 1), _placement(3, 650, 2), _placement(9, 650, 3)]
    assert _places([(3, 600, 800)], *twice) == [(3, 650)]
    assert _places([(8, 600, 800)], *twice) == [(9, 650)]
    assert _places([(3, 300, 400)], *twice) == [(3, 100)]


def test_the_same_figure_in_another_document_is_another_place() -> None:
    assert _places([(3, 600, 800)], _placement(3, 650, 1, doc_id=OTHER), _placement(5, 100, 9)) == [(5, 100)]
    assert _places([(3, 600, 800)], _placement(3, 650, 1, doc_id=OTHER)) == []


def test_a_caption_beats_none() -> None:
    rows = [_placement(3, 650, 1), _placement(9, 100, 2, caption="Figure 1: Panel")]
    regions = [CitedRegion(page=3, bbox=(50, 600, 500, 800))]
    (located,) = localise([FIGURE], DOC, regions, rows)
    assert (located.page, located.caption) == (3, "Figure 1: Panel")
