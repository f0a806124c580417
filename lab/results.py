"""Results of an experiment: means with intervals by system, metric and kind of question, and tests of differences."""

import copy
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from pydantic import Field

from evaluation.golden import Scores
from evaluation.questions import Question
from lab.experiment import Experiment, Hypothesis, PaperTable, System
from lab.judging.agreement import Agreement, Grades
from lab.judging.metrics import MODALITIES_TOGETHER
from lab.metrics import METRICS, Score
from lab.outcomes import Admission, Outcome
from lab.statistics import Difference, Estimate, adjusted, differences, estimates
from schemas.base import Frozen
from schemas.errors import UserError
from schemas.versions import Spent

COMPARED = [name for name, metric in METRICS.items() if metric.headline]
"""Metrics that are tested against the baseline, and shown by kind of question."""


class JudgeResult(Frozen):
    """A judge by its name in the corpus file; ``note`` says why it wasn't asked.

    ``admissions`` say whether its grades count, by metric; ``spent`` has its test too, and replies from the cache as when they
    were made.
    """

    judge: str
    note: str = ""
    admissions: list[Admission] = Field([])
    people: dict[str, Agreement] = Field({})
    spent: Spent = Spent()


class Judgement(Frozen):
    """The mean grade of one system by one judge in one metric, over the questions with a grade.

    ``nulls`` are outcomes without one, for the most frequent ``reason``; grades of a judge that isn't admitted are shown, and
    count nowhere.
    """

    admitted: bool = True
    metric: str
    judge: str
    mean: Estimate
    nulls: int = 0
    reason: str = ""


class SystemResult(Frozen):
    """Results of one system; ``note`` says why it didn't run, "" if it ran; ``failed`` are outcomes by reason.

    ``kinds`` are by kind of question, such as ``evidence: table``, then by metric; ``against`` are differences from the baseline;
    ``judged`` are grades by metric and judge, of which ``means`` has those of a metric's judges together.
    """

    system: System
    note: str = ""
    failed: dict[str, int] = Field({})
    means: dict[str, Estimate] = Field({})
    kinds: dict[str, dict[str, Estimate]] = Field({})
    against: dict[str, Difference] = Field({})
    judged: list[Judgement] = Field([])


class Tested(Frozen):
    """A hypothesis with its paired difference; None if a system didn't run."""

    hypothesis: Hypothesis
    difference: Difference | None = None


class Results(Frozen):
    """Results of an experiment on one version.

    ``setup`` says of each model that wrote, graded or described how it was called; ``ranked_by`` is the metric that ranks all
    systems. ``agreement`` is that of two judges by metric. ``warnings`` name gold documents that the version lacks, and labels of
    no use.
    """

    name: str
    label: str
    sentence: str
    source: str
    corpus: str
    version: str
    questions: int
    repetitions: int
    baseline: str
    setup: list[str] = Field([])
    ranked_by: str | None = None
    systems: list[SystemResult]
    hypotheses: list[Tested]
    papers: list[PaperTable]
    judges: list[JudgeResult] = Field([])
    agreement: dict[str, Agreement] = Field({})
    index: dict[str, float] = Field({}, description="Calls, tokens and money of descriptions for each document.")
    warnings: list[str] = Field([])

    @property
    def ranking(self) -> list[SystemResult]:
        """The systems that have the metric that ranks them, best first."""
        ranked = [result for result in self.systems if self.ranked_by in result.means]
        return sorted(ranked, key=lambda result: -(result.means[str(self.ranked_by)].mean or 0.0))

    @property
    def not_admitted(self) -> list[str]:
        """The metrics that judges were tested in, and none is admitted to."""
        admissions = [admission for judge in self.judges for admission in judge.admissions]
        admitted = {admission.metric for admission in admissions if admission.admitted}
        return list(dict.fromkeys(admission.metric for admission in admissions if admission.metric not in admitted))


class ScoreTable:
    """Scores of one system: a row a question in the order of ids, a column a metric (may be absent), means of repetitions."""

    def __init__(self, questions: Sequence[Question], ids: Sequence[str], scores: Mapping[str, Sequence[Score]]) -> None:
        self._questions = sorted(questions, key=lambda question: question.id)
        index_by_question = {question.id: index for index, question in enumerate(self._questions)}
        shape = len(index_by_question), len(METRICS)
        total, count = np.zeros(shape), np.zeros(shape)
        for name, metric_scores in scores.items():
            column = list(METRICS).index(name)
            for question_id, score in zip(ids, metric_scores, strict=True):
                if score is not None:
                    total[index_by_question[question_id], column] += score
                    count[index_by_question[question_id], column] += 1
        self.values: Scores = np.divide(total, count, out=np.full(shape, np.nan), where=count > 0)

    def means(self) -> dict[str, Estimate]:
        """Return the mean of each metric that is defined."""
        return {name: estimate for name, estimate in zip(METRICS, estimates(self.values), strict=True) if estimate.n}

    def kinds(self) -> dict[str, dict[str, Estimate]]:
        """Return the means of the compared metrics by kind of question."""
        estimates_by_kind = {}
        columns = [list(METRICS).index(name) for name in COMPARED]
        for kind in sorted({kind for question in self._questions for kind in kinds_of(question)}):
            kind_estimates = estimates(self.of(kind).values[:, columns])
            estimates_by_kind[kind] = {
                name: estimate for name, estimate in zip(COMPARED, kind_estimates, strict=True) if estimate.n
            }
        return estimates_by_kind

    def of(self, kind: str) -> "ScoreTable":
        """Return the scores of the questions of a kind."""
        rows = [index for index, question in enumerate(self._questions) if kind in kinds_of(question)]
        table = copy.copy(self)
        table._questions, table.values = [self._questions[index] for index in rows], self.values[rows]
        return table

    def against(self, baseline: "ScoreTable") -> dict[str, Difference]:
        """Return the paired differences of the compared metrics."""
        columns = [list(METRICS).index(name) for name in COMPARED]
        column_differences = differences(self.values[:, columns], baseline.values[:, columns])
        return {
            name: difference
            for name, difference in zip(COMPARED, column_differences, strict=True)
            if difference is not None
        }

    def difference(self, baseline: "ScoreTable", metric: str) -> Difference | None:
        """Return the paired difference of one metric."""
        column = [list(METRICS).index(metric)]
        return differences(self.values[:, column], baseline.values[:, column])[0]


