"""What a hostile page costs those who search: ``python -m bench.page_bombs [--clients N] [--seconds S] [--json]``.

A served corpus holds manuals and two PDFs of under 2 KB whose page takes half a minute to draw. Clients search it without
pause, in turns alone and while 42 others ask for that page at ever other resolutions; meanwhile one asks for pages of the
manuals, and one whether the service is up. Printed are the 99th percentiles of what they wait, and the most memory that the
service and its children take.
"""

import asyncio
import contextlib
import itertools
import random
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import httpx
import numpy as np
import psutil

from bench.served import serving, until_ready
from bench.table import Row, parser_of, show
from pipeline.corpus.workspace import open_workspace
from pipeline.run import refresh
from tests.synthetic.write import write_manuals

CORPUS = "bench"
BOMBERS = 42
TURNS = 3
WORDS = ["pump", "valve", "motor", "torque", "seal", "bearing", "housing", "filter", "switch", "cable"]

Seconds = list[float]


def main() -> None:
    """Measure, and print a table."""
    parser = parser_of("page_bombs", __doc__)
    parser.add_argument("--clients", type=int, default=32, help="clients that search at once")
    parser.add_argument("--seconds", type=float, default=10, help="length of each of the six turns")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="inset-") as folder, _served(Path(folder)) as (address, process):
        rows = asyncio.run(_measure(address, process, arguments.clients, arguments.seconds))
    show("hostile pages", rows)


@contextlib.contextmanager
def _served(folder: Path) -> Iterator[tuple[str, psutil.Process]]:
    """Refresh a corpus and run the service over it; yield its address and its process."""
    write_manuals(folder / "pdfs", preset="easy", seeds=[0, 1], pages=12)
    for number in (1, 2):
        (folder / "pdfs" / f"bomb{number}.pdf").write_bytes(transparency_bomb().replace(b"nine bar", b"%d bar" % number))
    file = folder / f"{CORPUS}.yaml"
    file.write_text(f"name: {CORPUS}\nsource: pdfs\nstore: store\ncaptions: {{ocr: none}}\n")
    made = refresh(open_workspace(str(file)))
    if not made.published or made.failures:
        raise SystemExit(f"the corpus to be served isn't whole: {made.failures or made.gates}")
    with serving(folder / "log", str(file)) as served:
        until_ready(served[0])
        yield served


async def _measure(address: str, process: psutil.Process, clients: int, seconds: float) -> list[Row]:
    waits: dict[tuple[str, bool], Seconds] = {}
    peaks: list[float] = []
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=address, timeout=httpx.Timeout(None), limits=limits) as client:
        documents = await _documents(client)
        resolutions: dict[str, Iterator[int]] = {
            name: itertools.cycle(range(36, 201)) for name in ("bomb1.pdf", "bomb2.pdf")
        }
        for turn in range(2 * TURNS):
            bombed = bool(turn % 2)
            steps: dict[str, list[Callable[[], Awaitable[object]]]] = {
                "search": [lambda: _search(client)] * clients,
                "page": [lambda: _page(client, documents["manual"])],
                "healthz": [lambda: client.get("/healthz")],
            }
            async with _bombers(client, documents, resolutions) if bombed else contextlib.nullcontext():
                until = time.monotonic() + seconds
                runs = {
                    kind: [_repeat(step, until, waits.setdefault((kind, bombed), [])) for step in many]
                    for kind, many in steps.items()
                }
                await asyncio.gather(*itertools.chain(*runs.values()), _watch(process, until, peaks))
    names = {"search": f"search p99, {clients} clients", "page": "another document's page p99", "healthz": "healthz p99"}
    rows = [
        Row(name, "ms", _p99(waits[kind, True]), _p99(waits[kind, False]), "the same without the bombs", goal)
        for (kind, name), goal in zip(names.items(), ("at most 2.0", "", ""), strict=True)
    ]
    return [*rows, Row("service and children, most memory", "MiB", max(peaks))]


def _p99(waits: Seconds) -> float:
    return float(np.percentile(waits, 99)) * 1000


