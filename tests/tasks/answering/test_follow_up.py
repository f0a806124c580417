"""Follow-up questions that stand alone: what is carried over, and where nothing is."""

import json
from pathlib import Path

import pytest

from schemas.retrieval import Turn
from tasks.answering.rewrite import refers_back, with_subject

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


def test_the_dialogues_of_the_benchmark_refer_back_and_their_full_questions_do_not() -> None:
    dialogues = [json.loads(line) for line in DIALOGUES.read_text(encoding="utf-8").splitlines()]
    assert len(dialogues) >= 60
    assert {len(dialogue["turns"]) for dialogue in dialogues} == {2, 3}
    follow_ups = [refers_back(dialogue["turns"][-1]) for dialogue in dialogues]
    assert sum(follow_ups) >= 0.9 * len(dialogues)
    assert sum(not refers_back(dialogue["alone"]) for dialogue in dialogues) >= 0.6 * len(dialogues)
