"""Tables of scanned pages, by recognised words, rules in pixels and regions of a layout model."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from schemas.documents import (
    BlockKind,
    Figure,
    FoundBy,
    Kind,
    LayoutRegion,
    Line,
    Placement,
    RecognisedLine,
    RegionKind,
    Role,
    Segment,
    StructuredDocument,
)
from schemas.geometry import BBox, skewed
from tasks.reading.structure import structure
from tests.tasks.reading.pages import SCAN, kinds, of, scanned

ROWS = [["Part", "Torque", "Test"], ["Cover", "40", "12"], ["Bolt", "12", "9"], ["Seal", "7", "5"]]
LEFT, TOP, WIDTH, HEIGHT = 100, 200, 200, 40
BOX = BBox(LEFT, TOP, LEFT + 3 * WIDTH, TOP + 4 * HEIGHT)


def _words(rows: Sequence[Sequence[str]] = ROWS, height: int = HEIGHT, turn: int = 0) -> list[RecognisedLine]:
    return [
        RecognisedLine(
            BBox(
                LEFT + WIDTH * column + 20,
                TOP + height * row + 5,
                LEFT + WIDTH * column + 20 + 14 * len(text),
                TOP + height * row + 33,
            ),
            text,
            0.9,
            turn,
        )
        for row, cells in enumerate(rows)
        for column, text in enumerate(cells)
        if text
    ]


def _grid(rows: int = 4, columns: int = 3) -> list[BBox]:
    right, low = LEFT + WIDTH * columns, TOP + HEIGHT * rows
    across = [BBox(LEFT, TOP + HEIGHT * row, right, TOP + HEIGHT * row + 2) for row in range(rows + 1)]
    down = [BBox(LEFT + WIDTH * column, TOP, LEFT + WIDTH * column + 2, low) for column in range(columns + 1)]
    return across + down


def _segment(box: BBox, kind: RegionKind) -> Segment:
    return Segment(LayoutRegion(box, kind, 0.9), Figure("b" * 64, "1" * 40, 10, 10, "png"))


def _read(
    words: Sequence[RecognisedLine], segments: Sequence[Segment] = (), rules: Sequence[BBox] = ()
) -> StructuredDocument:
    return structure(scanned(), {SCAN: words}, {SCAN: segments}, {SCAN: rules})


def _rows(document: StructuredDocument) -> list[list[str]]:
    (table,) = of(document, BlockKind.TABLE)
    assert [part.found_by for part in table.parts] == [FoundBy.RECOGNISED]
    return list(map(list, table.rows))


@pytest.mark.parametrize("kind", [None, RegionKind.TABLE, RegionKind.FIGURE])
def test_a_ruled_table_of_a_scan_has_cells_whatever_the_layout_model_calls_it(kind: RegionKind | None) -> None:
    document = _read(_words(), [] if kind is None else [_segment(BOX.grown(20), kind)], _grid())
    assert _rows(document) == ROWS
    assert document.figures == (), "a table isn't a picture"


def test_a_table_of_a_layout_model_without_rules_has_cells_however_far_its_rows_are_apart() -> None:
    box = BBox(LEFT, TOP, LEFT + 3 * WIDTH, TOP + 4 * 120)
    document = _read(_words(height=120), [_segment(box, RegionKind.TABLE)])
    assert _rows(document) == ROWS
    assert document.figures == ()


def test_a_table_of_a_layout_model_without_columns_stays_a_picture() -> None:
    lines = [RecognisedLine(BBox(120, 210 + 35 * row, 640, 238 + 35 * row), "The pump is stopped", 0.9) for row in range(4)]
    document = _read(lines, [_segment(BOX, RegionKind.TABLE)])
    assert kinds(document) == [BlockKind.FIGURE]


def test_the_grid_of_a_chart_is_no_table() -> None:
    labels = [["40", "", ""], ["30", "", "Load"], ["20", "", ""], ["10", "a", ""]]
    document = _read(_words(labels), [_segment(BOX.grown(20), RegionKind.FIGURE)], _grid())
    assert kinds(document) == [BlockKind.FIGURE]


def test_a_figure_that_holds_more_than_a_table_stays() -> None:
    box = BBox(80, 180, 760, 700)
    words = [*_words(), RecognisedLine(BBox(200, 600, 300, 630), "Load", 0.9)]
    document = _read(words, [_segment(box, RegionKind.FIGURE)], _grid())
    assert _rows(document) == ROWS
    (figure,) = document.figures
    assert figure.inner_text == "Load"


def test_a_frame_around_a_table_is_no_row_and_no_column() -> None:
    frame = BOX.grown(30)
    rules = [
        *_grid(),
        BBox(frame.x0, frame.y0, frame.x1, frame.y0 + 2),
        BBox(frame.x0, frame.y1 - 2, frame.x1, frame.y1),
        BBox(frame.x0, frame.y0, frame.x0 + 2, frame.y1),
        BBox(frame.x1 - 2, frame.y0, frame.x1, frame.y1),
        BBox(frame.x0, TOP, frame.x1, TOP + 2),
    ]
    assert _rows(_read(_words(), rules=rules)) == ROWS


def test_the_words_of_a_box_over_two_columns_go_to_their_cells() -> None:
    words = [line for line in _words() if line.text not in ("Cover", "40")]
    words.append(RecognisedLine(BBox(LEFT + 20, TOP + 45, LEFT + WIDTH + 50, TOP + 73), "Cover         40", 0.9))
    assert _rows(_read(words, rules=_grid())) == ROWS


def test_a_table_of_a_scan_on_its_side_has_the_rows_of_its_reader() -> None:
    def turned(box: BBox) -> BBox:
        return BBox(800 - box.y1, box.x0, 800 - box.y0, box.x1)

    words = [RecognisedLine(turned(line.bbox), line.text, 0.9, 90) for line in _words()]
    assert _rows(_read(words, rules=[turned(rule) for rule in _grid()])) == ROWS
    assert _rows(_read(words, [_segment(turned(BOX), RegionKind.TABLE)])) == ROWS


@pytest.mark.parametrize("degrees", [3.0, -5.0])
@pytest.mark.parametrize("turn", [0, 90])
def test_a_table_of_a_skewed_scan_has_its_rows_and_is_where_the_scan_shows_it(degrees: float, turn: int) -> None:
    def shown(box: BBox) -> BBox:
        upright = BBox(800 - box.y1, box.x0, 800 - box.y0, box.x1) if turn else box
        return skewed(upright, degrees, (400, 600))

    words = [RecognisedLine(shown(line.bbox), line.text, 0.9, turn, degrees) for line in _words()]
    expected = BBox(*(side / 2 for side in shown(BOX)))
    ruled = _read(words, rules=[shown(rule) for rule in _grid()])
    for document in (ruled, _read(words, [_segment(shown(BOX), RegionKind.TABLE)])):
        assert _rows(document) == ROWS
        (table,) = of(document, BlockKind.TABLE)
        assert table.parts[0].bbox == table.bbox
        assert expected.grown(2).contains(table.bbox)
    assert of(ruled, BlockKind.TABLE)[0].bbox == pytest.approx(expected, abs=2)


def test_a_figure_of_a_skewed_scan_stays_between_its_lines_and_where_the_scan_shows_it() -> None:
    def shown(box: BBox) -> BBox:
        return skewed(box, 5.0, (400, 600))

    texts = {100: "Close the valve before the pump is stopped, then wait.", 900: "Open it again when the pump has started."}
    words = [RecognisedLine(shown(BBox(40, top, 760, top + 28)), text, 0.9, 0, 5.0) for top, text in texts.items()]
    figure = shown(BBox(60, 300, 740, 700))
    document = _read(words, [_segment(figure, RegionKind.FIGURE)])
    assert kinds(document) == [BlockKind.TEXT, BlockKind.FIGURE, BlockKind.TEXT]
    expected = pytest.approx([side / 2 for side in figure], abs=0.1)
    assert document.figures[0].placement.bbox == expected
    assert document.blocks[1].bbox == expected
    assert document.placements[0].bbox == BBox(0, 0, 400, 600), "the scan itself stays"


def test_the_hidden_words_of_a_skewed_scan_are_read_as_its_recognised_ones() -> None:
    """A hidden layer may hold level boxes, or boxes around slanted lines."""
    scan = scanned()
    rows = [["Part", "Torque"], ["Cover", "40"], ["Bolt", "12"], ["Seal", "7"]]
    boxes = {
        text: skewed(BBox(60 + 250 * column, 100 + 24 * row, 130 + 250 * column, 112 + 24 * row), 4.0, (200, 300))
        for row, cells in enumerate(rows)
        for column, text in enumerate(cells)
    }
    level = {
        text: BBox(box.x0, (box.y0 + box.y1) / 2 - 6, box.x1, (box.y0 + box.y1) / 2 + 6) for text, box in boxes.items()
    }
    stamp = RecognisedLine(skewed(BBox(100, 1000, 700, 1030), 4.0, (400, 600)), "Received in the archive", 0.9, 0, 4.0)
    box = skewed(BBox(100, 180, 700, 420), 4.0, (400, 600))
    for hidden in (boxes, level):
        lines = tuple(
            Line(1, number, box.rounded(), text, 10, bold=False) for number, (text, box) in enumerate(hidden.items())
        )
        document = structure(replace(scan, lines=lines), {SCAN: [stamp]}, {SCAN: [_segment(box, RegionKind.TABLE)]})
        assert _rows(document) == rows


def _with_picture(rows: Sequence[Sequence[str]] = ROWS, rotation: int = 0, caption: str = "") -> StructuredDocument:
    """Return a page with text, whose only picture is half as large as its pixels, and shows a table."""
    name = "c" * 64
    texts = {60: "The torques are those of a cold engine.", 420: "Tighten the screws crosswise."}
    if caption:
        texts[280] = caption
    lines = tuple(Line(1, top, BBox(40, top, 360, top + 12), text, 10, bold=False) for top, text in sorted(texts.items()))
    document = replace(
        scanned(rotation),
        lines=lines,
        figures=(Figure(name, "0" * 40, 800, 400, "png"),),
        placements=(Placement(1, 0, BBox(0, 75, 400, 275), name, Kind.RASTER, Role.CONTENT, "large"),),
    )
    return structure(document, {name: _words(rows)}, rules={name: _grid()}, tables={name: [BOX.grown(10)]})


def test_a_table_in_a_picture_follows_the_picture_which_keeps_its_place() -> None:
    found = _with_picture()
    assert _rows(found) == ROWS
    assert kinds(found) == [BlockKind.TEXT, BlockKind.FIGURE, BlockKind.TABLE, BlockKind.TEXT]
    (figure,) = found.figures
    assert figure.placement.bbox == BBox(0, 75, 400, 275)
    assert of(found, BlockKind.TABLE)[0].bbox == pytest.approx([50, 175, 351, 256], abs=1)


@pytest.mark.parametrize(
    ("caption", "expected"),
    [
        ("Figure 2: Torques", [BlockKind.TEXT, BlockKind.FIGURE, BlockKind.CAPTION, BlockKind.TABLE, BlockKind.TEXT]),
        ("Table 2: Torques", [BlockKind.TEXT, BlockKind.FIGURE, BlockKind.TABLE, BlockKind.TEXT]),
    ],
)
def test_a_caption_stays_with_the_picture_or_belongs_to_its_table(caption: str, expected: list[BlockKind]) -> None:
    found = _with_picture(caption=caption)
    assert kinds(found) == expected
    (table,) = of(found, BlockKind.TABLE)
    assert table.text.startswith(caption) == caption.startswith("Table")


def test_a_picture_with_few_words_in_its_cells_or_on_a_rotated_page_is_no_table() -> None:
    few = [["Part", "", "Test"], ["", "40", ""], ["", "", ""], ["Seal", "", "5"]]
    assert BlockKind.TABLE not in kinds(_with_picture(few))
    assert BlockKind.TABLE not in kinds(_with_picture(rotation=90))


def _hidden(cells: Sequence[tuple[float, float, str]]) -> tuple[Line, ...]:
    """Return lines of a hidden text layer, by their left and upper sides in points."""
    return tuple(Line(1, 0, BBox(x, y, x + 5 * len(text), y + 11), text, 10, bold=False) for x, y, text in cells)


TROUBLES = [
    (60, 105, "PROBLEM"),
    (180, 105, "CHECK"),
    *[
        (60, 130, "It doesn't"),
        (60, 142, "run"),
        (180, 130, "Is the plug"),
        (250, 130, "in its socket, and"),
        (180, 142, "the fuse whole?"),
    ],
    *[(60, 170, "It is loud"), (180, 170, "Is it level on the floor, far from"), (180, 182, "the wall?")],
    *[(60, 210, "It leaks"), (180, 210, "Is the filter in the right way round?")],
]


def test_rules_between_rows_alone_say_where_the_rows_of_a_scan_with_hidden_text_end() -> None:
    rules = [BBox(100, 2 * y, 740, 2 * y + 3) for y in (100, 124, 162, 204, 230)]
    scan = replace(scanned(role=Role.BACKGROUND), lines=_hidden(TROUBLES))
    document = structure(scan, {}, {SCAN: [_segment(BBox(100, 190, 750, 470), RegionKind.TABLE)]}, {SCAN: rules})
    assert _rows(document) == [
        ["PROBLEM", "CHECK"],
        ["It doesn't\nrun", "Is the plug in its socket, and\nthe fuse whole?"],
        ["It is loud", "Is it level on the floor, far from\nthe wall?"],
        ["It leaks", "Is the filter in the right way round?"],
    ]
    assert document.figures == ()


def test_a_note_below_the_last_rule_is_no_row() -> None:
    rules = [BBox(100, 2 * y, 740, 2 * y + 3) for y in (100, 124, 162, 204, 230)]
    note = (60, 235, "The plug and the fuse are not part of the delivery of the pump.")
    scan = replace(scanned(role=Role.BACKGROUND), lines=_hidden([*TROUBLES, note]))
    document = structure(scan, {}, {SCAN: [_segment(BBox(100, 190, 790, 510), RegionKind.TABLE)]}, {SCAN: rules})
    assert len(_rows(document)) == 4
    assert note[2] in [block.text for block in document.blocks]


def test_two_columns_of_prose_cut_at_their_words_are_no_table() -> None:
    words = "The pump is stopped before the valve".split()
    prose: list[tuple[float, float, str]] = []
    for row in range(8):
        first, second = " ".join(words[: 2 + row % 4]), " ".join(words[2 + row % 4 :])
        prose += [
            (x, 100 + 12 * row, text)
            for left_x in (10, 210)
            for x, text in ((left_x, first), (left_x + 5 * len(first) + 9, second))
        ]
    scan = replace(scanned(role=Role.BACKGROUND), lines=_hidden(prose))
    document = structure(scan, {}, {SCAN: [_segment(BBox(10, 190, 790, 410), RegionKind.TABLE)]})
    assert not of(document, BlockKind.TABLE)
