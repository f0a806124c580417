"""Kill what enriches, at random: ``python -m bench.enrich_faults [--kills 20] [--seed 0] [--json]``.

A small corpus is enriched on a Ray cluster of two nodes again and again, from nothing: words are read, figures, pages and texts
described, rows embedded. Figures are described by two models: one behind an endpoint, which describes pages and texts as well,
and one of transformers with random weights, as actors. Each time something is killed by SIGKILL: an actor, a node with all that
runs on it, the driver, or the job: driver, actors and a node. Each of them is killed at the calls of each model, in turn, at one
that a seed draws; an endpoint is called by the driver, and so actors and nodes have nothing to do with it. Whoever drives is then
started again, until it comes to an end.

Calls of an endpoint are counted by its server as they arrive, which is when they are paid for; those of actors when they are
answered.

Counted is what must be 0: records of the caches that are not those of an undisturbed run, and calls of a model that were
made again although their record was in a shard. Those that are made again because no shard was written yet, or because the
actor that made them died before it answered, are what a kill costs.
"""

import argparse
import contextlib
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import psutil
import yaml

from bench.table import Row, show
from pipeline import steps
from ray_jobs import caption, embed, enrich
from ray_jobs.outcomes import Outcome
from ray_jobs.pools import run_pool
from schemas.ids import sha256
from schemas.parquet import from_parquet
from schemas.stages import Stage
from tests.synthetic import PRESETS, synthesize

MANUALS = 4
PAGES = 8
ENDPOINT = ("vlm-figures", "vlm-pages", "llm-texts")
"""Models behind an endpoint."""
READER, CAPTIONER, EMBEDDER = "ocr", "local-figures", "text-vectors"
"""Models of actors."""
ACTORS = (CAPTIONER, READER, EMBEDDER)
MODELS = (*ENDPOINT, *ACTORS)
SHOTS = (
    *itertools.product(ENDPOINT, ("driver", "job")),
    *itertools.product(ACTORS, ("driver", "actor", "node", "job")),
)
"""At whose calls what is killed."""

_RUN = "bench"
_CALLS = "INSET_BENCH_CALLS"
_CACHES = {"recognised": READER, "captions": CAPTIONER, "vectors": EMBEDDER, "drawn": "pages-drawn"}
"""Caches that are compared, and who makes their records, but for descriptions of an endpoint's models, which name them."""
_TAKES_S = 0.05
"""What an answer of the endpoint takes, so that several are under way when something is killed."""
_ATTEMPTS = 5
"""Runs that may be over before what is to be killed is reached."""
_STARTS = 3
"""Drivers that a kill may cost."""


@dataclass
class Outcomes:
    """What came of the kills; everything but the counts should be empty."""

    killed: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)
    repeated: list[Counter[str]] = field(default_factory=list)
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
    for model in MODELS:
        again = [repeated[model] for repeated in found.repeated]
        yield Row(f"{model}: calls undisturbed", "", found.calls[model])
        yield Row(f"{model}: made again, in all", "", sum(again))
        yield Row(f"{model}: made again, at most", "", max(again, default=0))
    yield Row("records not of an undisturbed run", "", len(found.wrong), goal="0")
    yield Row("repeated though their record was kept", "", len(found.repeated_although_kept), goal="0")
    yield Row("runs that didn't come to an end", "", len(found.unfinished), goal="0")


