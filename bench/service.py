"""What the query service adds to a search, how it grows, what a switch costs: ``python -m bench.service [--seconds S] [--json]``.

The example manuals are refreshed twice, the second time with one manual more. Then, over HTTP: the time from ``inset serve`` to
the first answer; searches and answers of one client beside the same calls in this process, in turns, embedding included in both;
searches a second of one and of sixteen clients with one worker and with two. At last 32 clients search through two workers while
the live version moves ten times and a worker is killed: every reply must hold what its version holds.

Clients run beside the service on the same cores, so figures of many clients are lower bounds.
"""

import asyncio
import contextlib
import itertools
import json
import re
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil

from bench.page_bombs import held_mib
from bench.served import serving
from bench.table import Row, parser_of, show
from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.published.corpus import PublishedCorpus
from pipeline.run import refresh
from pipeline.stages.publish import make_live
from schemas.retrieval import AnswerQuery, Query

EXAMPLES = Path(__file__).parent.parent / "examples" / "manuals"
ADDED = "gnucash-guide-excerpt.pdf"
"""The manual that only the second version has."""
PRESETS = ("bm25", "hybrid", "pages")
ASKED, WARM_UP = 200, 10
SWITCHES, CLIENTS = 10, 32
P50, P99 = "ratio at most 1.3", "ratio at most 1.5"

Seconds = list[float]


@dataclass
class Service:
    """A running service."""

    address: str
    process: psutil.Process
    log: Path
    started: float

    def workers(self) -> list[int]:
        """Return the processes that answer."""
        found = re.findall(r"Started server process \[(\d+)\]", self.log.read_text(encoding="utf-8"))
        return [int(number) for number in found if psutil.pid_exists(int(number))]


def main() -> None:
    """Measure, and print a table."""
    parser = parser_of("service", __doc__)
    parser.add_argument(
        "--seconds", type=float, default=10.0, help="length of each turn with many clients; the switch takes six"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    seconds = parser.parse_args().seconds
    with tempfile.TemporaryDirectory(prefix="inset-") as name:
        folder = Path(name)
        workspace, versions = _refreshed_twice(folder)
        lines = (EXAMPLES / "questions.jsonl").read_text(encoding="utf-8").splitlines()
        questions = [json.loads(line)["question"] for line in lines]
        rows: list[Row] = []
        rates: dict[tuple[int, int], float] = {}
        for workers in (1, 2):
            with _serving(folder, workers) as service:
                if workers == 1:
                    rows += asyncio.run(_first_answer(service, questions[0]))
                    rows += asyncio.run(_beside(service, workspace, questions))
                for clients in (1, 16):
                    rates[workers, clients] = asyncio.run(_rate(service, questions, clients, seconds))
                if workers == 2:
                    rows += _rates(rates)
                    rows += asyncio.run(_switched(service, workspace, versions, questions, 6 * seconds))
    show("service", rows)


def _refreshed_twice(folder: Path) -> tuple[Workspace, list[str]]:
    """Return a corpus and its two versions."""
    shutil.copytree(EXAMPLES / "pdfs", folder / "pdfs", ignore=shutil.ignore_patterns(ADDED))
    file = folder / "bench.yaml"
    file.write_text("name: bench\nsource: pdfs\nstore: store\ncaptions: {ocr: none, layout: none}\n", encoding="utf-8")
    workspace, versions = open_workspace(str(file)), []
    for _ in range(2):
        made = refresh(workspace)
        if not made.published or made.version is None:
            raise SystemExit(f"the corpus wasn't published: {made.gates}")
        versions.append(made.version)
        shutil.copy(EXAMPLES / "pdfs" / ADDED, folder / "pdfs")
    return workspace, versions


@contextlib.contextmanager
def _serving(folder: Path, workers: int) -> Iterator[Service]:
    log, started = folder / f"log-{workers}", time.monotonic()
    with serving(log, str(folder / "bench.yaml"), "--workers", str(workers)) as (address, process):
        yield Service(f"{address}/v1/corpora/bench", process, log, started)


def _client(service: Service) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        base_url=service.address, timeout=httpx.Timeout(None), limits=httpx.Limits(max_connections=None)
    )


async def _first_answer(service: Service, question: str) -> list[Row]:
    async with _client(service) as client:
        while not await _is_answered(client, question):
            await asyncio.sleep(0.05)
    return [Row("start to the first answer", "s", time.monotonic() - service.started, goal="at most 6")]


async def _is_answered(client: httpx.AsyncClient, question: str) -> bool:
    try:
        return (await client.post("/answer", json={"question": question})).status_code == httpx.codes.OK
    except httpx.TransportError:
        return False


