"""The service by several processes."""

import contextlib
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from query_service.keys import digest
from tests import redis_server
from tests.free_port import free_port
from tests.waiting import wait_for

KEY, MONITOR = "inset_" + "aB3-_" * 8, "inset_" + "zY4-_" * 8
WITHIN_S = 300
ENDS_WITHIN_S = 60
UNREAD = 50
"""Requests for a file of 1 MB in one connection: more than its buffers hold."""
STILL = 20
"""Looks in a row without a change."""


@contextlib.contextmanager
def serving(folder: Path, *options: str) -> Iterator[tuple[str, psutil.Process]]:
    """Run two workers over a corpus without a version; yield address and supervisor."""
    (folder / "pumps.yaml").write_text("name: pumps\nsource: pdfs\nstore: store\n")
    keys = [{"name": "team", "sha256": digest(KEY), "corpora": ["*"], "per_minute": 10}]
    keys.append({"name": "monitor", "sha256": digest(MONITOR), "metrics": True})
    (folder / "keys").write_text("\n".join(map(json.dumps, keys)))
    port = free_port()
    command = [sys.executable, "-m", "cli.main", "serve", str(folder / "pumps.yaml"), "--port", str(port)]
    command += ["--workers", "2", "--keys", str(folder / "keys"), *options]
    with (folder / "log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        supervisor = psutil.Process(process.pid)
        try:
            wait_for(lambda: len(_started(folder)) == 2, "both workers answer")
            yield f"http://127.0.0.1:{port}", supervisor
        finally:
            with contextlib.suppress(psutil.NoSuchProcess):
                supervisor.terminate()
            process.wait(ENDS_WITHIN_S)


def _started(folder: Path) -> list[int]:
    """Return the workers that have begun to serve."""
    ready, workers, numbers = 0, list[int](), list[int]()
    for line in (folder / "log").read_text().splitlines():
        if "Started server process" in line:
            numbers.append(int(line.partition("[")[2].partition("]")[0]))
        ready += "Application startup complete" in line
    workers = numbers[:ready]
    return [number for number in workers if psutil.pid_exists(number)]


def _statuses(address: str, count: int) -> list[int]:
    """Ask so often, over a connection each, so that both workers are asked."""
    headers = {"authorization": f"Bearer {KEY}"}
    return [httpx.get(f"{address}/v1/corpora", headers=headers, timeout=WITHIN_S).status_code for _ in range(count)]


def _counted(address: str) -> dict[str, float]:
    headers = {"authorization": f"Bearer {MONITOR}"}
    reply = httpx.get(f"{address}/metrics", headers=headers, timeout=WITHIN_S).raise_for_status()
    lines = [line.rpartition(" ") for line in reply.text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in lines}


@pytest.mark.slow
def test_workers_are_counted_together_replaced_when_they_die_and_end_with_their_supervisor(tmp_path: Path) -> None:
    healthy = 'inset_http_request_seconds_count{method="GET",route="/healthz",status="200"}'
    with serving(tmp_path) as (address, supervisor):
        for _ in range(20):
            assert httpx.get(f"{address}/healthz").status_code == 200
        assert _counted(address)[healthy] == 20
        first, second = _started(tmp_path)
        psutil.Process(first).kill()
        wait_for(lambda: len(_started(tmp_path)) == 2 and first not in _started(tmp_path), "another worker")
        assert second in _started(tmp_path)
        assert httpx.get(f"{address}/healthz").status_code == 200
        counts = _counted(address)
        assert counts[healthy] == 21, "what the dead worker had counted stays"
        assert counts["inset_http_requests_in_progress"] == 1
        workers = _started(tmp_path)
        supervisor.kill()
        wait_for(lambda: not any(psutil.pid_exists(number) for number in workers), "no worker outlives its supervisor")


@pytest.mark.slow
def test_sigterm_ends_the_service_with_requests_open_that_never_end(tmp_path: Path) -> None:
    with serving(tmp_path) as (address, supervisor), contextlib.ExitStack() as unread:
        family = [supervisor, *supervisor.children(recursive=True)]
        workers = [psutil.Process(number) for number in _started(tmp_path)]
        port = int(address.rpartition(":")[2])

        def has_one_more() -> bool:
            """Ask for more than the buffers of a connection hold, and read nothing."""
            connection = unread.enter_context(socket.create_connection(("127.0.0.1", port)))
            connection.sendall(b"GET /static/redoc/redoc.standalone.js HTTP/1.1\r\nhost: localhost\r\n\r\n" * UNREAD)
            return all(
                any(open_connection.status == psutil.CONN_ESTABLISHED for open_connection in worker.net_connections("tcp"))
                for worker in workers
            )

        wait_for(has_one_more, "both workers have a request open")
        finished: list[float] = []

        def are_stuck() -> bool:
            """Ask until no request ends any more: the buffers are full, and the responses wait for their clients."""
            counted = _counted(address)
            finished.append(sum(count for name, count in counted.items() if "_count{" in name and "/metrics" not in name))
            return counted["inset_http_requests_in_progress"] > len(workers) and finished[-STILL:] == [finished[-1]] * STILL

        wait_for(are_stuck, "they wait for their clients")
        supervisor.terminate()
        _, alive = psutil.wait_procs(family, timeout=WITHIN_S)  # a fork server ends once its imports are done
        assert alive == []
    log = (tmp_path / "log").read_text()
    assert "timeout graceful shutdown exceeded" in log, "the requests were cut off"
    assert "Started server process" not in log.partition("timeout graceful shutdown exceeded")[2]


@pytest.mark.slow
def test_without_redis_each_worker_counts_the_requests_of_a_key_and_says_so(tmp_path: Path) -> None:
    with serving(tmp_path):
        assert "counted in each worker, since no --redis is named" in (tmp_path / "log").read_text()


@pytest.mark.slow
@pytest.mark.live
def test_with_redis_a_key_has_its_limit_in_all_workers_together(tmp_path: Path) -> None:
    with redis_server.running(tmp_path) as url, serving(tmp_path, "--redis", url) as (address, _):
        assert "counted in all workers together (Redis)" in (tmp_path / "log").read_text()
        started = time.monotonic()
        statuses = _statuses(address, 30)
        back = (time.monotonic() - started) / 6
    assert 10 <= statuses.count(200) <= 12 + back, "and what comes back meanwhile"
    assert statuses.count(429) == 30 - statuses.count(200)


@pytest.mark.slow
def test_a_worker_that_can_not_start_ends_the_service_with_one_line(tmp_path: Path) -> None:
    with serving(tmp_path) as (_, supervisor):
        (tmp_path / "pumps.yaml").write_text("name: [")
        psutil.Process(_started(tmp_path)[0]).kill()
        wait_for(lambda: not supervisor.is_running() or supervisor.status() == psutil.STATUS_ZOMBIE, "the supervisor ends")
    log = (tmp_path / "log").read_text()
    assert "pumps.yaml" in log
    assert "Traceback" not in log
