"""Enrich as a job: what is ordered is done, and what can't be is refused in one line."""

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from pipeline import job
from pipeline.corpus.workspace import open_workspace
from pipeline.records.notes import read_notes
from pipeline.run import RefreshRun
from ray_jobs.cluster import runtime_env
from schemas.corpus.operations import RayOptions
from schemas.stages import Stage

_JOBS = """\
ray: {jobs: 'http://head:8265', runtime_env: {pip: [boto3]}}
questions: questions.jsonl
models:
  writer: {kind: vlm, model: m, revision: '1', prompt: mine.md, endpoint: {url: 'http://127.0.0.1:1/v1'}}
captions:
  ocr: none
  corrections: better.csv
  by_source: {'other/*': writer}
"""


@pytest.fixture
def submitted(corpus_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """A version that is parsed, the working folder is its job's; the corpus file, and the version."""
    beside = corpus_file.parent
    (beside / "questions.jsonl").write_text("")
    (beside / "better.csv").write_text("figure,description\n12345678,A pump\n")
    (beside / "mine.md").write_text("Name what you see.\n")
    text = corpus_file.read_text().replace("captions: {ocr: none}\n", "")
    corpus_file.write_text(text + _JOBS)
    corpus = str(corpus_file)
    run = RefreshRun(open_workspace(corpus), "run")
    planned = run.plan()
    run.parse(planned.version)
    submission = job.job_of(corpus, "run", planned.version)
    assert submission is not None
    unpack(submission.job.files, tmp_path / "there")
    monkeypatch.chdir(tmp_path / "there")
    return corpus, planned.version


def unpack(files: Mapping[str, bytes], folder: Path) -> None:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def test_a_job_enriches_its_version_wherever_the_corpus_file_is(submitted: tuple[str, str]) -> None:
    corpus, version = submitted
    workspace = open_workspace(corpus)
    shutil.rmtree(Path(corpus).parent)
    assert job.main() == 0
    assert read_notes(workspace.store, version)[Stage.ENRICH].counts["structured"] == 2


def test_a_run_has_one_job_a_version(submitted: tuple[str, str]) -> None:
    corpus, version = submitted
    first, again, second_submission = (
        job.job_of(corpus, *arguments) for arguments in (("a", version), ("a", version), ("b", version))
    )
    assert first is not None
    assert again == first
    assert second_submission is not None
    assert second_submission.job.name != first.job.name
    assert first.job.runtime_env["pip"] == ["boto3"]


def test_without_a_job_server_there_is_no_job(corpus_file: Path) -> None:
    assert job.job_of(str(corpus_file), "run", "version") is None


@pytest.mark.usefixtures("submitted")
@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"key": "other"}, "the code or the models on the cluster are not those that planned this version"),
        ({"version": "20260101T000000Z-00000000"}, "the cluster doesn't see the store "),
    ],
)
def test_a_job_that_would_fail_again_is_refused(
    caplog: pytest.LogCaptureFixture,
    change: dict[str, str],
    why: str,
) -> None:
    file = Path("job.json")
    spec = job.JobSpec.model_validate_json(file.read_bytes()).model_copy(update=change)
    file.write_text(spec.model_dump_json())
    assert job.main() == job.REFUSED
    assert caplog.messages[-1].startswith(why)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"jobs": "head:8265"}, "write an address such as"),
        ({"jobs": "http://me:secret@head:8265"}, "no user or password"),
        ({"runtime_env": {"working_dir": "."}}, "holds its order"),
        ({"runtime_env": {"env_vars": {"AWS_SECRET_ACCESS_KEY": "secret"}}}, "where the cluster's nodes start"),
    ],
)
def test_a_corpus_file_names_a_job_server_and_no_secret(options: dict[str, object], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        RayOptions.model_validate(options)


def test_an_empty_list_of_modules_sends_no_code() -> None:
    assert runtime_env(RayOptions(runtime_env={"py_modules": [], "pip": ["boto3"]})) == {"pip": ["boto3"]}
