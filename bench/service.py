"""What the query service adds to a search, how it grows, what a switch costs: ``python -m bench.service [--seconds S] [--json]``.

The example manuals are refreshed twice, the second time with one manual more. Then, over HTTP: the time from ``inset serve`` to
the first answer; the service's CPU for questions that it hears first, and again; searches and answers of one client beside the
same calls in this process, in turns, embedding included in both. 32 clients search through two workers while the live version
moves ten times and a worker is killed: every reply must hold what its version holds. At last ``bench.service_load`` searches
100,000 made-up rows.
"""

import asyncio
import contextlib
import itertools
import json
import re
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil

from bench.page_bombs import held_mib
from bench.served import serving, until_ready
from bench.service_load import WARM_UP, Ask, at_scale, client_of, compared, cpu_a_request
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
ASKED = 200
SWITCHES, CLIENTS = 10, 32


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
    parser.add_argument("--folder", type=Path, help="where the 100,000 rows are, or are made and kept; removed by default")
    arguments = parser.parse_args()
    seconds = arguments.seconds
    with tempfile.TemporaryDirectory(prefix="inset-") as name:
        folder = Path(name)
        workspace, versions = _refreshed_twice(folder)
        lines = (EXAMPLES / "questions.jsonl").read_text(encoding="utf-8").splitlines()
        questions = [json.loads(line)["question"] for line in lines]
        rows: list[Row] = []
        with _serving(folder, 1) as service:
            rows += asyncio.run(_first_answer(service, questions[0]))
            rows += _beside(service, workspace, questions)
        with _serving(folder, 2) as service:
            until_ready(service.address)
            rows += asyncio.run(_switched(service, workspace, versions, questions, 6 * seconds))
        rows += at_scale(arguments.folder or folder / "rows", seconds)
    show("service", rows)


def _refreshed_twice(folder: Path) -> tuple[Workspace, list[str]]:
    """Return a corpus and its two versions."""
    shutil.copytree(EXAMPLES / "pdfs", folder / "pdfs", ignore=shutil.ignore_patterns(ADDED))
    file = folder / "bench.yaml"
    file.write_text("name: bench\nsource: pdfs\nstore: store\ncaptions: {ocr: none}\n", encoding="utf-8")
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


def _beside(service: Service, workspace: Workspace, questions: Sequence[str]) -> Iterator[Row]:
    """Yield what one client waits for each kind of question, beside the same call in this process."""
    search, answer = client_of(f"{service.address}/search"), client_of(f"{service.address}/answer")
    asked = list(itertools.islice(itertools.cycle(questions), WARM_UP + ASKED))
    with contextlib.closing(PublishedCorpus(workspace)) as corpus:

        def searching(preset: str) -> tuple[Ask, Ask]:
            return (
                lambda words: search({"query": words, "preset": preset, "highlight": False}),
                lambda words: corpus.search(Query(words, preset=preset, highlight=False)),
            )

        kinds = {name: searching(name) for name in PRESETS}
        for name, (over_http, _) in kinds.items():
            yield from cpu_a_request(name, over_http, service.process, questions)
        yield from cpu_a_request("answer", lambda words: answer({"question": words}), service.process, questions)
        kinds["answer"] = lambda words: answer({"question": words}), lambda words: corpus.answer(AnswerQuery(words))
        for name, (over_http, here) in kinds.items():
            yield from compared(name, over_http, here, "in this process", asked)


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
