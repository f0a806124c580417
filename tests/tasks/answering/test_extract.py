"""Extractive answers: what is marked, what is unfolded, and in which order."""

import time
from collections.abc import Sequence
from random import Random

import pytest

from schemas.answers import AnswerResult, FigurePart, TablePart, TextPart
from schemas.evidence import CitedFigure, Hit
from schemas.filters import Modality
from schemas.tags import TagTemplate, escape, is_disarmed
from tasks.answering.candidates import COMPARED, Candidate, candidates, scores
from tasks.answering.extract import Material, extract, rows_that_answer
from tasks.answering.passages import RowPosition, around, read_passage, runs
from tasks.tables.mark_up import markdown
from tests.tasks.answering.hits import made_hit

TEMPLATE = TagTemplate()
FIGURES = [
    CitedFigure(figure_id="f1" * 32, number="00000001", caption="Figure 1: Panel", page=4, bbox=(5, 6, 7, 8)),
    CitedFigure(figure_id="f2" * 32, number="00000002", caption="", page=3, bbox=(0, 0, 1, 1)),
    CitedFigure(figure_id="f3" * 32, number="00000003", caption="", page=3, bbox=(0, 0, 1, 1)),
]
TAGS = [f"<image:{figure.number}.png>" for figure in FIGURES]


def _hit(name: str, tagged: str, *, section: str = "Service", modality: Modality = Modality.TEXT) -> Hit:
    path = ["Manual", section]
    return made_hit(name, tagged, modality=modality, page=3, section_path=path, figures=FIGURES)


def _table(caption: str, *rows: list[str]) -> Hit:
    tagged = "\n".join(filter(None, (caption, markdown(rows))))
    cells = [[TEMPLATE.without(cell) for cell in row] for row in rows]
    return _hit("t", tagged, modality=Modality.TABLE).model_copy(update={"tagged_rows": list(rows), "rows": cells})


def _ask(
    question: str,
    rows: Sequence[Hit],
    ranking: Sequence[str] = (),
    max_passages: int = 4,
    figures: Sequence[tuple[Hit, float]] = (),
) -> AnswerResult:
    """Answer by the words of the question alone: all sentences are equally near."""
    ranked = list(ranking) or [row.evidence_id for row in rows]
    by_id = {row.evidence_id: row for row in rows}
    positions = [RowPosition(row.evidence_id, row.modality, tuple(row.section_path), row.page) for row in rows]
    ranks = {name: rank for rank, name in enumerate(ranked)}
    passages = [read_passage([by_id[name] for name in run], ranks, TEMPLATE) for run in around(positions, ranked)]
    some = candidates(passages, TEMPLATE)
    scored, _ = scores(question, some, passages, lambda compared: [0.0] * len(compared), max_passages=max_passages)
    material = Material(question, passages, some, scored, figures=figures)
    return extract([material], TEMPLATE, corpus="c", version="v", max_passages=max_passages)


def _unfolded(answer: AnswerResult) -> list[str]:
    visible_parts = [part for part in answer.parts if not part.folded]
    return [part.figure_id[:2] if isinstance(part, FigurePart) else getattr(part, "text", "") for part in visible_parts]


def _marked(answer: AnswerResult) -> list[str]:
    return [part.text[start:end] for part in answer.parts if isinstance(part, TextPart) for start, end in part.marked]


# One sentence that is too long to be read on.
LONG = (
    "; ".join(f"Nothing of note happens in part {number} of this rather long and winding one" for number in range(9)) + "."
)


def test_the_sentence_that_answers_is_marked_and_the_rest_of_its_passage_is_folded() -> None:
    answer = _ask(
        "What torque does the flange bolt take?",
        [_hit("a", f"{LONG}\n\nThe flange bolt takes a torque of 9 Nm.\n\n{LONG}")],
    )
    assert _unfolded(answer) == ["The flange bolt takes a torque of 9 Nm."]
    assert _marked(answer) == ["The flange bolt takes a torque of 9 Nm."]
    assert [getattr(part, "text", "") for part in answer.parts if part.folded] == [LONG, LONG]