def kill(folder: Path, *, kills: int, seed: int, log: Callable[[str], object] = lambda _line: None) -> Outcomes:
    """Enrich a small corpus from nothing, as often as something is to be killed, and look at what was made.

    Args:
        folder: An empty one, for corpus, stores and cluster.
        kills: Processes to kill.
        seed: What moments, and which actor, are drawn by.
        log: Called with a line a kill.
    """
    from tests import endpoint_server, ray_cluster, tiny_vlm

    pick, found = random.Random(seed), Outcomes()
    calls = folder / "calls"
    with endpoint_server.running() as server:
        server.replies = _Answering(calls)
        file, version = _parsed(folder, server.url, tiny_vlm.write(folder / "tiny-vlm"))
        bare = folder / "bare"
        shutil.copytree(folder / "store", bare)
        os.environ.update(ray_cluster.AUTH)
        with ray_cluster.running(1, 1, environment={_CALLS: str(calls)}) as cluster:
            file.write_text(f"{file.read_text()}ray: {{address: '{cluster.address}'}}\n")
            driver = _Driver(file, version, calls)
            if driver.finish() != 0:
                raise SystemExit("an undisturbed run doesn't come to an end")
            wanted, made = _records(folder / "store"), _calls(calls)
            if {name for name in wanted if _model(name) in MODELS} != made.keys():
                raise SystemExit("an undisturbed run doesn't make a record a call")
            found.calls = _by_model(made.elements())
            if lacking := [model for model in MODELS if found.calls[model] < 2]:
                raise SystemExit(f"an undisturbed run doesn't call {', '.join(lacking)}")
            for model, victim in itertools.islice(itertools.cycle(SHOTS), kills):
                for _ in range(_ATTEMPTS):
                    shutil.rmtree(folder / "store")
                    shutil.copytree(bare, folder / "store")
                    calls.unlink()
                    server.calls.clear()
                    moment = pick.randint(1, found.calls[model] - 1)
                    when = f"{victim} killed at call {moment} of {model}"
                    driver = _Driver(file, version, calls)
                    if driver.reaches(model, moment) and _shoot(victim, driver, cluster, pick):
                        break
                    driver.finish()
                else:
                    found.unfinished.append(f"{when}: the work was done before")
                    break
                kept = _records(folder / "store").keys()
                before = _calls(calls)
                for _ in range(_STARTS):
                    status = driver.finish()
                    if status == 0:
                        break
                    driver = _Driver(file, version, calls)
                else:
                    found.unfinished.append(f"{when}: its driver ends with {status}")
                found.killed[victim] += 1
                made = _calls(calls)
                again = [name for name in made if made[name] > 1]
                found.repeated.append(_by_model(again))
                found.repeated_although_kept += [f"{when}: {name}" for name in made - before if name in kept]
                found.wrong += _differences(when, wanted, _records(folder / "store"))
                log(f"{found.killed.total():3} {when} of {found.calls[model]}: made again {dict(found.repeated[-1])}\n")
    return found


class _Answering:
    """Answers each call of the endpoint, after a while, by words that name it, and writes it down when it arrives."""

    def __init__(self, calls: Path) -> None:
        self._calls, self._lock = calls, threading.Lock()

    def __call__(self, call: Any) -> str:
        digest = sha256(json.dumps(call.json["messages"], sort_keys=True).encode())
        with self._lock, self._calls.open("a") as calls:
            calls.write(f"{call.json['model']} {digest}\n")
        time.sleep(_TAKES_S)
        return f"- This part of the manual explains how the pump is put together, and its number is {digest}"


# ---- the corpus, and who enriches it ----


def _parsed(folder: Path, endpoint: str, local: Path) -> tuple[Path, str]:
    """Write a corpus and parse it; return its file and the version that is to be enriched."""
    (folder / "pdfs").mkdir()
    for seed in range(MANUALS):
        pdf = synthesize(f"manual-{seed}", seed=seed, pages=PAGES, options=PRESETS["easy"]).pdf
        (folder / "pdfs" / f"manual-{seed}.pdf").write_bytes(pdf)
    file = folder / "faults.yaml"
    file.write_text(yaml.safe_dump(_corpus(endpoint, local)))
    planned = steps.plan(str(file), _RUN)
    for group in planned.groups:
        steps.parse_shards(str(file), _RUN, planned.version, group)
    return file, planned.version


def _corpus(endpoint: str, local: Path) -> dict[str, Any]:
    """Return what a corpus file says: half of the documents have their figures described by actors, and pages have rows."""
    figures, pages, texts = ENDPOINT
    models: dict[str, Any] = {
        name: {"kind": "vlm", "model": name, "revision": "1", "endpoint": {"url": endpoint, "concurrency": 4}}
        for name in ENDPOINT
    }
    models[CAPTIONER] = {"kind": "local", "model": str(local), "revision": "1"}
    models[CAPTIONER] |= {"max_tokens": 12, "max_side_px": 128, "batch": 1, "workers": 2, "gpus": 0}
    described = {"captioner": figures, "by_source": {"manual-[01].pdf": CAPTIONER}, "pages": pages, "summaries": texts}
    return {
        "name": "faults",
        "source": "pdfs",
        "store": "store",
        "captions": {"layout": "none", "ocr_workers": 2, "models": models} | described,
        "embeddings": {"workers": 2, "batch": 2},
        "parse": {"workers": 2},
    }


