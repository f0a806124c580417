"""A platform of plain processes: a worker, a node of Ray and a query service die during a refresh, and nobody has to know."""

import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from backends.stores.s3_store import s3_client
from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.records.manifests import read_manifest
from pipeline.records.publication import read_pointer
from tests import endpoint_server, platform
from tests.airflow_server import RUN_WITHIN_S, fetch
from tests.endpoint_server import Call, EndpointServer
from tests.manuals import write_manual
from tests.platform import BUCKET, SERVICES, WORKERS, Platform
from tests.waiting import wait_for

pytestmark = [
    pytest.mark.endurance,
    pytest.mark.live,
    pytest.mark.slow,
    pytest.mark.skipif(bool(platform.missing()), reason=f"not installed: {', '.join(platform.missing())}"),
]

DAG = "dags/refresh_manuals"
PAUSE_S = 0.05
"""Between two questions: without one, asking takes the processors from the refresh."""
SUBJECTS = ("water pump", "steel winch", "tower crane", "gear box")


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Platform]:
    with platform.running(tmp_path) as started:
        yield started


@pytest.fixture
def captioner() -> Iterator[EndpointServer]:
    with endpoint_server.running() as server:
        yield server


def _upload(folder: Path, *subjects: str) -> None:
    for subject in subjects:
        name = f"{subject.replace(' ', '-')}.pdf"
        file = write_manual(folder / name, subject, seed=SUBJECTS.index(subject) + 1)
        s3_client().upload_file(str(file), BUCKET, f"pdfs/{name}")


def _corpus(running: Platform, captioner: EndpointServer) -> Workspace:
    """Write a corpus whose refresh is due once; each document is a shard of its own."""
    file = running.folder / "corpora" / "manuals.yaml"
    file.parent.mkdir()
    model = f"{{kind: vlm, model: tiny, revision: '1', endpoint: {{url: '{captioner.url}', concurrency: 2}}}}"
    file.write_text(
        f"name: manuals\nsource: s3://{BUCKET}/pdfs\nschedule: '@once'\nparse: {{shard_mb: 0.001}}\n"
        f"models: {{writer: {model}}}\ncaptions: {{ocr: none, captioner: writer}}\n{running.settings}"
    )
    return open_workspace(str(file))


class Asking:
    """Asks for the winch again and again through the proxy, until it is ended."""

    def __init__(self, address: str) -> None:
        self.answered, self.wrong, self.longest_s = 0, list[str](), 0.0
        self.versions = list[str]()
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._ask, args=(f"{address}/v1/corpora/manuals/search",))
        self._thread.start()

    def end(self) -> None:
        """Return once the last question is answered."""
        self._ends.set()
        self._thread.join()

    def _ask(self, url: str) -> None:
        with httpx.Client(timeout=60, trust_env=False) as client:
            while not self._ends.wait(PAUSE_S):
                started = time.monotonic()
                reply = client.post(url, json={"query": "Which screws hold the steel winch?", "k": 1})
                self.longest_s = max(self.longest_s, time.monotonic() - started)
                result = reply.json()
                if reply.status_code != 200 or result["hits"][0]["source"] != "steel-winch.pdf":
                    self.wrong.append(reply.text[:500])
                    continue
                self.answered += 1
                if result["version"] not in self.versions:
                    self.versions.append(result["version"])


def _live(workspace: Workspace) -> str:
    pointer = read_pointer(workspace.store)
    return pointer.version if pointer else ""


def _succeeds(running: Platform, run: str) -> None:
    path = f"{DAG}/dagRuns/{run}"
    assert running.airflow.ended(path) == "success", running.airflow.failures(path)


def _parses(running: Platform, run: str) -> list[str]:
    """Return the tasks that parse now."""
    tasks = running.airflow.call(f"{DAG}/dagRuns/{run}/taskInstances?limit=100")["task_instances"]
    return [task["id"] for task in tasks if (task["task_id"], task["state"]) == ("parse", "running")]


def test_what_dies_during_a_refresh_is_replaced_and_every_question_answered(
    running: Platform, captioner: EndpointServer, tmp_path: Path
) -> None:
    _upload(tmp_path / "pdfs", *SUBJECTS[:2])
    workspace = _corpus(running, captioner)
    running.start_airflow()
    airflow = running.airflow
    airflow.call(DAG, {"is_paused": False}, "PATCH")
    (scheduled,) = wait_for(lambda: airflow.call(f"{DAG}/dagRuns")["dag_runs"])
    _succeeds(running, scheduled["dag_run_id"])
    first = _live(workspace)
    described = len(captioner.calls)
    assert described == 4, "a figure a page"

    running.start_services(str(running.folder / "corpora" / "manuals.yaml"))
    asking = Asking(running.address)
    node_is_gone = threading.Event()

    def describes(call: Call) -> str:
        node_is_gone.wait(RUN_WITHIN_S)
        return endpoint_server.by_content(call)

    captioner.replies = describes
    _upload(tmp_path / "pdfs", *SUBJECTS[2:])
    run = str(airflow.call(f"{DAG}/dagRuns", {"logical_date": None})["dag_run_id"])

    wait_for(lambda: len(_parses(running, run)) == len(WORKERS), within_s=RUN_WITHIN_S)
    airflow.end(WORKERS[0], by=signal.SIGKILL)
    running.kill_service(SERVICES[0])
    running.start_worker(WORKERS[0])
    wait_for(lambda: len(captioner.calls) > described, within_s=RUN_WITHIN_S)
    running.ray.kill(running.ray.nodes[-1])
    running.start_service(SERVICES[0], str(running.folder / "corpora" / "manuals.yaml"))
    node_is_gone.set()

    _succeeds(running, run)
    second = _live(workspace)
    wait_for(lambda: second in asking.versions)
    asking.end()
    print(f"{asking.answered} questions were answered, the slowest in {asking.longest_s:.1f} s")  # noqa: T201
    assert asking.wrong == []
    assert asking.versions == [first, second], "never back, nothing else"
    manifest = read_manifest(workspace.store, second)
    assert manifest is not None
    assert (manifest.counts.documents, manifest.counts.quarantined) == (4, 0)
    pictures = captioner.pictures
    assert len(pictures) == len(set(pictures)) == 8, "no figure is described twice"
    if running.prometheus:
        samples = fetch(f"{running.prometheus}/api/v1/query?query=min_over_time(up[1h])")["data"]["result"]
        least = {sample["metric"]["instance"]: sample["value"][1] for sample in samples}
        assert least.keys() == {running.instance(service) for service in SERVICES}
        assert least[running.instance(SERVICES[0])] == "0", "it was down; a busy one that answers late counts as down, too"
