"""Figures cut out of pictures of pages."""

import io
from dataclasses import replace

import pytest
from PIL import Image as Pillow

from schemas.documents import (
    BlockKind,
    Figure,
    Kind,
    LayoutRegion,
    Line,
    Placement,
    RecognisedLine,
    RegionKind,
    Role,
    Segment,
)
from schemas.geometry import BBox
from schemas.tags import placeholders
from tasks.figures.segment import cut, pictures_to_segment, pictures_with_tables, tables_in, with_segments
from tasks.reading.structure import structure
from tests.tasks.reading.pages import SCAN, scanned

RED, WHITE = (200, 0, 0), (255, 255, 255)


def _png(boxes: list[tuple[int, int, int, int]], size: tuple[int, int] = (800, 1200)) -> bytes:
    image = Pillow.new("RGB", size, WHITE)
    for box in boxes:
        image.paste(RED, box)
    sink = io.BytesIO()
    image.save(sink, "PNG")
    return sink.getvalue()


def _region(*box: float, score: float = 0.9, kind: RegionKind = RegionKind.FIGURE) -> LayoutRegion:
    return LayoutRegion(BBox(*box), kind, score)


def _segment(*box: float) -> Segment:
    return Segment(_region(*box), Figure("b" * 64, "1" * 40, 10, 10, "png"))


def test_a_figure_is_cut_in_the_pixels_of_its_page() -> None:
    figure_files: dict[str, bytes] = {}
    (segment,) = cut(_png([(100, 200, 500, 600)]), [_region(99.6, 200.3, 499.8, 600.4)], figure_files.__setitem__)
    assert segment.region.bbox == BBox(100, 200, 500, 600)
    assert (segment.figure.width, segment.figure.height) == (400, 400)
    (data,) = figure_files.values()
    assert Pillow.open(io.BytesIO(data)).getcolors() == [(160_000, RED)]
    assert list(figure_files) == [f"{segment.figure.figure_id}.png"]


def test_the_like_of_a_sure_figure_beside_it_is_one_too() -> None:
    portrait, neighbour = (100, 100, 300, 400), (420, 105, 615, 395)
    lower, larger = (420, 500, 615, 790), (420, 105, 780, 395)
    sure = _region(*portrait)
    picture = _png([portrait, neighbour])

    def found(box: tuple[int, int, int, int], kind: RegionKind = RegionKind.FIGURE) -> int:
        return len(cut(picture, [sure, _region(*box, score=0.12, kind=kind)], lambda _name, _data: None))

    assert found(neighbour) == 2
    assert [found(lower), found(larger), found(neighbour, RegionKind.WORDS)] == [1, 1, 1]


def test_what_is_seen_twice_is_cut_once_and_the_surer_one_counts() -> None:
    regions = [_region(100, 200, 500, 600, score=0.9), _region(150, 250, 450, 550, score=0.5)]
    assert [segment.region.score for segment in cut(_png([]), regions, lambda *_: None)] == [0.9]


def test_a_figure_that_fills_the_page_counts_where_it_is_the_only_one() -> None:
    page, part = _region(5, 5, 790, 1195, score=0.9), _region(100, 200, 500, 600, score=0.4)
    assert [segment.region.bbox for segment in cut(_png([]), [page], lambda *_: None)] == [page.bbox]
    assert [segment.region.bbox for segment in cut(_png([]), [page, part], lambda *_: None)] == [part.bbox]


LEFT, RIGHT = (120, 220, 380, 400), (430, 220, 680, 400)


