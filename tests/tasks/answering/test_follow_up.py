"""Follow-up questions that stand alone: what is carried over, and where nothing is."""

import json
from collections.abc import Generator
from pathlib import Path

import pytest

from schemas.errors import BadInputError, TransientError
from schemas.models import Reply, Request
from schemas.retrieval import Turn
from tasks.answering.rewrite import on_topic, questions_in, refers_back, reworded_follow_up, with_subject
from tasks.answering.trace import StepRecord

DIALOGUES = Path(__file__).parents[3] / "bench" / "questions" / "dialogues.jsonl"


@pytest.mark.parametrize(
    ("turns", "question", "alone"),
    [
        (["How do I reconcile an account?"], "How do I undo it?", "How do I undo it? (reconcile account)"),
        (["What is the $sr cell of Yosys?"], "And the $mod cell?", "And the $mod cell? ($sr Yosys)"),
        (["What is a soft limit?"], "How is the torch of a plasma table lit?", "How is the torch of a plasma table lit?"),
        (["What is RTLIL?", "Which cells does it have?"], "And which wires?", "And which wires? (cells RTLIL)"),
        ([], "What does it cost?", "What does it cost?"),
    ],
)
def test_the_subject_of_earlier_turns_is_carried_over(turns: list[str], question: str, alone: str) -> None:
    assert with_subject(question, [Turn(question=turn) for turn in turns]) == alone


@pytest.mark.parametrize(("question", "turns"), [("Back to the pump: what does it weigh?", 1), ("And how old is it?", 2)])
def test_a_question_that_goes_back_to_a_topic_is_asked_about_that(question: str, turns: int) -> None:
    history = [Turn(question="Which oil does the pump need?"), Turn(question="Where is the winch?")]
    assert on_topic(question, history) == history[:turns]


@pytest.mark.parametrize(
    ("text", "questions"),
    [
        ("What is a split and how do I delete it?", ["What is a split", "how do I delete it? (split)"]),
        (
            "Which oil does the pump need? Where is the blue winch?",
            ["Which oil does the pump need?", "Where is the blue winch?"],
        ),
        ("How and where is the pump mounted?", ["How and where is the pump mounted?"]),
        ("Does the pump need oil and water?", ["Does the pump need oil and water?"]),
        ("What does the pump weigh? Answer in kilograms.", ["What does the pump weigh? Answer in kilograms."]),
    ],
)
def test_two_questions_in_one_are_answered_one_by_one(text: str, questions: list[str]) -> None:
    assert questions_in(text) == questions


def test_the_dialogues_of_the_benchmark_refer_back_and_their_full_questions_do_not() -> None:
    dialogues = [json.loads(line) for line in DIALOGUES.read_text(encoding="utf-8").splitlines()]
    assert len(dialogues) >= 60
    assert {len(dialogue["turns"]) for dialogue in dialogues} == {2, 3}
    follow_ups = [refers_back(dialogue["turns"][-1]) for dialogue in dialogues]
    assert sum(follow_ups) >= 0.9 * len(dialogues)
    assert sum(not refers_back(dialogue["alone"]) for dialogue in dialogues) >= 0.6 * len(dialogues)


class ScriptedModel:
    """A ``StreamingModel`` with one reply."""

    def __init__(self, text: str) -> None:
        self.text = text

    def stream(self, request: Request) -> Generator[str | Reply | BadInputError | TransientError, None, None]:
        yield Reply(self.text, "scripted", 1, 0, 0)


@pytest.mark.parametrize(
    ("reply", "question"),
    [
        ("Which way does the Z axis move?", "Which way does the Z axis move?"),
        ("The Z axis moves up.", ""),
        ("How is the Z axis homed?", ""),
        ("NO ANSWER", ""),
    ],
)
def test_a_rewriting_that_answers_or_asks_something_else_is_not_taken(reply: str, question: str) -> None:
    record = StepRecord("follow-up")
    history = [Turn(question="What is the Z axis?", answer="The axis of the spindle.")]
    assert reworded_follow_up("And which way does it move?", history, ScriptedModel(reply), record) == question
    assert bool(record.note) == (not question)
