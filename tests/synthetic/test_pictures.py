"""Synthetic pictures without a caption: they stand where the truth says, whenever they are drawn, and are scored by that."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pymupdf
import pytest

from schemas.documents import Kind, Role
from schemas.geometry import BBox
from tests.synthetic import PRESETS, STREAMS, Manual, synthesize
from tests.synthetic.scores import Reading, SeenBlock, SeenFigure, score
from tests.synthetic.truth import TrueBlock, TrueFigure, TruePage, TruePlace, TrueTable, Truth

PAGES = 24


@pytest.fixture(scope="module")
def manuals() -> dict[str, Manual]:
    options = PRESETS["pictures"]
    return {stream: synthesize("m", seed=5, pages=PAGES, options=replace(options, stream=stream)) for stream in STREAMS}


def test_when_pictures_are_drawn_changes_nothing_that_is_read(manuals: dict[str, Manual]) -> None:
    truth, questions = manuals["page"].truth, manuals["page"].questions
    assert all(manual.truth == truth and manual.questions == questions for manual in manuals.values())
    assert len({manual.pdf for manual in manuals.values()}) == len(STREAMS)
    pixels = []
    for manual in manuals.values():
        with pymupdf.open(stream=manual.pdf, filetype="pdf") as document:
            pixels.append([page.get_pixmap(dpi=36).samples for page in document])
    assert all(pages == pixels[0] for pages in pixels)


@pytest.mark.parametrize(("stream", "last"), [("last", "image"), ("first", "text")])
def test_pictures_are_drawn_when_the_stream_says(manuals: dict[str, Manual], stream: str, last: str) -> None:
    truth, page_count = manuals[stream].truth, 0
    drawings = {figure.page for figure in truth.figures if figure.kind is not Kind.RASTER}
    with pymupdf.open(stream=manuals[stream].pdf, filetype="pdf") as document:
        for page in truth.pages:
            log = [kind.removeprefix("fill-") for kind, _ in document[page.page - 1].get_bboxlog()]
            if page.page in drawings or log.count("image") < 3:
                continue  # drawings have words in them
            ours = [kind for kind in log[log.index("image") + 1 :] if kind in {"image", "text"}]  # behind the logo
            assert ours[-1] == last
            assert sum(earlier != later for earlier, later in pairwise(ours)) == 1
            page_count += 1
    assert page_count > 2


def test_every_layout_is_drawn_in_both_directions(manuals: dict[str, Manual]) -> None:
    truth = manuals["page"].truth
    pages = {page.page: page for page in truth.pages}
    texts = {block.id: block.text for block in truth.blocks}
    arrangements = set()
    for figure in truth.figures:
        if figure.stands is not None:
            true_place = figure.stands
            arrangements.add(
                tuple(name for name in TruePlace.model_fields if name != "words" and getattr(true_place, name))
            )
    assert arrangements == {("after",), ("before",), ("beside",), ("row",), ("within",), ("after", "before")}
    assert any(pages[figure.page].rotation for figure in truth.figures if figure.stands is not None)
    assert any(text[:1] in "אבגדהוזחטיכלמנסעפצקרשת" for text in texts.values())


def test_pictures_stand_where_the_truth_says(manuals: dict[str, Manual]) -> None:
    truth = manuals["page"].truth
    blocks = {block.id: block for block in truth.blocks}
    tables = {table.id: table for table in truth.tables}
    upright = {page.page for page in truth.pages if not page.rotation}
    for figure in truth.figures:
        true_place, box = figure.stands, figure.bbox
        if true_place is None or figure.page not in upright:
            continue
        over, under, level = (
            blocks.get(name) for name in (true_place.after, true_place.before, true_place.beside or true_place.within)
        )
        assert all(neighbour.page == figure.page for neighbour in (over, under, level) if neighbour is not None)
        if over is not None and under is not None:
            assert over.bbox.y1 <= box.y0 < box.y1 <= under.bbox.y0
        elif over is not None:
            assert _is_level(box, over.bbox)
            assert over.bbox.x1 < box.x0
        elif under is not None:
            assert _is_level(box, under.bbox)
            assert box.x1 < under.bbox.x0
        elif level is not None:
            assert _is_level(box, level.bbox)
            assert level.text.startswith(true_place.words)
        else:
            assert true_place.row is not None
            name, row, column = true_place.row
            assert (row, column, figure.id) in tables[name].pictures
            assert any((box & region.bbox).area > 0.99 * box.area for region in tables[name].regions)


def _is_level(first_box: BBox, second_box: BBox) -> bool:
    return min(first_box.y1, second_box.y1) > max(first_box.y0, second_box.y0)


# ---- the score ----

A, B = "Press the upper key.", "Press the lower key."


def _truth(true_places: Sequence[TruePlace]) -> Truth:
    """Return a page with two steps, a table with a row, and a picture for each place."""
    blocks = [
        TrueBlock(id=name, page=1, bbox=BBox(100, y, 300, y + 20), kind="step", text=text)
        for name, text, y in (("a", A, 100), ("b", B, 200))
    ]
    figures = [
        TrueFigure(
            id=f"f{number}",
            page=1,
            bbox=BBox(10 + 40 * number, 100, 40 + 40 * number, 130),
            kind=Kind.RASTER,
            role=Role.CONTENT,
            art="photo",
            stands=true_place,
        )
        for number, true_place in enumerate(true_places)
    ]
    names = [figure.id for figure in figures]
    page = TruePage(page=1, width_pt=595, height_pt=842, rotation=0, scanned=False, order=("a", *names, "b"), margins=())
    table = TrueTable(id="t", regions=(), rows=(("1", "", "Volume up"),), caption="", label="")
    return Truth(
        name="m",
        seed=0,
        pages=(page,),
        blocks=tuple(blocks),
        figures=tuple(figures),
        tables=(table,),
        sections=(),
        tags=tuple(names),
    )


def _right(true_places: Sequence[TruePlace], *texts: str) -> int:
    """Return how many tags of a reading stand right; ``texts`` are its blocks, a digit in brackets for each tag."""
    truth = _truth(true_places)
    blocks = []
    for text in texts:
        tags = tuple(int(part[0]) for part in text.split("[")[1:])
        for tag in tags:
            text = text.replace(f"[{tag}]", "\x00")  # noqa: PLW2901
        blocks.append(SeenBlock(1, text, tags))
    read_figures = tuple(SeenFigure(1, figure.bbox, figure.role, figure.id) for figure in truth.figures)
    beside = score(Reading(read_figures, tuple(blocks), ()), truth).beside
    assert beside.total == len(true_places)
    return beside.right


@pytest.mark.parametrize(
    ("true_place", "right", "wrong"),
    [
        (TruePlace(before="b"), (A, "[0]", B), (A, B, "[0]")),
        (TruePlace(after="a"), (A, "[0]", B), ("[0]", A, B)),
        (TruePlace(after="b"), (A, B, "[0]"), (A, "[0]", B)),
        (TruePlace(after="a", before="b"), (A, "[0]", B), (A, "Mind the edge.", "[0]", B)),
        (TruePlace(before="a"), ("[0]", A, B), ("[0]", "1", A, B)),
        (TruePlace(beside="b"), (A, B, "[0]"), ("[0]", A, B)),
        (TruePlace(beside="b"), (A, "[0]", B), (A, "Press the [0] lower key.")),
        (TruePlace(within="a", words="Press the"), ("Press the [0] upper key.", B), ("Press [0] the upper key.", B)),
        (TruePlace(row=("t", 0, 1)), (A, "1 | [0] | Volume up"), (A, "1 | Volume up | [0]")),
        (TruePlace(row=("t", 0, 1)), (A, "1", "[0]", "Volume up"), (A, "1 [0] Volume", B, "up")),
        (TruePlace(after="a"), (A, "[0]", B), (B, "Press the upper", "[0]", "key.")),
        (TruePlace(after="a"), (A, "[0]", B), (A, B)),
    ],
)
def test_a_picture_is_right_only_at_its_place(
    true_place: TruePlace, right: tuple[str, ...], wrong: tuple[str, ...]
) -> None:
    assert _right([true_place], *right) == 1
    assert _right([true_place], *wrong) == 0


def test_pictures_at_one_place_follow_each_other_as_they_are_read() -> None:
    between = [TruePlace(after="a", before="b")] * 2
    assert _right(between, A, "[0]", "[1]", B) == 2
    assert _right(between, A, "[1]", "[0]", B) == 0
    apart = [TruePlace(after="a"), TruePlace(before="b")]
    assert _right(apart, A, "[0]", "[1]", B) == 2
    assert _right(apart, A, "[1]", B, "[0]") == 1


def test_a_picture_that_was_not_found_is_no_matter_of_its_place() -> None:
    truth = _truth([TruePlace(after="a")])
    assert score(Reading((), (SeenBlock(1, A), SeenBlock(1, B)), ()), truth).beside.total == 0