def kinds_of(question: Question) -> Iterator[str]:
    """Yield the kinds of a question: evidence, documents, and whether it wants a figure."""
    yield from (f"evidence: {kind}" for kind in question.evidence_types)
    yield from (f"documents: {kind}" for kind in question.doc_types)
    yield "with a figure" if question.figures else "without a figure"


def together(grades: Grades) -> dict[str, list[Score]]:
    """Return the scores of judged metrics: the mean of the judges that give a grade, and the mean of the modalities."""
    names = dict.fromkeys(name for by_metric in grades.values() for name in by_metric)
    scores_by_metric = {
        name: [
            _mean_of([grade.value for grade in metric_grades])
            for metric_grades in zip(
                *(judge_grades[name] for judge_grades in grades.values() if name in judge_grades), strict=True
            )
        ]
        for name in names
    }
    for name, (_, metrics) in MODALITIES_TOGETHER.items():
        if parts := [scores_by_metric[metric] for metric in metrics if metric in scores_by_metric]:
            scores_by_metric[name] = [_mean_of(metric_grades) for metric_grades in zip(*parts, strict=True)]
    return scores_by_metric


def _mean_of(scores: Sequence[Score]) -> Score:
    values = [score for score in scores if score is not None]
    return sum(values) / len(values) if values else None


def judgements(
    questions: Sequence[Question], ids: Sequence[str], grades: Grades, counted_grades: Grades
) -> list[Judgement]:
    """Return the mean grades of one system by metric and judge; ``counted_grades`` are those of admitted judges among them."""
    listed_judgements = []
    for judge, by_metric in grades.items():
        scores = {metric: [grade.value for grade in metric_grades] for metric, metric_grades in by_metric.items()}
        means = ScoreTable(questions, ids, scores).means()
        for metric, metric_grades in by_metric.items():
            reasons = Counter(grade.reason for grade in metric_grades if grade.value is None)
            reason = min(reasons, key=lambda why: (-reasons[why], why), default="")
            mean = means.get(metric, Estimate(n=0))
            metric_judgement = Judgement(metric=metric, judge=judge, mean=mean, nulls=reasons.total(), reason=reason)
            listed_judgements.append(metric_judgement.model_copy(update={"admitted": metric in counted_grades[judge]}))
    return sorted(listed_judgements, key=lambda judgement: list(METRICS).index(judgement.metric))


def with_adjusted(systems: Sequence[SystemResult]) -> list[SystemResult]:
    """Return results whose p-values control the false discovery rate among the systems, for each metric."""
    against: list[dict[str, Difference]] = [{} for _ in systems]
    for name in COMPARED:
        for index, difference in enumerate(adjusted([system.against.get(name) for system in systems])):
            if difference is not None:
                against[index][name] = difference
    return [system.model_copy(update={"against": by_metric}) for system, by_metric in zip(systems, against, strict=True)]


def read_run(folder: Path) -> tuple[str, dict[str, list[Outcome]]]:
    """Return version, and outcomes by system, of an experiment's folder; raises ``UserError`` if they can't be read."""
    try:
        results = Results.model_validate_json((folder / "results.json").read_bytes())
        rows = pq.read_table(folder / "outcomes.parquet", columns=["system", "outcome"]).to_pylist()
        outcomes: dict[str, list[Outcome]] = {}
        for row in rows:
            outcomes.setdefault(row["system"], []).append(Outcome.model_validate_json(row["outcome"]))
    except (OSError, ValueError) as error:  # pydantic's and pyarrow's errors are ValueErrors
        raise UserError(f"{folder} holds no experiment that can be read; run: inset evaluate --out {folder}") from error
    return results.version, outcomes


def baseline_of(experiment: Experiment, system_ids: Sequence[str]) -> str:
    """Return the baseline; the first system that ran if it didn't; "" if none ran."""
    baseline = experiment.baseline or experiment.systems[0].id
    return baseline if baseline in system_ids else next(iter(system_ids), "")
