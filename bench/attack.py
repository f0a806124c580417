"""What hostile requests get, and what they cost others: ``python -m bench.attack [--out FILE.md] [--json]``.

The service serves a synthetic corpus with a picture space, two rerankers and a page that nobody can draw, and another corpus
that the attackers' key may not see. Each group of ``bench.attack_requests`` is sent by 16 clients at once, while another process
searches without pause. The exit status is 1 if a reply is a fault: a 5xx other than 503, a status that the request must not
get, a text that it must not have, or a connection without a reply.
"""

import asyncio
import contextlib
import json
import multiprocessing
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil

from bench.attack_requests import ABSENT, CLOSED, CORPUS, HIDDEN, ORIGIN, Attack, Site, attacks
from bench.page_bombs import WORDS, held_mib, transparency_bomb
from bench.served import serving, until_ready
from bench.table import Row, parser_of, show
from pipeline.corpus.workspace import open_workspace
from pipeline.run import refresh
from query_service.keys import Key, digest, key_line, new_key
from tests.synthetic.write import write_manuals
from tests.tiny_models import write_bert, write_clip

AT_ONCE = 16
"""Attackers at once."""
TIMEOUT_S = 600.0
CALM_S = 20.0
"""Time for which the normal client searches alone, before and after, in seconds."""

_KEYS: Mapping[str, Mapping[str, Any]] = {
    "normal": {"corpora": ("*",)},
    "scoped": {"corpora": (CORPUS,)},
    "expired": {"corpora": ("*",), "expires": "2020-01-01T00:00:00Z"},
    "slow": {"corpora": (CORPUS,), "per_minute": 3},
    "metrics": {"corpora": (), "metrics": True},
}


@dataclass(frozen=True)
class Outcome:
    """What a request got; ``fault`` says in words what is wrong with it, and is empty if nothing is."""

    attack: Attack
    status: int
    seconds: float
    fault: str


@dataclass(frozen=True)
class Result:
    """A group's outcomes, the normal client's waits and refused searches, and the time until nothing was left to do."""

    group: str
    outcomes: Sequence[Outcome]
    waits: Sequence[float]
    refused: int
    idle_s: float


def main() -> None:
    """Attack, and print a table."""
    parser = parser_of("attack", __doc__)
    parser.add_argument("--out", type=Path, help="a Markdown file to write the table to")
    parser.add_argument("--group", action="append", help="only this group of requests; may be repeated")
    parser.add_argument("--folder", type=Path, help="where the corpora are, or are made and kept; removed by default")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="inset-") as made, _served(arguments.folder or Path(made)) as served:
        address, process, keys = served
        site = asyncio.run(_site(address, keys))
        wanted = [each for each in attacks(site) if not arguments.group or each.group in arguments.group]
        with _normal_client(address, keys["normal"]) as client:
            before, memory = _searched_alone(client), held_mib(process)
            results = asyncio.run(_attack(address, wanted, keys, client))
            after, memory_after = _searched_alone(client), held_mib(process)
    during = [wait for result in results for wait in result.waits]
    rows = [
        Row("requests", "", len(wanted), goal="at least 150"),
        Row("faults", "", sum(bool(each.fault) for result in results for each in result.outcomes), goal="0"),
        Row("normal searches refused", "", sum(result.refused for result in results), goal="0"),
        Row("normal search p50, during", "ms", _ms(during, 50), _ms(before, 50), "before"),
        Row("normal search p99, during", "ms", _ms(during, 99), _ms(before, 99), "before", "at most 3.0"),
        Row("normal search p99, after", "ms", _ms(after, 99), _ms(before, 99), "before"),
        Row("memory after", "MiB", memory_after, memory, "before"),
    ]
    if not arguments.json:
        print(_table(results))
    show("attack", rows)
    if arguments.out:
        arguments.out.write_text(_page(results, rows), "utf-8")
    raise SystemExit(int(any(each.fault for result in results for each in result.outcomes)))


def _table(results: Sequence[Result]) -> str:
    lines = [
        "| group | requests | statuses | slowest | idle again after | normal search, p50 / slowest |",
        "|---|---|---|---|---|---|",
    ]
    for result in results:
        counted = Counter(each.status for each in result.outcomes)
        statuses = ", ".join(f"{status or 'closed'}: {counted[status]}" for status in sorted(counted))
        slowest = max(each.seconds for each in result.outcomes)
        waits = f"{_ms(result.waits, 50):.0f} / {_ms(result.waits, 100):.0f} ms" if result.waits else ""
        cells = (result.group, len(result.outcomes), statuses, f"{slowest:.2f} s", f"{result.idle_s:.2f} s", waits)
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def _page(results: Sequence[Result], rows: Sequence[Row]) -> str:
    about = (
        "Hostile requests, sent by `python -m bench.attack --out docs/reference/attacks.md` to `inset serve` while a normal "
        "client searches.\nThe list is `bench/attack_requests.py`. Each request names the statuses that it may get; "
        "anything else is a fault. A client that leaves has\nthe status of the reply that it left, or none (`closed`)."
    )
    lines = ["| figure | value | compared with |", "|---|---|---|"]
    for row in rows:
        peer = "" if row.peer is None else f"{row.peer:.0f} {row.unit} {row.peer_name}"
        lines.append(f"| {row.name} | {row.ours:.0f} {row.unit} | {peer}{f' (goal: {row.goal})' if row.goal else ''} |")
    return f"# Attacks on the query service\n\n{about}\n\n{_table(results)}\n\n" + "\n".join(lines) + "\n"


