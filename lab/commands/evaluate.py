"""The command ``inset evaluate``."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.terminal import Json, print_json, print_table, reporting, say
from schemas.errors import UserError

if TYPE_CHECKING:
    from lab.results import Results


def evaluate(
    experiment: Annotated[
        str,
        typer.Argument(
            metavar="EXPERIMENT",
            help="An experiment file, a packaged experiment (presets, article, beyond-text, ilt, omg-qa), or a corpus, "
            "which means presets.",
        ),
    ],
    corpus: Annotated[str | None, typer.Option(help="The corpus; by default that of the experiment.")] = None,
    version: Annotated[str | None, typer.Option(help="A version, or live, previous, latest.")] = None,
    folder: Annotated[
        Path | None, typer.Option("--out", metavar="FOLDER", help="Where results go; by default evaluation-EXPERIMENT.")
    ] = None,
    parameters: Annotated[
        str | None,
        typer.Option(help="Which parameters of the experiment the models that write get, such as paper or repo."),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, max=256, help="Questions asked at once.")] = 2,
    as_json: Json = False,
) -> None:
    """Run an experiment: ask its questions of its presets, and write scores, results and a report."""
    from lab.experiment_files import find_experiment
    from lab.run import run_experiment
    from pipeline.corpus.workspace import open_workspace

    named_experiment, corpus_name = find_experiment(experiment, corpus)
    if parameters is not None:
        if parameters not in named_experiment.experiment.parameters:
            raise UserError(
                f"--parameters {parameters}: use {', '.join(named_experiment.experiment.parameters) or 'none: there are none'}"
            )
        named_experiment = replace(
            named_experiment, experiment=named_experiment.experiment.model_copy(update={"use_parameters": parameters})
        )
    out = folder or Path(f"evaluation-{named_experiment.name}")
    with reporting() as report:
        results = run_experiment(
            open_workspace(corpus_name), named_experiment, out, version=version, workers=workers, report=report
        )
    if as_json:
        print_json(results)
        return
    _print_results(results)
    say(f"wrote {out / 'report.html'}, and scores beside it")


def _print_results(results: "Results") -> None:
    """Print the means of each system that ran, and why others didn't."""
    from lab.results import COMPARED

    metrics = [name for name in COMPARED if any(name in system_result.means for system_result in results.systems)]
    rows = [
        (
            system_result.system.id,
            *(f"{estimate.mean:.3f}" if (estimate := system_result.means.get(name)) else None for name in metrics),
        )
        for system_result in results.systems
        if system_result.means
    ]
    print_table(
        f"{results.label}, {results.questions} questions, {results.version}", ("system", *metrics), rows, fold=False
    )
    for system_result in results.systems:
        if system_result.note:
            say(f"{system_result.system.id} didn't run: {system_result.note}")
        for reason, count in system_result.failed.items():
            say(f"{system_result.system.id}: {count} without an outcome: {reason}")
    for judge in results.judges:
        if judge.note:
            say(f"judge {judge.judge} wasn't asked: {judge.note}")
        for test in judge.admissions:
            if not test.admitted:
                say(f"judge {judge.judge} is not admitted to {test.metric}: {test.reason}")
        for metric, agreement in judge.people.items():
            say(f"judge {judge.judge} and people on {metric}: {agreement}")
    for metric, agreement in results.agreement.items():
        say(f"the judges on {metric}: {agreement}")
    for warning in results.warnings:
        say(warning)
