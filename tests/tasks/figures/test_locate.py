"""What counts as one picture, by geometry alone: charts without a caption, and boxes that are the page's layout."""

from collections.abc import Sequence
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from schemas.documents import Kind, Line
from schemas.drawings import Image, Mark
from schemas.geometry import BBox
from tasks.figures.locate import Located, locate

PAGE = BBox(0, 0, 612, 792)
SIZE = 10.0


def _line(x0: float, y0: float, text: str, *, block: int | None = None) -> Line:
    number = round(1000 * y0 + x0) if block is None else block
    return Line(1, number, BBox(x0, y0, x0 + 0.5 * SIZE * len(text), y0 + SIZE), text, SIZE, bold=False)


def _box(x0: float, y0: float, x1: float, y1: float, *, frame: BBox | None = None) -> Mark:
    return Mark(BBox(x0, y0, x1, y1), strokes=0, filled=True, white=False, frame=frame)


def _rule(x0: float, x1: float, y: float, frame: BBox | None = None) -> Mark:
    return _box(x0, y, x1, y + 0.5, frame=frame)


def _located(
    marks: Sequence[Mark], lines: Sequence[Line], frames: Sequence[BBox] = (), images: Sequence[Image] = ()
) -> Located:
    return locate(PAGE, images, marks, frames, lines)


def _boxes(located: Located) -> list[BBox]:
    return [region.bbox for region in located.regions]


def _bars(left: float = 150, top: float = 200, values: Sequence[int] = (90, 41, 26, 12)) -> tuple[list[Mark], list[Line]]:
    """Draw bars that lie, from ``left``, a value at the end of each."""
    marks = [_box(left, top + 24 * row, left + 2 * value, top + 24 * row + 14) for row, value in enumerate(values)]
    return marks, [_line(left + 2 * value - 16, top + 24 * row + 2, f"{value}%") for row, value in enumerate(values)]


def test_bars_with_their_values_are_a_picture_without_a_caption() -> None:
    marks, lines = _bars()
    (box,) = _boxes(_located(marks, lines))
    assert box.iou(BBox(150, 200, 330, 286)) > 0.9


def test_bars_that_stand_are_a_picture_too() -> None:
    heights = (40, 90, 65, 20)
    marks = [_box(150 + 40 * place, 300 - height, 170 + 40 * place, 300) for place, height in enumerate(heights)]
    lines = [_line(155 + 40 * place, 290 - height, str(height)) for place, height in enumerate(heights)]
    assert len(_boxes(_located(marks, lines))) == 1


def test_shares_of_a_whole_in_one_bar_after_the_other_are_a_picture() -> None:
    ends = ((150, 236, 294, 336), (150, 190, 260, 336))
    marks = [_box(x0, 200 + 30 * row, x1, 220 + 30 * row) for row, xs in enumerate(ends) for x0, x1 in pairwise(xs)]
    lines = [_line(xs[0] + 10, 205 + 30 * row, "43%") for row, xs in enumerate(ends)]
    assert len(_boxes(_located(marks, lines))) == 1


def test_boxes_without_values_and_the_grounds_of_words_are_no_bars() -> None:
    marks, _ = _bars()
    words = [_line(mark.bbox.x0, mark.bbox.y0 + 2, "w" * int(mark.bbox.width / 5)) for mark in marks]
    values = [_line(340, 202, "12"), _line(340, 226, "13")]
    assert _boxes(_located(marks, [])) == []
    assert _boxes(_located(marks, [*words, *values])) == []


def test_the_shaded_rows_of_a_table_are_no_picture() -> None:
    cells = [_box(x, 200 + 12 * row, x + 100, 212 + 12 * row) for row in range(0, 8, 2) for x in (100, 200, 300)]
    lines = [_line(x + 60, 201 + 12 * row, f"{row}1.4") for row in range(8) for x in (100, 200, 300)]
    rules = [_rule(200, 400, 199), _rule(200, 400, 284)]
    assert _located([*cells, *rules], lines).regions == ()


def _text_box() -> tuple[BBox, list[Line]]:
    """Return a box of the layout, and the title and source that stand in it."""
    box = BBox(100, 150, 500, 420)
    return box, [_line(110, 160, "Most say that it went well"), _line(110, 400, "Source: Survey of 2015")]


