"""Judge the outcomes of an experiment: each judge is tested on known pairs, and grades where it is admitted."""

import threading
from collections.abc import Sequence
from concurrent.futures import Executor
from functools import partial

from evaluation.gold import Gold
from lab.experiment import Experiment
from lab.judging.agreement import Grades
from lab.judging.metrics import METRICS, Judged, judged_metrics
from lab.outcomes import Admission, Grade, Outcome
from lab.replies import Replies
from lab.results import JudgeResult
from pipeline.published.version import OpenVersion
from schemas.errors import UserError
from schemas.stages import Report
from schemas.versions import Spent


class Judges:
    """The judges of an experiment on a version; calls run in ``pool``, and ``replies`` keeps the replies."""

    def __init__(
        self, opened: OpenVersion, experiment: Experiment, replies: Replies, pool: Executor, report: Report
    ) -> None:
        self._opened, self._replies, self._pool, self._report = opened, replies, pool, report
        self._metric_names, self._shows_all = experiment.judged or list(METRICS), experiment.show_unadmitted
        self._spent = dict.fromkeys(experiment.judges, Spent())
        self._count_lock = threading.Lock()
        self._tests = [self._test_judge(judge) for judge in experiment.judges]
        self._judged_count = 0

    def _test_judge(self, judge: str) -> JudgeResult:
        """Test a judge in each metric; ``note`` says why it couldn't be asked."""
        entry = self._opened.settings().models.get(judge)
        if entry is None or not entry.kind.writes:
            return JudgeResult(judge=judge, note=f"needs a model {judge} (set models.{judge})")
        try:
            self._opened.models()[judge]
        except UserError as error:
            return JudgeResult(judge=judge, note=error.message)

        def test(name: str) -> Admission:
            admission = self._metrics(judge, [name])[0].admission()
            self._count(judge)
            return admission

        admissions = []
        for admission in self._pool.map(test, self._metric_names):
            admissions.append(admission)
            self._report(f"test judge {judge}", len(admissions), len(self._metric_names))
        return JudgeResult(judge=judge, admissions=admissions)

    @property
    def tested(self) -> list[JudgeResult]:
        """The judges, with what they spent up to now."""
        return [judge_result.model_copy(update={"spent": self._spent[judge_result.judge]}) for judge_result in self._tests]

    def _count(self, judge: str) -> None:
        """Count what this thread's judge spent since ``_metrics``."""
        with self._count_lock:
            self._spent[judge] += self._replies.spent

    def _metrics(self, judge: str, names: Sequence[str]) -> list[Judged]:
        """Return metrics for this thread."""
        self._replies.begin(0)  # the same request gets the same grade, whichever repetition it comes from
        options = self._opened.settings().models[judge]
        return judged_metrics(names, self._opened.models()[judge], self._opened.picture if options.kind.sees else None)

    def grade(self, gold_outcomes: Sequence[tuple[Gold, Outcome]], total: int) -> Grades:
        """Grade one system's outcomes (of ``total``) in the metrics that judges are admitted to, or all if others are shown."""
        grades_by_judge: dict[str, dict[str, list[Grade]]] = {}
        for judge_result in self._tests:
            names = [admission.metric for admission in judge_result.admissions if admission.admitted or self._shows_all]
            grades_by_judge[judge_result.judge] = {name: [] for name in names}
            for outcome_grades in (
                self._pool.map(partial(self._grades, judge_result.judge, names), *zip(*gold_outcomes, strict=True))
                if names
                else ()
            ):
                for name, grade in zip(names, outcome_grades, strict=True):
                    grades_by_judge[judge_result.judge][name].append(grade)
                self._judged_count += 1
                self._report("judge", self._judged_count, total * self._admitted)
        return grades_by_judge

    def _grades(self, judge: str, names: Sequence[str], gold: Gold, outcome: Outcome) -> list[Grade]:
        """Return a judge's grades of one outcome."""
        if outcome.failure:
            return [Grade(value=None, reason=f"it has no outcome: {outcome.failure}")] * len(names)
        grades = [metric.score(gold.question, outcome) for metric in self._metrics(judge, names)]
        self._count(judge)
        return grades

    def counted(self, grades: Grades) -> Grades:
        """Return the grades of judges in the metrics that they are admitted to."""
        admitted = {
            judge_result.judge: {test.metric for test in judge_result.admissions if test.admitted}
            for judge_result in self._tests
        }
        return {
            judge: {name: metric_grades for name, metric_grades in by_metric.items() if name in admitted[judge]}
            for judge, by_metric in grades.items()
        }

    @property
    def _admitted(self) -> int:
        """How many judges grade anything."""
        return sum(
            any(test.admitted or self._shows_all for test in judge_result.admissions) for judge_result in self._tests
        )