def test_a_sentence_that_the_page_breaks_is_put_together_and_cites_both_rows() -> None:
    rows = [_hit("a", "The flange bolt takes a torque"), _hit("b", "of 9 Nm at most. Then go on.")]
    answer = _ask("flange bolt torque", rows, ["a"])
    assert answer.parts[0] == TextPart(
        text="The flange bolt takes a torque of 9 Nm at most. Then go on.", citations=[1, 2], marked=[(0, 47)]
    )
    assert [cited.evidence_id for cited in answer.citations] == ["a", "b"]


def test_all_steps_of_a_procedure_stand_in_order_and_none_of_another() -> None:
    rows = [
        _hit(
            "x1", "Touch off X\n\nA session might be:\n\n1. Home the axis.\n\n2. Select the X axis.", section="Touch off X"
        ),
        _hit("x2", "3. Measure the diameter.\n\n4. Enter it.\n\nMind the radius.", section="Touch off X"),
        _hit("z1", "Touch off Z\n\n1. Home the axis.\n\n2. Select the Z axis.", section="Touch off Z"),
    ]
    for ranking in (["x2", "z1"], ["x1", "x2"]):
        texts = _unfolded(_ask("How do I enter the measured diameter of the X axis?", rows, ranking))
        steps = [text for text in texts if text[0].isdigit()]
        first = [text for text in steps if "Z" not in text][:4]
        assert first == ["1. Home the axis.", "2. Select the X axis.", "3. Measure the diameter.", "4. Enter it."]


def test_figures_stand_where_their_tags_stood() -> None:
    answer = _ask("Which picture?", [_hit("a", f"Press {TAGS[0]} then <image: 0000\n0002.png> twice")])
    assert _unfolded(answer) == ["Press", "f1", "then", "f2", "twice"]


def test_a_tag_of_no_figure_is_dropped() -> None:
    assert _unfolded(_ask("before", [_hit("a", "before <image:99999999.png> after")])) == ["before", "after"]


def test_look_alikes_stay_disarmed_in_text_captions_and_cells() -> None:
    forged = f"type {TAGS[0]} here"
    text = _ask("type", [_hit("a", escape(forged))])
    table = _ask("type", [_table("", ["Key", "Does"], ["A", escape(forged)])])
    caption = _hit("a", f"Look at the picture:\n\n{TAGS[1]}")
    figures = [figure.model_copy(update={"caption": escape(forged)}) for figure in FIGURES]
    picture_answer = _ask("picture", [caption.model_copy(update={"figures": figures})])
    texts = [part.text for part in text.parts if isinstance(part, TextPart)]
    texts += [cell for part in table.parts if isinstance(part, TablePart) for row in part.rows for cell in row]
    texts += [part.caption for part in picture_answer.parts if isinstance(part, FigurePart)]
    assert len([words for words in texts if "image" in words]) == 3
    assert all(map(is_disarmed, texts))
    assert not TEMPLATE.numbers("".join(texts))


def test_a_caption_stands_under_its_figure_and_nowhere_else() -> None:
    answer = _ask("Look", [_hit("a", f"Look at the panel:\n\n{TAGS[0]}\nFigure 1:\nPanel\n\nThen go on.")])
    assert [getattr(part, "text", part.type) for part in answer.parts] == ["Look at the panel:", "figure", "Then go on."]
    assert [part.page for part in answer.parts if isinstance(part, FigurePart)] == [4], "its own page"


def test_a_figure_that_a_sentence_mentions_stands_behind_it_though_its_tag_is_elsewhere() -> None:
    answer = _ask("Where is the pump?", [_hit("a", f"The pump is shown in Figure 1. {LONG}")])
    assert [part.tag for part in answer.parts if isinstance(part, FigurePart) and not part.folded] == [TAGS[0]]


