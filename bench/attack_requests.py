"""Hostile requests, by what they try: the list that ``bench.attack`` sends."""

import base64
import io
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from PIL import Image

from query_service.guard import PICTURE_LIMIT

CORPUS, HIDDEN, ABSENT = "bench", "hidden", "absent"
"""The corpus that keys may see, one that the scoped key may not, and one that isn't there."""

ORIGIN = "https://app.example.org"

DONE = frozenset({200})
REFUSED = frozenset({400, 422})
EITHER = DONE | REFUSED
UNKNOWN = frozenset({401})
MISSING = frozenset({404})
TOO_LARGE = frozenset({413, 431})
CLOSED = 0
"""The status of a connection that was closed without a response."""


@dataclass(frozen=True)
class Attack:
    """A request, and the statuses that it may get besides 503.

    Attributes:
        group: What it tries.
        path: Path and query.
        allowed: Statuses without 503, which is always allowed.
        method: HTTP method.
        json: Body, sent as JSON.
        content: Body, sent as it is.
        headers: Headers besides the key.
        key: Name of the key in ``Site.keys``; None for none.
        twin: A path whose reply must be the same but for the name ``ABSENT`` in place of ``HIDDEN``.
        raw: Bytes sent in place of all that.
        leaves: The client leaves after the first bytes of the reply, or at once where ``leaves_at_once``.
        without: Text that the reply must not have.
    """

    group: str
    path: str
    allowed: frozenset[int] = DONE
    method: str = "GET"
    json: Any = None
    content: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    key: str | None = "scoped"
    twin: str | None = None
    raw: bytes | None = None
    leaves: bool = False
    leaves_at_once: bool = False
    without: str = ""


@dataclass(frozen=True)
class Site:
    """What the list is made from: ids of the served corpora, and keys by name."""

    doc_id: str
    bomb_id: str
    figure_id: str
    version: str
    hidden_doc_id: str
    hidden_version: str
    cursor: str
    hidden_cursor: str
    keys: Mapping[str, str]


def attacks(site: Site) -> list[Attack]:
    """Return the list."""
    return [
        *_prices(),
        *_filters(),
        *_keys(site),
        *_scopes(site),
        *_cursors(site),
        *_origins(),
        *_agents(),
        *_streams(),
        *_uploads(),
        *_files(site),
        *_pages(site),
        *_traversal(site),
        *_headers(),
        *_texts(),
    ]


def _search(group: str, body: Mapping[str, Any], allowed: frozenset[int], **more: Any) -> Attack:
    return Attack(group, f"/v1/corpora/{CORPUS}/search", allowed, "POST", json=dict(body), **more)


