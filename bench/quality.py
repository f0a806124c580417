"""Which preset to use when: ``python -m bench.quality [--corpus manuals] [--experiment presets] [--out docs/quality.md]``.

Runs an experiment on the live version of a corpus and prints, for each kind of question, the best system, those as good, and
those surely worse; with ``--out`` it replaces the generated part of a page.
"""

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.table import rewrite
from evaluation.questions import load_questions
from lab.advice import advice
from lab.changes import SCORES
from lab.experiment_files import find_experiment
from lab.run import run_experiment
from pipeline.corpus.workspace import open_workspace
from schemas.errors import UserError

METRICS = ("page_ndcg@10", "page_recall@10", "figure_recall@10")


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
        tables = [advice(Path(folder) / SCORES, questions, metric) for metric in METRICS]
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


if __name__ == "__main__":
    main()
