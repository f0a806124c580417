"""What a judge replies, and how it is read: as it should be, nearly so, and not at all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.judging.verdicts import read_verdict, verdict
from schemas.errors import BadInputError, FailureCode, UserError
from tests.lab.judging.scripted_judge import Said, ScriptedJudge, grade


@pytest.mark.parametrize(
    ("reply", "value", "reason"),
    [
        ('{"grade": "YES", "reason": "It says so."}', 1.0, "It says so."),
        ('{"grade": "NO", "reason": "It doesn\'t."}', 0.0, "It doesn't."),
        ('```json\n{"grade": "YES", "reason": "It says so."}\n```', 1.0, "It says so."),
        ("{'grade': 'NO', 'reason': 'single quotes'}", 0.0, "single quotes"),
        ("{grade: 'YES', reason: 'bare names'}", 1.0, "bare names"),
        ("{grade: NO, reason: bare words}", 0.0, "bare words"),
        ('{"grade": true}', 1.0, ""),
        ('{"grade": 0, "reason": null}', 0.0, "null"),
        ('{"grade": "yes.", "reason": ["one", "two"]}', 1.0, "one two"),
        ('{"grade": "NO", "reason": "it has {braces}"}', 0.0, "it has {braces}"),
        ('First {"grade": "NO"}, but on reflection {"grade": "YES", "reason": "last"}', 1.0, "last"),
        ("<think>It could be NO.</think>YES", 1.0, ""),
        ("Yes.", 1.0, ""),
        ("**No**", 0.0, ""),
        ("Y", 1.0, ""),
    ],
)
def test_replies_that_can_be_read(reply: str, value: float, reason: str) -> None:
    result = read_verdict(reply)
    assert (result.value, result.reason) == (value, reason)


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "   ",
        "The answer seems fine to me.",
        '{"grade": "YES", "reason": "cut in the mid',
        '{"grade": "YES or NO", "reason": "one sentence"}',
        '{"grade": "maybe"}',
        '{"grade": 0.7}',
        '{"verdict": "YES"}',
        "{grade: 2026-99-99}",
        "{" + "[" * 5000 + "}",
        "<think>It goes on and on: YES",
        "[]",
        "{}",
    ],
)
def test_replies_that_can_not_be_read_are_null_with_what_was_said(reply: str) -> None:
    result = read_verdict(reply)
    assert result.value is None
    assert result.reason.startswith("the judge's reply has no grade: ")
    assert len(result.reason) < 300


@given(st.text() | st.text(alphabet="{}[]:,\"'graedYESNO -&*!|>%@`?#\n\t\\"))
def test_no_reply_raises(reply: str) -> None:
    assert read_verdict(reply).value in (None, 0.0, 1.0)


def replying(*replies: Said) -> ScriptedJudge:
    remaining = iter(replies)
    return ScriptedJudge(lambda *_: next(remaining))


def test_an_unreadable_reply_is_sent_back_once_with_the_pictures() -> None:
    judge = replying("I think so.", grade(True, "now"))
    result = verdict(judge, "image_context_relevancy", (b"picture",), question="What is it?")
    assert (result.value, result.reason) == (1.0, "now")
    first, second = (request.messages for request in judge.requests)
    assert second[:2] == (*first, second[1])
    assert (second[0].pictures, second[1].role, second[1].text) == ((b"picture",), "assistant", "I think so.")


def test_a_second_unreadable_reply_is_null() -> None:
    judge = replying("I think so.", "I still do.")
    result = verdict(judge, "answer_relevancy", question="?", answer="!")
    assert (result.value, result.reason) == (None, "the judge's reply has no grade: I still do.")
    assert len(judge.requests) == 2


def test_a_judge_that_refuses_is_null_and_not_asked_again() -> None:
    judge = replying(BadInputError("it refuses", FailureCode.MODEL_FAILED))
    assert verdict(judge, "answer_relevancy", question="?", answer="!").reason == "it refuses"
    assert len(judge.requests) == 1


def test_a_judge_that_is_not_as_configured_is_null() -> None:
    def says(*_: object) -> str:
        raise UserError("401: no such key")

    assert verdict(ScriptedJudge(says), "answer_relevancy", question="?", answer="!").reason == "401: no such key"


def test_words_that_look_like_placeholders_are_kept() -> None:
    judge = replying(grade(True))
    verdict(judge, "answer_relevancy", question="What does $answer cost?", answer="$5, ${x} and $$")
    assert "What does $answer cost?" in judge.requests[0].messages[0].text
    assert "$5, ${x} and $$" in judge.requests[0].messages[0].text