def _ms(waits: Sequence[float], share: float) -> float:
    return float(np.percentile(waits, share)) * 1000


@contextlib.contextmanager
def _served(folder: Path) -> Iterator[tuple[str, psutil.Process, Mapping[str, str]]]:
    """Run the service over both corpora; yield its address, its process and the keys."""
    keys = {name: new_key() for name in _KEYS}
    lines = [key_line(Key(name=name, sha256=digest(keys[name]), **limits)) for name, limits in _KEYS.items()]
    files = _corpora(folder)
    (folder / "keys.jsonl").write_text("\n".join(lines) + "\n")
    log = folder / "log"
    try:
        options = ["--keys", str(folder / "keys.jsonl"), "--cors-origin", ORIGIN]
        with serving(log, *files, *options) as (address, process):
            until_ready(address)
            yield address, process, keys
    finally:
        if failed := [line for line in log.read_text().splitlines() if "Error" in line]:
            print("the service's log has:", *failed, sep="\n", file=sys.stderr)


def _corpora(folder: Path) -> list[str]:
    """Return the files of both corpora, which are made if a folder has none yet."""
    files = {name: folder / f"{name}.yaml" for name in (CORPUS, HIDDEN)}
    if all((folder / "store" / name / "LIVE").exists() for name in files):
        return [str(file) for file in files.values()]
    models = folder / "models"
    image = {"kind": "image_embedder", "model": str(write_clip(models / "clip")), "revision": "1"}
    reranker = {"kind": "cross_encoder", "model": str(write_bert(models / "pairs", scores=True)), "revision": "1"}
    more = {
        "models": {"image": image, "reranker": reranker},
        "embeddings": {"image": "image", "parts": ["joint"]},
    }
    for name, seeds in ((CORPUS, [0, 1]), (HIDDEN, [2])):
        pdfs = folder / f"{name}-pdfs"
        write_manuals(pdfs, preset="easy", seeds=seeds, pages=12)
        if name == CORPUS:
            (pdfs / "bomb.pdf").write_bytes(transparency_bomb())
        corpus = {
            "name": name,
            "source": pdfs.name,
            "store": "store",
            "captions": {"ocr": "none", "layout": "none"},
        }
        files[name].write_text(json.dumps(corpus | (more if name == CORPUS else {})))  # JSON is YAML
        made = refresh(open_workspace(str(files[name])))
        if not made.published or made.failures:
            raise SystemExit(f"the corpus {name} isn't whole: {made.failures or made.gates}")
    return [str(file) for file in files.values()]


async def _site(address: str, keys: Mapping[str, str]) -> Site:
    """Return what the list is made from."""
    headers = {"authorization": f"Bearer {keys['normal']}"}
    async with httpx.AsyncClient(base_url=address, timeout=TIMEOUT_S, headers=headers) as client:

        async def documents(corpus: str) -> Any:
            return (await client.get(f"/v1/corpora/{corpus}/documents?limit=1")).raise_for_status().json()

        async def doc_id(corpus: str, source: str) -> str:
            found = await client.get(f"/v1/corpora/{corpus}/document", params={"source": source})
            return str(found.raise_for_status().json()["doc_id"])

        figures = (await client.get(f"/v1/corpora/{CORPUS}/figures?limit=1")).raise_for_status().json()["items"]
        shown, hidden = await documents(CORPUS), await documents(HIDDEN)
        # The hidden corpus has one document, so its list has no cursor; that of its rows has.
        hidden_doc_id = hidden["items"][0]["doc_id"]
        rows = (await client.get(f"/v1/corpora/{HIDDEN}/documents/{hidden_doc_id}/rows?limit=1")).raise_for_status().json()
        return Site(
            doc_id=await doc_id(CORPUS, "easy-0.pdf"),
            bomb_id=await doc_id(CORPUS, "bomb.pdf"),
            figure_id=figures[0]["figure_id"],
            version=shown["version"],
            hidden_doc_id=hidden_doc_id,
            hidden_version=hidden["version"],
            cursor=shown["next"],
            hidden_cursor=rows["next"],
            keys=keys,
        )


