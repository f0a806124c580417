"""Enrich as a job of a Ray cluster: what is submitted, and what then runs there, ``python -m pipeline.job``.

The corpus travels as its file was read here, with the prompts and corrections that it names, so that the cluster needs no copy of
them; its store must be one that both see.
"""

import logging
import sys
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from pipeline.corpus.prompts import is_file
from pipeline.corpus.workspace import open_corpus, open_workspace
from pipeline.steps import run_stage_in
from ray_jobs.cluster import runtime_env
from ray_jobs.submission import Job
from schemas.corpus import Corpus
from schemas.errors import InsetError, TransientError, UserError
from schemas.ids import sha256, version_file
from schemas.stages import Stage

REFUSED = 2
"""Exit code of a job that would fail again."""

_ORDER = "order.json"
_logger = logging.getLogger(__name__)


class Order(BaseModel):
    """What a job has to do. ``key`` is what its work must be filed under: other code, or another model, would have another."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    corpus: Corpus
    run_id: str
    version: str
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
    corpus_there, files = _packed(workspace.corpus, workspace.file.parent)
    order = Order(corpus=corpus_there, run_id=run_id, version=version, key=workspace.keys.assembled)
    job = Job(
        name=f"inset-{workspace.corpus.name}-{sha256(f'{run_id} {version}'.encode())[:16]}",
        command="python -m pipeline.job",
        files=files | {_ORDER: order.model_dump_json().encode()},
        runtime_env=runtime_env(options),
        about={"corpus": workspace.corpus.name, "run": run_id, "version": version},
    )
    return Submission(options.jobs, job, workspace.store.root)


def _packed(corpus: Corpus, folder: Path) -> tuple[Corpus, dict[str, bytes]]:
    """Return a corpus that names files of its own beside it, and those files."""
    files: dict[str, bytes] = {}

    def pack(file: Path) -> str:
        name = f"files/{len(files)}/{file.name}"
        files[name] = file.read_bytes()
        return name

    captions, models = corpus.captions, dict(corpus.captions.models)
    for name, model in models.items():
        if model.prompt is not None and is_file(model.prompt) and (folder / model.prompt).is_file():
            models[name] = model.model_copy(update={"prompt": pack(folder / model.prompt)})
    corrections = captions.corrections
    if corrections is not None and not corrections.startswith("s3://"):
        corrections = pack(Path(corrections))
    captions = captions.model_copy(update={"models": models, "corrections": corrections})
    # The questions are a file too, and nothing that enrich asks for.
    return corpus.model_copy(update={"captions": captions, "questions": None}), files


def run(order: Order) -> None:
    """Enrich a version, here.

    Raises:
        UserError: This machine sees another store, or its code or models aren't those of the machine that submitted the job.
    """
    workspace = open_corpus(order.corpus, Path(_ORDER))
    if workspace.keys.assembled != order.key:
        raise UserError(
            "the code or the models on the cluster are not those that planned this version; bring the same ones there: "
            "docs/guides/run-on-a-ray-cluster.md"
        )
    if not workspace.store.exists(version_file(order.version, "plan.json")):
        raise UserError(
            f"the cluster doesn't see the store {workspace.store.root} that the version was planned in; in the corpus file, name "
            "an s3:// store, or a folder that its nodes share"
        )
    run_stage_in(workspace, Stage.ENRICH, order.run_id, order.version)


def main() -> int:
    """Do what the order in the working folder asks for, and log what happens: the last line says why it failed."""
    try:
        run(Order.model_validate_json(Path(_ORDER).read_bytes()))
    except TransientError as error:
        _logger.error("%s", error.message)
        return 1
    except InsetError as error:
        _logger.error("%s", error.message)
        return REFUSED
    return 0


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(levelname)s %(message)s", force=True)
    sys.exit(main())