def test_charts_beside_each_other_in_one_text_box_are_one_picture() -> None:
    frame, words = _text_box()
    (left, one), (right, two) = _bars(120, 200), _bars(325, 200, (70, 50, 30, 11))
    rules = [_rule(100, 500, 150, frame), _rule(100, 500, 419, frame)]
    lines = [*words, *one, *two]
    (both,) = _boxes(_located([*left, *right, *rules], lines, [frame]))
    assert both.iou(BBox(120, 200, 465, 286)) > 0.8
    assert len(_boxes(_located([*left, *right], lines))) == 2


def test_pictures_in_a_text_box_are_one_without_its_title_and_source() -> None:
    frame, lines = _text_box()
    images = [Image(n, n, BBox(x, 200, x + 180, 380), 360, 360, (180, 0, 0, 180)) for n, x in enumerate((110, 305))]
    rules = [_rule(100, 500, 150, frame), _rule(100, 500, 419, frame)]
    (region,) = _located(rules, lines, [frame], images).regions
    assert (region.bbox, region.kind) == (BBox(110, 200, 485, 380), Kind.COMPOSITE)


def test_the_clip_of_a_printed_page_is_no_picture() -> None:
    frame = BBox(18, 18, 594, 700)
    columns = [_line(x, 60 + 14 * row, text) for row in range(30) for x, text in ((40, "Cash"), (300, "120"), (400, "130"))]
    shaded = [_box(36, 59 + 14 * row, 560, 71 + 14 * row, frame=frame) for row in range(0, 30, 2)]
    assert _located(shaded, columns, [frame]).regions == ()
    bevelled = Mark(BBox(18, 122, 594, 122.7), strokes=2, filled=True, white=False, frame=frame)
    links = [_rule(36, 80, y, frame) for y in (31, 72, 90)]
    assert _located([bevelled, *links], columns[:3], [frame]).regions == ()


