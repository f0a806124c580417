"""What scripted models write, and what a reader sees of it. No behaviour shows a wrong figure, or a name as text."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.answers import AnswerCounts, FigurePart, Part, PartFinished, TablePart, TextDelta, TextPart
from schemas.evidence import CitedFigure, CitedRegion, Hit
from schemas.tags import TagTemplate
from tasks.answering.compose import ModelInput, answer_prompts, compose
from tasks.answering.read_reply import MOST_HELD, ReplyReader
from tests.tasks.answering.hits import made_hit

STEPS = 5


def step(number: int) -> Hit:
    """A step of a procedure, with its figure."""
    figure = CitedFigure(
        figure_id=f"{number}" * 64, number=f"1234567{number}", caption=f"Figure {number}", page=number, bbox=(0, 0, 9, 9)
    )
    return made_hit(
        f"e{number}",
        f"{number}. Turn screw {number}. <image:1234567{number}.png>",
        title="Pump",
        source="pump.pdf",
        page=number,
        regions=[CitedRegion(page=number, bbox=(0, 0, 1, 1))],
        section_path=["Service"],
        text=f"{number}. Turn screw {number}.",
        figure_refs=[figure.figure_id],
        figures=[figure],
    )


SENT = compose(
    "How is it serviced?",
    [step(n) for n in range(1, STEPS + 1)],
    answer_prompts()["written"],
    TagTemplate(),
    context_chars=9000,
)
NAMES = {part.figure_id[0]: digits for digits, part in SENT.figures.items()}
A, B, C = NAMES["1"], NAMES["2"], NAMES["3"]


def read(reply: str, pieces: Sequence[str] | None = None, sent: ModelInput = SENT) -> ReplyReader:
    """Read a reply in pieces, and check what holds of every one."""
    reader = ReplyReader(sent)
    partial_texts: dict[int, str] = {}
    finished: dict[int, Part] = {}
    for piece in [reply] if pieces is None else pieces:
        for event in reader.feed(piece):
            _keep(event, partial_texts, finished)
    for event in reader.close():
        _keep(event, partial_texts, finished)
    assert [finished[part_number] for part_number in range(len(reader.parts))] == reader.parts
    for part in reader.parts:
        for text in _texts(part):
            assert not re.search(r"\[\s*(IMG|P\d)|IMG-\d{5}|<\s*image|<think", text, re.IGNORECASE), text
            assert not set(text) & set("\u202e\u200b\x00\ue000")
        for figure in _figures(part):
            assert figure in sent.figures.values()
    return reader


def _keep(event: TextDelta | PartFinished, partial_texts: dict[int, str], finished: dict[int, Part]) -> None:
    if isinstance(event, TextDelta):
        assert not re.search(r"IMG-\d|\[P\d", event.text)
        partial_texts[event.part] = partial_texts.get(event.part, "") + event.text
    else:
        finished[event.part] = event.value


def _texts(part: Part) -> list[str]:
    if isinstance(part, TextPart):
        return [part.text]
    if isinstance(part, TablePart):
        tags = {figure.tag for figure in part.figures}
        cells = [TagTemplate().split(cell) for row in part.rows for cell in row]
        return ["".join(words for words, _ in cell if words not in tags) for cell in cells]
    return []


def _figures(part: Part) -> list[FigurePart]:
    return [part] if isinstance(part, FigurePart) else part.figures if isinstance(part, TablePart) else []


def figures(reader: ReplyReader) -> str:
    return "".join(figure.figure_id[0] for part in reader.parts for figure in _figures(part))


def words(reader: ReplyReader) -> str:
    return " ".join(part.text for part in reader.parts if isinstance(part, TextPart))


def swapped(digits: str, position: int = 2, by: str = "") -> str:
    replacement = by or str((int(digits[position]) + 5) % 10)
    return digits[:position] + replacement + digits[position + 1 :]


ALL = "\n".join(f"{n}. Turn screw {n} [P{n}].\n[IMG-{NAMES[str(n)]}]" for n in range(1, STEPS + 1))
ELSEWHERE = compose(
    "?",
    [step(1).model_copy(update={"figures": [], "tagged_text": "Nothing."})],
    answer_prompts()["written"],
    TagTemplate(),
    context_chars=9,
)

BEHAVIOURS: list[tuple[str, str, str, dict[str, int]]] = [
    ("copies every name behind its step", ALL, "12345", {}),
    ("copies them in a line of text", f"Turn [IMG-{A}] and [IMG-{B}] now [P1].", "12", {}),
    ("reorders", f"Last [IMG-{C}] [P3].\nFirst [IMG-{A}] [P1].", "31", {}),
    ("repeats", f"Turn [IMG-{A}] [P1]. Again [IMG-{A}] [P1].", "1", {"repeated_tags": 1}),
    ("invents", "See [IMG-1] and [IMG-99999] [P1].", "", {"unknown_tags": 2}),
    ("mistypes a digit", f"See [IMG-{swapped(A)}] [P1].", "1", {"repaired_tags": 1}),
    ("mistypes a digit as a letter", f"See [IMG-{swapped(A, 1, 'O')}] [P1].", "1", {"repaired_tags": 1}),
    ("leaves out a digit", f"See [IMG-{A[:-1]}] [P1].", "1", {"repaired_tags": 1}),
    ("doubles a digit", f"See [IMG-{A}{A[-1]}] [P1].", "1", {"repaired_tags": 1}),
    ("mistypes two digits", f"See [IMG-{swapped(swapped(A), 4)}] [P1].", "", {"unknown_tags": 1}),
    ("translates", f"Siehe [BILD-{A}] und [图 {B}] [P1].", "12", {"repaired_tags": 2}),
    ("writes small letters and spaces", f"See [ img - {A} ] [p1].", "1", {}),
    ("uses wide brackets", f"See \uff3bIMG-{A}\uff3d \u3010P1\u3011.", "1", {}),
    ("leaves the brackets out", f"See IMG-{A} [P1].", "1", {}),
    (
        "writes a picture of Markdown",
        f"See ![panel](IMG-{A}) and ![x](http://evil/{A[:3]}.png) [P1].",
        "1",
        {"unknown_tags": 1},
    ),
    ("writes the tag of a document", "See <image:12345671.png> [P1].", "", {"unknown_tags": 1}),
    (
        "writes an element of HTML",
        '<img src="https://evil/x.png" onerror="alert(1)"> Turn it [P1].',
        "",
        {"unknown_tags": 1},
    ),
    ("wraps a name in code", f"Turn it [P1].\n```\n[IMG-{A}]\nG0 X0\n```", "1", {}),
    ("puts a name into a heading", f"# Service [IMG-{A}]\nTurn it [P1].", "1", {}),
    ("puts names into a table", f"| Step | Shown |\n|---|---|\n| 1 | [IMG-{A}] |\n| 2 | [IMG-{B}] [P2] |", "12", {}),
    ("puts names into thoughts", f"<think>[IMG-{B}] fits [P2].</think>Turn it [IMG-{A}] [P1].", "1", {}),
    ("thinks without a beginning", f"First [IMG-{B}] [P2].\n</think>\nTurn it [IMG-{A}] [P1].", "1", {}),
    ("never stops thinking", f"<think>Turn it [IMG-{A}]", "", {}),
    ("stops in a name", f"Turn it [P1]. [IMG-{A[:3]}", "", {"unknown_tags": 1}),
    ("stops in a citation", "Turn it. [P", "", {"unknown_citations": 1, "uncited_sentences": 1}),
    ("writes nothing but names", f"[IMG-{A}][IMG-{B}]", "12", {}),
    ("joins names in one bracket", f"Turn them [IMG-{A}, IMG-{B}] [P1].", "12", {}),
    ("cites what was not sent", "Turn it [P1][P9][P0].", "", {"unknown_citations": 2}),
    ("cites by bare numbers", "Turn it [1]. And [2, 3].", "", {}),
    ("cites nothing", "Turn it. Then wait.", "", {"uncited_sentences": 2}),
    ("hides characters in a name", f"See [I\u200bMG-{A}] [P1].", "1", {}),
    ("turns text round", f"See \u202e[IMG-{A}]\u202c [P1].", "1", {}),
    ("writes bold", f"**Turn** it **[IMG-{A}]** [P1].", "1", {}),
    ("writes ten thousand names", "[IMG-11111] " * 10_000, "", {"unknown_tags": 10_000}),
]


@pytest.mark.parametrize(
    ("reply", "figure_ids", "counted"),
    [behaviour[1:] for behaviour in BEHAVIOURS],
    ids=[behaviour[0] for behaviour in BEHAVIOURS],
)
def test_what_a_model_does_never_shows_a_wrong_figure(reply: str, figure_ids: str, counted: dict[str, int]) -> None:
    reader = read(reply)
    assert figures(reader) == figure_ids
    assert reader.counts == AnswerCounts(**counted)
    for pieces in (list(reply), re.findall(r"(?s).{1,7}", reply)):
        if len(reply) < 2000:
            again = read(reply, pieces)
            assert (again.parts, again.counts) == (reader.parts, reader.counts)


def test_a_name_may_be_cut_at_every_place() -> None:
    reply = f"Turn it [IMG-{A}] and [IMG-{B}] now [P1][P2]. Done [P3]."
    uncut = read(reply)
    for position in range(1, len(reply)):
        assert read(reply, [reply[:position], reply[position:]]).parts == uncut.parts


def test_names_of_another_request_name_nothing() -> None:
    reader = read(f"See [IMG-{A}] [P1].", sent=ELSEWHERE)
    assert figures(reader) == ""
    assert reader.counts.unknown_tags == 1


NAMED = f"[IMG-{C}] [P2] [ ] IMG- {A} {B} {A[:3]} P1 <image: <think> </think> | --- ``` ! ( ) ** > , x NO".split()
PIECES = st.sampled_from([*NAMED, "\n", "\n\n", "# ", "1. ", "- ", "Turn it. ", "\u202e", "NO ANSWER", " "])


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=25))
def test_whatever_is_written_chunks_change_nothing(pieces: list[str]) -> None:
    uncut, cut = read("".join(pieces)), read("", list("".join(pieces)))
    assert cut.parts == uncut.parts
    assert cut.counts == uncut.counts


def parts(reply: str) -> list[tuple[Any, ...]]:
    return [
        (part.type, part.text, part.citations, part.style) if isinstance(part, TextPart) else (part.type,)
        for part in read(reply).parts
    ]


def test_a_part_ends_where_its_citations_do() -> None:
    assert parts("One. Two [P1]. Three. [P2] Four [P1, P2].\n\nFive.") == [
        ("text", "One.", [], "prose"),
        ("text", "Two.", [1], "prose"),
        ("text", "Three.", [2], "prose"),
        ("text", "Four.", [1, 2], "prose"),
        ("text", "Five.", [], "prose"),
    ]
    assert [part.continues for part in read("One. Two [P1]. Three [P2].\n\nFour.").parts if part.type == "text"] == [
        False,
        True,
        True,
        False,
    ]


def test_a_citation_counts_for_the_whole_sentence_around_a_figure() -> None:
    reader = read(f"Turn the screw [IMG-{A}] until it stops [P1]. Then wait. [IMG-{B}] [P2]")
    assert [(part.type, part.citations) for part in reader.parts] == [
        ("text", [1]),
        ("figure", [1]),
        ("text", [1]),
        ("text", [2]),
        ("figure", [2]),
    ]
    assert reader.counts.uncited_sentences == 0


def test_lines_have_their_kind() -> None:
    assert parts(
        "## Service\nDo this:\n1. Turn it [P1].\n2. Wait [P2].\n- or not\n```sh\nG0  X0\n  G1\n```\nDone [P1]."
    ) == [
        ("text", "Service", [], "heading"),
        ("text", "Do this:", [], "prose"),
        ("text", "1. Turn it.", [1], "item"),
        ("text", "2. Wait.", [2], "item"),
        ("text", "- or not", [], "item"),
        ("text", "G0  X0\n  G1", [], "code"),
        ("text", "Done.", [1], "prose"),
    ]


def test_a_table_has_its_figures_in_their_cells() -> None:
    (table,) = read(f"| Step | Shown |\n| --- | :-: |\n| a \\| b | [IMG-{A}] [P1] |").parts
    assert isinstance(table, TablePart)
    assert table.rows == [["Step", "Shown"], ["a | b", "<image:12345671.png>"]]
    assert (table.citations, [figure.tag for figure in table.figures]) == ([1], ["<image:12345671.png>"])


@pytest.mark.parametrize(
    "reply", ["NO ANSWER", ' "No answer." It is not in the passages.', "<think>Hm.</think>\n\nNO ANSWER\n"]
)
def test_a_model_may_say_that_nothing_answers(reply: str) -> None:
    for pieces in ([reply], list(reply)):
        reader = read(reply, pieces)
        assert (reader.says_no_answer, reader.parts) == (True, [])


@pytest.mark.parametrize(
    "reply",
    ["I cannot answer.", "I can't answer this question from the passages.", "Sorry, but I am unable to answer that"],
)
def test_a_refusal_in_other_words_is_no_answer(reply: str) -> None:
    assert read(reply, list(reply)).says_no_answer
    assert not read(f"{reply.removesuffix('.')}, but [P1] says 21 bar.").says_no_answer


def test_an_invented_number_is_dropped_and_counted() -> None:
    reader = read("Turn it [7]. Then [1, 9].")
    assert words(reader) == words(read("Turn it. Then [1]."))
    assert reader.counts.unknown_citations == 2
    assert "a[7]" in str(read("```\nx = a[7]\n```").parts[0])


@pytest.mark.parametrize("reply", ["No answers stand there [P1].", "NO", "Nothing."])
def test_words_that_begin_like_that_are_an_answer(reply: str) -> None:
    reader = read(reply, list(reply))
    assert not reader.says_no_answer
    assert words(reader)


def test_numbers_that_the_documents_hold_are_no_citations() -> None:
    hit = step(1).model_copy(update={"text": "As shown in [1].", "tagged_text": "As shown in [1]."})
    sent = compose("?", [hit, step(2)], answer_prompts()["written"], TagTemplate(), context_chars=9000)
    assert [
        (part.text, part.citations) for part in read("So says [1]. And [2].", sent=sent).parts if part.type == "text"
    ] == [("So says [1].", []), ("And.", [2])]


def test_words_come_at_once() -> None:
    reader = ReplyReader(SENT)
    assert [event.text for event in reader.feed("Turn the") if isinstance(event, TextDelta)] == ["Turn the"]


def test_a_long_reply_takes_linear_time() -> None:
    """What is held back stays short, whatever comes: an open bracket, an open table, one word without an end."""
    makers: list[Callable[[int], str]] = [
        lambda n: "[" * n,
        lambda n: "x" * n,
        lambda n: "|" * n,
        lambda n: "Turn it [P1]. " * n,
    ]
    for make in makers:
        reader = ReplyReader(SENT)
        for character in make(2_000):
            reader.feed(character)
        assert len(reader._pending) < 300


@pytest.mark.parametrize("endless", ["\n", " ", "`", "*", "```\n ", "| a "])
def test_a_reply_without_an_end_is_read_to_its_end(endless: str) -> None:
    reader = ReplyReader(SENT)
    for _ in range(3_000):
        reader.feed(endless)
        assert len(reader._pending) < 300
    reader.feed("\n```\n\nThe end [P1].\n")
    reader.close()
    assert not reader.says_no_answer
    assert reader.parts


def test_endless_blanks_are_held_back_no_longer_than_a_name() -> None:
    """Each piece is compared with all that is held, so an unbounded head costs the square of the reply."""
    prose = ReplyReader(SENT)
    code = ReplyReader(SENT)
    code.feed("```\n")
    for reader in (prose, code):
        for _ in range(3_000):
            reader.feed(" ")
            assert len(reader._writer._line_start or "") <= MOST_HELD
