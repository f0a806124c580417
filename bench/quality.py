"""Which preset to use when: ``python -m bench.quality [--corpus manuals] [--experiment presets] [--out docs/quality.md]``.

Runs an experiment on the live version of a corpus and prints, for each kind of question, the best system, those as good, and
those surely worse; with ``--out`` it replaces the generated part of a page.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow.parquet as pq

from bench.table import rewrite
from evaluation.questions import Question, load_questions
from lab.changes import SCORES, SURE_P
from lab.experiment_files import find_experiment
from lab.metrics import METRICS, Score
from lab.results import ScoreTable, kinds_of
from lab.run import run_experiment
from lab.statistics import adjusted
from pipeline.corpus.workspace import open_workspace
from schemas.errors import UserError

SHOWN = ("page_ndcg@10", "page_recall@10", "figure_recall@10")


ALL = "all"


def main() -> None:
    """Run the experiment, and write the tables."""
    parser = argparse.ArgumentParser(prog="python -m bench.quality", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--corpus", default="manuals")
    parser.add_argument("--experiment", default="presets")
    parser.add_argument("--out", type=Path, help="the page whose generated part is replaced")
    arguments = parser.parse_args()
    workspace = open_workspace(arguments.corpus)
    named, _ = find_experiment(arguments.experiment, arguments.corpus)
    path = named.questions_on(workspace.corpus)
    if path is None:
        raise UserError(f"{arguments.corpus} names no questions")
    questions = load_questions(path)
    with TemporaryDirectory() as folder:
        results = run_experiment(workspace, named, Path(folder))
        tables = [advice(Path(folder) / SCORES, questions, metric) for metric in SHOWN]
    seconds = ", ".join(
        f"`{one.system.id}` {1000 * (one.means['seconds'].mean or 0):.0f}"
        for one in results.systems
        if "seconds" in one.means
    )
    text = "\n".join(
        [f"Corpus {results.corpus}, {results.questions} questions. Mean milliseconds a query: {seconds}.\n", *tables]
    )
    if arguments.out is None:
        sys.stdout.write(text)
    else:
        rewrite(arguments.out, "python -m bench.quality", text)


def advice(scores: Path, questions: Sequence[Question], metric: str) -> str:
    """Return a Markdown table: for each kind of question the best system, those as good by a paired test, and those worse.

    Args:
        scores: ``scores.parquet`` of an experiment.
        questions: Its questions.
        metric: What systems are compared by; a system without a value for a question isn't compared on it.
    """
    by_system: dict[str, tuple[list[str], list[Score]]] = {}
    for row in pq.read_table(scores, columns=["system", "question_id", metric]).to_pylist():
        ids, metric_scores = by_system.setdefault(row["system"], ([], []))
        ids.append(row["question_id"])
        metric_scores.append(row[metric])
    lines = [f"| {METRICS[metric].title} | questions | best | as good | surely worse |", "|---|---|---|---|---|"]
    kinds = sorted({kind for question in questions for kind in kinds_of(question)})
    tables = {
        system: ScoreTable(questions, ids, {metric: metric_scores}) for system, (ids, metric_scores) in by_system.items()
    }
    for kind in (ALL, *kinds):
        tables_of_kind = tables if kind == ALL else {system: table.of(kind) for system, table in tables.items()}
        lines.append(_line(kind, tables_of_kind, metric))
    return "\n".join(lines) + "\n"


def _line(kind: str, tables: Mapping[str, ScoreTable], metric: str) -> str:
    means = {system: table.means() for system, table in tables.items()}
    estimate_by_system = {system: estimates[metric] for system, estimates in means.items() if metric in estimates}
    if not estimate_by_system:
        return f"| {kind} | 0 | | | |"
    ranked = sorted(estimate_by_system, key=lambda system: -(estimate_by_system[system].mean or 0.0))
    best = ranked[0]
    tests = adjusted([tables[best].difference(tables[rival], metric) for rival in ranked[1:]])
    worse = [
        rival
        for rival, test in zip(ranked[1:], tests, strict=True)
        if test is not None and test.adjusted_p is not None and test.adjusted_p < SURE_P
    ]
    labels = {system: f"`{system}` {estimate_by_system[system].mean:.3f}" for system in ranked}
    interval = f" ({estimate_by_system[best].low:.2f} to {estimate_by_system[best].high:.2f})"
    comparable = [labels[system] for system in ranked[1:] if system not in worse]
    below = ", ".join(labels[rival] for rival in worse)
    return f"| {kind} | {estimate_by_system[best].n} | {labels[best]}{interval} | {', '.join(comparable)} | {below} |"


if __name__ == "__main__":
    main()
