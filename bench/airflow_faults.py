"""Break what Airflow stands on, and look: ``python -m bench.airflow_faults [FAULT ...] [--seconds 60]``.

Each fault hits a refresh by a real Airflow on PostgreSQL. Shown is what an operator sees while it lasts: the task, its state, and
the line of its log; and after the repair: how the run ended, which tasks were done twice, and what the next refresh finds to do.
Parts of Airflow that end are started again, as systemd does. A full and a read-only store need the right to mount.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.error
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from bench.table import parser_of
from ray_jobs.enrich import FEW_DOCUMENTS
from tests import airflow_server, ray_cluster, weaviate_server
from tests.airflow_server import EVERY_PART, Airflow
from tests.manuals import write_manual
from tests.waiting import wait_for

_CORPUS = "source: ../{source}\nstore: ../stores/{name}\ncaptions: {{ocr: none}}\nparse: {{workers: 2}}\nschedule: null\n"
_RUN_WITHIN_S = 1_800.0


@dataclass(frozen=True)
class Site:
    """An Airflow, and what its corpora stand on."""

    airflow: Airflow
    folder: Path
    weaviate: weaviate_server.StartedServer
    seconds: float

    def write_corpus(self, name: str, more: str = "", source: str = "pdfs") -> None:
        """Write a corpus file, and wait until its DAG is there."""
        (self.folder / "corpora" / f"{name}.yaml").write_text(
            f"name: {name}\n{_CORPUS.format(name=name, source=source)}{more}"
        )
        dag = f"dags/refresh_{name}"
        wait_for(lambda: _answer(lambda: self.airflow.call(dag)))
        self.airflow.call(dag, {"is_paused": False}, "PATCH")

    def start(self, name: str) -> str:
        """Start a refresh; return its path."""
        dag = f"dags/refresh_{name}"
        run = self.airflow.call(f"{dag}/dagRuns", {"logical_date": None})["dag_run_id"]
        return f"{dag}/dagRuns/{run}"

    def tasks(self, run: str) -> list[dict[str, Any]]:
        """Return the tasks of a run."""
        found: list[dict[str, Any]] = self.airflow.call(f"{run}/taskInstances?limit=500")["task_instances"]
        return found

    def in_state(self, run: str, *states: str, task: str | None = None) -> dict[str, Any]:
        """Wait until a task of a run is in one of some states; return it."""

        def found() -> list[dict[str, Any]]:
            return [one for one in self.tasks(run) if one["state"] in states and task in (None, one["task_id"])]

        return wait_for(found, within_s=_RUN_WITHIN_S)[0]

    def line(self, run: str, task: dict[str, Any]) -> str:
        """Return the line of Inset that ends the log of a task's newest try."""
        path = f"{run}/taskInstances/{task['task_id']}/logs/{task['try_number']}?map_index={task['map_index']}&full_content=true"
        entries = [entry for entry in self.airflow.call(path)["content"] if entry.get("level") in ("warning", "error")]
        own = [entry["event"] for entry in entries if entry.get("logger") == "inset"]
        return str(own[-1] if own else entries[-1]["event"] if entries else "no line")

    def retried(self, run: str) -> str:
        """Wait until a task failed, or waits for a further try; return what its log says."""
        task = self.in_state(run, "up_for_retry", "failed")
        return f"{task['task_id']}: {task['state']}: {self.line(run, task)}"

    def supervise(self) -> list[str]:
        """Start the parts of Airflow again that ended; return their names."""
        ended = [part for part, process in self.airflow.processes.items() if process.poll() is not None]
        for part in ended:
            self.airflow.start(part)
        return ended


Fault = Callable[[Site, str], Iterator[str]]
"""Starts a refresh of a corpus and breaks something: yields the path of the run, then what was seen; repairs it when resumed."""


def _killed(task: str) -> Fault:
    def fault(site: Site, name: str) -> Iterator[str]:
        site.write_corpus(name)
        yield (run := site.start(name))
        running = site.in_state(run, "running", task=task)
        title = f"airflow worker -- {running['id']}"
        (process,) = wait_for(
            lambda: [one for one in psutil.process_iter(["cmdline"]) if title in " ".join(one.info["cmdline"] or [])]
        )
        process.kill()
        yield site.retried(run)

    return fault


def _scheduler(site: Site, name: str) -> Iterator[str]:
    site.write_corpus(name)
    yield (run := site.start(name))
    site.in_state(run, "running", task="enrich")
    site.airflow.end("scheduler", signal.SIGKILL)  # with its workers, as where a machine ends
    time.sleep(site.seconds)
    yield f"enrich: {site.in_state(run, 'running')['state']}; health of the scheduler: {_health(site, 'scheduler')}"
    site.airflow.start("scheduler")


def _database(site: Site, name: str) -> Iterator[str]:
    site.write_corpus(name)
    yield (run := site.start(name))
    site.in_state(run, "running", task="enrich")
    assert site.airflow.database is not None
    site.airflow.database.stop()
    time.sleep(site.seconds)
    seen = f"Airflow's pages: {_status(site, run)}"
    site.airflow.database.start()
    ended = site.supervise()
    yield f"{seen}; parts that ended: {', '.join(ended) or 'none'}"


