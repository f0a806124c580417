"""Synthetic manuals: the same bytes for the same seed, and a truth that holds together."""

import subprocess
import sys
from pathlib import Path

import pymupdf
import pytest

from evaluation.questions import load_questions
from schemas.documents import TAGGED, Role
from schemas.geometry import BBox
from tests.synthetic import PRESETS, Manual, synthesize
from tests.synthetic.scores import Reading, SeenBlock, SeenFigure, SeenTable, Tally, score
from tests.synthetic.write import write_manuals

ROOT = Path(__file__).parents[2]
PAGES = 24


@pytest.fixture(scope="module", params=list(PRESETS))
def manual(request: pytest.FixtureRequest) -> Manual:
    return synthesize("m", seed=5, pages=PAGES, options=PRESETS[request.param])


@pytest.mark.slow
def test_a_seed_gives_the_same_bytes_in_every_process() -> None:
    code = (
        "import hashlib; from tests.synthetic import PRESETS, synthesize\n"
        "for preset in ('easy', 'hard', 'pictures'):\n"
        "    made = synthesize('m', seed=3, pages=8, options=PRESETS[preset])\n"
        "    told = made.truth.model_dump_json() + ''.join(one.model_dump_json() for one in made.questions)\n"
        "    print(preset, hashlib.sha256(made.pdf + told.encode()).hexdigest())"
    )
    first_output, second_output = (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT, env={"PYTHONHASHSEED": seed}
        ).stdout
        for seed in ("1", "2")
    )
    assert first_output == second_output


def test_another_seed_gives_another_manual() -> None:
    first_manual, second_manual = (synthesize("m", seed=seed, pages=4, options=PRESETS["easy"]) for seed in (1, 2))
    assert first_manual.pdf != second_manual.pdf
    assert {block.text for block in first_manual.truth.blocks} != {block.text for block in second_manual.truth.blocks}


def test_the_pages_are_those_of_the_file(manual: Manual) -> None:
    with pymupdf.open(stream=manual.pdf, filetype="pdf") as document:
        assert document.page_count == len(manual.truth.pages) == PAGES
        for true_page, page in zip(manual.truth.pages, document, strict=True):
            assert page.rotation == true_page.rotation
            page.set_rotation(0)
            assert tuple(page.rect) == (0, 0, true_page.width_pt, true_page.height_pt)


def test_the_words_of_every_block_stand_in_its_box(manual: Manual) -> None:
    pages = {page.page: page for page in manual.truth.pages}
    with pymupdf.open(stream=manual.pdf, filetype="pdf") as document:
        for block in manual.truth.blocks:
            page = document[block.page - 1]
            page.set_rotation(0)
            page_words = page.get_text("words", clip=BBox(*block.bbox).grown(3))
            letters = [letter for word in page_words for letter in word[4] if letter.isalnum()]
            expected_letters = [letter for letter in block.text if letter.isalnum()]
            if pages[block.page].scanned:
                assert letters == []
            else:
                missing = [
                    letter for letter in set(expected_letters) if letters.count(letter) < expected_letters.count(letter)
                ]
                assert missing == [], (block.id, block.text)


def test_every_figure_has_ink_up_to_the_edges_of_its_box(manual: Manual) -> None:
    with pymupdf.open(stream=manual.pdf, filetype="pdf") as document:
        for figure in manual.truth.figures:
            if figure.role not in TAGGED or any(
                page.scanned or page.rotation for page in manual.truth.pages if page.page == figure.page
            ):
                continue
            for edge in _edges(figure.bbox):
                pixels = document[figure.page - 1].get_pixmap(dpi=144, clip=edge, colorspace=pymupdf.csGRAY)
                assert min(pixels.samples) < 250, (figure, edge)


def _edges(box: BBox) -> list[BBox]:
    depth = 4.0
    return [
        box._replace(x1=box.x0 + depth),
        box._replace(x0=box.x1 - depth),
        box._replace(y1=box.y0 + depth),
        box._replace(y0=box.y1 - depth),
    ]


