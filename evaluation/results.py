"""Results of an experiment: means with intervals by system, metric and kind of question, and tests of differences."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from pydantic import Field

from evaluation.experiment import Experiment, Hypothesis, PaperTable, System
from evaluation.metrics import METRICS, Score
from evaluation.questions import Question
from evaluation.statistics import Difference, Estimate, Scores, adjusted, differences, estimates
from schemas.frozen import Frozen

COMPARED = [name for name, metric in METRICS.items() if metric.headline]
"""Metrics that are tested against the baseline, and shown by kind of question."""


class SystemResult(Frozen):
    """Results of one system; ``note`` says why it didn't run.

    Attributes:
        system: The system.
        note: What it needs; "" if it ran.
        failed: Outcomes that failed, by reason.
        means: By metric.
        kinds: By kind of question, such as ``evidence: table``, then by metric.
        against: Differences from the baseline by metric.
    """

    system: System
    note: str = ""
    failed: dict[str, int] = Field({})
    means: dict[str, Estimate] = Field({})
    kinds: dict[str, dict[str, Estimate]] = Field({})
    against: dict[str, Difference] = Field({})


class Tested(Frozen):
    """A hypothesis with its paired difference; None if a system didn't run."""

    hypothesis: Hypothesis
    difference: Difference | None = None


class Results(Frozen):
    """Results of an experiment on one version. ``warnings`` name gold documents that the version lacks."""

    name: str
    label: str
    sentence: str
    source: str
    corpus: str
    version: str
    questions: int
    repetitions: int
    baseline: str
    systems: list[SystemResult]
    hypotheses: list[Tested]
    papers: list[PaperTable]
    index: dict[str, float] = Field({}, description="Calls, tokens and money of descriptions for each document.")
    warnings: list[str] = Field([])


class ScoreTable:
    """Scores of one system: a row a question in the order of ids, a column a metric; the mean of its repetitions.

    Args:
        questions: The questions.
        ids: Question of each score.
        scores: Scores by metric, in the order of ``ids``.
    """

    def __init__(self, questions: Sequence[Question], ids: Sequence[str], scores: Mapping[str, Sequence[Score]]) -> None:
        self._questions = sorted(questions, key=lambda question: question.id)
        places = {question.id: place for place, question in enumerate(self._questions)}
        shape = len(places), len(METRICS)
        total, count = np.zeros(shape), np.zeros(shape)
        for column, name in enumerate(METRICS):
            for question_id, score in zip(ids, scores[name], strict=True):
                if score is not None:
                    total[places[question_id], column] += score
                    count[places[question_id], column] += 1
        self.values: Scores = np.divide(total, count, out=np.full(shape, np.nan), where=count > 0)

    def means(self) -> dict[str, Estimate]:
        """Return the mean of each metric that is defined."""
        return {name: one for name, one in zip(METRICS, estimates(self.values), strict=True) if one.n}

    def kinds(self) -> dict[str, dict[str, Estimate]]:
        """Return the means of the compared metrics by kind of question."""
        found = {}
        columns = [list(METRICS).index(name) for name in COMPARED]
        for kind in sorted({kind for question in self._questions for kind in _kinds(question)}):
            rows = [place for place, question in enumerate(self._questions) if kind in _kinds(question)]
            made = estimates(self.values[rows][:, columns])
            found[kind] = {name: one for name, one in zip(COMPARED, made, strict=True) if one.n}
        return found

    def against(self, other: "ScoreTable") -> dict[str, Difference]:
        """Return the paired differences of the compared metrics."""
        columns = [list(METRICS).index(name) for name in COMPARED]
        made = differences(self.values[:, columns], other.values[:, columns])
        return {name: one for name, one in zip(COMPARED, made, strict=True) if one is not None}

    def difference(self, other: "ScoreTable", metric: str) -> Difference | None:
        """Return the paired difference of one metric."""
        column = [list(METRICS).index(metric)]
        return differences(self.values[:, column], other.values[:, column])[0]


def _kinds(question: Question) -> Iterator[str]:
    yield from (f"evidence: {kind}" for kind in question.evidence_types)
    yield from (f"documents: {kind}" for kind in question.doc_types)
    yield "with a figure" if question.figures else "without a figure"


def with_adjusted(systems: Sequence[SystemResult]) -> list[SystemResult]:
    """Return results whose p-values control the false discovery rate among the systems, for each metric."""
    against: list[dict[str, Difference]] = [{} for _ in systems]
    for name in COMPARED:
        for place, one in enumerate(adjusted([system.against.get(name) for system in systems])):
            if one is not None:
                against[place][name] = one
    return [one.model_copy(update={"against": made}) for one, made in zip(systems, against, strict=True)]


def baseline_of(experiment: Experiment, ran: Sequence[str]) -> str:
    """Return the baseline; the first system that ran if it didn't; "" if none ran."""
    wanted = experiment.baseline or experiment.systems[0].id
    return wanted if wanted in ran else next(iter(ran), "")
