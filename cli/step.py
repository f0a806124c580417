"""The command ``inset step``: one step of a refresh, as a container of a pipeline runs it."""

import json
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from schemas.errors import GateError, UserError
from schemas.stages import ON_A_VERSION, Stage

if TYPE_CHECKING:
    from pipeline.run import RefreshRun

_RELEASE = "release"
_STEPS = [*Stage, _RELEASE]


def step(
    name: Annotated[str, typer.Argument(metavar="STEP", help=f"One of {', '.join(_STEPS)}.")],
    corpus: Annotated[str, typer.Argument(metavar="CORPUS", help="A corpus: NAME, or the path of a corpus file.")],
    run: Annotated[str, typer.Argument(metavar="RUN", help="Name of the run; the same for all its steps.")],
    version: Annotated[str | None, typer.Option(help="The version that step plan named; the other steps need it.")] = None,
    shards: Annotated[str | None, typer.Option(help="Numbers of the shards to parse, such as 0,8; default: all.")] = None,
    groups: Annotated[int, typer.Option(min=1, max=500, help="Most groups of shards that step plan makes.")] = 8,
    version_out: Annotated[Path | None, typer.Option(help="File in which step plan writes the version.")] = None,
    shards_out: Annotated[Path | None, typer.Option(help="File in which step plan writes shards, a JSON list.")] = None,
    gpus_out: Annotated[Path | None, typer.Option(help="File in which step plan writes the GPUs for enrich.")] = None,
) -> None:
    """Run one step of a refresh, in a container of its own; all steps share the corpus's store.

    Step plan prints one JSON object: version, shards, the values of --shards for the parse steps, and gpus, those that the
    corpus file gives the models of enrich. Steps of a version that needs none of them end at once.
    """
    from pipeline.corpus.workspace import open_workspace
    from pipeline.run import RefreshRun
    from pipeline.run_log import log_progress

    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(message)s")
    if name not in _STEPS:
        raise UserError(f"there is no step {name!r}; there are: {', '.join(_STEPS)}")
    refresh = RefreshRun(open_workspace(corpus), run, log_progress())
    if name == _RELEASE:
        refresh.release()
    elif name == Stage.PLAN:
        planned = _plan(refresh, groups)
        outputs = {version_out: planned.version, shards_out: json.dumps(planned.shards), gpus_out: str(planned.gpus)}
        for file, text in outputs.items():
            if file is not None:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8")
        sys.stdout.write(json.dumps(planned._asdict()) + "\n")
    elif version is None:
        raise UserError(f"step {name}: name the version that step plan printed: --version VERSION")
    else:
        _run_stage(refresh, Stage(name), version, [int(number) for number in shards.split(",")] if shards else None)


class _Planned(NamedTuple):
    version: str
    shards: list[str]
    gpus: int


def _plan(refresh: "RefreshRun", groups: int) -> _Planned:
    from pipeline.run_log import log_plan

    corpus_plan = refresh.plan()
    log_plan(corpus_plan)
    numbers = [str(number) for number in range(len(corpus_plan.shards))]
    parts = [",".join(numbers[first::groups]) for first in range(min(groups, len(numbers)))]
    builds = corpus_plan.outcome == "build"
    return _Planned(corpus_plan.version, parts if builds else [], refresh.workspace.corpus.gpus if builds else 0)


def _run_stage(refresh: "RefreshRun", stage: Stage, version: str, shards: list[int] | None) -> None:
    from pipeline.records.manifests import override_hint, read_manifest, refusals_of
    from pipeline.run_log import log_note

    store = refresh.workspace.store
    finished = read_manifest(store, version)
    if stage is Stage.PUBLISH:
        live = refresh.publish(version)
        refusals = refusals_of(manifest) if (manifest := read_manifest(store, version)) is not None and not live else []
        if refusals:
            raise GateError(
                f"{version} was refused: {'; '.join(refusals)}", override_hint(refresh.workspace.corpus.name, version)
            )
    elif finished is not None or refresh.is_in_vain(version):
        return
    elif stage is Stage.PARSE:
        log_note(stage, refresh.parse(version, shards))
    elif stage is Stage.TAG:
        log_note(stage, refresh.tag(version))
    elif stage in ON_A_VERSION:
        log_note(stage, refresh.work(stage, version))
