"""Enrich as a job of a Ray cluster: what is submitted, and what then runs there, ``python -m pipeline.job``.

The corpus travels as its file was read here, and the files that it names go through its store, so that the cluster needs no
copy of them; the store must be one that both see.
"""

import logging
import os
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from backends.stores.object_store import join, open_store
from pipeline.corpus.prompts import prompt_file
from pipeline.corpus.workspace import Workspace, open_workspace, opened
from pipeline.steps import run_stage_in
from ray_jobs.cluster import runtime_env
from ray_jobs.submission import Job
from schemas.corpus import Corpus
from schemas.errors import InsetError, TransientError, UserError
from schemas.ids import sha256, version_file
from schemas.stages import Stage

REFUSED = 2
"""Exit code of a job that would fail again."""

_ORDER = "INSET_ORDER"
_logger = logging.getLogger(__name__)


class Order(BaseModel):
    """What a job has to do.

    ``files`` are the prompts and corrections that the corpus file names, each with the object that holds its text. ``key`` is
    what the job's work must be filed under: other code, or another model, would have another.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    corpus: Corpus
    file: str
    run_id: str
    version: str
    files: dict[str, str]
    key: str


class Submission(NamedTuple):
    """A job, and where it goes. ``store`` is where its corpus is kept."""

    server: str
    job: Job
    store: str


def job_of(corpus: str, run_id: str, version: str) -> Submission | None:
    """Return the job that enriches a version; None where the corpus file names no job server.

    A run has one job a version, whoever asks and however often.

    Raises:
        UserError: The corpus file is missing or wrong.
    """
    workspace = open_workspace(corpus)
    options = workspace.corpus.ray
    if options.jobs is None:
        return None
    # The questions are a file of this machine, and nothing that enrich asks for.
    travels = workspace.corpus.model_copy(update={"questions": None})
    order = Order(
        corpus=travels,
        file=str(workspace.file),
        run_id=run_id,
        version=version,
        files=_handed_over(workspace, version),
        key=workspace.keys.assembled,
    )
    job = Job(
        name=f"inset-{workspace.corpus.name}-{sha256(f'{run_id} {version}'.encode())[:16]}",
        command="python -m pipeline.job",
        environment={_ORDER: order.model_dump_json()},
        runtime_env=runtime_env(options),
        about={"corpus": workspace.corpus.name, "run": run_id, "version": version},
    )
    return Submission(options.jobs, job, workspace.store.root)


def _handed_over(workspace: Workspace, version: str) -> dict[str, str]:
    """Put the files that describe figures into the version's folder; return the objects by file."""
    captions, folder = workspace.corpus.captions, workspace.file.parent
    files = [prompt_file(model.prompt, folder) for model in captions.models.values()]
    if captions.corrections is not None and not captions.corrections.startswith("s3://"):
        files.append(Path(captions.corrections))
    objects = {}
    for file in filter(None, files):
        data = file.read_bytes()
        objects[str(file)] = version_file(version, f"inputs/{sha256(data)[:16]}{file.suffix}")
        workspace.store.put(objects[str(file)], data)
    return objects


def _taken_over(order: Order, folder: Path) -> Corpus:
    """Return the corpus with the files that it names in a folder of this machine.

    Raises:
        UserError: The store that they were put into isn't seen here.
    """
    corpus, captions = order.corpus, order.corpus.captions
    store = open_store(join(corpus.store or "", corpus.name))
    here: dict[str, str] = {}
    for file, name in order.files.items():
        try:
            data = store.get(name)
        except FileNotFoundError as error:
            raise UserError(_OTHER_STORE.format(root=store.root)) from error
        place = folder / name.rpartition("/")[2]
        place.write_bytes(data)
        here[file] = str(place)
    models = {
        key: model.model_copy(
            update={"prompt": here.get(str(prompt_file(model.prompt, Path(order.file).parent)), model.prompt)}
        )
        for key, model in captions.models.items()
    }
    corrections = here.get(captions.corrections or "", captions.corrections)
    return corpus.model_copy(
        update={"captions": captions.model_copy(update={"models": models, "corrections": corrections})}
    )


_OTHER_STORE = (
    "the cluster doesn't see the store {root} that the version was planned in; in the corpus file, name an s3:// store, or a "
    "folder that its nodes share"
)


def run(order: Order) -> None:
    """Enrich a version, here.

    Raises:
        UserError: This machine sees another store, or its code or models aren't those of the machine that submitted the job.
    """
    with tempfile.TemporaryDirectory(prefix="inset-") as folder:
        workspace = opened(_taken_over(order, Path(folder)), Path(order.file))
    if workspace.keys.assembled != order.key:
        raise UserError(
            "the code or the models on the cluster are not those that planned this version; bring the same ones there: "
            "docs/guides/run-on-a-ray-cluster.md"
        )
    if not workspace.store.exists(version_file(order.version, "plan.json")):
        raise UserError(_OTHER_STORE.format(root=workspace.store.root))
    run_stage_in(workspace, Stage.ENRICH, order.run_id, order.version)


def main() -> int:
    """Do what the environment orders, and print what happens: the last line says why it failed."""
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(levelname)s %(message)s", force=True)
    try:
        run(Order.model_validate_json(os.environ[_ORDER]))
    except TransientError as error:
        _logger.error("%s", error.message)
        return 1
    except InsetError as error:
        _logger.error("%s", error.message)
        return REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main())