def test_the_truth_holds_together(manual: Manual) -> None:
    truth = manual.truth
    figures = {figure.id: figure for figure in truth.figures}
    ids = {*figures, *(block.id for block in truth.blocks), *(table.id for table in truth.tables)}
    assert len(ids) == len(figures) + len(truth.blocks) + len(truth.tables)
    assert {name for page in truth.pages for name in page.order} <= ids
    assert all(name in figures for block in truth.blocks for name in block.mentions)
    assert all(figures[name].label in block.text for block in truth.blocks for name in block.mentions)
    assert all(block.section[-1] == block.text for block in truth.blocks if block.kind == "heading")
    assert all(block.section in {section.path for section in truth.sections} for block in truth.blocks if block.section)
    assert all(figures[name].role in TAGGED for name in truth.tags)
    for item in (*truth.blocks, *truth.figures):
        page = truth.pages[item.page - 1]
        assert 0 <= item.bbox.x0 < item.bbox.x1 <= page.width_pt
        assert 0 <= item.bbox.y0 < item.bbox.y1 <= page.height_pt


def test_nothing_stands_over_anything_else(manual: Manual) -> None:
    in_cells = {name for table in manual.truth.tables for _, _, name in table.pictures}
    for page in manual.truth.pages:
        boxes = [
            (item.id, item.bbox)
            for item in (*manual.truth.blocks, *manual.truth.figures)
            if item.page == page.page and getattr(item, "role", Role.CONTENT) is Role.CONTENT and item.id not in in_cells
        ]
        boxes += [
            (table.id, region.bbox) for table in manual.truth.tables for region in table.regions if region.page == page.page
        ]
        for index, (name, box) in enumerate(boxes):
            assert [overlapping for overlapping, beside in boxes[index + 1 :] if (box & beside).area > 1] == [], name


def test_hard_manuals_have_everything_that_makes_them_hard() -> None:
    truth = synthesize("m", seed=5, pages=40, options=PRESETS["hard"]).truth
    assert {figure.art for figure in truth.figures} >= set(PRESETS["hard"].arts) | {"icon", "logo", "watermark", "scan"}
    assert {page.rotation for page in truth.pages} > {0}
    assert {figure.role for figure in truth.figures} == set(Role)
    assert any(len({region.page for region in table.regions}) > 1 for table in truth.tables)
    assert any(table.pictures for table in truth.tables)
    assert any("<image:" in block.text for block in truth.blocks)
    pages = {figure.id: figure.page for figure in truth.figures}
    assert any(abs(pages[name] - block.page) > 3 for block in truth.blocks for name in block.mentions)


def test_questions_are_answered_by_what_stands_on_their_pages(manual: Manual) -> None:
    words: dict[int, str] = {}
    for block in manual.truth.blocks:
        words[block.page] = words.get(block.page, "") + "".join(block.text.split())
    for table in manual.truth.tables:
        for region in table.regions:
            words[region.page] = words.get(region.page, "") + "".join(cell for row in table.rows for cell in row)
    assert {question.answerable for question in manual.questions} == {True, False}
    for question in manual.questions:
        assert bool(question.pages) == question.answerable
        if question.answer and question.figures:
            caption = "".join(question.answer.split())
            assert any(caption in words[gold_page.page] for gold_page in question.pages)