@contextlib.contextmanager
def _normal_client(address: str, key: str) -> Iterator[Connection]:
    """Yield a connection to a process that searches without pause, and sends its waits when asked."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_search, args=(address, key, theirs), daemon=True)
    process.start()
    try:
        yield ours
    finally:
        process.terminate()
        process.join()


def _search(address: str, key: str, asked: Connection) -> None:
    waits: list[float] = []
    refused = 0
    with httpx.Client(base_url=address, timeout=TIMEOUT_S, headers={"authorization": f"Bearer {key}"}) as client:
        while True:
            began = time.monotonic()
            query = " ".join(random.sample(WORDS, 3))
            reply = client.post(f"/v1/corpora/{CORPUS}/search", json={"query": query})
            refused += reply.is_error
            waits.append(time.monotonic() - began)
            while asked.poll():
                asked.recv()
                asked.send((waits, refused))
                waits, refused = [], 0


def _waits(client: Connection) -> tuple[list[float], int]:
    """Return the waits of the normal client since the last call, and how many of its searches were refused."""
    client.send(None)
    waits, refused = client.recv()
    return waits, refused


def _searched_alone(client: Connection) -> list[float]:
    _waits(client)
    time.sleep(CALM_S)
    return _waits(client)[0]


async def _attack(address: str, wanted: Sequence[Attack], keys: Mapping[str, str], client: Connection) -> list[Result]:
    results: list[Result] = []
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    async with httpx.AsyncClient(base_url=address, timeout=TIMEOUT_S, limits=limits) as attacker:
        for group in dict.fromkeys(each.group for each in wanted):
            _waits(client)
            turns = asyncio.Semaphore(AT_ONCE)
            outcomes = await asyncio.gather(
                *(_outcome(attacker, each, keys, turns) for each in wanted if each.group == group)
            )
            ended = time.monotonic()
            while await _working(attacker, keys["metrics"]) > 2:  # the normal client's, and the one that asks
                await asyncio.sleep(0.1)
            results.append(Result(group, outcomes, *_waits(client), time.monotonic() - ended))
            print(f"{group}: {sum(bool(each.fault) for each in outcomes)} faults", file=sys.stderr)
            for each in outcomes:
                if each.fault:
                    print(f"  {each.attack.method} {each.attack.path[:100]}: {each.fault}", file=sys.stderr)
    return results


async def _working(client: httpx.AsyncClient, key: str) -> float:
    """Return how many requests the service works on. The key must be allowed to read metrics."""
    reply = await client.get("/metrics", headers={"authorization": f"Bearer {key}"})
    metrics = reply.raise_for_status().text
    in_progress = re.search(r"^inset_http_requests_in_progress (\S+)$", metrics, re.MULTILINE)
    return float(in_progress[1]) if in_progress else 0.0


async def _outcome(client: httpx.AsyncClient, attack: Attack, keys: Mapping[str, str], turns: asyncio.Semaphore) -> Outcome:
    async with turns:
        began = time.monotonic()
        try:
            status, text = await (_raw(client, attack.raw) if attack.raw else _sent(client, attack, keys, attack.path))
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            status, text = CLOSED, repr(error)
        seconds = time.monotonic() - began
    fault = _fault(attack, status, text)
    if attack.twin and not fault:
        other = await _sent(client, attack, keys, attack.twin)
        if (status, text.replace(HIDDEN, ABSENT)) != other:
            fault = f"a corpus that may not be seen gives {status} {text[:200]}, one that isn't there {other[0]} {other[1][:200]}"
    return Outcome(attack, status, seconds, fault)


def _fault(attack: Attack, status: int, text: str) -> str:
    if status != 503 and status not in attack.allowed:
        return f"status {status}, in place of {sorted(attack.allowed)}: {text[:300]}"
    return f"the reply has {attack.without!r}" if attack.without and attack.without in text else ""


async def _sent(client: httpx.AsyncClient, attack: Attack, keys: Mapping[str, str], path: str) -> tuple[int, str]:
    """Return the status of a request, and its reply's headers and body as text."""
    named = {**({"authorization": f"Bearer {keys[attack.key]}"} if attack.key else {}), **attack.headers}
    headers = [(name.encode(), value.encode("latin-1")) for name, value in named.items()]
    body: dict[str, Any] = {"content": attack.content} if attack.json is None else {"json": attack.json}
    if attack.leaves_at_once:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.1):
                return (await client.request(attack.method, path, headers=headers, **body)).status_code, ""
        return min(attack.allowed), ""
    async with client.stream(attack.method, path, headers=headers, **body) as reply:
        if attack.leaves:
            async for _ in reply.aiter_raw():
                break
            return reply.status_code, ""
        await reply.aread()
        varying = ("date", "x-request-id", "content-length")
        lines = [f"{name}: {value}" for name, value in reply.headers.items() if name not in varying]
        return reply.status_code, "\n".join([*lines, "", reply.content.decode(errors="replace")])


async def _raw(client: httpx.AsyncClient, sent: bytes) -> tuple[int, str]:
    """Return what the service replies to bytes."""
    reader, writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
    try:
        with contextlib.suppress(ConnectionError):
            writer.write(sent)
            await writer.drain()
        reply = b""
        with contextlib.suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(30):
                reply = await reader.read(100_000)
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
    status = re.match(rb"HTTP/1\.1 (\d{3}) ", reply)
    return int(status[1]) if status else CLOSED, reply.decode(errors="replace")


if __name__ == "__main__":
    main()