def _prices() -> Iterator[Attack]:
    def search(allowed: frozenset[int], **body: Any) -> Attack:
        return _search("prices", {"query": "pump pressure", **body}, allowed)

    for pool in (1_000, 900):
        yield from [search(REFUSED, steps={"rerank": [{"by": "late", "pool": pool}] * 5})] * 4
    yield from [search(DONE, steps={"rerank": [{"by": "late", "pool": 400}]})] * 4
    yield from [search(DONE, steps={"rerank": [{"by": "cross_encoder", "model": "reranker", "pool": 400}]})] * 4
    yield search(REFUSED, steps={"rerank": [{"by": "cross_encoder", "model": "reranker", "pool": 10**9}]})
    yield search(REFUSED, steps={"rerank": [{"by": "pages", "pool": 10}] * 6})
    yield search(REFUSED, steps={"retrieve": [{"by": "bm25"}] * 11})
    yield search(DONE, steps={"retrieve": [{"by": "bm25"}] * 10})
    yield search(DONE, steps={"rerank": [{"by": "pages", "pool": 1_000}] * 5})
    yield from [search(EITHER, k=100, highlight=True)] * 8
    yield from [search(EITHER, k=100, offset=100, highlight=True, trace=True, group="page")] * 2
    for k in (0, -1, 101, 10**30, 1.5, True, "5", None, [5]):
        yield search(DONE if k is None else REFUSED, k=k)
    for offset in (-1, 101, 10**400 // 10**90, "0"):
        yield search(REFUSED, offset=offset)
    yield search(REFUSED, steps={"select": {"diversity": 2}})
    yield search(REFUSED, steps={"select": {"k": 10**6}})
    answer = f"/v1/corpora/{CORPUS}/answer"
    for rounds in (0, 10**6):
        yield Attack("prices", answer, REFUSED, "POST", json={"question": "x", "settings": {"rounds": rounds}})
    for limit in (0, 201, -1, "9" * 5_000):
        yield Attack("prices", f"/v1/corpora/{CORPUS}/documents?limit={limit}", REFUSED)


def _filters() -> Iterator[Attack]:
    def search(allowed: frozenset[int], **filters: Any) -> Attack:
        return _search("filters", {"query": "pump", "filters": filters}, allowed)

    yield search(DONE, documents=[f"{number}.pdf" for number in range(1_000)])
    yield search(REFUSED, documents=["x"] * 1_001)
    yield search(REFUSED, documents=["x" * 1_025])
    yield search(TOO_LARGE, languages=["en"] * 100_000)
    yield search(REFUSED, languages=["en"] * 51)
    yield search(TOO_LARGE, sections=["Service > Filters"] * 50_000)
    yield search(REFUSED, sections=["x" * 501])
    yield search(EITHER, sections=[" > ".join("x" * 100)] * 50)
    yield search(TOO_LARGE, sources=["*a" * 250_000])
    yield search(REFUSED, sources=["*a" * 129])
    for glob in (
        "*a" * 127 + "b",
        "**/" * 85,
        "[" * 256,
        "[!" * 128,
        "[a-" * 85,
        "?" * 256,
        "\\" * 256,
        "*" * 256,
        "(a+)+$",
    ):
        yield search(EITHER, sources=[glob] * 20)
    yield search(REFUSED, sources=["*"] * 21)
    yield search(TOO_LARGE, phrases=["word " * 1_000_000])
    yield search(REFUSED, phrases=["x" * 501])
    yield from [search(DONE, phrases=["the pump"] * 20)] * 4
    yield search(EITHER, phrases=["", " ", "\u200b"])
    yield search(EITHER, phrases=["' OR 1=1 --", '"); DROP TABLE x', "a\\'b", "%_%"])
    yield search(REFUSED, pages=[0])
    yield search(REFUSED, pages=[10**12])
    yield search(DONE, pages=list(range(1, 1_001)))
    yield search(DONE, page_ranges=[{"first": 9, "last": 1}])  # an empty range
    yield search(REFUSED, page_ranges=[{"first": 1}] * 51)
    for name in ("x", "' OR '1'='1"):
        body = {"query": "pump", "filters": {"evidence_ids": [name]}}
        yield _search("filters", body, DONE, without='"evidence_id":')
    yield search(DONE, evidence_ids=["1b4db7eb-4057-5ddf-91e0-36dec72071f5"] * 1_000)
    yield search(REFUSED, since="2026-02-30")
    yield search(REFUSED, since="0000-00-00", until="99999-01-01")
    yield search(EITHER, since="9999-12-31", until="0001-01-01")
    yield search(REFUSED, modalities=["text"] * 5)
    yield search(REFUSED, modalities=["everything"])
    yield search(REFUSED, has_figure="yes")
    yield search(REFUSED, unknown=[1])
    path = f"/v1/corpora/{CORPUS}"
    yield Attack("filters", f"{path}/documents?{'&'.join(['source=*a*a*a*a*b'] * 20)}")
    yield Attack("filters", f"{path}/documents?{'&'.join(['source=*'] * 21)}", REFUSED)
    yield Attack("filters", f"{path}/documents?{'&'.join(['language=en'] * 51)}", REFUSED)
    yield Attack("filters", f"{path}/documents?contains={'x' * 5_000}", REFUSED)
    yield Attack("filters", f"{path}/documents?sort=;drop", REFUSED)
    yield Attack("filters", f"{path}/figures?role=every", REFUSED)
    for content in (b'{"query": ' + b"[" * 60_000, b"[" * 100_000, b'{"query":"x","filters":' + b'{"a":' * 20_000):
        yield Attack(
            "filters",
            f"{path}/search",
            REFUSED,
            "POST",
            content=content,
            headers={"content-type": "application/json"},
        )
    for content in (
        b"",
        b"null",
        b"NaN",
        b'{"query": NaN}',
        b"\xff\xfe",
        b"1" * 100_000,
        b'{"query":"x","k":' + b"9" * 100_000 + b"}",
    ):
        yield Attack(
            "filters", f"{path}/search", REFUSED, "POST", content=content, headers={"content-type": "application/json"}
        )


def _keys(site: Site) -> Iterator[Attack]:
    path = f"/v1/corpora/{CORPUS}"
    good = site.keys["scoped"]
    sent = [
        *({"authorization": value} for value in ("Bearer", "Basic YTpi", good, f"bearer{good}", "Bearer null")),
        *({"authorization": f"Bearer {value}"} for value in (good[:-1], good + "x", good.upper(), f"{good} {good}", "*")),
        *({"x-api-key": value} for value in ("", good[1:], "inset_" + "a" * 4_000, "' OR 1=1 --", "\\x00")),
        {"authorization": f"Bearer {good}", "x-api-key": good},
        {"authorization": f"Bearer {site.keys['expired']}"},
        {"x-api-key": site.keys["expired"]},
        {"x-forwarded-user": "admin"},
        {"x-forwarded-for": "127.0.0.1", "x-real-ip": "127.0.0.1"},
        {"cookie": f"key={good}"},
        {"proxy-authorization": f"Bearer {good}"},
        {},
    ]
    for headers in sent:
        yield Attack("keys", path, UNKNOWN, headers=headers, key=None, without=good)
    for place in (f"{path}?key={good}", f"{path}?api_key={good}", f"{path}?access_token={good}"):
        yield Attack("keys", place, UNKNOWN, key=None, without=good)
    for place in ("/v1/corpora", f"{path}/documents", f"{path}/versions"):
        yield Attack("keys", place, UNKNOWN, key=None)
        yield Attack("keys", place, UNKNOWN, key="expired")
    for place in ("/mcp", f"{path}/search", f"{path}/answer"):
        yield Attack("keys", place, UNKNOWN, "POST", json={"query": "x"}, key=None)
        yield Attack("keys", place, UNKNOWN, "POST", json={"query": "x"}, key="expired")
    for headers in ({"x-forwarded-for": "192.0.2.1"}, {}):
        yield Attack("keys", "/metrics", UNKNOWN, headers=headers, key=None)
        yield Attack("keys", "/metrics", frozenset({403}), headers=headers)
    yield from [Attack("keys", path, DONE | {429}, key="slow")] * 8


def _scopes(site: Site) -> Iterator[Attack]:
    doc_id, version = site.hidden_doc_id, site.hidden_version
    paths = [
        "",
        "/versions",
        "/presets",
        "/answers",
        "/documents",
        f"/documents/{doc_id}",
        f"/documents/{doc_id}.pdf",
        f"/documents/{doc_id}/tagged.pdf",
        f"/documents/{doc_id}/pages/1.png",
        f"/documents/{doc_id}/pages",
        f"/documents/{doc_id}/outline",
        f"/documents/{doc_id}/rows",
        f"/documents/{doc_id}/tables",
        f"/documents/{doc_id}/figures",
        "/figures",
        f"/figures/{site.figure_id}",
        f"/documents/{doc_id}/rows?cursor={site.hidden_cursor}",
        f"/documents?version={version}",
    ]
    for path in paths:
        yield Attack("scopes", f"/v1/corpora/{HIDDEN}{path}", MISSING, twin=f"/v1/corpora/{ABSENT}{path}")
    bodies = {"search": {"query": "x"}, "answer": {"question": "x"}}
    for name, body in bodies.items():
        place = f"/v1/corpora/{HIDDEN}/{name}"
        yield Attack("scopes", place, MISSING, "POST", json=body, twin=f"/v1/corpora/{ABSENT}/{name}")
        yield Attack("scopes", place, MISSING | REFUSED, "POST", json={"wrong": 1}, twin=f"/v1/corpora/{ABSENT}/{name}")
    # Ids and versions of the hidden corpus below the one that may be seen.
    for path in (
        f"/documents/{doc_id}?version={version}",
        f"/documents/{doc_id}.pdf?version={version}",
        f"/documents/{doc_id}/pages/1.png?version={version}",
        f"/documents?version={version}",
    ):
        yield Attack("scopes", f"/v1/corpora/{CORPUS}{path}", MISSING)
    yield Attack("scopes", "/v1/corpora", DONE, without=HIDDEN)
    yield Attack("scopes", "/readyz", DONE, without=HIDDEN)
    for tool, arguments in (
        ("search", {"query": "x"}),
        ("answer", {"question": "x"}),
        ("open_page", {"doc_id": doc_id, "page": 1}),
    ):
        yield _tool("scopes", tool, corpus=HIDDEN, **arguments, without=site.hidden_version)
    yield _tool("scopes", "list_corpora", without=HIDDEN)


def _cursors(site: Site) -> Iterator[Attack]:
    def rows(cursor: str, more: str = "", allowed: frozenset[int] = REFUSED) -> Attack:
        return Attack("cursors", f"/v1/corpora/{CORPUS}/documents?limit=1&cursor={quote(cursor)}{more}", allowed)

    def forged(text: str) -> str:
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    _, offset, digest = base64.urlsafe_b64decode(site.cursor + "=" * (-len(site.cursor) % 4)).decode().split("/")
    version = site.version
    yield rows(site.cursor, allowed=DONE)
    yield rows(site.hidden_cursor)
    yield rows(site.cursor, "&source=*")
    yield rows(site.cursor, f"&version={site.hidden_version}")
    yield rows(forged(f"{site.hidden_version}/{offset}/{digest}"), allowed=MISSING)
    yield rows(forged(f"{version}/99999999999/{digest}"), allowed=DONE)
    for text in (
        f"{version}/-1/{digest}",
        f"{version}/1e9/{digest}",
        f"{version}/{'9' * 5_000}/{digest}",
        f"{version}/1/{'0' * 16}",
        f"{version}/1/",
        f"{version}/1",
        f"../../{version}/1/{digest}",
        f"{version}\0/1/{digest}",
        f"{version}\n/1/{digest}",
        f"LIVE/1/{digest}",
        "////",
        "",
        "\u0660\u0661",
    ):
        yield rows(forged(text) or "=")
    for cursor in ("x", "====", "%00", "A" * 4_000, "🙂", site.cursor[:-2], f"{site.cursor}AAAA", "' OR 1=1 --"):
        yield rows(cursor)


def _origins() -> Iterator[Attack]:
    path = f"/v1/corpora/{CORPUS}/search"
    asks = {"access-control-request-method": "POST", "access-control-request-headers": "authorization"}
    for origin in (
        "https://evil.example",
        "null",
        f"{ORIGIN}.evil.example",
        f"{ORIGIN}:444",
        ORIGIN.upper(),
        f"evil{ORIGIN}",
        "*",
    ):
        yield Attack(
            "origins", path, REFUSED, "OPTIONS", headers={"origin": origin, **asks}, key=None, without="allow-origin"
        )
        yield Attack("origins", f"/v1/corpora/{CORPUS}", DONE, headers={"origin": origin}, without="allow-origin")
    yield Attack(
        "origins", path, DONE, "OPTIONS", headers={"origin": ORIGIN, **asks}, key=None, without="allow-credentials"
    )
    wrong = {**asks, "access-control-request-method": "DELETE"}
    yield Attack("origins", path, REFUSED, "OPTIONS", headers={"origin": ORIGIN, **wrong}, key=None)
    wrong = {**asks, "access-control-request-headers": "x-evil"}
    yield Attack("origins", path, REFUSED, "OPTIONS", headers={"origin": ORIGIN, **wrong}, key=None)
    for host in (
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "localhost@evil",
        "",
        "[::1",
        "a" * 5_000,
    ):
        yield Attack("origins", "/healthz", REFUSED | {403, 421}, headers={"host": host}, key=None)


def _rpc(group: str, method: str, params: Any, allowed: frozenset[int] = DONE, **more: Any) -> Attack:
    headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18"}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return Attack(group, "/mcp", allowed, "POST", json=body, headers=headers, **more)


def _tool(group: str, tool: str, without: str = "", **arguments: Any) -> Attack:
    return _rpc(group, "tools/call", {"name": tool, "arguments": arguments}, without=without)


def _agents() -> Iterator[Attack]:
    refused = EITHER | {404, 406, 413, 415}
    yield _tool("agents", "search", corpus=CORPUS, query="x" * 2_001)
    yield _tool("agents", "search", corpus=CORPUS, query="x", k=10**9)
    yield _tool("agents", "search", corpus=CORPUS, query="x", documents=["x"] * 1_001)
    yield _tool("agents", "search", corpus="../other", query="x")
    yield _tool("agents", "search", corpus=f"{CORPUS}/documents?x=", query="x")
    yield _tool("agents", "search", corpus="x" * 10_000, query="x")
    yield _tool("agents", "open_page", corpus=CORPUS, doc_id="../../LIVE", page=1)
    yield _tool("agents", "open_page", corpus=CORPUS, doc_id="0" * 64, page=-1, dpi=10**6)
    yield _tool("agents", "open_figure", corpus=CORPUS, figure_id="0" * 64 + "?version=x")
    yield _tool("agents", "no_such_tool")
    yield _tool("agents", "answer", corpus=CORPUS, question="\u200b")
    for uri in (
        "file:///etc/passwd",
        f"inset://{HIDDEN}/documents/{'0' * 64}",
        "inset://../x",
        "http://127.0.0.1/",
        "x" * 9_000,
    ):
        yield _rpc("agents", "resources/read", {"uri": uri}, refused, without="root:")
    yield _rpc("agents", "resources/list", {"cursor": f"{HIDDEN} x"}, refused, without=f"inset://{HIDDEN}")
    yield _rpc("agents", "resources/list", {"cursor": "\0" * 1_000}, refused)
    yield _rpc("agents", "no/such", {}, refused)
    yield _rpc("agents", "tools/call", {}, refused)
    yield _rpc("agents", "initialize", {"protocolVersion": "9" * 5_000}, refused)
    for body in (b"", b"[]", b"{}", b"null", b"[" * 50_000, b"\xff", json.dumps([{"jsonrpc": "2.0"}] * 1_000).encode()):
        headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        yield Attack("agents", "/mcp", refused, "POST", content=body, headers=headers)
    yield Attack(
        "agents", "/mcp", TOO_LARGE, "POST", content=b" " * 1_000_000, headers={"content-type": "application/json"}
    )
    for method in ("GET", "DELETE", "PUT"):
        yield Attack("agents", "/mcp", frozenset({405}), method)


def _streams() -> Iterator[Attack]:
    path = f"/v1/corpora/{CORPUS}/answer"
    body = {"question": "How is the pump serviced?", "stream": True}
    yield from [Attack("streams", path, DONE, "POST", json=body, leaves=True)] * 30
    yield from [Attack("streams", path, DONE, "POST", json=body, leaves=True, leaves_at_once=True)] * 20
    dear = {"query": "x", "steps": {"rerank": [{"by": "late", "pool": 800}]}}
    yield from [_search("streams", dear, DONE, leaves=True, leaves_at_once=True)] * 10
    yield Attack("streams", path, REFUSED, "POST", json={"question": "x", "stream": "yes"})
    yield Attack("streams", path, REFUSED, "POST", json={"question": "\u200b", "stream": True})


def _uploads() -> Iterator[Attack]:
    def search(allowed: frozenset[int], picture: object) -> Attack:
        return _search("uploads", {"picture": picture, "preset": "image"}, allowed)

    def encoded(data: bytes) -> str:
        return base64.b64encode(data).decode()

    small = _picture(8, 8)
    yield search(DONE, encoded(small))
    for text in (
        "",
        "=",
        "A",
        "AAA",
        "!!!!",
        f"data:image/png;base64,{encoded(small)}",
        encoded(small)[:-1],
        "\u200b" * 8,
        "🙂",
    ):
        yield search(REFUSED, text)
    no_text: list[object] = [1, True, [], {}, [encoded(small)]]
    yield from (search(REFUSED, wrong) for wrong in no_text)
    bombs = [
        _empty_png(width, height) for width, height in ((30_000, 30_000), (2**31 - 1, 2**31 - 1), (0, 0), (5_001, 5_000))
    ]
    for data in (
        *bombs,
        _png_with_text(50_000_000),
        _picture(4_000, 4_000)[:-20],
        b"GIF89a" + b"\xff" * 6,
        b"BM" + b"\xff" * 60,
    ):
        yield from [search(EITHER, encoded(data))] * 2
    for kind in ("JPEG", "WEBP", "BMP", "GIF"):
        yield search(DONE, encoded(_picture(64, 64, kind)))
    for kind in ("TIFF", "ICO", "PPM", "PCX"):
        yield search(REFUSED, encoded(_picture(64, 64, kind)))
    for data in (
        b'<svg xmlns="http://www.w3.org/2000/svg"/>',
        b"%PDF-1.7",
        b"%!PS-Adobe-3.0 EPSF-3.0",
        small[:20],
        b"\0" * 100,
    ):
        yield search(REFUSED, encoded(data))
    yield from [search(EITHER, encoded(_picture(5_000, 5_000)))] * 4  # as many pixels as are allowed
    yield search(EITHER, encoded(_frames(500)))
    yield from [search(REFUSED, encoded(b"?" * PICTURE_LIMIT))] * 4
    yield search(REFUSED | TOO_LARGE, encoded(b"?" * (PICTURE_LIMIT + 1)))
    yield search(TOO_LARGE, encoded(b"?" * (PICTURE_LIMIT + 300_000)))
    yield _search("uploads", {"query": "x", "filters": {"phrases": ["x" * 200_000]}, "picture": encoded(small)}, TOO_LARGE)
    yield _search("uploads", {"query": "x", "picture": encoded(small), "preset": "bm25"}, REFUSED)
    path = f"/v1/corpora/{CORPUS}/search"
    form = {"content-type": "multipart/form-data; boundary=x"}
    yield Attack("uploads", path, REFUSED | {415}, "POST", content=b"--x\r\n" * 10_000, headers=form)
    yield Attack("uploads", path, TOO_LARGE | REFUSED | {CLOSED}, "POST", content=b"x" * 20_000_000)
    packed = {"content-encoding": "gzip", "content-type": "application/json"}
    yield Attack("uploads", path, REFUSED | {415}, "POST", content=zlib.compress(b"x" * 10_000_000), headers=packed)


def _files(site: Site) -> Iterator[Attack]:
    pdf = f"/v1/corpora/{CORPUS}/documents/{site.doc_id}.pdf"
    for value in (
        "bytes=-",
        "bytes=",
        "bytes=a-b",
        "bytes=--1",
        "bytes=9-1",
        "bytes=0-0,1-1",
        f"bytes=0-{'9' * 5_000}",
        f"bytes={'9' * 5_000}-",
        f"bytes=-{'9' * 5_000}",
        "bytes=" + ",".join(["0-"] * 3_000),
        "lines=0-1",
        "bytes=\u0661-".encode().decode("latin-1"),
    ):
        yield Attack("files", pdf, DONE | {206, 416}, headers={"range": value})
    yield Attack("files", pdf, frozenset({416}), headers={"range": f"bytes={10**15}-"})
    yield Attack("files", pdf, frozenset({206}), headers={"range": "bytes=0-0"})
    yield Attack("files", pdf, frozenset({304}), headers={"if-none-match": "*"})
    for tags in (",".join(['"x"'] * 5_000), '"', "W/", "W/" * 5_000, "*x", "\\"):
        yield Attack("files", pdf, DONE, headers={"if-none-match": tags})
    yield Attack("files", pdf, DONE, headers={"range": "bytes=0-1", "if-range": '"other"'})
    yield Attack("files", pdf, DONE, headers={"range": "bytes=0-1", "if-range": "Wed, 21 Oct 2015 07:28:00 GMT"})
    yield Attack("files", pdf, frozenset({405}), "DELETE")
    yield Attack("files", pdf, frozenset({405}), "POST", content=b"x")
    yield Attack("files", f"{pdf}?version=LIVE", REFUSED)
    yield Attack("files", f"{pdf}?version=20000101T000000Z-00000000", MISSING)


def _pages(site: Site) -> Iterator[Attack]:
    base = f"/v1/corpora/{CORPUS}/documents"
    hard = DONE | REFUSED  # a fast machine may draw it within its limits
    for dpi in range(60, 84):
        yield Attack("pages", f"{base}/{site.bomb_id}/pages/1.png?dpi={dpi}", hard)
    yield from [Attack("pages", f"{base}/{site.bomb_id}/pages/1.png?dpi=90", hard, leaves=True, leaves_at_once=True)] * 8
    page = f"{base}/{site.doc_id}/pages"
    for number in ("0", "-1", "1.5", "100001", "9" * 5_000, "x"):
        yield Attack("pages", f"{page}/{number}.png", REFUSED | MISSING)
    yield Attack("pages", f"{page}/99999.png", MISSING)
    for wrong in ("35", "201", "1e3", "x", "9" * 5_000):
        yield Attack("pages", f"{page}/1.png?dpi={wrong}", REFUSED)
    for box in ("1,2,3", "nan,0,1,1", "inf,0,1,1", "9,9,1,1", "1e7,0,1e8,1", "x" * 121, "1,1,1,1,1"):
        yield Attack("pages", f"{page}/1.png?box={box}", REFUSED)
    yield Attack("pages", f"{page}/1.png?{'&'.join(['box=0,0,9,9'] * 51)}", REFUSED)
    yield from [Attack("pages", f"{page}/1.png?dpi=200&{'&'.join([f'box=0,0,{n},9'] * 50)}") for n in range(1, 5)]


def _traversal(site: Site) -> Iterator[Attack]:
    def raw(target: bytes, head: bytes = b"") -> Attack:
        key = site.keys["scoped"].encode()
        lines = b"GET %s HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer %s\r\nconnection: close\r\n%s\r\n"
        allowed = REFUSED | MISSING | {405, CLOSED}
        return Attack("traversal", target.decode("latin-1"), allowed, raw=lines % (target, key, head), without="root:")

    ups = [
        b"../" * 8,
        b"..%2f" * 8,
        b"%2e%2e/" * 8,
        b"%2e%2e%2f" * 8,
        b"..%5c" * 8,
        b"%252e%252e%252f" * 8,
        b"..%c0%af" * 8,
        b"/" * 8,
    ]
    for up in ups:
        yield raw(b"/static/" + up + b"etc/passwd")
        yield raw(b"/v1/corpora/%s/documents/" % CORPUS.encode() + up + b"LIVE")
        yield raw(b"/v1/corpora/%s/figures/" % CORPUS.encode() + up + b"etc/passwd")
    for target in (
        b"/static/%00",
        b"/static/app.js%00.png",
        b"/static//etc/passwd",
        b"/v1/corpora/%00",
        b"http://evil.example/x",
        b"*",
        b"x",
    ):
        yield raw(target)
    yield raw(b"/static/" + b"a" * 30_000)
    bodies = [
        b"content-length: 5\r\ntransfer-encoding: chunked\r\n",
        b"content-length: 5\r\ncontent-length: 6\r\n",
        b"content-length: -1\r\n",
        b"content-length: %s\r\n" % (b"9" * 5_000),
        b"content-length: 1e3\r\n",
        b"transfer-encoding: gzip, chunked\r\n",
        b"transfer-encoding: \x0bchunked\r\n",
        b" folded: x\r\n",
        b"x y: z\r\n",
        b"host: evil.example\r\n",
    ]
    for head in bodies:
        yield raw(b"/v1/nothing", head)


def _headers() -> Iterator[Attack]:
    def raw(lines: bytes, allowed: frozenset[int]) -> Attack:
        sent = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n" + lines + b"\r\n"
        return Attack("headers", "/healthz", allowed, raw=sent, key=None)

    too_large = TOO_LARGE | {400, CLOSED}
    yield raw(b"".join(b"x-%d: 1\r\n" % number for number in range(101)), too_large)
    yield raw(b"".join(b"x-%d: %s\r\n" % (number, b"x" * 4_000) for number in range(10)), too_large)
    yield raw(b"x: %s\r\n" % (b"x" * 40_000), too_large)
    yield raw(b"x: %s\r\n" % (b"x" * 1_000_000), too_large)
    yield raw(b"".join(b"x-%d: 1\r\n" % number for number in range(200_000)), too_large)
    yield raw(b"x" * 40_000 + b": 1\r\n", too_large)
    yield raw(b"x: a\0b\r\n", too_large)
    yield raw(b"x: a\rb\r\n", too_large)
    yield raw(b"x-request-id: %s\r\n" % (b"a" * 5_000), DONE)
    yield raw(b'x-request-id: {"a":1}\r\n', DONE)
    yield raw(b"traceparent: 00-%s-%s-01\r\n" % (b"g" * 32, b"0" * 16), DONE)
    yield raw(
        b"traceparent: %s\r\ntracestate: %s\r\nbaggage: %s\r\n" % ((b"9" * 5_000, b"a=b," * 1_000, b"a=b," * 1_000)), DONE
    )
    yield raw(b"accept-encoding: %s\r\n" % (b"gzip;q=1," * 1_000), DONE)
    yield raw(b"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-key: x\r\n", EITHER | {426})
    yield raw(b"upgrade: h2c\r\nhttp2-settings: x\r\n", EITHER)
    for first in (
        b"GET / HTTP/9.9",
        b"GET /",
        b"\0" * 100,
        b"PRI * HTTP/2.0",
        b"\x16\x03\x01\x02\x00",
        b"GET  /  HTTP/1.1",
        b"g\xff / HTTP/1.1",
    ):
        yield Attack(
            "headers", "/", EITHER | {401, 404, 405, 426, 505, CLOSED}, raw=first + b"\r\nhost: localhost\r\n\r\n", key=None
        )
    for method in ("TRACE", "CONNECT", "PROPFIND", "X" * 1_000):
        yield Attack("headers", "/healthz", REFUSED | {404, 405, CLOSED}, method, key=None)


def _texts() -> Iterator[Attack]:
    unseen = [
        "\u200b",
        "\u200b\u200c\u200d\ufeff",
        "\u202e",
        "\u2800" * 9,
        "\u3164",
        "\u0000",
        " ",
        "\t\n",
        "\u00ad",
        "\u0301",
        "",
    ]
    for text in unseen:
        yield _search("texts", {"query": text}, REFUSED)
    seen = [
        "\u202egnp.pump",
        "pump\u0000pressure",
        "p\u0301" * 900,
        "Z\u0351\u036b\u0343" * 400,
        "\U0001f468\u200d\U0001f469\u200d\U0001f467" * 100,
        "<script>alert(1)</script>",
        "' OR 1=1 --",
        '"' * 2_000,
        "(" * 2_000,
        "a AND " * 300,
        "field:*^99~",
        "+" * 999 + "x",
        "x" * 2_000,
        "\ufdfa" * 2_000,
        "ß" * 2_000,
        "{{7*7}}${7*7}#{7*7}",
        "\x1b[2J x",
        "a\r\nset-cookie: x=1",
    ]
    for text in seen:
        for preset in ("bm25", "dense"):
            yield _search("texts", {"query": text, "preset": preset, "highlight": True}, EITHER)
    yield _search("texts", {"query": "x" * 2_001}, REFUSED)
    for preset in ("../x", "x" * 61, "BM25", "no-such", "\u202e", ""):
        yield _search("texts", {"query": "x", "preset": preset}, REFUSED | MISSING)
    for version in ("live", "../..", "20260301T061502Z-1A2B3C4D", "\u0660" * 8 + "T061502Z-1a2b3c4d"):
        yield _search("texts", {"query": "x", "version": version}, REFUSED | MISSING)
    surrogate = Attack(
        "texts",
        f"/v1/corpora/{CORPUS}/search",
        REFUSED,
        "POST",
        content=b'{"query": "\\ud800"}',
        headers={"content-type": "application/json"},
    )
    yield surrogate
    for name in ("\u202e", "pump\u0000", "\u0660", "%FF", "ＢＥＮＣＨ", "bench ", "x" * 5_000):
        yield Attack("texts", f"/v1/corpora/{quote(name, safe='%')}", MISSING | REFUSED)
    for path in (
        f"document?source={quote(chr(0x202E))}",
        "document?source=%00",
        "document?source=%FF",
        f"document?source={'x' * 1025}",
    ):
        yield Attack("texts", f"/v1/corpora/{CORPUS}/{path}", MISSING | REFUSED)
    for contains in ("%00", quote("\u202e"), "%FF", quote("[(*"), "%25_"):
        yield Attack("texts", f"/v1/corpora/{CORPUS}/figures?contains={contains}", EITHER)


def _picture(width: int, height: int, kind: str = "PNG") -> bytes:
    data = io.BytesIO()
    Image.new("RGB", (width, height), "red").save(data, kind)
    return data.getvalue()


def _frames(count: int) -> bytes:
    """Return a GIF of so many frames."""
    data = io.BytesIO()
    first, *others = (Image.new("L", (64, 64), shade % 256) for shade in range(count))
    first.save(data, "GIF", save_all=True, append_images=others)
    return data.getvalue()


def _chunk(kind: bytes, data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")


def _empty_png(width: int, height: int) -> bytes:
    """Return a PNG that claims a size and holds 10 MB of zeros, packed."""
    head = width.to_bytes(4, "big") + height.to_bytes(4, "big") + b"\x08\x02\0\0\0"
    return (
        b"\x89PNG\r\n\x1a\n"
        + _chunk(b"IHDR", head)
        + _chunk(b"IDAT", zlib.compress(b"\0" * 10_000_000, 9))
        + _chunk(b"IEND", b"")
    )


def _png_with_text(size: int) -> bytes:
    """Return a small PNG whose packed comment has so many bytes."""
    whole = _picture(8, 8)
    return whole[:33] + _chunk(b"zTXt", b"Comment\0\0" + zlib.compress(b"x" * size, 9)) + whole[33:]
