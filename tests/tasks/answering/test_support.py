"""What a model wrote, beside the passages that it was sent."""

import pytest

from schemas.answers import TextPart
from tasks.answering.generate import with_support

PASSAGES = ["The pump opens at 3 bar. It does not need oil.", "The winch lifts 300 kg by its steel rope."]
QUESTION = "At which pressure does the Kestrel pump open?"


@pytest.mark.parametrize(
    ("text", "cited", "supported", "unsupported"),
    [
        ("The pump opens at 3 bar.", [1], [1], 0),
        ("The pump opens at 3 bar.", [], [1], 0),
        ("The pump opens at 3 bar.", [2], [1], 0),
        ("The pump opens at 8 bar.", [1], [], 1),
        ("The pump of Meridian opens at 3 bar.", [1], [], 1),
        ("The Kestrel pump opens.", [1], [], 0),
        ("It needs oil.", [1], [], 1),
        ("2. The winch lifts 300 kg.", [2], [2], 0),
        ("That is all.", [], [], 0),
        ("The pressure of the Kestrel pump is 3 bar.", [], [1], 0),
        ("The pressure of the Kestrel pump is 8 bar.", [], [], 1),
    ],
)
def test_citations_come_from_the_passages(text: str, cited: list[int], supported: list[int], unsupported: int) -> None:
    parts, count = with_support([TextPart(text=text, citations=cited)], PASSAGES, QUESTION)
    assert [part.citations for part in parts] == [supported]
    assert count == unsupported


def test_a_question_of_yes_or_no_is_answered_in_its_own_words() -> None:
    answer = TextPart(text="The pump does not need oil.", citations=[1])
    assert with_support([answer], PASSAGES, "Does the pump need oil?") == ([answer], 0)


def test_code_is_not_compared() -> None:
    code = TextPart(text="set_lamp 99", citations=[1], style="code")
    assert with_support([code], PASSAGES, QUESTION) == ([code], 0)


def test_each_sentence_that_cites_nothing_is_compared_alone() -> None:
    parts, count = with_support(
        [TextPart(text="Well. The pump opens at 3 bar. Or at 8?", citations=[])], PASSAGES, QUESTION
    )
    assert [(part.text, part.citations, part.continues) for part in parts if isinstance(part, TextPart)] == [
        ("Well.", [], False),
        ("The pump opens at 3 bar.", [1], True),
        ("Or at 8?", [], True),
    ]
    assert count == 1