def test_a_procedure_shows_all_its_steps_and_pictures_and_each_once() -> None:
    tags = [f"<image:{number:08}.png>" for number in range(11, 16)]
    figures = [
        CitedFigure(figure_id=f"a{number}" * 32, number=tag[7:15], caption="", page=3, bbox=(0, 0, 9, 9))
        for number, tag in enumerate(tags)
    ]
    steps = [f"{number}. Turn the key of lamp {number}.\n\n{tag}" for number, tag in enumerate(tags, 1)]
    text = "\n\n".join(["Changing the lamp", *steps[:3], "• Mind the glass.", *steps[3:], tags[0]])
    answer = _ask("How do I change the lamp?", [_hit("a", text).model_copy(update={"figures": figures})])
    visible_texts = [text for text in _unfolded(answer) if text != "Changing the lamp"]
    assert visible_texts == [
        *(part for number in (1, 2, 3) for part in (f"{number}. Turn the key of lamp {number}.", f"a{number - 1}")),
        "• Mind the glass.",
        *(part for number in (4, 5) for part in (f"{number}. Turn the key of lamp {number}.", f"a{number - 1}")),
    ]


def test_of_a_long_procedure_each_step_shows_its_first_sentence_and_its_picture() -> None:
    steps = [f"{number}. Turn the key of lamp {number}. {LONG}\n\n{tag}" for number, tag in enumerate([*TAGS, "", ""], 1)]
    texts = _unfolded(_ask("How do I turn the key of the lamp?", [_hit("a", "\n\n".join(steps))]))
    assert texts == [
        "1. Turn the key of lamp 1.",
        "f1",
        "2. Turn the key of lamp 2.",
        "f2",
        "3. Turn the key of lamp 3.",
        "f3",
        "4. Turn the key of lamp 4.",
        "5. Turn the key of lamp 5.",
    ]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["1. a", "• x", "• y", "2. b", "Text.", "• z"], [range(4), range(5, 6)]),
        (["1. a", "1. x", "2. y", "2. b", "3. c"], [range(5)]),
        (["1. a", "Note.", "a. x", "b. y", "2. b"], [range(5)]),
        (["1. a", "2. b", "Text.", "1. c", "2. d"], [range(2), range(3, 5)]),
    ],
)
def test_lists_inside_steps_belong_to_the_procedure(lines: list[str], expected: list[range]) -> None:
    passage = read_passage([_hit("a", "\n\n".join(lines))], {"a": 0}, TEMPLATE)
    assert runs(passage.blocks) == expected


def test_a_list_that_the_answering_sentence_introduces_stands_with_it() -> None:
    passes = "\n\n".join(f"• lamp_pass_{number} does {LONG[:150]}" for number in range(5))
    texts = _unfolded(
        _ask("Which passes does opt_lamp run?", [_hit("a", f"The opt_lamp command runs these passes:\n\n{passes}")])
    )
    assert texts[0] == "The opt_lamp command runs these passes:"
    assert len(texts) == 6


def test_a_text_is_shown_behind_a_figure_that_answers_alone() -> None:
    figure = _hit("f", TAGS[1], modality=Modality.FIGURE).model_copy(update={"text": "A parrot on a branch"})
    answer = _ask("parrot on a branch", [figure, _hit("a", "A pump.", section="Pumps")], ["f", "a"])
    assert _unfolded(answer) == ["f2", "A pump."]


def test_a_figure_far_down_the_ranking_is_left_out_unless_a_figure_is_asked_for() -> None:
    texts = [_hit(f"{number}", f"The flange bolt takes {number} Nm.", section=f"{number}") for number in range(3)]
    rows = [*texts, _hit("b", f"{TAGS[1]}\nA parrot", modality=Modality.FIGURE)]
    assert not [part for part in _ask("flange bolt", rows).parts if part.type == "figure"]
    assert _unfolded(_ask("In which picture is a parrot?", rows))[0] == "f2"


