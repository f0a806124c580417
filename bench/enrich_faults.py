"""Kill what enriches, at random: ``python -m bench.enrich_faults [--kills 20] [--seed 0] [--json]``.

A small corpus is enriched on a Ray cluster of two nodes again and again, from nothing, and each time something is killed by
SIGKILL at a moment drawn by a seed: an actor, a node with all that runs on it, the driver, or the job: driver, actors and a node.
Whoever drives is then started again, until it comes to an end.

Counted is what must be 0: records of the caches that are not those of an undisturbed run, and calls of a model that were
made again although their record was in a shard. Those that are made again because no shard was written yet, or because the
actor that made them died before it answered, are what a kill costs.
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import psutil

from bench.table import Row, show
from evaluation.synthetic import PRESETS, synthesize
from pipeline import steps
from ray_jobs import embed, enrich
from ray_jobs.pools import run_pool
from ray_jobs.rows import Outcome
from schemas.ids import sha256
from schemas.parquet import from_parquet
from schemas.stages import Stage

MANUALS = 6
PAGES = 12
VICTIMS = ("driver", "actor", "node", "job")
_RUN = "bench"
_CALLS = "INSET_BENCH_CALLS"
_CACHES = ("recognised", "vectors")


@dataclass
class Outcomes:
    """What came of the kills; everything but the counts should be empty."""

    killed: Counter[str] = field(default_factory=Counter)
    calls: int = 0
    repeated: list[int] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    repeated_although_kept: list[str] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)

    def faults(self) -> list[str]:
        """Return all that should not be."""
        return [*self.wrong, *self.repeated_although_kept, *self.unfinished]


def main() -> None:
    """Kill, look, and print what was found."""
    about, _, more = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(prog="python -m bench.enrich_faults", description=about, epilog=more)
    parser.add_argument("--kills", type=int, default=20, help="processes to kill")
    parser.add_argument("--seed", type=int, default=0, help="what victims and moments are drawn by")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = kill(Path(folder), kills=arguments.kills, seed=arguments.seed, log=sys.stderr.write)
    show(f"who enriches killed {found.killed.total()} times", list(_rows(found)))
    for fault in found.faults():
        sys.stderr.write(f"{fault}\n")
    sys.exit(1 if found.faults() else 0)


def _rows(found: Outcomes) -> Iterator[Row]:
    for victim, count in sorted(found.killed.items()):
        yield Row(f"killed: {victim}", "", count)
    yield Row("calls of a model in an undisturbed run", "", found.calls)
    yield Row("calls made again after a kill, most", "", max(found.repeated, default=0))
    yield Row("calls made again after a kill, mean", "", sum(found.repeated) / max(1, len(found.repeated)))
    yield Row("records that an undisturbed run doesn't make", "", len(found.wrong), goal="0")
    yield Row("calls made again although their record was kept", "", len(found.repeated_although_kept), goal="0")
    yield Row("runs that didn't come to an end", "", len(found.unfinished), goal="0")


def kill(folder: Path, *, kills: int, seed: int, log: Callable[[str], object] = lambda _line: None) -> Outcomes:
    """Enrich a small corpus from nothing, as often as something is to be killed, and look at what was made.

    Args:
        folder: An empty one, for corpus, stores and cluster.
        kills: Processes to kill.
        seed: What victims and moments are drawn by.
        log: Called with a line a kill.
    """
    from tests import ray_cluster

    pick, found = random.Random(seed), Outcomes()
    calls = folder / "calls"
    file, version = _parsed(folder)
    bare = folder / "bare"
    shutil.copytree(folder / "store", bare)
    os.environ.update(ray_cluster.AUTH)
    with ray_cluster.running(1, 1, environment={_CALLS: str(calls)}) as cluster:
        file.write_text(f"{file.read_text()}ray: {{address: '{cluster.address}'}}\n")
        driver = _Driver(file, version, calls)
        if driver.finish() != 0:
            raise SystemExit("an undisturbed run doesn't come to an end")
        wanted, made = _records(folder / "store"), _calls(calls)
        if not wanted or wanted.keys() != made.keys():
            raise SystemExit("an undisturbed run doesn't make a record a call")
        found.calls = made.total()
        while found.killed.total() < kills:
            victim = VICTIMS[found.killed.total() % len(VICTIMS)]
            shutil.rmtree(folder / "store")
            shutil.copytree(bare, folder / "store")
            calls.unlink()
            driver = _Driver(file, version, calls)
            moment = pick.randint(1, found.calls - 1)
            if not driver.reaches(moment):
                found.unfinished.append(f"no call {moment} before the driver ended")
                break
            kept = _kept(folder / "store")
            before = _calls(calls)
            _shoot(victim, driver, cluster, pick)
            for _ in range(3):
                status = driver.finish()
                if status == 0:
                    break
                driver = _Driver(file, version, calls)
            else:
                found.unfinished.append(f"{victim} killed at call {moment}: its driver ends with {status}")
            found.killed[victim] += 1
            after = _calls(calls) - before
            again = [name for name in after if before[name]]
            found.repeated.append(len(again))
            found.repeated_although_kept += [f"{victim} killed at call {moment}: {name}" for name in again if name in kept]
            found.wrong += _differences(f"{victim} killed at call {moment}", wanted, _records(folder / "store"))
            log(f"{found.killed.total():3} {victim} at call {moment} of {found.calls}: {len(again)} made again\n")
    return found


# ---- the corpus, and who enriches it ----


def _parsed(folder: Path) -> tuple[Path, str]:
    """Write a corpus and parse it; return its file and the version that is to be enriched."""
    (folder / "pdfs").mkdir()
    for seed in range(MANUALS):
        pdf = synthesize(f"manual-{seed}", seed=seed, pages=PAGES, options=PRESETS["easy"]).pdf
        (folder / "pdfs" / f"manual-{seed}.pdf").write_bytes(pdf)
    file = folder / "faults.yaml"
    file.write_text(
        "name: faults\nsource: pdfs\nstore: store\ncaptions: {layout: none, ocr_workers: 2}\n"
        "embeddings: {workers: 2, batch: 2}\nparse: {workers: 2}\n"
    )
    planned = steps.plan(str(file), _RUN)
    for group in planned.groups:
        steps.parse_shards(str(file), _RUN, planned.version, group)
    return file, planned.version


class _Counted:
    """Writes down each call that a model has answered. The actors of ``drive`` are made of it."""

    _real: Any

    def run(self, batch: Sequence[tuple[str, Any]]) -> list[Outcome[Any]]:
        """Return what the model makes of a batch, and note its rows."""
        made: list[Outcome[Any]] = self._real.run(batch)
        with open(os.environ[_CALLS], "a") as calls:  # noqa: PTH123  one write, so that lines of two actors don't mix
            calls.write("".join(f"{row_id}\n" for row_id, _ in batch))
        return made


class CountedRecogniser(_Counted):
    """Reads words, and counts."""

    def __init__(self, *arguments: Any) -> None:
        self._real = enrich.RecogniserActor(*arguments)


class CountedEmbedder(_Counted):
    """Embeds, and counts."""

    def __init__(self, *arguments: Any) -> None:
        self._real = embed._RemoteEmbedder(*arguments)


def drive(file: str, version: str) -> None:
    """Enrich a version, by actors that count, and by actors however little there is to do."""
    counted: dict[Any, Any] = {enrich.RecogniserActor: CountedRecogniser, embed._RemoteEmbedder: CountedEmbedder}

    def counting(actor: Any, *rest: Any, **more: Any) -> Iterator[list[Outcome[Any]]]:
        return run_pool(counted.get(actor, actor), *rest, **more)

    with (
        mock.patch.multiple(enrich, run_pool=counting, FEW_PICTURES=0),
        mock.patch.multiple(embed, run_pool=counting, is_few=lambda *_: False),
    ):
        steps.run_stage(Stage.ENRICH, file, _RUN, version)


class _Driver:
    """A process that enriches."""

    def __init__(self, file: Path, version: str, calls: Path) -> None:
        self._calls = calls
        calls.touch()
        # Not as __main__, which no actor can import.
        code = f"from bench.enrich_faults import drive; drive({str(file)!r}, {version!r})"
        command = [sys.executable, "-W", "ignore", "-c", code]
        self.process = subprocess.Popen(
            command, env=os.environ | {_CALLS: str(calls)}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )

    def reaches(self, moment: int) -> bool:
        """Return once so many calls were made; False where the process ends before."""
        while _calls(self._calls).total() < moment:
            if self.process.poll() is not None:
                return False
            time.sleep(0.02)
        return True

    def finish(self) -> int:
        """Wait for its end; return how it ended."""
        _, errors = self.process.communicate()
        if self.process.returncode > 0:
            sys.stderr.write(errors[-2000:])
        return self.process.returncode


def _shoot(victim: str, driver: _Driver, cluster: Any, pick: random.Random) -> None:
    actors = [process for process in _of(cluster) if _name(process).startswith("ray::_Host")]
    if victim in ("driver", "job"):
        driver.process.send_signal(signal.SIGKILL)
    if victim in ("actor", "job"):
        for actor in actors if victim == "job" else [pick.choice(actors)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                actor.send_signal(signal.SIGKILL)
    if victim in ("node", "job"):
        cluster.kill(cluster.nodes[-1])
        cluster.add(cpus=1)


def _of(cluster: Any) -> Iterator[psutil.Process]:
    for node in cluster.nodes:
        if node.poll() is None:
            yield from psutil.Process(node.pid).children(recursive=True)


def _name(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""


# ---- what was made ----


def _calls(file: Path) -> Counter[str]:
    return Counter(file.read_text().split()) if file.exists() else Counter()


def _records(store: Path) -> dict[str, Counter[str]]:
    """Return every record of the caches of models, by its id, with digests of what is there."""
    found: dict[str, Counter[str]] = {}
    for shard in _shards(store):
        for row in from_parquet(shard.read_bytes()).to_pylist():
            found.setdefault(str(row["id"]), Counter())[sha256(json.dumps(row, sort_keys=True).encode())] += 1
    return found


def _kept(store: Path) -> set[str]:
    return {str(name) for shard in _shards(store) for name in from_parquet(shard.read_bytes()).column("id").to_pylist()}


def _shards(store: Path) -> Iterator[Path]:
    for cache in _CACHES:
        yield from (file for file in sorted(store.glob(f"*/{cache}/**/*.parquet")) if not file.name.startswith("."))


def _differences(when: str, wanted: dict[str, Counter[str]], made: dict[str, Counter[str]]) -> Iterator[str]:
    for name in sorted(wanted.keys() | made.keys()):
        if wanted.get(name, Counter()).keys() != made.get(name, Counter()).keys():
            yield f"{when}: record {name} differs"


if __name__ == "__main__":
    main()
