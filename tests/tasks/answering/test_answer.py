"""Extractive answers."""

from collections.abc import Sequence

import pytest

from schemas.answers import FigurePart, TablePart, TextPart
from schemas.corpus import AnswerOptions
from schemas.evidence import CitedFigure, Hit, Modality
from schemas.tags import TagTemplate, escape
from tasks.answering.abstain import least_similarity
from tasks.answering.answer import answer
from tasks.tables.mark_up import markdown

FIGURES = [
    CitedFigure(figure_id="f1" * 32, number="00000001", caption="Figure 1: Panel", page=4, bbox=(5, 6, 7, 8)),
    CitedFigure(figure_id="f2" * 32, number="00000002", caption="", page=3, bbox=(0, 0, 1, 1)),
]


def _hit(name: str, tagged: str, modality: Modality = Modality.TEXT, refs: tuple[str, ...] = ()) -> Hit:
    return Hit(
        evidence_id=name,
        score=1.0,
        modality=modality,
        doc_id="d" * 64,
        source="manual.pdf",
        page=3,
        bbox=(0, 0, 1, 1),
        regions=[],
        caption="",
        section_path=[],
        text="",
        tagged_text=tagged,
        figure_refs=list(refs),
        figures=FIGURES,
    )


def _answer(*hits: Hit, passages: int = 4) -> list[tuple[str, str, list[int]]]:
    made = answer("v", hits, TagTemplate(), passages=passages)
    assert made.abstained == (not hits)
    said = [part.figure_id[:2] if part.type == "figure" else getattr(part, "text", "") for part in made.parts]
    return [(part.type, words, part.citations) for part, words in zip(made.parts, said, strict=True)]


def test_figures_stand_where_their_tags_stood() -> None:
    parts = _answer(_hit("a", "Press <image:00000001.png> then <image: 0000\n0002.png> twice"))
    assert parts == [
        ("text", "Press", [1]),
        ("figure", "f1", [1]),
        ("text", "then", [1]),
        ("figure", "f2", [1]),
        ("text", "twice", [1]),
    ]


def test_a_tag_of_no_figure_is_dropped() -> None:
    assert _answer(_hit("a", "before <image:99999999.png> after")) == [("text", "before", [1]), ("text", "after", [1])]


def test_a_look_alike_stays_text() -> None:
    assert _answer(_hit("a", escape("type <image:00000001.png> here"))) == [("text", "type <image:00000001.png> here", [1])]


def test_a_figure_is_shown_once_and_passages_are_bounded() -> None:
    text = _hit("a", "see <image:00000001.png>", refs=("f1" * 32,))
    figure = _hit("b", "<image:00000001.png>\nFigure 1", Modality.FIGURE, ("f1" * 32,))
    parts = _answer(text, figure, _hit("c", "three"), _hit("d", "four"), passages=2)
    assert parts == [("text", "see", [1]), ("figure", "f1", [1]), ("text", "three", [2])]


def test_a_caption_is_said_once() -> None:
    parts = _answer(_hit("a", "Look:\n<image:00000001.png>\nFigure 1:\nPanel\n\nThen go on."))
    assert parts == [("text", "Look:", [1]), ("figure", "f1", [1]), ("text", "Then go on.", [1])]


def _table(caption: str, *rows: list[str]) -> Hit:
    tagged = "\n".join(filter(None, (caption, markdown(rows))))
    return _hit("t", tagged, Modality.TABLE).model_copy(update={"tagged_rows": list(rows)})


def test_a_table_keeps_its_cells_and_its_figures_stand_in_them() -> None:
    icon, unknown = "<image:00000002.png>", "<image:99999999.png>"
    rows = [["Key", "Does"], [f"{icon} A|B", escape("prints <image:1>\nlines")], [icon, f"stops {unknown}"]]
    made = answer("v", [_table("Table 1: Keys <image:00000001.png>", *rows)], TagTemplate(), passages=1)
    caption, panel, table = made.parts
    assert caption == TextPart(text="Table 1: Keys", citations=[1])
    assert isinstance(panel, FigurePart)
    assert isinstance(table, TablePart)
    assert table.rows == [["Key", "Does"], [f"{icon} A|B", "prints <image:1>\nlines"], [icon, "stops"]]
    assert [(figure.tag, figure.figure_id) for figure in table.figures] == [(icon, "f2" * 32)]


def test_a_table_of_a_version_without_cells_is_shown_as_its_text() -> None:
    before = _table("Table 1", ["Part", "Torque"], ["M8", "9 Nm"]).model_copy(update={"tagged_rows": []})
    assert _answer(before) == [("text", "Table 1\n| Part | Torque |\n| --- | --- |\n| M8 | 9 Nm |", [1])]


def test_nothing_found_is_an_abstention() -> None:
    assert _answer() == []


def test_a_figure_names_its_own_page_and_not_that_of_its_passage() -> None:
    made = answer("v", [_hit("a", "see <image:00000001.png>")], TagTemplate(), passages=1)
    assert [(part.page, part.bbox) for part in made.parts if isinstance(part, FigurePart)] == [(4, (5, 6, 7, 8))]
    assert made.citations[0].page == 3


@pytest.mark.parametrize("words", ["<image:00000001.png>" + " " * 200_000 + "x", "x" + "\n" * 200_000])
def test_long_runs_of_white_space_are_gone_through_once(words: str) -> None:
    """By the square of their length this takes minutes."""
    assert [kind for kind, _, _ in _answer(_hit("a", words))][-1] == "text"


@pytest.mark.parametrize(
    ("similarities", "least"),
    [((), None), ((0.44, 0.1), None), ((0.45,), 0.25), ((0.5, 0.9, 0.6), 0.7)],
)
def test_a_passage_answers_where_it_is_near_enough_to_the_question_and_to_the_nearest(
    similarities: Sequence[float], least: float | None
) -> None:
    assert least_similarity(similarities, AnswerOptions()) == (None if least is None else pytest.approx(least))
