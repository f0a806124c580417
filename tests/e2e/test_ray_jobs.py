"""Enrich on a real Ray cluster, from Airflow: submitted once, followed, and ended with its task."""

import asyncio
import contextlib
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.job import job_of
from pipeline.records.notes import read_notes
from pipeline.run import RefreshRun
from ray_jobs.cluster import runtime_env
from ray_jobs.submission import Job, JobServer
from schemas.corpus.operations import RayOptions
from schemas.errors import TransientError
from schemas.stages import Stage
from tests import ray_cluster
from tests.dags.airflow_runs import airflow, states
from tests.manuals import write_manual
from tests.pipeline.conftest import write_corpus
from tests.waiting import wait_for

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:ssl=None is deprecated:DeprecationWarning"),  # how Ray's client calls aiohttp
]

_WAITS = "import time; print('begun', flush=True); time.sleep(3600)"

_FOLLOW = """
import asyncio, json, sys
from plugins.enrich import Enrich, JobTrigger
from backends.stores.object_store import open_store
from pipeline.records import lease
from schemas.errors import ContractError, TransientError

async def followed(trigger):
    async for event in trigger.run():
        return event.payload

server, store, *names = sys.argv[1:]
lease.acquire(open_store(store), "run", tied_to_process=False)
found = {}
for name in names:
    trigger = JobTrigger(server=server, job=name, store=store, run="run")
    if name == "waits-1":
        asyncio.run(trigger.on_kill())
    event = asyncio.run(followed(trigger))
    try:
        Enrich(task_id="enrich", corpus="").finish({}, event)
        found[name] = ["done", ""]
    except (ContractError, TransientError) as error:
        found[name] = [type(error).__name__, str(error)]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[ray_cluster.RayCluster]:
    with ray_cluster.running(2) as started:
        yield started


def python(name: str, code: str) -> Job:
    return Job(name, f'python -c "{code}"', {}, runtime_env(RayOptions()), {})


async def lines_until(server: JobServer, name: str, expected: str) -> None:
    async with contextlib.aclosing(server.lines(name)) as texts:
        async for text in texts:
            if text == expected:
                return
    raise AssertionError(f"{name} never prints {expected}")


async def lines_of(server: JobServer, name: str) -> list[str]:
    return [text async for text in server.lines(name)]


def test_the_dag_enriches_on_the_cluster(
    cluster: ray_cluster.RayCluster, tmp_path: Path, airflow_env: dict[str, str]
) -> None:
    write_manual(tmp_path / "pdfs" / "pump.pdf", "water pump", seed=1)
    corpus = write_corpus(tmp_path, f"ray: {{jobs: '{cluster.jobs}'}}\n")
    env = airflow_env | {"INSET_CORPORA": str(corpus.parent)}
    migrated = airflow(env, "db", "migrate")
    assert migrated.returncode == 0, migrated.stderr
    process = airflow(env, "dags", "test", "refresh_manuals")
    task_states = states(env)
    assert {task_states.pop("approve_plan"), task_states.pop("approve")} == {"skipped"}
    assert set(task_states.values()) == {"success"}, process.stdout + process.stderr
    output = process.stdout + process.stderr
    assert "submitted Ray job inset-manuals-" in output
    assert "progress: embed" in output
    assert f"at {cluster.jobs}" in output


def test_a_job_is_started_once_and_found_again_until_it_is_over(cluster: ray_cluster.RayCluster) -> None:
    server = JobServer(cluster.jobs)
    assert server.state_of("once-1") is None
    server.stop("once-1")
    job = python("once", _WAITS)
    assert server.start(job) == ("once-1", True)
    asyncio.run(lines_until(server, "once-1", "begun"))
    assert JobServer(cluster.jobs).start(job) == ("once-1", False)
    server.stop("once-1")
    wait_for(lambda: (state := server.state_of("once-1")) and state.over, "a job that was stopped")
    assert server.start(python("once", "print('again')")) == ("once-2", True)
    assert "again" in asyncio.run(lines_of(server, "once-2"))


def test_the_code_that_is_here_is_what_a_job_runs(cluster: ray_cluster.RayCluster) -> None:
    server = JobServer(cluster.jobs)
    server.start(python("code", "import pipeline.job, schemas; print(schemas.__file__)"))
    (*_, module_file) = asyncio.run(lines_of(server, "code-1"))
    assert "runtime_resources" in module_file


def test_a_task_follows_its_job_and_fails_with_the_line_that_matters(
    cluster: ray_cluster.RayCluster, tmp_path: Path, airflow_env: dict[str, str]
) -> None:
    server = JobServer(cluster.jobs)
    codes = {
        "good": "print('fine')",
        "refused": "import sys; print('ERROR the store is not there'); sys.exit(2)",
        # What Ray's log of a short process can look like: Ray's own first line comes last.
        "late": "import sys; print('ERROR no room'); print('Running entrypoint for job late-1: python'); sys.exit(2)",
        "bug": "{}['bug']",
        "shot": "import os; os.kill(os.getpid(), 9)",
        "waits": _WAITS,
    }
    jobs = [server.start(python(name, code))[0] for name, code in codes.items()]
    asyncio.run(lines_until(server, "waits-1", "begun"))
    process = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _FOLLOW, cluster.jobs, str(tmp_path), *jobs, "gone"],
        env=airflow_env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    outcomes = json.loads(process.stdout.splitlines()[-1])
    assert outcomes["good-1"] == ["done", ""]
    assert outcomes["refused-1"] == ["ContractError", "the store is not there"]
    assert outcomes["late-1"] == ["ContractError", "no room"]
    assert outcomes["bug-1"] == ["TransientError", "KeyError: 'bug'"]
    assert outcomes["shot-1"][0] == "TransientError"
    assert "exit code 137" in outcomes["shot-1"][1]
    assert outcomes["waits-1"] == ["TransientError", "the Ray job waits-1 stopped: Job was intentionally stopped."]
    assert outcomes["gone"] == ["TransientError", "the Ray job gone is gone"]
    assert (tmp_path / "LEASE").is_file(), "whoever waits for a job holds the lease"


def test_a_server_that_is_not_there_is_tried_again() -> None:
    with pytest.raises(TransientError, match=r"^Ray's job server at http://127.0.0.1:1: "):
        JobServer("http://127.0.0.1:1")


@pytest.mark.parametrize(
    ("script", "by"),
    [
        ("from ray_jobs.submission import JobServer; JobServer('{0.jobs}')", "Ray's job server at {0.jobs}"),
        (
            "from ray_jobs.cluster import connected; from schemas.corpus.operations import RayOptions\n"
            "with connected(RayOptions(address='{0.address}')): pass",
            "the Ray cluster at {0.address}",
        ),
    ],
    ids=["jobs", "joined"],
)
def test_a_cluster_that_wants_another_token_says_so_in_one_line(
    cluster: ray_cluster.RayCluster, monkeypatch: pytest.MonkeyPatch, script: str, by: str
) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "another-token-than-that-of-the-cluster")
    process = subprocess.run(
        [sys.executable, "-c", script.format(cluster)], capture_output=True, text=True, check=False, timeout=120
    )
    assert f"UserError: {by.format(cluster)} requires a token, or another one: set RAY_AUTH_MODE" in process.stderr


def _vectors(workspace: Workspace) -> int:
    """Return how many vectors are stored."""
    names = [name for name in workspace.store.names("vectors") if name.endswith(".parquet")]
    return sum(pq.read_metadata(io.BytesIO(workspace.store.get(name))).num_rows for name in names)


def test_a_cluster_that_dies_is_an_outside_failure_and_the_next_one_goes_on(
    tmp_path: Path, airflow_env: dict[str, str]
) -> None:
    for number in range(40):
        write_manual(tmp_path / "pdfs" / f"{number:02}.pdf", f"water pump {number}", seed=number)
    with ray_cluster.running(2) as first:
        corpus = write_corpus(tmp_path, f"ray: {{jobs: '{first.jobs}'}}\n")
        workspace = open_workspace(str(corpus))
        run = RefreshRun(workspace, "run")
        version = run.plan().version
        run.parse(version)
        job_request = job_of(str(corpus), "run", version)
        assert job_request is not None
        job, _ = JobServer(job_request.server).start(job_request.job)
        wait_for(lambda: _vectors(workspace), "the first vectors")
        first.kill(first.nodes[0])
        vectors_before, structured = _vectors(workspace), workspace.store.sizes("structured")
        process = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", _FOLLOW, job_request.server, job_request.store, job],
            capture_output=True,
            text=True,
            check=False,
            env=airflow_env,
        )
        assert process.returncode == 0, process.stderr
        ((kind, message),) = json.loads(process.stdout.splitlines()[-1]).values()
        assert kind == "TransientError", "Airflow tries it again"
        assert f"Ray's job server at {first.jobs}" in message

    with ray_cluster.running(2) as second:
        corpus = write_corpus(tmp_path, f"ray: {{jobs: '{second.jobs}'}}\n")
        again = job_of(str(corpus), "run", version)
        assert again is not None
        server = JobServer(again.server)
        job, began = server.start(again.job)
        assert began
        wait_for(lambda: (state := server.state_of(job)) and state.over, "the second job")
        state = server.state_of(job)
        assert state is not None
        assert state.status == "SUCCEEDED", state.message
    note = read_notes(workspace.store, version)[Stage.ENRICH]
    assert note.counts["structured"] == 40 - len(structured)
    assert note.counts["embedded"] == _vectors(workspace) - vectors_before
    assert vectors_before > 0
