"""The enrich stage as a job of a Ray cluster: its submission, and its entry point ``python -m pipeline.job``.

The corpus file travels with the job, and so do corrections and prompts, so that the cluster needs
no copy of them. Both sides must see the same store.
"""

import logging
import sys
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from pipeline.corpus.prompts import is_file
from pipeline.corpus.workspace import open_corpus, open_workspace
from pipeline.run import RefreshRun, planned_workspace
from pipeline.run_log import log_note, log_progress
from ray_jobs.cluster import runtime_env
from ray_jobs.submission import Job
from schemas.corpus import Corpus
from schemas.errors import InsetError, TransientError, UserError
from schemas.ids import sha256, version_file
from schemas.stages import Stage

REFUSED = 2
"""Exit code of a job that would fail again."""

_SPEC_FILE = "job.json"
_logger = logging.getLogger(__name__)


class JobSpec(BaseModel):
    """The work of a job. ``key`` is the key of its results, which differs where code or models differ."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    corpus: Corpus
    run_id: str
    version: str
    key: str


class Submission(NamedTuple):
    """A job and the address of its server; ``store`` is the address of its corpus's store."""

    server: str
    job: Job
    store: str


def job_of(corpus: str, run_id: str, version: str) -> Submission | None:
    """Return the job that enriches a version, one a run and version; None if the corpus file names no job server."""
    workspace = open_workspace(corpus)
    if workspace.corpus.ray.jobs is not None:
        workspace = planned_workspace(workspace, version)
    options = workspace.corpus.ray
    if options.jobs is None:
        return None
    corpus_there, files = _packed_corpus(workspace.corpus, workspace.file.parent)
    spec = JobSpec(corpus=corpus_there, run_id=run_id, version=version, key=workspace.keys.assembled)
    job = Job(
        name=f"inset-{workspace.corpus.name}-{sha256(f'{run_id} {version}'.encode())[:16]}",
        command="python -m pipeline.job",
        files=files | {_SPEC_FILE: spec.model_dump_json().encode()},
        runtime_env=runtime_env(options),
        about={"corpus": workspace.corpus.name, "run": run_id, "version": version},
    )
    return Submission(options.jobs, job, workspace.store.root)


def _packed_corpus(corpus: Corpus, folder: Path) -> tuple[Corpus, dict[str, bytes]]:
    """Return a corpus that names its files relative to the job's folder, and those files."""
    files: dict[str, bytes] = {}

    def pack(file: Path) -> str:
        # A folder for each file, since two may have the same name.
        name = f"files/{len(files)}/{file.name}"
        files[name] = file.read_bytes()
        return name

    captions, models = corpus.captions, dict(corpus.models)
    for name, model in models.items():
        if model.prompt is not None and is_file(model.prompt) and (folder / model.prompt).is_file():
            models[name] = model.model_copy(update={"prompt": pack(folder / model.prompt)})
    corrections = captions.corrections
    if corrections is not None and not corrections.startswith("s3://"):
        corrections = pack(Path(corrections))
    captions = captions.model_copy(update={"corrections": corrections})
    # enrich needs no questions.
    return corpus.model_copy(update={"models": models, "captions": captions, "questions": None}), files


def run(spec: JobSpec) -> None:
    """Enrich a version here; raises ``UserError`` if this machine's store, code or models differ from the submitter's."""
    workspace = open_corpus(spec.corpus, Path(_SPEC_FILE))
    if workspace.keys.assembled != spec.key:
        raise UserError(
            "the code or the models on the cluster are not those that planned this version; bring the same ones there: "
            "docs/guides/run-on-a-ray-cluster.md"
        )
    if not workspace.store.exists(version_file(spec.version, "plan.json")):
        raise UserError(
            f"the cluster doesn't see the store {workspace.store.root} of this version; in the corpus file, name "
            "an s3:// store, or a folder that its nodes share"
        )
    log_note(Stage.ENRICH, RefreshRun(workspace, spec.run_id, log_progress()).work(Stage.ENRICH, spec.version))


def main() -> int:
    """Run the job in the working folder, and log the result: the last line says why it failed."""
    try:
        run(JobSpec.model_validate_json(Path(_SPEC_FILE).read_bytes()))
    except InsetError as error:
        _logger.error("%s", error.message)
        return 1 if isinstance(error, TransientError) else REFUSED
    return 0


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(levelname)s %(message)s", force=True)
    sys.exit(main())
