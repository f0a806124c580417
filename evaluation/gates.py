"""Judge a version by what its golden questions find."""

from collections.abc import Mapping

from evaluation.golden import ModeReport
from evaluation.metrics import paired_bootstrap
from schemas.corpus import GateOptions
from schemas.evidence import Mode
from schemas.versions import GateResult


def retrieval_gates(ours: Mapping[Mode, ModeReport], live: ModeReport | None, options: GateOptions) -> list[GateResult]:
    """Hold that a version finds enough, no less than the live one, and by hybrid no less than by its best single mode.

    A loss refuses where it is larger than its margin, and more than chance: over the questions resampled in pairs, 95 % of
    the losses are above zero. So one question of ten that turns out otherwise refuses nothing, three do.

    Args:
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
    gates = [
        GateResult(
            gate="recall at 10",
            passed=recall >= least,
            value=recall,
            bound=least,
            message=f"hybrid finds the page of {recall:.0%} of the golden questions; at least {least:.0%} is wanted",
        ),
        _not_lost(
            "hybrid against single modes", hybrid, best, f"{best.mode}, the best single mode", options.max_hybrid_loss
        ),
    ]
    if live is not None:
        compared = "the live version"
        gates.append(_not_lost("recall against the live version", hybrid, live, compared, options.max_recall_loss))
    return gates


def _not_lost(gate: str, ours: ModeReport, theirs: ModeReport, whose: str, margin: float) -> GateResult:
    difference, lower, upper = paired_bootstrap(_found(ours), _found(theirs))
    too_much, by_chance = -difference > margin, upper >= 0
    verdict = "; on so few questions that may be chance" if too_much and by_chance else ""
    return GateResult(
        gate=gate,
        passed=by_chance or not too_much,
        value=-difference,
        bound=margin,
        message=(
            f"recall at 10 is {ours.recall_at_10 or 0:.0%}, {difference:+.1%} against {whose} "
            f"(90 %: {lower:+.1%} to {upper:+.1%}), {margin:.1%} may be lost{verdict}"
        ),
    )


def _found(report: ModeReport) -> list[float]:
    return [float(score.page_rank is not None) for score in report.scores]