def test_a_photograph_on_the_ground_of_a_page_is_a_picture_and_the_ground_is_none() -> None:
    frame, photograph = BBox(0, 0, 560, 640), BBox(350, 300, 540, 480)
    images = [
        Image(0, 0, frame, 560, 640, (560, 0, 0, 640)),
        Image(1, 1, photograph, 380, 360, (190, 0, 0, 180)),
    ]
    text = "A paragraph of running text that stands on the ground, and goes on."
    lines = [_line(20, 40 + 12 * row, text, block=row // 4) for row in range(48)]
    assert _boxes(_located([], lines, [frame], images)) == [photograph]
    assert _boxes(_located([], [], [frame], images)) == [frame]


def test_an_outer_box_and_the_rules_in_it_are_the_rules_of_a_table() -> None:
    outer = Mark(BBox(72, 100, 500, 180), strokes=0, filled=False, white=False)
    across = [_rule(72, 500, 125)]
    down = [_box(x, 100, x + 0.5, 180) for x in (250, 380)]
    lines = [_line(x, y, "word") for x in (80, 260, 390) for y in (106, 135, 160)]
    (table,) = _located([outer, *across, *down], lines).tables
    assert table.bbox == outer.bbox
    assert len(table.across) == 3
    assert len(table.down) == 4


def test_the_names_of_bars_belong_to_the_chart() -> None:
    marks, lines = _bars(200)
    names = [_line(180 - 5 * len(name), 202 + 24 * row, name) for row, name in enumerate(("North", "South-west", "East"))]
    (box,) = _boxes(_located(marks, [*lines, *names]))
    assert box.x0 <= min(name.bbox.x0 for name in names)


def test_the_band_that_a_heading_is_written_on_is_a_ground_and_an_image_with_labels_is_not() -> None:
    image = Image(0, 0, BBox(40, 100, 340, 130), 600, 60, (300, 0, 0, 30))
    heading = Line(1, 1, BBox(60, 105, 320, 125), "How the pump is mounted", 20.0, bold=True)
    (band,) = _located([], [heading], images=[image]).regions
    (labelled,) = _located([], [_line(60, 110, "A"), _line(200, 110, "B")], images=[image]).regions
    assert (band.background, labelled.background) == (True, False)


def test_the_shadow_of_a_heading_is_a_ground_whole_and_the_picture_under_it_is_not() -> None:
    def image(number: int, box: BBox) -> Image:
        return Image(number, number, box, 400, 100, (box.width, 0, 0, box.height))

    heading = Line(1, 1, BBox(60, 40, 420, 90), "How a pump is mounted", 44.0, bold=True)
    pieces = [BBox(40, 23, 300, 120), BBox(250, 23, 400, 120), BBox(370, 23, 440, 120)]
    picture = BBox(82, 118, 438, 391)
    regions = _located([], [heading], images=[image(n, box) for n, box in enumerate([*pieces, picture])]).regions
    assert {region.bbox: region.background for region in regions if not region.background} == {picture: False}
    assert all(any(region.bbox & piece == piece for region in regions if region.background) for piece in pieces)


def _bows(frame: BBox) -> list[Mark]:
    """Draw lines one in another, all of them cut off at the left and at the foot of the page."""
    bows = (BBox(0, frame.y0 + 6 * step, frame.x1 - 6 * step, 792) for step in range(10))
    return [Mark(bow, strokes=8, filled=False, white=False, frame=frame) for bow in bows]


def test_a_drawing_that_bleeds_off_the_page_is_no_picture_but_the_image_in_it_is() -> None:
    frame = BBox(0, 500, 150, 792)
    box = BBox(60, 600, 140, 660)
    image = Image(0, 0, box, 160, 120, (80, 0, 0, 60))
    inside = [mark._replace(bbox=mark.bbox.grown(-20)) for mark in _bows(frame)]
    assert _boxes(_located(_bows(frame), [], [frame])) == []
    assert _boxes(_located(_bows(frame), [], [frame], [image])) == [box]
    assert len(_boxes(_located(inside, [], [frame]))) == 1


def test_a_drawing_that_bleeds_is_kept_where_it_shows_an_image_under_it() -> None:
    ground = Image(0, 0, BBox(0, 480, 612, 792), 1224, 624, (612, 0, 0, 312))
    lines = [_line(300, 500 + 12 * row, "A line of the text that stands on the image.") for row in range(9)]
    frame = BBox(0, 500, 250, 792)
    assert any(_boxes(_located(_bows(frame), lines, [frame], [ground])))


def test_words_in_a_box_with_round_corners_are_no_picture_and_an_empty_one_is() -> None:
    panel = Mark(BBox(100, 200, 350, 310), strokes=4, filled=True, white=False)
    lines = [_line(112, 215 + 20 * row, f"{row}. Library") for row in range(4)]
    assert _boxes(_located([panel], lines)) == []
    assert _boxes(_located([panel], [])) == [panel.bbox]


def test_words_with_a_rule_at_their_side_are_no_picture() -> None:
    frame = BBox(77, 479, 555, 660)
    lines = [_line(96, 490 + 20 * row, "Press officer 202.419") for row in range(8)]
    rules = [_box(83, 489 + 20 * row, 83.5, 509 + 20 * row, frame=frame) for row in range(8)]
    assert _boxes(_located(rules, lines, [frame])) == []


def test_rows_shaded_by_turns_are_left_to_their_words_and_promise_no_rules() -> None:
    cells = [_box(x, 200 + 12 * row, x + 100, 212 + 12 * row) for row in range(0, 8, 2) for x in (100, 200, 300)]
    lines = [_line(x + 60, 201 + 12 * row, f"{row}1.4") for row in range(8) for x in (100, 200, 300)]
    rules = [_rule(200, 400, y) for y in (199, 211, 284)]
    down = [_box(x, 199, x + 0.5, 296) for x in (100, 200, 300, 400)]
    assert _located([*cells, *rules], lines).tables == ()
    assert len(_located([*cells, *rules, *down], lines).tables) == 1


def test_pictures_that_the_lines_of_a_diagram_lead_to_are_its_ends() -> None:
    arrows = [
        Mark(BBox(200 + 4 * turn, 300, 300 - 4 * turn, 400), strokes=3, filled=False, white=False) for turn in range(4)
    ]
    ends = [(160, 330), (304, 330), (230, 262), (230, 404)]
    images = [Image(n, n, BBox(x, y, x + 35, y + 35), 70, 70, (35, 0, 0, 35)) for n, (x, y) in enumerate(ends)]
    (box,) = _boxes(_located(arrows, [_line(100, 100, "Current system")], images=images))
    assert box == BBox(160, 262, 339, 439)
    apart = _boxes(_located(arrows, [_line(100, 100, "Current system")], images=images[:2]))
    assert len(apart) == 3


def test_the_keys_of_a_legend_belong_to_their_chart() -> None:
    marks, lines = _bars()
    keys = [_box(200 + 60 * key, 180, 206 + 60 * key, 186) for key in range(2)]
    names = [_line(208 + 60 * key, 178, str(2008 + 7 * key)) for key in range(2)]
    (box,) = _boxes(_located([*marks, *keys], [*lines, *names]))
    assert box.y0 == 178
    (alone,) = _boxes(_located([*marks, *keys], lines))
    assert alone.y0 == 200


def test_a_legend_by_itself_is_a_picture_and_the_squares_of_a_list_are_none() -> None:
    colours = [(0.9, 0.5, 0.1), (0.7, 0.2, 0.3), (0.4, 0.1, 0.5)]
    keys = [_box(150 + 20 * row, 302 + 14 * row, 156 + 20 * row, 308 + 14 * row) for row in range(3)]
    names = [_line(158 + 20 * row, 300 + 14 * row, name) for row, name in enumerate(("Business", "Accountancy", "Law"))]
    legend = [key._replace(colour=colour) for key, colour in zip(keys, colours, strict=True)]
    assert _boxes(_located(legend, names)) == [BBox(150, 300, 233, 338)]
    assert _boxes(_located([key._replace(colour=colours[0]) for key in keys], names)) == []


def test_a_box_with_a_tinted_head_and_a_tinted_column_is_a_table_whose_rows_are_its_words() -> None:
    box = BBox(100, 200, 400, 290)
    border = Mark(box, strokes=0, filled=False, white=False)
    tints = [_box(100, 200, 400, 220), _box(220, 220, 310, 290)]
    lines = [
        _line(x, 205 + 20 * row, text)
        for row, texts in enumerate((("Results", "2003", "2002"), ("Profit", "8873", "7995"), ("Tax", "913", "811")))
        for x, text in zip((110, 240, 330), texts, strict=True)
    ]
    total = [_line(240, 265, "7960"), _line(330, 265, "7184")]
    (table,) = _located([border, *tints], [*lines, *total]).tables
    assert table.bbox == box
    assert [side.at for side in table.down] == [100, 220, 310, 400]
    assert [side.at for side in table.across] == [200, 220, 240, 260, 290]
    across = _line(200, 275, "a sentence that goes over both")
    assert _located([border, *tints], [*lines, *total, across]).tables == ()
    assert _located([border, *tints], lines[:3]).tables == ()


def test_an_algorithm_between_rules_is_one_picture_and_running_text_that_names_one_is_none() -> None:
    lines = [
        _line(100, 202, "Algorithm 1 Tree Traversal"),
        _line(110, 230, "for node in layer do"),
        _line(110, 245, "end for"),
    ]
    rules = [_rule(100, 500, y) for y in (200, 215, 262)]
    (box,) = _boxes(_located(rules, lines))
    assert box.iou(BBox(100, 200, 500, 262.5)) > 0.95
    assert _boxes(_located(rules[:2], lines)) == []
    assert _boxes(_located([_rule(100, 500, y) for y in (100, 120, 262)], lines)) == []


def _near(side: int) -> st.SearchStrategy[float]:
    return st.integers(0, 2 * side).map(lambda halves: halves / 2)


@given(
    st.lists(st.builds(lambda x, y, w, h: _box(x, y, x + w, y + h), *map(_near, (90, 90, 30, 30))), min_size=1, max_size=16)
)
def test_a_few_marks_are_grouped_as_they_are_among_many(marks: list[Mark]) -> None:
    far = [_rule(100, 110, 400 + 16 * number) for number in range(20)]
    assert _located([*marks, *far], []) == _located(marks, [])


def _ruled_table(left: float = 72, top: float = 100) -> tuple[list[Mark], list[Line]]:
    """Draw the rules of three rows with a number, an empty cell for a picture and words."""
    ys, xs = [top + 70 * row for row in range(4)], [left, left + 40, left + 160, left + 420]
    marks = [_rule(xs[0], xs[-1], y) for y in ys] + [_box(x, ys[0], x + 0.5, ys[-1] + 0.5) for x in xs]
    words = [_line(xs[2] + 8, y + 10, "Turns the device on and off") for y in ys[:3]]
    return marks, words + [_line(xs[0] + 8, y + 10, f"{row}") for row, y in enumerate(ys[:3], 1)]


def _drawing(box: BBox) -> list[Mark]:
    """Draw a face: circles of four bows each."""
    return [Mark(box.grown(-by), strokes=4, filled=False, white=False) for by in (0, 4, 8)]


def test_drawings_in_the_cells_of_a_ruled_table_are_pictures_and_the_table_is_one() -> None:
    marks, lines = _ruled_table()
    drawings = [BBox(120, 110 + 70 * row, 220, 160 + 70 * row) for row in range(3)]
    located = _located([*marks, *(mark for box in drawings for mark in _drawing(box))], lines)
    assert sorted(_boxes(located)) == drawings
    (table,) = located.tables
    assert table.bbox == BBox(72, 100, 492.5, 310.5)


def test_words_of_the_next_cell_are_no_label_of_a_drawing() -> None:
    marks, lines = _ruled_table()
    drawing = BBox(114, 104, 230.5, 166)
    near = [_line(236, 130, "Use")]
    assert _boxes(_located([*marks, *_drawing(drawing)], [*lines, *near])) == [drawing]


def test_a_chart_whose_grid_is_ruled_like_a_table_is_a_picture() -> None:
    marks, lines = _ruled_table()
    curve = Mark(BBox(80, 110, 480, 300), strokes=12, filled=False, white=False)
    located = _located([*marks, curve], lines)
    assert not located.tables
    assert len(located.regions) == 1


def test_a_drawing_over_the_caption_of_a_figure_is_not_taken_apart() -> None:
    marks, lines = _ruled_table()
    located = _located([*marks, *_drawing(BBox(120, 110, 220, 160))], [*lines, _line(72, 320, "Figure 3: Keys")])
    assert not located.tables
    assert len(located.regions) == 1


def test_labels_of_a_drawing_are_its_own_though_they_share_a_block_with_a_paragraph_at_its_side() -> None:
    paragraph = _line(72, 100, "The control cabinet takes a torque of 49 Newtonmetres.", block=1)
    labels = [_line(x, 100, text, block=1) for x, text in ((430, "R1"), (470, "R2"))]
    located = _located(_drawing(BBox(420, 108, 500, 150)), [paragraph, *labels])
    assert _boxes(located) == [BBox(420, 100, 500, 150)]


def test_a_captioned_figure_leaves_the_pictures_of_the_next_column_to_their_steps() -> None:
    figure, picture = BBox(72, 100, 280, 200), BBox(310, 110, 370, 150)
    lines = [_line(80, 210, "Figure 1: The cabinet from the front"), _line(380, 120, "Press the button")]
    found = _boxes(_located([*_drawing(figure), *_drawing(picture)], lines))
    assert sorted(found) == [figure, picture]


def test_small_symbols_of_many_strokes_are_pictures_and_a_line_of_letters_drawn_as_curves_is_none() -> None:
    symbol, letters = BBox(72, 100, 94, 122), BBox(72, 200, 280, 222)
    assert _boxes(_located([*_drawing(symbol), *_drawing(letters)], [])) == [symbol]


def test_symbols_that_touch_in_cells_of_their_own_are_pictures_of_their_own() -> None:
    cells = [BBox(200, 100, 500, 122), BBox(200, 122, 500, 144)]
    symbols = [BBox(210, 101, 232, 121.5), BBox(210, 122.5, 232, 143)]
    images = [Image(at, at, box, 64, 64, (22, 0, 0, 20)) for at, box in enumerate(symbols)]
    assert sorted(_boxes(_located([], [], [*cells, *symbols], images))) == symbols
    assert _boxes(_located([], [], symbols, images)) == [symbols[0] | symbols[1]]