def _ray(site: Site, name: str) -> Iterator[str]:
    for number in range(FEW_DOCUMENTS + 1):  # fewer need no Ray
        write_manual(site.folder / "many" / f"{number}.pdf", f"pump {number}", seed=number, pages=1)
    with ray_cluster.running(2) as cluster:
        site.write_corpus(name, f"ray: {{address: '{cluster.address}'}}\n", "many")
        cluster.kill(cluster.nodes[0])
        yield (run := site.start(name))
        yield site.retried(run)
        cluster.add(cpus=2, head=True, port=int(cluster.address.rpartition(":")[2]))
        yield ""


def _weaviate(site: Site, name: str) -> Iterator[str]:
    server = site.weaviate.server
    site.write_corpus(name, f"index: {{engine: weaviate, url: '{server.url}', grpc_port: {server.grpc_port}}}\n")
    yield (run := site.start(name))
    site.in_state(run, "running", task="enrich")
    site.weaviate.stop()
    yield site.retried(run)
    site.weaviate.start()


def _store(broken: Callable[[Path], AbstractContextManager[None]]) -> Fault:
    def fault(site: Site, name: str) -> Iterator[str]:
        store = site.folder / "stores" / name
        store.mkdir(parents=True)
        _system("mount", "-t", "tmpfs", "-o", "size=64m", "inset", str(store))
        try:
            site.write_corpus(name)
            yield (run := site.start(name))
            site.in_state(run, "running", task="enrich")
            with broken(store):
                yield site.retried(run)
            yield ""
        finally:
            _system("umount", "--lazy", str(store))

    return fault


@contextlib.contextmanager
def _full(store: Path) -> Iterator[None]:
    filler = store / "filler"
    with filler.open("wb") as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(1 << 16))
            file.flush()
    yield
    filler.unlink()


@contextlib.contextmanager
def _read_only(store: Path) -> Iterator[None]:
    _system("mount", "-o", "remount,ro", str(store))
    yield
    _system("mount", "-o", "remount,rw", str(store))


def _system(program: str, *arguments: str) -> None:
    subprocess.run([shutil.which(program) or program, *arguments], check=True)


FAULTS: dict[str, Fault] = {
    "parse_killed": _killed("parse"),
    "enrich_killed": _killed("enrich"),
    "scheduler_killed": _scheduler,
    "database_gone": _database,
    "ray_gone": _ray,
    "weaviate_gone": _weaviate,
    "store_full": _store(_full),
    "store_read_only": _store(_read_only),
}


def main() -> None:
    """Try faults, and print what was seen."""
    parser = parser_of("airflow_faults", __doc__)
    parser.add_argument("faults", nargs="*", choices=[*FAULTS, []], help="default: all")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long scheduler and database are gone")
    arguments = parser.parse_args()
    os.environ |= ray_cluster.AUTH
    with tempfile.TemporaryDirectory(prefix="inset-faults-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "corpora").mkdir()
        write_manual(folder / "pdfs" / "pump.pdf", "water pump", seed=1)
        write_manual(folder / "pdfs" / "winch.pdf", "steel winch", seed=2)
        with airflow_server.running(folder, parts=EVERY_PART) as airflow, _weaviate_server(folder) as weaviate:
            site = Site(airflow, folder, weaviate, arguments.seconds)
            for fault in arguments.faults or FAULTS:
                print(f"{fault}\n  {_try(site, fault)}", flush=True)


@contextlib.contextmanager
def _weaviate_server(folder: Path) -> Iterator[weaviate_server.StartedServer]:
    (folder / "weaviate").mkdir()
    server = weaviate_server.StartedServer("weaviate", folder / "weaviate")
    server.start()
    try:
        yield server
    finally:
        server.stop()


def _try(site: Site, fault: str) -> str:
    steps = FAULTS[fault](site, fault)
    run, seen = next(steps), next(steps)
    repaired = time.monotonic()
    rest = next(steps, None)  # repairs, and lends what was repaired until the run has ended
    try:
        wait_for(lambda: _answer(lambda: site.airflow.call(run)["state"]) in ("success", "failed"), within_s=_RUN_WITHIN_S)
        state, took = site.airflow.call(run)["state"], time.monotonic() - repaired
        twice = [f"{one['task_id']} ({one['try_number']} tries)" for one in site.tasks(run) if one["try_number"] > 1]
        again = site.start(fault)
        site.airflow.ended(again)
        outcome = site.airflow.call(f"{again}/taskInstances/plan/xcomEntries/outcome")["value"]
    finally:
        if rest is not None:
            next(steps, None)
    lines = [
        f"seen: {seen}",
        f"after the repair: {state} within {took:.0f} s; tried again: {', '.join(twice) or 'none'}",
        f"the next refresh: {outcome}",
    ]
    return "\n  ".join(lines)


def _answer(ask: Callable[[], Any]) -> Any:
    """Return an answer of the API server; None if it has none now."""
    try:
        return ask()
    except (OSError, ValueError):
        return None


def _health(site: Site, part: str) -> str:
    return str(site.airflow.call("monitor/health")[part]["status"])


def _status(site: Site, run: str) -> str:
    try:
        airflow_server.fetch(f"{site.airflow.address}/api/v2/{run}", token=site.airflow.token("ada"))
    except urllib.error.HTTPError as error:
        return f"HTTP {error.code}: {error.read(200).decode(errors='replace')}"
    except (OSError, ValueError) as error:
        return str(error)
    return "answer"


if __name__ == "__main__":
    main()
