"""What changed between two runs of an experiment."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from evaluation.statistics import Scores
from lab.metrics import METRICS
from lab.results import COMPARED
from lab.statistics import Difference, adjusted, differences
from pipeline.records.evaluations import stored_name
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
        one = self.difference
        return f"{self.system}: {self.metric} {one.mean:+.3f} ({one.low:+.3f} to {one.high:+.3f}, n {one.n})"


def evaluated_before(store: ObjectStore, version: str, experiment: str) -> str | None:
    """Return the newest older version that the experiment ran on; None without one."""
    older = (one for one in sorted(store.folders("versions"), reverse=True) if one < version)
    return next((one for one in older if store.exists(stored_name(one, experiment, SCORES))), None)


def changes(before: bytes, after: bytes) -> list[Change]:
    """Return the compared metrics that surely changed on the questions of both runs, what fell most first.

    Args:
        before: ``scores.parquet`` of the older run.
        after: The same of the newer one.
    """
    old, new = _scores(before), _scores(after)
    found: list[Change] = []
    for system in sorted(old.keys() & new.keys()):
        ids = sorted(old[system].keys() & new[system].keys())
        if not ids:
            continue
        ours, theirs = (np.array([side[system][one] for one in ids]) for side in (new, old))
        pairs = zip(COMPARED, differences(ours, theirs), strict=True)
        found += [Change(system, metric, one) for metric, one in pairs if one is not None]
    tested = zip(found, adjusted([one.difference for one in found]), strict=True)
    sure = [one for one, test in tested if test is not None and (test.adjusted_p or 0.0) <= SURE_P]
    return sorted(sure, key=lambda one: one.difference.mean)


def systems_of(scores: bytes) -> set[str]:
    """Return the systems that ran, by the run's ``scores.parquet``."""
    table = pq.read_table(pa.BufferReader(scores), columns=["system"])
    return {str(system) for system in table["system"].unique().to_pylist()}


def _scores(data: bytes) -> dict[str, dict[str, Scores]]:
    """Return the compared scores by system and question, the mean of repetitions; NaN where one is undefined."""
    table = pq.read_table(pa.BufferReader(data))
    known = [name for name in COMPARED if name in table.column_names]  # an older release had fewer
    means = table.group_by(["system", "question_id"]).aggregate([(name, "mean") for name in known])
    found: dict[str, dict[str, Scores]] = {}
    for row in means.to_pylist():
        scores = np.array([row.get(f"{name}_mean") for name in COMPARED], float)  # None becomes NaN
        found.setdefault(row["system"], {})[row["question_id"]] = scores
    return found
