"""Searches a second of the query service and of the bare engine, over 100,000 made-up rows with vectors of 384 numbers.

The bare engine is a LanceDB table of the version that the service has open, asked by LanceDB's own client for the same columns,
after one embedding of the question. Many clients, and the engine under them, run in a process of their own: sixteen threads of
the standard library's HTTP client take a few percent of a core, which a row of the table gives. Clients and servers share
the machine's cores, so each rate also stands as searches a CPU-second of what answers.
"""

import http.client
import itertools
import json
import multiprocessing
import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import psutil

from backends.models.minilm import MiniLM
from bench.query import bare_searches
from bench.scale import WORDS, publish_made_up, vocabulary
from bench.served import serving, until_ready
from bench.table import Row
from pipeline.corpus.workspace import open_workspace
from pipeline.records.publication import read_pointer
from schemas.evidence import EVIDENCE

DOCUMENTS, PAGES = 1_000, 25
"""Documents of the corpus and pages of each, of four rows."""
QUESTIONS, WORDS_A_QUESTION = 300, 6
WARM_UP, CLIENTS = 20, 16
PRESETS = ("bm25", "dense", "hybrid")
P50, P99 = "ratio at most 1.3", "ratio at most 1.5"

Ask = Callable[[str], object]
"""Asks one question, and raises if there is no answer."""


@dataclass(frozen=True)
class Load:
    """What many clients got: searches, their seconds, and CPU-seconds of the clients and of what answered."""

    done: int
    seconds: float
    clients_cpu_s: float
    cpu_s: float

    @property
    def rate(self) -> float:
        """Searches a second."""
        return self.done / self.seconds

    @property
    def cores(self) -> float:
        """Cores that what answered used."""
        return self.cpu_s / self.seconds


def at_scale(folder: Path, seconds: float) -> list[Row]:
    """Measure; a corpus that an earlier run has made in ``folder`` is used again."""
    os.environ.setdefault("LANCEDB_LOG", "error")  # it warns of each search that names its columns
    if not (folder / "manuals.yaml").exists():
        folder.mkdir(parents=True, exist_ok=True)
        publish_made_up(folder, DOCUMENTS, PAGES)
    file = folder / "manuals.yaml"
    rows: list[Row] = []
    loads: dict[tuple[int, int], Load] = {}
    for workers in (1, 2):
        log = folder / f"log-{workers}"
        with serving(log, str(file), "--workers", str(workers)) as (address, process):
            until_ready(address)
            if workers == 1:
                for preset in PRESETS:
                    ours, theirs = _service(address, preset)(), _engine(file, preset)()
                    rows += compared(f"100,000 rows: {preset}", ours, theirs, "the engine's call", _questions())
            for clients in (1, CLIENTS):
                loads[workers, clients] = _in_a_process(partial(_service, address), clients, seconds, process.pid)
    engine = _in_a_process(partial(_engine, file, "hybrid"), CLIENTS, seconds)
    one, two = loads[1, CLIENTS], loads[2, CLIENTS]
    many = f"{CLIENTS} clients"
    rows += [
        Row(f"{many}, one worker", "1/s", one.rate, loads[1, 1].rate, "one client"),
        Row(f"{many}, two workers", "1/s", two.rate, one.rate, "one worker", "ratio at least 1.8"),
        Row(f"{many}, two workers", "1/s", two.rate, engine.rate, f"the engine, {CLIENTS} threads", "ratio at least 0.8"),
        Row("cores used by one worker", "", one.cores, engine.cores, "the engine"),
        Row("cores used by two workers", "", two.cores, one.cores, "one worker"),
        Row("searches a CPU-s, one worker", "1/s", one.done / one.cpu_s, engine.done / engine.cpu_s, "the engine"),
        Row("searches a CPU-s, two workers", "1/s", two.done / two.cpu_s, engine.done / engine.cpu_s, "the engine"),
        Row("cores used by the clients", "", two.clients_cpu_s / two.seconds),
    ]
    return rows