@pytest.mark.parametrize(
    ("drawn", "parts", "expected"),
    [
        ([LEFT, RIGHT], [_region(*LEFT, score=0.2), _region(*RIGHT, score=0.1)], [LEFT, RIGHT]),
        ([LEFT, RIGHT], [_region(*LEFT, score=0.4, kind=RegionKind.WORDS), _region(*RIGHT, score=0.1)], [RIGHT]),
        # A label of a chart isn't part beside it.
        (
            [LEFT, RIGHT],
            [
                _region(200, 380, 300, 395, score=0.5, kind=RegionKind.WORDS),
                _region(*LEFT, score=0.2),
                _region(*RIGHT, score=0.1),
            ],
            [LEFT, RIGHT],
        ),
        # A part that is blank is none.
        ([LEFT], [_region(*LEFT, score=0.2), _region(*RIGHT, score=0.1)], [LEFT]),
        # What is left out is not blank; nothing but words is left; words are a guess; what is shown fills the box.
        ([LEFT, RIGHT], [_region(*LEFT, score=0.2)], [(100, 200, 700, 600)]),
        ([LEFT], [_region(*LEFT, score=0.6, kind=RegionKind.WORDS)], [(100, 200, 700, 600)]),
        (
            [LEFT, RIGHT],
            [_region(*LEFT, score=0.2, kind=RegionKind.WORDS), _region(*RIGHT, score=0.1)],
            [(100, 200, 700, 600)],
        ),
        ([(100, 200, 700, 600)], [_region(*LEFT, score=0.2), _region(*RIGHT, score=0.1)], [(100, 200, 700, 600)]),
    ],
)
def test_a_box_around_two_charts_or_a_chart_and_words_beside_it_falls_into_its_parts(
    drawn: list[tuple[int, int, int, int]], parts: list[LayoutRegion], expected: list[tuple[int, ...]]
) -> None:
    regions = sorted([_region(100, 200, 700, 600, score=0.8), *parts], key=lambda region: -region.score)
    pieces = cut(_png(drawn), regions, lambda *_: None)
    assert [segment.region.bbox for segment in pieces] == [BBox(*box) for box in expected]


def test_what_is_unlikely_or_words_is_no_figure_by_itself() -> None:
    regions = [_region(*LEFT, score=0.9, kind=RegionKind.WORDS), _region(*RIGHT, score=0.2)]
    assert cut(_png([LEFT, RIGHT]), regions, lambda *_: None) == []


@pytest.mark.parametrize(("role", "figures"), [(Role.PAGE_SCAN, 1), (Role.BACKGROUND, 0)])
def test_a_slide_is_a_figure_and_keeps_its_text_and_the_background_of_text_is_none(role: Role, figures: int) -> None:
    (scan,) = scanned().placements
    lines = (Line(1, 0, BBox(60, 150, 240, 160), "Sales by region", 10, bold=False),)
    document = replace(scanned(), lines=lines, placements=(replace(scan, role=role),))
    structured_document = structure(document, {}, {SCAN: [_segment(5, 5, 790, 1195)]})
    assert len(structured_document.figures) == figures
    assert [block.text for block in structured_document.blocks if block.kind is not BlockKind.FIGURE] == ["Sales by region"]


@pytest.mark.parametrize("box", [(100, 100, 130, 700), (10, 10, 60, 60), (900, 100, 1200, 500)])
def test_specks_are_no_figures(box: tuple[int, ...]) -> None:
    assert cut(_png([]), [_region(*box)], lambda *_: None) == []


def test_scans_and_pictures_behind_text_are_examined() -> None:
    document = scanned()
    (scan,) = document.placements
    behind = Placement(2, 1, scan.bbox, "c" * 64, Kind.SCAN, Role.BACKGROUND, "covers the page, which has 99 words")
    unkept = Placement(3, 2, scan.bbox, None, Kind.SCAN, Role.BACKGROUND, "covers the page, which has 99 words")
    placement = Placement(3, 3, BBox(0, 0, 99, 99), "d" * 64, Kind.RASTER, Role.CONTENT, "stands by itself")
    assert pictures_to_segment((scan, behind, unkept, placement)) == [SCAN, "c" * 64]


@pytest.mark.parametrize(
    ("rotation", "bbox"),
    [
        (0, BBox(50, 100, 250, 300)),
        (90, BBox(100, 350, 300, 550)),
        (180, BBox(150, 300, 350, 500)),
        (270, BBox(100, 50, 300, 250)),
    ],
)
def test_a_segment_is_placed_on_the_unrotated_page(rotation: int, bbox: BBox) -> None:
    parsed = with_segments(scanned(rotation), {SCAN: [_segment(100, 200, 500, 600)]})
    placement = parsed.placements[1]
    assert (placement.bbox, placement.order, placement.role, placement.kind) == (bbox, 1, Role.CONTENT, Kind.SCAN)
    assert placement.figure_id in {figure.figure_id for figure in parsed.figures}


def test_what_the_parse_found_itself_goes_first() -> None:
    (scan,) = scanned().placements
    placement = Placement(1, 1, BBox(60, 110, 240, 290), "d" * 64, Kind.VECTOR, Role.CONTENT, "has a caption")
    document = replace(scanned(), placements=(scan, placement))
    assert with_segments(document, {SCAN: [_segment(100, 200, 500, 600)]}).placements == document.placements


