"""Enrich as a job: what is ordered is done, and what can't be is refused in one line."""

import json
from pathlib import Path

import pytest

from pipeline import job, steps
from pipeline.corpus.workspace import open_workspace
from pipeline.records.notes import read_notes
from schemas.corpus import RayOptions
from schemas.stages import Stage
from tests.endpoint_server import EndpointServer
from tests.pipeline.conftest import write_corpus

_JOBS = "ray: {jobs: 'http://head:8265', runtime_env: {pip: [boto3]}}\n"


@pytest.fixture
def submitted(corpus_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """A version that is parsed, its job's order in the environment; the corpus file, and the version."""
    corpus = str(write_corpus(tmp_path, _JOBS))
    assert corpus == str(corpus_file)
    planned = steps.plan(corpus, "run")
    for group in planned.groups:
        steps.parse_shards(corpus, "run", planned.version, group)
    work = job.job_of(corpus, "run", planned.version)
    assert work is not None
    for name, value in work.job.environment.items():
        monkeypatch.setenv(name, value)
    return corpus, planned.version


def test_a_job_enriches_its_version_wherever_the_corpus_file_is(submitted: tuple[str, str]) -> None:
    corpus, version = submitted
    workspace = open_workspace(corpus)
    Path(corpus).unlink()
    assert job.main() == 0
    assert read_notes(workspace.store, version)[Stage.ENRICH].counts["structured"] == 2


def test_a_job_has_the_prompts_and_corrections_that_the_corpus_file_names(
    corpus_file: Path, endpoint: EndpointServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = corpus_file.parent
    (folder / "ours.md").write_text("Say what it is.\nCaption: $caption\n")
    (folder / "words.csv").write_text("figure,description\n0123456789abcdef,The inlet with its valve.\n")
    model = {"kind": "vlm", "model": "tiny-vlm", "revision": "1", "prompt": "ours.md", "endpoint": {"url": endpoint.url}}
    captions = {"ocr": "none", "captioner": "vlm", "corrections": "words.csv", "models": {"vlm": model}}
    corpus_file.write_text(corpus_file.read_text().replace("captions: {ocr: none}", f"captions: {json.dumps(captions)}"))
    corpus_file.write_text(f"{corpus_file.read_text()}{_JOBS}")
    corpus = str(corpus_file)
    planned = steps.plan(corpus, "run")
    for group in planned.groups:
        steps.parse_shards(corpus, "run", planned.version, group)
    work = job.job_of(corpus, "run", planned.version)
    assert work is not None
    workspace = open_workspace(corpus)
    for file in (corpus_file, folder / "ours.md", folder / "words.csv"):
        file.unlink()
    for name, value in work.job.environment.items():
        monkeypatch.setenv(name, value)
    assert job.main() == 0
    assert read_notes(workspace.store, planned.version)[Stage.ENRICH].counts["described"] == 4
    assert all(prompt.startswith("Say what it is.") for prompt in endpoint.prompts)


def test_a_run_has_one_job_a_version(submitted: tuple[str, str]) -> None:
    corpus, version = submitted
    first, again, other = (job.job_of(corpus, *asked) for asked in (("a", version), ("a", version), ("b", version)))
    assert first is not None
    assert again == first
    assert other is not None
    assert other.job.name != first.job.name
    assert first.job.runtime_env["pip"] == ["boto3"]


def test_without_a_job_server_there_is_no_job(corpus_file: Path) -> None:
    assert job.job_of(str(corpus_file), "run", "version") is None


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"key": "other"}, "the code or the models on the cluster are not those that planned this version"),
        ({"version": "20260101T000000Z-00000000"}, "the cluster doesn't see the store "),
    ],
)
def test_a_job_that_would_fail_again_is_refused(
    submitted: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    change: dict[str, str],
    why: str,
) -> None:
    work = job.job_of(submitted[0], "run", submitted[1])
    assert work is not None
    ((name, order),) = work.job.environment.items()
    monkeypatch.setenv(name, job.Order.model_validate_json(order).model_copy(update=change).model_dump_json())
    assert job.main() == job.REFUSED
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith(f"ERROR {why}")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"jobs": "head:8265"}, "the address of the job server"),
        ({"jobs": "http://me:secret@head:8265"}, "no user or password"),
        ({"runtime_env": {"env_vars": {"AWS_SECRET_ACCESS_KEY": "secret"}}}, "where the cluster's nodes start"),
    ],
)
def test_a_corpus_file_names_a_job_server_and_no_secret(options: dict[str, object], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        RayOptions.model_validate(options)
