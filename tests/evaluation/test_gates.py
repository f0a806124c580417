"""What golden questions refuse: losses beyond a margin that chance doesn't explain."""

import pytest

from evaluation.golden import ModeReport, QuestionScore, paired_bootstrap, retrieval_gates
from evaluation.questions import GoldPage, Question
from schemas.corpus.operations import GateOptions
from schemas.gates import GateResult

LIVE, SINGLE = "recall against the live version", "hybrid against single modes"


def report(mode: str, marks: str) -> ModeReport:
    """A report on a question a character: ``+`` where its page was found."""
    ranks = [1 if mark == "+" else None for mark in marks]
    scores = [QuestionScore(id=str(number), page_rank=rank, figure_rank=None) for number, rank in enumerate(ranks)]
    return ModeReport(
        mode=mode,
        questions=len(scores),
        recall_at_1=marks.count("+") / len(marks) if marks else None,
        recall_at_10=marks.count("+") / len(marks) if marks else None,
        reciprocal_rank=None,
        ndcg_at_10=None,
        figure_recall_at_10=None,
        scores=scores,
    )


def judge(
    hybrid: str, *, bm25: str | None = None, dense: str | None = None, live: str | None = None, **bounds: float
) -> dict[str, GateResult]:
    parts = [report("bm25", hybrid if bm25 is None else bm25), report("dense", hybrid if dense is None else dense)]
    before = None if live is None else report("hybrid", live)
    pages = [GoldPage(doc="pump.pdf", page=number) for number in range(1, len(hybrid) + 1)]
    questions = [
        Question(id=str(index), question="?", documents=["pump.pdf"], pages=[page]) for index, page in enumerate(pages)
    ]
    return {
        gate.gate: gate
        for gate in retrieval_gates(questions, report("hybrid", hybrid), parts, before, GateOptions(**bounds))
    }


def test_an_equal_version_holds() -> None:
    gates = judge("++-" * 10, live="++-" * 10, min_recall_at_10=0.6)
    assert list(gates) == ["recall at 10", SINGLE, LIVE]
    assert all(gate.passed for gate in gates.values())


def test_a_first_version_is_compared_with_nothing() -> None:
    assert LIVE not in judge("+")


def test_too_little_recall_is_refused() -> None:
    gate = judge("+-", min_recall_at_10=0.6)["recall at 10"]
    assert (gate.passed, gate.value, gate.bound) == (False, 0.5, 0.6)
    assert gate.message.endswith(
        "not found: 1 (pump.pdf page 2); correct what is wrong of them, or lower gates.min_recall_at_10"
    )


def test_questions_that_are_lost_are_named_and_those_that_were_never_found_are_not() -> None:
    gate = judge("----" + "+" * 5 + "-", live="+" * 9 + "-")[LIVE]
    assert not gate.passed
    lost = "0 (pump.pdf page 1), 1 (pump.pdf page 2), 2 (pump.pdf page 3) and 1 more"
    assert gate.message.endswith(f"lost: {lost}; correct what is wrong of them, or raise gates.max_recall_loss")


@pytest.mark.parametrize("against", ["live", "bm25", "dense"])
@pytest.mark.parametrize(
    ("questions", "lost", "passed"),
    [
        (100, 12, False),  # beyond the margin, and no chance
        (100, 10, True),  # at the margin
        (10, 1, True),  # at the margin
        (10, 2, True),  # beyond the margin, but two questions are chance
        (10, 3, False),
        (4, 4, False),
    ],
)
def test_a_loss_is_refused_beyond_its_margin_and_beyond_chance(
    against: str, questions: int, lost: int, passed: bool
) -> None:
    margins = {"max_recall_loss": 0.1, "max_hybrid_loss": 0.1}
    worse = "-" * lost + "+" * (questions - lost)
    gates = judge(worse, **{against: "+" * questions}, **margins)  # type: ignore[arg-type]
    gate = gates[LIVE if against == "live" else SINGLE]
    assert (gate.passed, gate.bound) == (passed, 0.1)
    assert gate.value == pytest.approx(lost / questions)
    assert ("may be chance" in gate.message) == (passed and lost / questions > 0.1)


def test_gains_make_up_for_losses() -> None:
    assert judge("-" * 20 + "+" * 80, live="+" * 80 + "-" * 20, max_recall_loss=0.0)[LIVE].passed


def test_questions_that_nothing_answers_judge_nothing() -> None:
    gates = judge("", live="", min_recall_at_10=1.0)
    assert [(name, gate.passed) for name, gate in gates.items()] == [("golden questions", True)]


def test_an_interval_holds_its_difference_and_is_the_same_every_time() -> None:
    ours, theirs = [1.0, 0.0, 1.0, 1.0] * 10, [1.0, 1.0, 0.0, 0.0] * 10
    difference, lower, upper = paired_bootstrap(ours, theirs)
    assert lower < difference < upper
    assert difference == pytest.approx(0.25)
    assert paired_bootstrap(ours, theirs) == (difference, lower, upper)
    assert paired_bootstrap([], []) == (0.0, 0.0, 0.0)
