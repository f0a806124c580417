"""Which system to use for which questions, from the scores of an experiment."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from evaluation.metrics import METRICS
from evaluation.questions import Question
from evaluation.results import kinds_of
from evaluation.statistics import Scores, adjusted, differences, estimates

ALL = "all"
SURE_P = 0.05
"""p-value, corrected for the false discovery rate, below which a system is surely worse than the best."""


def advice(scores: Path, questions: Sequence[Question], metric: str) -> str:
    """Return a Markdown table: for each kind of question the best system, those as good by a paired test, and those worse.

    Args:
        scores: ``scores.parquet`` of an experiment.
        questions: Its questions.
        metric: What systems are compared by; a system without a value for a question isn't compared on it.
    """
    by_system = _scores(scores, questions, metric)
    lines = [f"| {METRICS[metric].title} | questions | best | as good | surely worse |", "|---|---|---|---|---|"]
    kinds = sorted({kind for question in questions for kind in kinds_of(question)})
    for kind in (ALL, *kinds):
        rows = [place for place, question in enumerate(questions) if kind == ALL or kind in kinds_of(question)]
        lines.append(_line(kind, {system: values[rows] for system, values in by_system.items()}))
    return "\n".join(lines) + "\n"


def _scores(file: Path, questions: Sequence[Question], metric: str) -> dict[str, Scores]:
    """Return one column a system, a row a question: the mean of its repetitions, NaN without a value."""
    places = {question.id: place for place, question in enumerate(questions)}
    found: dict[str, list[list[float]]] = {}
    for row in pq.read_table(file, columns=["system", "question_id", metric]).to_pylist():
        made = found.setdefault(row["system"], [[] for _ in questions])
        if row[metric] is not None:
            made[places[row["question_id"]]].append(row[metric])
    means = {system: [np.mean(each) if each else np.nan for each in made] for system, made in found.items()}
    return {system: np.array(made, float)[:, np.newaxis] for system, made in means.items()}


def _line(kind: str, by_system: Mapping[str, Scores]) -> str:
    known = {system: estimates(values)[0] for system, values in by_system.items() if not np.isnan(values).all()}
    if not known:
        return f"| {kind} | 0 | | | |"
    ranked = sorted(known, key=lambda system: -(known[system].mean or 0.0))
    best = ranked[0]
    tests = adjusted([differences(by_system[best], by_system[other])[0] for other in ranked[1:]])
    worse = [
        other
        for other, test in zip(ranked[1:], tests, strict=True)
        if test is not None and test.adjusted_p is not None and test.adjusted_p < SURE_P
    ]
    named = {system: f"`{system}` {known[system].mean:.3f}" for system in ranked}
    interval = f" ({known[best].low:.2f} to {known[best].high:.2f})"
    alike = [named[system] for system in ranked[1:] if system not in worse]
    below = ", ".join(named[other] for other in worse)
    return f"| {kind} | {known[best].n} | {named[best]}{interval} | {', '.join(alike)} | {below} |"
