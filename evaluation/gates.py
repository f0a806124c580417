"""Judge a version by what its golden questions find."""

from collections.abc import Mapping, Sequence, Set

from evaluation.golden import ModeReport
from evaluation.metrics import paired_bootstrap
from evaluation.questions import Question
from schemas.corpus import GateOptions
from schemas.evidence import Mode
from schemas.laws import EXAMPLES
from schemas.versions import GateResult

RECALL, AGAINST_MODES, AGAINST_LIVE = "recall at 10", "hybrid against single modes", "recall against the live version"
OF_RETRIEVAL = frozenset({RECALL, AGAINST_MODES, AGAINST_LIVE})
"""Gates on what questions find: what they refuse by one ranking they may let pass by another."""


def retrieval_gates(
    questions: Sequence[Question], ours: Mapping[Mode, ModeReport], live: ModeReport | None, options: GateOptions
) -> list[GateResult]:
    """Hold that a version finds enough, no less than the live one, and by hybrid no less than by its best single mode.

    A loss refuses where it is larger than its margin, and more than chance: over the questions resampled in pairs, 95 % of
    the losses are above zero. So one question of ten that turns out otherwise refuses nothing, three do.

    Args:
        questions: The golden questions.
        ours: A report a mode, on the same questions.
        live: Hybrid's report of the live version; None where there is none.
        options: The margins.
    """
    hybrid = ours["hybrid"]
    recall, least = hybrid.recall_at_10, options.min_recall_at_10
    if recall is None:
        message = "no golden question can be answered; retrieval is not judged"
        return [GateResult(gate="golden questions", passed=True, value=None, bound=None, message=message)]
    best = max((ours["bm25"], ours["dense"]), key=lambda report: report.recall_at_10 or 0.0)
    message = f"hybrid finds the page of {recall:.0%} of the golden questions; at least {least:.0%} is wanted"
    if recall < least:
        missed = _named(questions, {score.id for score in hybrid.scores if score.page_rank is None})
        message += f"; not found: {missed}; correct what is wrong of them, or lower gates.min_recall_at_10"
    gates = [GateResult(gate=RECALL, passed=recall >= least, value=recall, bound=least, message=message)]
    one = f"{best.mode}, the best single mode"
    compared: list[tuple[str, ModeReport, str, str]] = [
        (AGAINST_MODES, best, one, "max_hybrid_loss"),
        *([(AGAINST_LIVE, live, "the live version", "max_recall_loss")] if live else []),
    ]
    for gate, theirs, whose, option in compared:
        gates.append(_not_lost(gate, questions, (hybrid, theirs), whose, option, getattr(options, option)))
    return gates


def _not_lost(
    gate: str,
    questions: Sequence[Question],
    reports: tuple[ModeReport, ModeReport],
    whose: str,
    option: str,
    margin: float,
) -> GateResult:
    ours, theirs = reports
    difference, lower, upper = paired_bootstrap(_found(ours), _found(theirs))
    too_much, by_chance = -difference > margin, upper >= 0
    passed = by_chance or not too_much
    message = (
        f"recall at 10 is {ours.recall_at_10 or 0:.0%}, {difference:+.1%} against {whose} "
        f"(90 %: {lower:+.1%} to {upper:+.1%}), {margin:.1%} may be lost"
    )
    if too_much and by_chance:
        message += "; on so few questions that may be chance"
    if not passed:
        still = {score.id for score in ours.scores if score.page_rank is not None}
        lost = {score.id for score in theirs.scores if score.page_rank is not None} - still
        message += f"; lost: {_named(questions, lost)}; correct what is wrong of them, or raise gates.{option}"
    return GateResult(gate=gate, passed=passed, value=-difference, bound=margin, message=message)


def _named(questions: Sequence[Question], ids: Set[str]) -> str:
    """Return questions by id, with the pages that answer them; a few are named, the rest counted."""
    wanted = [question for question in questions if question.id in ids]
    named = [f"{question.id} ({question.doc or 'any document'}{_pages(question)})" for question in wanted[:EXAMPLES]]
    return ", ".join(named) + (f" and {len(wanted) - EXAMPLES} more" if len(wanted) > EXAMPLES else "")


def _pages(question: Question) -> str:
    return f" page {' or '.join(map(str, question.pages))}" if question.pages else ""


def _found(report: ModeReport) -> list[float]:
    return [float(score.page_rank is not None) for score in report.scores]