async def _beside(service: Service, workspace: Workspace, questions: Sequence[str]) -> list[Row]:
    """Return what one client waits for each kind of question, beside the same call in this process."""
    rows = []
    with contextlib.closing(PublishedCorpus(workspace)) as corpus:
        async with _client(service) as client:

            def searching(preset: str) -> tuple[Callable[[str], Awaitable[Any]], Callable[[str], object]]:
                asked = {"preset": preset, "highlight": False}
                return (
                    lambda words: client.post("/search", json={"query": words, **asked}),
                    lambda words: corpus.search(Query(words, preset=preset, highlight=False)),
                )

            kinds = {name: searching(name) for name in PRESETS}
            kinds["answer"] = (
                lambda words: client.post("/answer", json={"question": words}),
                lambda words: corpus.answer(AnswerQuery(words)),
            )
            for name, (over_http, here) in kinds.items():
                ours, peer = Seconds(), Seconds()
                for number, words in zip(range(ASKED + WARM_UP), itertools.cycle(questions), strict=False):
                    began = time.perf_counter()
                    (await over_http(words)).raise_for_status()
                    between = time.perf_counter()
                    here(words)
                    if number >= WARM_UP:
                        ours.append(between - began)
                        peer.append(time.perf_counter() - between)
                for share, goal in ((50, P50), (99, P99)):
                    one, other = (1000 * float(np.percentile(each, share)) for each in (ours, peer))
                    rows.append(Row(f"{name} p{share}", "ms", one, other, "in this process", goal))
    return rows


async def _rate(service: Service, questions: Sequence[str], clients: int, seconds: float) -> float:
    """Return hybrid searches a second."""
    done = 0
    words = itertools.cycle(questions)
    async with _client(service) as client:
        await _until_ready(service, client)
        until = time.monotonic() + seconds

        async def search() -> None:
            nonlocal done
            while time.monotonic() < until:
                asked = {"query": next(words), "preset": "hybrid", "highlight": False}
                (await client.post("/search", json=asked)).raise_for_status()
                done += 1

        await asyncio.gather(*(search() for _ in range(clients)))
    return done / seconds


async def _until_ready(service: Service, client: httpx.AsyncClient) -> None:
    ready = httpx.URL(service.address).copy_with(path="/readyz")
    while True:
        with contextlib.suppress(httpx.TransportError):
            if (await client.get(ready)).status_code == httpx.codes.OK:
                return
        await asyncio.sleep(0.1)


def _rates(rates: dict[tuple[int, int], float]) -> list[Row]:
    one, two = rates[1, 16], rates[2, 16]
    return [
        Row("16 clients, one worker", "1/s", one, rates[1, 1], "one client"),
        Row("16 clients, two workers", "1/s", two, one, "one worker", "ratio at least 1.8"),
    ]


async def _switched(
    service: Service, workspace: Workspace, versions: Sequence[str], questions: Sequence[str], seconds: float
) -> list[Row]:
    """Move the live version under load, kill a worker, and count replies that are wrong or lost."""
    wrong = lost = done = 0
    seen = set[str]()
    memory: list[float] = []
    words = itertools.cycle(["How do I reconcile an account in GnuCash?", *questions[:20]])
    until = time.monotonic() + seconds

    async def search(client: httpx.AsyncClient) -> None:
        nonlocal wrong, lost, done
        while time.monotonic() < until:
            try:
                reply = await client.post("/search", json={"query": next(words), "preset": "hybrid"})
                reply.raise_for_status()
            except httpx.HTTPError:
                lost += 1
                continue
            found = reply.json()
            seen.add(found["version"])
            has_added = any(hit["source"] == ADDED for hit in found["hits"])
            wrong += has_added and found["version"] != versions[1]
            done += 1

    async def switch() -> None:
        for number in range(SWITCHES):
            await asyncio.sleep(seconds / (SWITCHES + 1))
            memory.append(held_mib(service.process))
            await asyncio.to_thread(make_live, workspace, versions[number % 2], reason="bench")
            if number == SWITCHES // 2:
                psutil.Process(service.workers()[0]).kill()

    async with _client(service) as client:
        await asyncio.gather(*(search(client) for _ in range(CLIENTS)), switch())
    if seen != set(versions):
        raise SystemExit(f"replies came from {sorted(seen)}; the service follows no switch")
    return [
        Row(f"replies while {SWITCHES} switches and a kill", "", done),
        Row("wrong or mixed replies", "", wrong, goal="0"),
        Row("lost requests", "", lost, CLIENTS, "clients at the kill", "at most those of the killed worker"),
        Row("memory at the last switch", "MiB", memory[-1], memory[1], "at the second", "ratio 0.95 to 1.05"),
    ]


if __name__ == "__main__":
    main()