def test_a_table_shows_the_rows_that_answer_and_its_figures_in_their_cells() -> None:
    rows = [["Key", "Does"], [f"{TAGS[1]} A|B", "prints lines"], [TAGS[1], "stops <image:99999999.png>"]]
    answer = _ask("Which key stops?", [_table("Table 1: Keys", *rows)])
    table = next(part for part in answer.parts if isinstance(part, TablePart))
    assert table.rows == [["Key", "Does"], [f"{TAGS[1]} A|B", "prints lines"], [TAGS[1], "stops"]]
    assert 2 in table.key_rows
    assert not table.folded
    assert [figure.figure_id[:2] for figure in table.figures] == ["f2"]


@pytest.mark.parametrize(("sign", "cell"), [("~", "$not"), ("+", "$pos"), ("-", "$neg")])
def test_a_row_is_told_from_others_by_its_signs(sign: str, cell: str) -> None:
    table = _table("", ["Verilog", "Cell"], ["Y = ~A", "$not"], ["Y = +A", "$pos"], ["Y = -A", "$neg"])
    passages = [read_passage([table], {"t": 0}, TEMPLATE)]
    rows = candidates(passages, TEMPLATE)
    scored, _ = scores(
        f"Which cell is Y = {sign}A?", rows, passages, lambda compared: [0.0] * len(compared), max_passages=1
    )
    assert cell in rows[scored.index(max(scored))].text


def test_the_second_row_of_a_tables_header_is_shown_with_the_rows_that_answer() -> None:
    head = [["", "Finland", "", "EU", ""], ["", "Female", "Male", "Female", "Male"]]
    answer = _ask(
        "Finland in 2000", [_table("", *head, *([str(year), "9.1", "9.2", "9.3", "9.4"] for year in range(1990, 2001)))]
    )
    (table,) = (part for part in answer.parts if part.type == "table")
    assert 1 in table.key_rows
    assert 12 in table.key_rows
    plain = _ask("What is a pump?", [_table("", ["Part", "Is"], ["", "one"], ["", "two"], ["pump", "what pumps"])])
    assert [part.key_rows for part in plain.parts if part.type == "table"] == [[3]]


@pytest.mark.parametrize(
    ("question", "column"),
    [
        ("What is the rated current of the P20?", 2),
        ("What is the current of the P20 at full load?", None),
        ("Which pump is the P20?", None),
        ("How heavy is the P20?", None),
    ],
)
def test_the_column_that_a_question_names_is_told(question: str, column: int | None) -> None:
    head = ["Pump", "Starting current", "Rated current"]
    answer = _ask(question, [_table("", head, *([f"P{number}", "9 A", "4 A"] for number in (10, 20, 30)))])
    (table,) = (part for part in answer.parts if part.type == "table")
    assert 2 in table.key_rows
    assert table.key_column == column


def test_a_procedure_is_shown_in_its_order_though_the_picture_of_a_step_ranks_before_it() -> None:
    steps = [
        "1. Switch the projector off.",
        f"2. Loosen the lamp of the projector.\n\n{TAGS[1]}",
        "3. Put the new lamp in.",
    ]
    picture = _hit("b", f"{TAGS[1]}\n2. Loosen the lamp of the projector.", modality=Modality.FIGURE)
    answer = _ask("How do I change the lamp of the projector?", [picture, _hit("a", "\n\n".join(steps))])
    shown = [
        part.text[:2] if part.type == "text" else "picture"
        for part in answer.parts
        if not part.folded and part.type != "table"
    ]
    assert shown == ["1.", "2.", "picture", "3."]


def test_code_keeps_its_line_breaks_and_stands_with_the_sentence_before_it() -> None:
    code = "size(3cm);\ndraw((0,0)--(1,0));"
    answer = _ask("How do I draw a line?", [_hit("a", f"{LONG}\n\nTo draw a line, write:\n\n{code}\n\n{LONG}")])
    visible_parts = [part for part in answer.parts if isinstance(part, TextPart) and not part.folded]
    assert [(part.style, part.text) for part in visible_parts] == [("prose", "To draw a line, write:"), ("code", code)]


