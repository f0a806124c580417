"""Agreement of judges with each other and with people."""

from collections.abc import Hashable, Mapping, Sequence

from lab.judging.labels import Label
from lab.outcomes import Grade, Outcome
from schemas.base import Frozen

YES_FROM = 0.5
"""The grade from which a judge counts as saying YES: metrics of several verdicts are shares of YES."""

Grades = Mapping[str, Mapping[str, Sequence[Grade]]]
"""Grades of a system's outcomes by judge and metric, in the order of the outcomes."""


class Agreement(Frozen):
    """Share of equal labels, Cohen's kappa (None if chance alone explains all), and the number of labels."""

    share: float
    kappa: float | None
    n: int

    def __str__(self) -> str:
        """Return it in words."""
        kappa = "undefined" if self.kappa is None else f"{self.kappa:.2f}"
        return f"{self.share:.0%} of {self.n} alike, kappa {kappa}"


def agreement(first: Sequence[Hashable], second: Sequence[Hashable]) -> Agreement:
    """Compare two annotators' labels of the same things; raises ``ValueError`` if the lengths differ, or there are none.

    Source:
        Cohen, Educational and Psychological Measurement 20 (1960).
    """
    if len(first) != len(second) or not first:
        raise ValueError("agreement needs two equally long lists of labels")
    n = len(first)
    share = sum(first_label == second_label for first_label, second_label in zip(first, second, strict=True)) / n
    chance = sum(first.count(label) * second.count(label) for label in set(first)) / n**2
    return Agreement(share=share, kappa=(share - chance) / (1 - chance) if chance < 1 else None, n=n)


class Comparison:
    """Gathers, system by system, what two judges, and a judge and people, say of the same outcomes.

    ``unused`` counts people's labels whose outcome never came, or has another answer.
    """

    def __init__(self, labels: Sequence[Label]) -> None:
        self._labels = {(label.system, label.question_id, label.metric): label for label in labels}
        self._judges: dict[str, tuple[bytearray, bytearray]] = {}
        self._people: dict[str, dict[str, tuple[bytearray, bytearray]]] = {}
        self.unused = len(self._labels)

    def add(self, system: str, outcomes: Sequence[Outcome], grades: Grades) -> None:
        """Add a system's grades. People judge the first repetition of an answer."""
        first: dict[str, int] = {}
        for index, outcome in enumerate(outcomes):
            first.setdefault(outcome.question_id, index)
        labels = {
            (metric, first[question]): label.label
            for (labelled_system, question, metric), label in self._labels.items()
            if labelled_system == system and question in first and label.is_of(outcomes[first[question]])
        }
        self.unused -= len(labels)
        for judge, by_metric in grades.items():
            for (metric, index), label in labels.items():
                if metric in by_metric and (value := by_metric[metric][index].value) is not None:
                    _add_pair(self._people.setdefault(judge, {}), metric, value >= YES_FROM, label)
        if len(grades) == 2:
            first_grades, second_grades = grades.values()
            for metric in first_grades.keys() & second_grades.keys():
                for first_grade, second_grade in zip(first_grades[metric], second_grades[metric], strict=True):
                    if first_grade.value is not None and second_grade.value is not None:
                        _add_pair(self._judges, metric, first_grade.value >= YES_FROM, second_grade.value >= YES_FROM)

    def of_judges(self) -> dict[str, Agreement]:
        """Return the agreement of the two judges by metric."""
        return {metric: agreement(*pairs) for metric, pairs in sorted(self._judges.items())}

    def with_people(self, judge: str) -> dict[str, Agreement]:
        """Return the agreement of a judge with people by metric."""
        return {metric: agreement(*pairs) for metric, pairs in sorted(self._people.get(judge, {}).items())}


def _add_pair(pairs: dict[str, tuple[bytearray, bytearray]], metric: str, first: bool, second: bool) -> None:
    ours, theirs = pairs.setdefault(metric, (bytearray(), bytearray()))  # a byte a label
    ours.append(first)
    theirs.append(second)
