"""What changed between two runs of an experiment."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from evaluation.golden import Scores
from lab.metrics import METRICS
from lab.results import COMPARED
from lab.statistics import Difference, adjusted, differences
from pipeline.records.differences import stored_name
from schemas.ports import ObjectStore

SCORES = "scores.parquet"

SURE_P = 0.05
"""Largest p-value, corrected for the false discovery rate, of a change that is reported."""


class Change(NamedTuple):
    """A metric of a system that changed; the difference is the newer run's mean less the older one's."""

    system: str
    metric: str
    difference: Difference

    @property
    def worse(self) -> bool:
        """Whether it changed for the worse."""
        return (self.difference.mean < 0) is (METRICS[self.metric].better == "more")

    def __str__(self) -> str:
        difference = self.difference
        interval = f"{difference.low:+.3f} to {difference.high:+.3f}"
        return f"{self.system}: {self.metric} {difference.mean:+.3f} ({interval}, n {difference.n})"


def evaluated_before(store: ObjectStore, version: str, experiment: str) -> str | None:
    """Return the newest older version that the experiment ran on; None without one."""
    older = (older_version for older_version in sorted(store.folders("versions"), reverse=True) if older_version < version)
    return next(
        (older_version for older_version in older if store.exists(stored_name(older_version, experiment, SCORES))), None
    )


def changes(earlier_report: bytes, later_report: bytes) -> list[Change]:
    """Return the compared metrics that surely changed on both runs' questions (``scores.parquet``), what fell most first."""
    old_scores, new_scores = _scores(earlier_report), _scores(later_report)
    all_changes: list[Change] = []
    for system in sorted(old_scores.keys() & new_scores.keys()):
        ids = sorted(old_scores[system].keys() & new_scores[system].keys())
        if not ids:
            continue
        new_values, old_values = (
            np.array([side[system][question_id] for question_id in ids]) for side in (new_scores, old_scores)
        )
        pairs = zip(COMPARED, differences(new_values, old_values), strict=True)
        all_changes += [Change(system, metric, difference) for metric, difference in pairs if difference is not None]
    change_tests = zip(all_changes, adjusted([change.difference for change in all_changes]), strict=True)
    significant = [change for change, test in change_tests if test is not None and (test.adjusted_p or 0.0) <= SURE_P]
    return sorted(significant, key=lambda change: change.difference.mean)


def systems_of(scores: bytes) -> set[str]:
    """Return the systems that ran, by the run's ``scores.parquet``."""
    table = pq.read_table(pa.BufferReader(scores), columns=["system"])
    return {str(system) for system in table["system"].unique().to_pylist()}


def _scores(data: bytes) -> dict[str, dict[str, Scores]]:
    """Return the compared scores by system and question, the mean of repetitions; NaN if one is undefined."""
    table = pq.read_table(pa.BufferReader(data))
    present_metrics = [name for name in COMPARED if name in table.column_names]  # an older release had fewer
    means = table.group_by(["system", "question_id"]).aggregate([(name, "mean") for name in present_metrics])
    scores_by_system: dict[str, dict[str, Scores]] = {}
    for row in means.to_pylist():
        scores = np.array([row.get(f"{name}_mean") for name in COMPARED], float)  # None becomes NaN
        scores_by_system.setdefault(row["system"], {})[row["question_id"]] = scores
    return scores_by_system