class _Counted:
    """Writes down each call that a model has answered. The actors of ``drive`` are made of it."""

    model: str
    _real: Any

    def run(self, batch: Sequence[tuple[str, Any]]) -> list[Outcome[Any]]:
        """Return what the model makes of a batch, and note its rows."""
        made: list[Outcome[Any]] = self._real.run(batch)
        with open(os.environ[_CALLS], "a") as calls:  # noqa: PTH123  one write, so that lines of two actors don't mix
            calls.write("".join(f"{self.model} {row_id}\n" for row_id, _ in batch))
        return made


class CountedRecogniser(_Counted):
    """Reads words, and counts."""

    model = READER

    def __init__(self, *arguments: Any) -> None:
        self._real = enrich.RecogniserActor(*arguments)


class CountedCaptioner(_Counted):
    """Describes, and counts."""

    model = CAPTIONER

    def __init__(self, *arguments: Any) -> None:
        self._real = caption.CaptionerActor(*arguments)


class CountedEmbedder(_Counted):
    """Embeds, and counts."""

    model = EMBEDDER

    def __init__(self, *arguments: Any) -> None:
        self._real = embed._RemoteEmbedder(*arguments)


def drive(file: str, version: str) -> None:
    """Enrich a version, by actors that count, and by actors however little there is to do."""
    counted: dict[Any, Any] = {
        enrich.RecogniserActor: CountedRecogniser,
        caption.CaptionerActor: CountedCaptioner,
        embed._RemoteEmbedder: CountedEmbedder,
    }

    def counting(actor: Any, *rest: Any, **more: Any) -> Iterator[list[Outcome[Any]]]:
        return run_pool(counted.get(actor, actor), *rest, **more)

    with (
        mock.patch.multiple(enrich, run_pool=counting, FEW_PICTURES=0),
        mock.patch.multiple(caption, run_pool=counting, BATCHES_A_CALL=1),
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

    def reaches(self, model: str, moment: int) -> bool:
        """Return once so many calls of a model were made; False where the process ends before."""
        while _by_model(_calls(self._calls).elements())[model] < moment:
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


def _shoot(victim: str, driver: _Driver, cluster: Any, pick: random.Random) -> bool:
    """Kill; return whether there was what is to be killed."""
    actors = [process for process in _of(cluster) if _name(process).startswith("ray::_Host")]
    if driver.process.poll() is not None or (victim == "actor" and not actors):
        return False
    if victim in ("driver", "job"):
        driver.process.kill()
        driver.process.wait()
    if victim in ("actor", "job"):
        for actor in actors if victim == "job" else [pick.choice(actors)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                actor.kill()
    if victim in ("node", "job"):
        cluster.kill(cluster.nodes[-1])
        cluster.add(cpus=1)
    return True


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
    """Return the calls that were made, by the names of their records."""
    return Counter(file.read_text().splitlines()) if file.exists() else Counter()


def _by_model(names: Iterable[str]) -> Counter[str]:
    return Counter(map(_model, names))


def _model(name: str) -> str:
    return name.partition(" ")[0]


def _records(store: Path) -> dict[str, Counter[str]]:
    """Return every record of the caches by the model that made it and its id, or its call's, with digests of what is there."""
    found: dict[str, Counter[str]] = {}
    for cache, maker in _CACHES.items():
        for shard in sorted(store.glob(f"*/{cache}/**/*.parquet")):
            if shard.name.startswith("."):
                continue
            for row in from_parquet(shard.read_bytes()).to_pylist():
                by = (model, row["text"].split()[-1]) if (model := row.get("model")) in ENDPOINT else (maker, row["id"])
                found.setdefault(" ".join(by), Counter())[sha256(json.dumps(row, sort_keys=True).encode())] += 1
    return found


def _differences(when: str, wanted: dict[str, Counter[str]], made: dict[str, Counter[str]]) -> Iterator[str]:
    for name in sorted(wanted.keys() | made.keys()):
        if wanted.get(name, Counter()).keys() != made.get(name, Counter()).keys():
            yield f"{when}: record {name} differs"


if __name__ == "__main__":
    main()