def test_code_that_a_paragraph_does_not_speak_of_stays_folded() -> None:
    about = "The ring between the circles is filled by the even-odd rule."
    answer = _ask("What fills the ring?", [_hit("a", f"{LONG}\n\n```\nstop();\n```\n\n{about}\n\n{LONG}")])
    assert _unfolded(answer) == [about]


def test_code_stands_after_a_paragraph_that_introduces_it_in_another_sentence() -> None:
    code = "filldraw(circle^^reverse(wide));"
    about = "The even-odd rule fills the ring. The same effect can be achieved by alternating orientation:"
    answer = _ask("What fills the ring?", [_hit("a", f"{LONG}\n\n{about}\n\n```\n{code}\n```\n\n{LONG}")])
    assert _unfolded(answer) == [about, code]


def test_what_is_fenced_is_code_whatever_it_looks_like() -> None:
    code = "stop the pump\n\n  open the valve"
    answer = _ask("How do I draw a line?", [_hit("a", f"{LONG}\n\nTo draw a line, write:\n\n```\n{code}\n```\n\n{LONG}")])
    visible_parts = [part for part in answer.parts if isinstance(part, TextPart) and not part.folded]
    assert [(part.style, part.text) for part in visible_parts] == [("prose", "To draw a line, write:"), ("code", code)]


def test_a_footnote_between_two_pages_does_not_break_a_sentence() -> None:
    answer = _ask("How do I bleed the pump?", [_hit("a", "Bleed the pump with the\n\n¹ Of 2019.\n\nvalve at its side.")])
    assert "Bleed the pump with the valve at its side." in [
        part.text for part in answer.parts if isinstance(part, TextPart)
    ]


def test_an_answer_begins_with_its_sentence_and_what_stands_before_it_follows_folded() -> None:
    rows = [_hit("a", f"Service\n\n{LONG}"), _hit("b", f"The flange bolt takes 9 Nm.\n\n{LONG}")]
    answer = _ask("Which torque takes the flange bolt?", rows)
    assert [part.folded for part in answer.parts] == [False, True, True, True]
    assert [part.text for part in answer.parts if isinstance(part, TextPart)][:2] == [
        "The flange bolt takes 9 Nm.",
        "Service",
    ]
    assert [part.citations for part in answer.parts] == [[1], [2], [2], [1]]
    assert [cited.evidence_id for cited in answer.citations] == ["b", "a"]


def test_no_heading_stands_above_the_sentence_since_its_citation_names_the_section() -> None:
    answer = _ask("flange bolt", [_hit("a", "1.2 Service\n\nThe flange bolt takes 9 Nm.")])
    assert _unfolded(answer) == ["The flange bolt takes 9 Nm."]
    assert answer.citations[0].section_path[-1] == "Service"


def test_passages_are_bounded_and_a_weak_one_is_folded() -> None:
    rows = [
        _hit(name, f"{text} of row {name}.", section=name)
        for name, text in (("a", "The flange bolt torque"), ("b", "Grease"), ("c", "Oil"))
    ]
    answer = _ask("flange bolt torque", rows, max_passages=2)
    assert [cited.evidence_id for cited in answer.citations] == ["a", "b"]
    assert _unfolded(answer) == ["The flange bolt torque of row a."]


