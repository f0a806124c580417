"""Gates on the results of golden questions."""

from collections.abc import Sequence, Set

from evaluation.golden import ModeReport
from evaluation.questions import Question
from evaluation.statistics import paired_bootstrap
from schemas.gates import EXAMPLES, FUSION_HELPS, NO_QUESTIONS, RECALL, RECALL_KEPT, Bounds, Gate, GateResult

OF_RETRIEVAL = frozenset(gate.name for gate in (RECALL, FUSION_HELPS, RECALL_KEPT))
"""Gates that depend on the ranking."""


def retrieval_gates(
    questions: Sequence[Question], fused: ModeReport, parts: Sequence[ModeReport], live: ModeReport | None, bounds: Bounds
) -> list[GateResult]:
    """Judge a version's recall, absolutely, against its best single retriever, and against the live version.

    A loss refuses if it exceeds its margin and is significant: the upper bound of a paired bootstrap (one-sided 95 %) is
    below zero. Of ten questions, one lost refuses nothing, three do.

    Args:
        questions: The golden questions.
        fused: The default preset's report.
        parts: A report for each of its retrievers alone; [] for a single one.
        live: The live version's report; None without one.
        bounds: The margins.
    """
    recall = fused.recall_at_10
    if recall is None:
        message = "no golden question can be answered; retrieval is not judged"
        return [GateResult(gate=NO_QUESTIONS, passed=True, value=None, bound=None, message=message)]
    minimum = f"at least {bounds.of(RECALL):.0%} is wanted"
    finding = f"{fused.mode} finds the page of {recall:.0%} of the golden questions; {minimum}"
    missed = _named(questions, {score.id for score in fused.scores if score.page_rank is None})
    gates = [RECALL.judge(recall, bounds, finding, questions=missed)]
    if parts:
        best = max(parts, key=lambda report: report.recall_at_10 or 0.0)
        gates.append(_not_lost(FUSION_HELPS, questions, (fused, best), f"{best.mode}, the best of its retrievers", bounds))
    if live:
        gates.append(_not_lost(RECALL_KEPT, questions, (fused, live), "the live version", bounds))
    return gates


def _not_lost(
    gate: Gate, questions: Sequence[Question], reports: tuple[ModeReport, ModeReport], whose: str, bounds: Bounds
) -> GateResult:
    ours, theirs = reports
    difference, lower, upper = paired_bootstrap(_recall_flags(ours), _recall_flags(theirs))
    too_much, by_chance = not gate.holds(-difference, bounds), upper >= 0
    finding = (
        f"recall at 10 is {ours.recall_at_10 or 0:.0%}, {difference:+.1%} against {whose} "
        f"(90 %: {lower:+.1%} to {upper:+.1%}), {bounds.of(gate):.1%} may be lost"
    )
    if too_much and by_chance:
        finding += "; on so few questions that may be chance"
    still = {score.id for score in ours.scores if score.page_rank is not None}
    lost = {score.id for score in theirs.scores if score.page_rank is not None} - still
    passed = by_chance or not too_much
    return gate.judge(-difference, bounds, finding, passed=passed, questions=_named(questions, lost))


def _named(questions: Sequence[Question], ids: Set[str]) -> str:
    named_questions = [question for question in questions if question.id in ids]
    descriptions = [
        f"{question.id} ({', '.join(question.documents) or 'any document'}{_pages(question)})"
        for question in named_questions[:EXAMPLES]
    ]
    return ", ".join(descriptions) + (
        f" and {len(named_questions) - EXAMPLES} more" if len(named_questions) > EXAMPLES else ""
    )


def _documents(question: Question) -> str:
    return ", ".join(question.documents) or "any document"


def _pages(question: Question) -> str:
    return f" page {' or '.join(str(gold_page.page) for gold_page in question.pages)}" if question.pages else ""


def _recall_flags(report: ModeReport) -> list[float]:
    return [float(score.page_rank is not None) for score in report.scores]
