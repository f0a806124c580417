"""Extractive answers."""

from schemas.evidence import Hit, Modality
from schemas.tags import TagTemplate, escape
from tasks.answer import answer

FIGURES = {
    "00000001": ("f1" * 32, "Figure 1: Panel"),
    "00000002": ("f2" * 32, ""),
}


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
    )


def _answer(*hits: Hit, passages: int = 4) -> list[tuple[str, str, list[int]]]:
    made = answer("v", hits, TagTemplate(), FIGURES.get, passages=passages)
    assert made.abstained == (not hits)
    return [(part.type, part.text if part.type == "text" else part.figure_id[:2], part.citations) for part in made.parts]


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


def test_nothing_found_is_an_abstention() -> None:
    assert _answer() == []