def _true_reading(manual: Manual) -> Reading:
    """Read a manual as its truth has it."""
    truth = manual.truth
    figure_numbers = {figure.id: number for number, figure in enumerate(truth.figures)}
    blocks = {block.id: block for block in truth.blocks}
    tables = {table.id: table for table in truth.tables}
    pages = {figure.id: figure.page for figure in truth.figures}
    in_lines: dict[str, list[tuple[str, str]]] = {}
    for figure in truth.figures:
        if figure.stands is not None and figure.stands.within:
            in_lines.setdefault(figure.stands.within, []).append((figure.stands.words, figure.id))
    in_text = {name for pictures in in_lines.values() for _, name in pictures}
    in_text |= {name for table in truth.tables for _, _, name in table.pictures}
    read_blocks: list[SeenBlock] = []
    for page in truth.pages:
        for name in page.order:
            if name in blocks:
                block, text = blocks[name], blocks[name].text
                for words, _ in in_lines.get(name, ()):
                    text = f"{words}\x00{text.removeprefix(words)}"
                tags = tuple(figure_numbers[item] for _, item in in_lines.get(name, ()))
                read_blocks.append(SeenBlock(page.page, text, tags, block.section, block.mentions))
            elif name in tables:
                pictures = {
                    position[:2]: position[2] for position in tables[name].pictures if pages[position[2]] == page.page
                }
                cells = [((row, at), cell) for row, line in enumerate(tables[name].rows) for at, cell in enumerate(line)]
                text = " ".join(cell + "\x00" * (position in pictures) for position, cell in cells)
                read_blocks.append(
                    SeenBlock(
                        page.page,
                        text,
                        tuple(figure_numbers[pictures[position]] for position, _ in cells if position in pictures),
                    )
                )
            elif name in figure_numbers and name not in in_text:
                read_blocks.append(SeenBlock(page.page, "\x00", (figure_numbers[name],)))
    return Reading(
        tuple(SeenFigure(item.page, item.bbox, item.role, item.id, item.caption) for item in truth.figures),
        tuple(read_blocks),
        tuple(
            SeenTable(
                item.regions[0].page,
                item.regions[0].bbox,
                tuple(
                    tuple(
                        f"{cell}\x00" if any((row, column) == position[:2] for position in item.pictures) else cell
                        for column, cell in enumerate(cells)
                    )
                    for row, cells in enumerate(item.rows)
                ),
            )
            for item in truth.tables
        ),
    )


def test_the_truth_scores_full_marks_and_nothing_scores_none(manual: Manual) -> None:
    full = score(_true_reading(manual), manual.truth)
    none = score(Reading((), (), ()), manual.truth)
    for name in full.__slots__:
        best, worst = getattr(full, name), getattr(none, name)
        if isinstance(best, Tally):
            uncaptioned = any(figure.stands is not None for figure in manual.truth.figures)
            assert best.right == best.total, name
            assert best.total > 0 or (name == "beside" and not uncaptioned), name
            assert worst.right == 0 or name == "margins", name
        elif name != "forged":
            assert best == worst == 0, name


def test_a_figure_in_pieces_is_neither_found_nor_forgiven(manual: Manual) -> None:
    reading = _true_reading(manual)
    scanned = {page.page for page in manual.truth.pages if page.scanned}
    number, figure = next(
        (index, candidate)
        for index, candidate in enumerate(reading.figures)
        if candidate.role is Role.CONTENT and candidate.page not in scanned
    )
    middle = (figure.bbox.x0 + figure.bbox.x1) / 2
    halves = [SeenFigure(figure.page, figure.bbox._replace(**{side: middle}), Role.CONTENT) for side in ("x0", "x1")]
    figures = (*reading.figures[:number], halves[0], *reading.figures[number + 1 :], halves[1])
    halved_score, best = score(Reading(figures, reading.blocks, reading.tables), manual.truth), score(reading, manual.truth)
    assert halved_score.found == (best.found.right - 1, best.found.total)
    assert halved_score.false_figures >= 1


def test_manuals_are_written_with_their_truth_and_questions(tmp_path: Path) -> None:
    write_manuals(tmp_path, preset="easy", seeds=[1, 2], pages=3)
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "easy-1.pdf",
        "easy-1.truth.json",
        "easy-2.pdf",
        "easy-2.truth.json",
        "questions.jsonl",
    ]
    questions = load_questions(str(tmp_path / "questions.jsonl"))
    assert {name for question in questions for name in question.documents} == {"easy-1.pdf", "easy-2.pdf"}