def test_sentences_compared_by_their_vectors_grow_with_the_passages_of_an_answer() -> None:
    rows = [_hit(f"row{number}", " ".join(["The pump runs."] * 9 + ["A valve closes."])) for number in range(8)]
    passages = [read_passage([row], {row.evidence_id: rank}, TEMPLATE) for rank, row in enumerate(rows)]
    sentences = candidates(passages, TEMPLATE)
    for max_passages in (1, 3):
        calls: list[list[Candidate]] = []

        def cosines(compared: Sequence[Candidate], calls: list[list[Candidate]] = calls) -> list[float]:
            calls.append(list(compared))
            return [0.5 + 0.1 * (candidate.passage == 0) for candidate in compared]

        scored, near = scores("Which valve closes?", sentences, passages, cosines, max_passages=max_passages)
        assert [len(compared) for compared in calls] == [COMPARED * max_passages]
        assert {"A valve closes."} < {candidate.text for candidate in calls[0]} or max_passages == 1
        assert near.keys() == set(calls[0])
        # Sentences that weren't compared count as far away as the farthest of those that were.
        words_alone, _ = scores(
            "Which valve closes?", sentences, passages, lambda compared: [0.0] * len(compared), max_passages=max_passages
        )
        added = [score - alone for score, alone in zip(scored, words_alone, strict=True)]
        far = [addition for addition, candidate in zip(added, sentences, strict=True) if candidate not in near]
        assert far == pytest.approx([min(near.values())] * len(far))


def test_nothing_found_is_an_abstention() -> None:
    assert _ask("anything", []).abstained


def test_rows_are_read_with_their_neighbours_of_the_same_section() -> None:
    positions = [RowPosition(f"{section}{number}", "text", (section,), 1) for section in "ab" for number in range(6)]
    positions.insert(3, RowPosition("figure", "figure", ("a",), 1))
    assert around(positions, ["b0", "a4", "a1", "figure"]) == [
        ["b0", "b1", "b2", "b3"],
        ["a0", "a1", "a2", "a3", "a4", "a5"],
        ["figure"],
    ]


@pytest.mark.parametrize(
    "words", [f"{TAGS[0]}{' ' * 200_000}x", f"x{chr(10) * 200_000}", f"x{' ' * 200_000}.", "a; " * 50_000]
)
def test_long_runs_are_gone_through_once(words: str) -> None:
    """By the square of their length this takes minutes."""
    began = time.process_time()
    assert _ask("x", [_hit("a", words)]).parts
    assert time.process_time() - began < 20


def test_the_caption_of_a_table_is_no_answer_but_stands_above_its_table() -> None:
    rows = [
        _hit("a", f"{LONG}\n\nTable 8.1. Fees of a Mortgage"),
        _table("", ["Fee", "Amount"], ["mortgage appraisal", "$300"]),
    ]
    answer = _ask("What are the fees of a mortgage appraisal?", rows)
    assert [part.type for part in answer.parts if not part.folded] == ["text", "table"]
    assert _unfolded(answer)[0] == "Table 8.1. Fees of a Mortgage"
    assert _marked(answer) == []


def test_a_label_that_answers_is_shown_with_the_paragraph_that_explains_it() -> None:
    answer = _ask(
        "What is proc_arst?", [_hit("a", f"{LONG}\n\n• proc_arst\n\nDetects the resets of flip-flops.\n\n{LONG}")]
    )
    assert _unfolded(answer) == ["• proc_arst", "Detects the resets of flip-flops."]


def test_a_figure_above_the_sentence_that_answers_stands_below_it_unless_pictures_are_asked_for() -> None:
    rows = [_hit("a", f"{TAGS[0]}\n\nThe flange bolt takes 9 Nm.\n\n{LONG}")]
    picture = _hit("f", TAGS[0], modality=Modality.FIGURE).model_copy(update={"figure_id": FIGURES[0].figure_id})
    asked = [(picture, 0.9)]
    assert _unfolded(_ask("What torque does the flange bolt take?", rows, figures=asked)) == [
        "The flange bolt takes 9 Nm.",
        "f1",
    ]
    assert _unfolded(_ask("Which picture shows the flange bolt?", rows, figures=asked))[0] == "f1"


def test_no_fold_holds_a_heading_alone() -> None:
    row = _hit("a", "Chapter 9\n\nThe flange bolt takes 9 Nm.\n\nService")
    assert not any(part.folded for part in _ask("flange bolt torque", [row]).parts)