async def _documents(client: httpx.AsyncClient) -> dict[str, str]:
    """Return the ids of both bombs by file name, and of a manual."""
    found: dict[str, str] = {}
    for source in (await client.get(f"/v1/corpora/{CORPUS}")).json()["sources"]:
        asked = {"query": "the", "k": 1, "filters": {"documents": [source]}}
        (hit,) = (await client.post(f"/v1/corpora/{CORPUS}/search", json=asked)).json()["hits"]
        found[source if source.startswith("bomb") else "manual"] = hit["doc_id"]
    return found


async def _search(client: httpx.AsyncClient) -> None:
    query = " ".join(random.sample(WORDS, 3))
    (await client.post(f"/v1/corpora/{CORPUS}/search", json={"query": query})).raise_for_status()


async def _page(client: httpx.AsyncClient, doc_id: str) -> None:
    # Another box each time, so that none comes out of memory.
    place = f"/v1/corpora/{CORPUS}/documents/{doc_id}/pages/{random.randint(1, 12)}.png"
    (await client.get(place, params={"box": f"0,0,{random.random()},9", "dpi": 110})).raise_for_status()


async def _repeat(step: Callable[[], Awaitable[object]], until: float, waits: Seconds) -> None:
    while (began := time.monotonic()) < until:
        await step()
        waits.append(time.monotonic() - began)


@contextlib.asynccontextmanager
async def _bombers(
    client: httpx.AsyncClient, documents: dict[str, str], resolutions: dict[str, Iterator[int]]
) -> AsyncIterator[None]:
    """Keep asking for pages that nobody can draw."""

    async def ask(bomb: str) -> None:
        while True:
            place = f"/v1/corpora/{CORPUS}/documents/{documents[bomb]}/pages/1.png"
            answer = await client.get(place, params={"dpi": next(resolutions[bomb])})
            await asyncio.sleep(int(answer.headers.get("retry-after", "0")))

    asking = [asyncio.create_task(ask(bomb)) for bomb, _ in zip(itertools.cycle(resolutions), range(BOMBERS), strict=False)]
    await asyncio.sleep(1)  # until drawing has begun
    try:
        yield
    finally:
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)


async def _watch(process: psutil.Process, until: float, peaks: list[float]) -> None:
    while time.monotonic() < until:
        peaks.append(held_mib(process))
        await asyncio.sleep(0.5)


def held_mib(process: psutil.Process) -> float:
    """Return the memory of a process and its children; pages that several share count once."""
    held = 0
    for each in [process, *process.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            held += each.memory_full_info().pss
    return held / 2**20


def transparency_bomb(depth: int = 6, calls: int = 4) -> bytes:
    """Return a page of transparency groups that hold transparency groups: drawing it takes ``calls ** depth`` sheets.

    With the defaults that are about half a minute at 110 dpi; its text is read in no time.
    """
    words = b"BT /F 12 Tf 72 760 Td (The pump takes nine bar.) Tj ET /X Do"
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents 4 0 R/Resources"
        b"<</Font<</F<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>/XObject<</X 5 0 R>>>>>>",
        b"<</Length %d>>stream\n%s\nendstream" % (len(words), words),
    ]
    for level in range(depth):
        inner, resources = b"0.5 g 0 0 595 842 re f", b""
        if level < depth - 1:
            inner = b"/G gs" + b" /X Do" * calls
            resources = b"/Resources<</ExtGState<</G<</ca .9/BM/Multiply>>>>/XObject<</X %d 0 R>>>>" % (6 + level)
        head = b"<</Type/XObject/Subtype/Form/BBox[0 0 595 842]/Group<</S/Transparency/I true>>"
        objects.append(head + b"%s/Length %d>>stream\n%s\nendstream" % (resources, len(inner), inner))
    data, places = b"%PDF-1.7\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(data))
        data += b"%d 0 obj%s endobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    count = len(objects) + 1
    end = b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (count, len(data))
    return data + b"xref\n0 %d\n0000000000 65535 f \n" % count + table + end


if __name__ == "__main__":
    main()