def test_a_figure_of_a_scan_has_its_caption_its_words_and_its_place_in_the_text() -> None:
    lines = [
        RecognisedLine(BBox(100, 80, 700, 110), "The pump is stopped before the valve is opened.", 0.9),
        RecognisedLine(BBox(200, 300, 300, 330), "Inlet", 0.9),
        RecognisedLine(BBox(100, 620, 400, 650), "Figure 4: The pump from above", 0.9),
        RecognisedLine(BBox(100, 800, 700, 830), "As Figure 4 shows, it has two valves.", 0.9),
    ]
    structured_document = structure(scanned(), {SCAN: lines}, {SCAN: [_segment(100, 200, 500, 600)]})
    assert [block.kind for block in structured_document.blocks] == [
        BlockKind.TEXT,
        BlockKind.FIGURE,
        BlockKind.CAPTION,
        BlockKind.TEXT,
    ]
    (figure,) = structured_document.figures
    assert (figure.caption, figure.inner_text) == ("Figure 4: The pump from above", "Inlet")
    assert placeholders(structured_document.blocks[1].text) == ["b" * 64]
    assert structured_document.blocks[3].mentions == ("b" * 64,)
    assert [placement.role for placement in structured_document.placements] == [Role.PAGE_SCAN, Role.CONTENT]


def test_hidden_words_behind_a_figure_of_a_scan_are_its_words_and_a_paragraph_half_in_it_stays_text() -> None:
    def line(block: int, top: float, text: str) -> Line:
        return Line(1, block, BBox(60, top, 240, top + 10), text, 10, bold=False)

    lines = (line(0, 150, "Outlet"), line(1, 290, "The pump is stopped"), line(1, 305, "before it is opened."))
    structured_document = structure(replace(scanned(), lines=lines), {}, {SCAN: [_segment(100, 200, 500, 600)]})
    assert [figure.inner_text for figure in structured_document.figures] == ["Outlet"]
    assert [block.text for block in structured_document.blocks if block.kind is BlockKind.TEXT] == [
        "The pump is stopped before it is opened."
    ]


def test_a_segment_of_running_text_is_text() -> None:
    lines = [
        RecognisedLine(
            BBox(110, 200 + 34 * row, 490, 230 + 34 * row), f"{row} the valve is opened before the pump is started.", 0.9
        )
        for row in range(12)
    ]
    structured_document = structure(scanned(), {SCAN: lines}, {SCAN: [_segment(100, 190, 500, 610)]})
    assert [block.kind for block in structured_document.blocks] == [BlockKind.TEXT]
    assert structured_document.figures == ()


def test_pictures_of_pages_with_text_are_searched_for_tables_but_small_and_drawn_ones() -> None:
    box = BBox(50, 100, 250, 300)
    placement = Placement(1, 1, box, "c" * 64, Kind.RASTER, Role.CONTENT, "large")
    others = (
        replace(placement, figure_id="d" * 64, bbox=BBox(50, 100, 250, 140)),
        replace(placement, figure_id="e" * 64, kind=Kind.VECTOR),
        replace(placement, figure_id="f" * 64, role=Role.DECORATIVE),
        replace(placement, figure_id=None),
        replace(placement, figure_id=SCAN),
    )
    assert pictures_with_tables((*scanned().placements, placement, *others)) == ["c" * 64]


def test_a_picture_shows_a_table_where_the_model_is_sure_and_sees_no_figure_and_most_is_white() -> None:
    def found(kind: RegionKind, score: float) -> LayoutRegion:
        return LayoutRegion(BBox(20, 20, 780, 500), kind, score)

    table = found(RegionKind.TABLE, 0.9)
    white, window = _png([(20, 20, 780, 40)]), _png([(0, 0, 800, 1000)])
    assert tables_in(white, [found(RegionKind.WORDS, 0.95), table, found(RegionKind.FIGURE, 0.5)]) == [table.bbox]
    assert tables_in(window, [table]) == []
    assert tables_in(white, [found(RegionKind.FIGURE, 0.95), table]) == []
    assert tables_in(white, [found(RegionKind.TABLE, 0.6)]) == []
    assert tables_in(white, []) == []