def client_of(address: str) -> Callable[[dict[str, Any]], bytes]:
    """Return a client of one connection, which posts JSON to an address and returns the reply's body."""
    url = urlsplit(address)
    connection = http.client.HTTPConnection(url.hostname or "", url.port)

    def post(body: dict[str, Any]) -> bytes:
        request = "POST", url.path, json.dumps(body), {"content-type": "application/json"}
        try:
            connection.request(*request)
            reply = connection.getresponse()
        except (BrokenPipeError, http.client.RemoteDisconnected):
            connection.close()  # the server ends a connection that is idle for five seconds
            connection.request(*request)
            reply = connection.getresponse()
        text = reply.read()
        if reply.status != http.HTTPStatus.OK:
            raise SystemExit(f"{address}: {reply.status} {text[:300]!r}")
        return text

    return post


def compared(name: str, ours: Ask, theirs: Ask, peer: str, questions: Sequence[str]) -> Iterator[Row]:
    """Yield the waits of two who are asked the same in turns; the first ``WARM_UP`` questions aren't counted."""
    waits: tuple[list[float], list[float]] = ([], [])
    for place, words in enumerate(questions):
        for who in (0, 1) if place % 2 else (1, 0):
            began = time.perf_counter()
            (ours, theirs)[who](words)
            if place >= WARM_UP:
                waits[who].append(1000 * (time.perf_counter() - began))
    for share, goal in ((50, P50), (99, P99)):
        mine, other = (float(np.percentile(one, share)) for one in waits)
        yield Row(f"{name} p{share}", "ms", mine, other, peer, goal)


def cpu_a_request(name: str, ask: Ask, process: psutil.Process, questions: Sequence[str]) -> Iterator[Row]:
    """Yield the CPU of a process for a question that it hasn't heard, and for one that it has."""
    for times in ("first", "again"):
        before = cpu_s(process)
        for words in questions:
            ask(words)
        yield Row(f"{name}, asked {times}: CPU", "ms", 1000 * (cpu_s(process) - before) / len(questions))


def _service(address: str, preset: str = "hybrid") -> Callable[[], Ask]:
    """Return what makes a client of the service."""

    def connected() -> Ask:
        post = client_of(f"{address}/v1/corpora/manuals/search")
        return lambda words: post({"query": words, "preset": preset, "highlight": False})

    return connected


def _engine(file: Path, preset: str) -> Callable[[], Ask]:
    """Return what makes a client of the bare engine: one table and one model for all of them."""
    import lancedb

    workspace = open_workspace(str(file))
    pointer = read_pointer(workspace.store)
    assert pointer is not None
    (place,) = Path(workspace.store.root).glob(f"versions/{pointer.version}/lance/*.lance")
    table, model = lancedb.connect(str(place.parent)).open_table(place.stem), MiniLM()
    search, columns = bare_searches(table)[preset], [name for name in EVIDENCE.names if name in table.schema.names]

    def ask(words: str) -> Any:
        return search(words, None if preset == "bm25" else model.embed_query(words), columns).to_list()

    return lambda: ask


def _questions() -> list[str]:
    chance, known = random.Random(5), vocabulary()
    return [" ".join(known[int(WORDS ** chance.random()) - 1] for _ in range(WORDS_A_QUESTION)) for _ in range(QUESTIONS)]


def _in_a_process(make: Callable[[], Any], clients: int, seconds: float, server: int | None = None) -> Load:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_load, make, clients, seconds, server).result()


def _load(make: Callable[[], Any], clients: int, seconds: float, server: int | None) -> Load:
    """Ask without pause in so many threads, after one question of each; ``server`` answers, or this process itself."""
    answering, connect = psutil.Process(server), make()
    questions, taking = itertools.cycle(_questions()), threading.Lock()

    def words() -> str:
        with taking:
            return next(questions)

    asks = [connect() for _ in range(clients)]
    for ask in asks:
        ask(words())
    before, own, began = cpu_s(answering), time.process_time(), time.monotonic()

    def client(ask: Ask) -> int:
        done = 0
        while time.monotonic() < began + seconds:
            ask(words())
            done += 1
        return done

    with ThreadPoolExecutor(clients) as threads:
        done = sum(threads.map(client, asks))
    return Load(done, time.monotonic() - began, time.process_time() - own, cpu_s(answering) - before)


def cpu_s(process: psutil.Process) -> float:
    """Return the CPU-seconds of a process and of its children so far."""
    times = [each.cpu_times() for each in (process, *process.children(recursive=True))]
    return sum(each.user + each.system for each in times)