def test_the_sentence_that_answers_best_comes_first() -> None:
    text = f"The flange bolt torque is known.\n\n{LONG}\n\nThe flange bolt torque of pump A is 9 Nm.\n\n{LONG}"
    answer = _ask("How much is the flange bolt torque of pump A?", [_hit("a", text)])
    assert _unfolded(answer) == ["The flange bolt torque of pump A is 9 Nm.", "The flange bolt torque is known."]
    folded = [part.text for part in answer.parts if isinstance(part, TextPart) and part.folded]
    assert folded == [LONG, LONG]


def test_a_yes_no_question_is_answered_from_the_sentence_that_decides_on() -> None:
    items = [
        "• The watch shows tides.",
        "• Tides of all regions are not shown by the watch.",
        "• The watch shows the moon.",
    ]
    text = f"Take care. The watch is charged. The watch can't be charged in water.\n\n{LONG}"
    for question in ("Does the watch show tides of all regions?", "If I travel, does the watch show tides of all regions?"):
        assert _unfolded(_ask(question, [_hit("a", "\n\n".join(items))]))[0] == items[1]
    assert (
        _unfolded(_ask("Which tides of all regions are not shown by the watch?", [_hit("a", "\n\n".join(items))])) == items
    )
    assert _unfolded(_ask("Can the watch be charged in water?", [_hit("a", text)])) == [
        "The watch can't be charged in water."
    ]


def test_long_sentences_are_marked_until_the_answer_has_its_words() -> None:
    texts = [f"The flange bolt torque of pump {pump} is given here: {LONG}" for pump in "AB"]
    answer = _ask("flange bolt torque of pump A", [_hit("a", "\n\n".join(texts))])
    assert _marked(answer) == [texts[0]]


def test_a_list_that_has_nothing_of_the_question_is_no_procedure() -> None:
    steps = [f"{number}. Part {number} shows what the window has there. {LONG}" for number in range(1, 5)]
    answer = _ask("How do I undo a change?", [_hit("a", "\n\n".join([*steps, "5. The menu has Edit, and there is undo."]))])
    assert _unfolded(answer) == ["5. The menu has Edit, and there is undo."]


def test_what_the_last_sentence_of_a_row_introduces_comes_with_it() -> None:
    rows = [_hit("a", "The principal is created as follows:"), _hit("b", "principal = create(admin);")]
    assert _unfolded(_ask("How is the principal created?", rows, ["a"])) == [rows[0].text, rows[1].text]


def test_the_steps_of_a_procedure_are_shown_though_another_passage_scores_better() -> None:
    overview = f"To create a stock account, plan your accounts of stock first. {LONG} {LONG}"
    rows = [
        _hit("a", overview, section="Accounts"),
        _hit("b", "1. Open the dialog.\n\n2. Name the account.\n\n10.Save it.", section="Example"),
        _hit("c", "Stock account\n\n1. Open the dialog.\n\n2. Name the account.\n\n3.Save it.", section="Stock account"),
    ]
    assert _unfolded(_ask("How do I create a stock account?", rows))[-3:] == [
        "1. Open the dialog.",
        "2. Name the account.",
        "3.Save it.",
    ]


def test_what_follows_the_sentence_is_read_on_over_the_borders_of_rows_to_a_heading() -> None:
    rows = [
        _hit("a", "The flange bolt takes 9 Nm. Grease it."),
        _hit("b", "Wait an hour.\n\n• Check the gap."),
        _hit("c", "Service\n\nThe seal is of rubber."),
    ]
    texts = ["The flange bolt takes 9 Nm. Grease it.", "Wait an hour.", "• Check the gap."]
    answer = _ask("What torque does the flange bolt take?", rows, ["a"])
    assert _unfolded(answer) == texts
    assert [cited.evidence_id for cited in answer.citations] == ["a", "b"]


@pytest.mark.parametrize("seed", range(20))
def test_a_procedure_without_numbers_is_shown_whole_and_in_order(seed: int) -> None:
    random = Random(seed)
    verbs = random.sample(["Open", "Close", "Press", "Turn", "Unscrew", "Wipe", "Choose", "Remove", "Tighten", "Drain"], 6)
    openings = ["", "Then ", "Next, ", "If the lamp is red, ", "To empty it, "]
    steps: list[str] = []
    for verb in verbs:
        opening = random.choice(openings)
        steps.append(
            f"{opening}{verb.lower() if opening else verb} the {random.choice(['cover', 'valve', 'bowl'])} {len(steps)}."
        )
    steps.insert(random.randrange(1, 6), "Replace the filter element.")
    borders = sorted(random.sample(range(1, 7), 2))
    paragraphs = [" ".join(steps[start:stop]) for start, stop in zip([0, *borders], [*borders, 7], strict=True)]
    rows = [_hit(f"r{number}", text) for number, text in enumerate([*paragraphs, f"Parts\n\n{LONG}"])]
    answer = _ask("How do I replace the filter element?", rows[:3], [random.choice(["r0", "r1", "r2"])])
    assert " ".join(_unfolded(answer)) == " ".join(steps)


def test_a_list_of_parts_is_no_procedure() -> None:
    text = f"Mount the display with its screws.\n\n{LONG}\n\n• Remote Control\n\n• User Manual\n\n• Power Supply"
    assert _unfolded(_ask("How do I mount the display?", [_hit("a", text)])) == ["Mount the display with its screws."]


@pytest.mark.parametrize(
    "problem", ["Problem: the spindle doesn't turn.", "Why doesn't the spindle turn?", "The spindle turns not."]
)
def test_a_problem_is_answered_by_what_stands_behind_it(problem: str) -> None:
    solution = "Solution: release the emergency stop."
    answer = _ask("What if the spindle doesn't turn?", [_hit("a", f"{LONG}\n\n{problem}\n\n{solution}\n\n{LONG}")])
    assert _unfolded(answer) == [problem, solution]


def test_a_table_that_the_answering_sentence_introduces_is_shown() -> None:
    rows = [_hit("a", "The flange bolts take these torques:"), _table("", ["Size", "Nm"], ["M6", "9"], ["M8", "25"])]
    table = next(part for part in _ask("Which torques do flange bolts take?", rows, ["a"]).parts if part.type == "table")
    assert not table.folded


def test_a_paragraph_is_shown_once_though_a_figure_has_its_words() -> None:
    words = "The flange bolt of the pump takes a torque of 9 Nm."
    rows = [_hit("f", f"{TAGS[1]}\n{words}", modality=Modality.FIGURE), _hit("a", f"{words}\n\n{LONG}", section="Torque")]
    parts = _ask("Which torque takes the flange bolt?", rows, ["f", "a"]).parts
    assert sum(words in getattr(part, "text", "") for part in parts) == 1


def test_a_model_is_sent_the_whole_list_of_the_best_passage_and_the_second_best() -> None:
    rows = [
        _hit("s1", "1. Open the cover of the lamp.\n\n2. Turn the lamp."),
        _hit("s2", "3. Pull the lamp out.\n\n4. Insert the new lamp."),
        _hit("o", "A lamp burns for a year.", section="Lamps"),
        _hit("z", "The pump is blue.", section="Pumps"),
    ]
    positions = [RowPosition(row.evidence_id, row.modality, tuple(row.section_path), row.page) for row in rows]
    ranks = {"s2": 0, "o": 1, "z": 2}
    by_id = {row.evidence_id: row for row in rows}
    passages = [read_passage([by_id[name] for name in run], ranks, TEMPLATE) for run in around(positions, [*ranks])]
    question = "How do I change the lamp?"
    some = candidates(passages, TEMPLATE)
    scored, _ = scores(question, some, passages, lambda compared: [0.0] * len(compared), max_passages=3)
    sent = rows_that_answer(Material(question, passages, some, scored))
    assert [row.evidence_id for row in sent] == ["s1", "s2", "o"]
