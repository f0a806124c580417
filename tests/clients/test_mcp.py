"""Agents: the Model Context Protocol, asked by the SDK's own client."""

import asyncio
import base64
import json
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import httpx
import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ContentBlock, ImageContent, TextContent

from query_service.access import LOOPBACK_NETWORKS, Access, Network
from query_service.app import create_app
from query_service.keys import Key, KeyFile, digest, key_line, new_key
from query_service.serve import ServiceOptions
from schemas.answers import AnswerStarted
from schemas.filters import Filters, PageRange
from tests.query_service.fake_corpus import DOC_ID, FIGURE_ID, LIVE, FakeCorpus, Released
from tests.query_service.live import serving

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def address(url: str) -> str:
    return loaded(url)


def loaded(url: str, headers: Mapping[str, str] | None = None) -> str:
    """Return the address of the protocol once it answers."""
    while httpx.post(f"{url}/mcp", json={}, headers=headers).status_code == 503:
        pass
    return f"{url}/mcp"


def ask(
    server: str | StdioServerParameters,
    scenario: Callable[[Client], Awaitable[None]],
    mode: Literal["auto", "legacy"] = "auto",
    headers: Mapping[str, str] | None = None,
) -> None:
    async def run() -> None:
        async with asyncio.timeout(120), httpx2.AsyncClient(headers=headers) as http:
            transport = streamable_http_client(server, http_client=http) if isinstance(server, str) else server
            async with Client(transport, mode=mode) as client:
                await scenario(client)

    asyncio.run(run())


async def call(client: Client, tool: str, **arguments: Any) -> Any:
    """Return what a tool returns, a list where that is several things; the text of an error is raised."""
    result = await client.call_tool(tool, arguments)
    if result.is_error:
        (content,) = result.content
        assert isinstance(content, TextContent)
        raise ValueError(content.text)
    values = [_value(content) for content in result.content]
    return values[0] if len(values) == 1 else values


def _value(content: ContentBlock) -> Any:
    if isinstance(content, ImageContent):
        assert content.mime_type == "image/png"
        return base64.b64decode(content.data)
    assert isinstance(content, TextContent)
    return json.loads(content.text)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_every_tool_answers_over_http(address: str, corpus: FakeCorpus, mode: Literal["auto", "legacy"]) -> None:
    async def work(client: Client) -> None:
        tools = (await client.list_tools()).tools
        reading = {"list_corpora", "search", "answer", "open_page", "open_figure"}
        assert {tool.name for tool in tools if tool.annotations and tool.annotations.read_only_hint} == reading
        assert all(tool.description for tool in tools)
        said = {"question": "valve?", "helpful": False, "reason": "wrong_figure", "figure_ids": [FIGURE_ID]}
        assert await call(client, "feedback", corpus="pumps", **said) == {"id": "1a2b3c4d"}
        assert corpus.feedback[-1].items() >= said.items()
        for tool in tools:
            if tool.name in ("search", "answer"):
                described = {name: schema.get("description") for name, schema in tool.input_schema["properties"].items()}
                assert (
                    described.items() >= {name: field.description for name, field in Filters.model_fields.items()}.items()
                )
        assert (await call(client, "list_corpora"))["name"] == "pumps"
        result = await call(
            client, "search", corpus="pumps", query="valve", k=2, modalities=["table"], sections=["Service"]
        )
        assert result["hits"][0]["figures"][0]["figure_id"] == FIGURE_ID
        assert corpus.queries[-1].filters.modalities == ["table"]
        await call(client, "search", corpus="pumps", query="valve", has_figure=False, page_ranges=[{"first": 3}])
        assert corpus.queries[-1].filters == Filters(has_figure=False, page_ranges=[PageRange(first=3)])
        pinned = {"corpus": "pumps", "version": LIVE, "pages": [3]}
        await call(client, "search", query="valve", preset="bm25", **pinned)
        await call(client, "answer", question="valve?", preset="extractive", **pinned)
        searched, answered = corpus.queries[-1], corpus.answer_queries[-1]
        assert (searched.version, searched.preset, searched.filters.pages) == (LIVE, "bm25", [3])
        assert (answered.version, answered.answer, answered.filters.pages) == (LIVE, "extractive", [3])
        history = [{"question": "Which valve?", "evidence_ids": ["e1"]}]
        answer = await call(client, "answer", corpus="pumps", question="valve?", documents=["pump.pdf"], history=history)
        assert [turn.question for turn in corpus.answer_queries[-1].history] == ["Which valve?"]
        assert [part["type"] for part in answer["parts"]] == ["text", "figure"]
        assert answer["citations"][0]["page"] == 3
        assert await call(client, "open_page", corpus="pumps", doc_id=DOC_ID, page=3) == b"page"
        pixels, about = await call(client, "open_figure", corpus="pumps", figure_id=FIGURE_ID)
        figure_place = {
            "caption": "Figure 1",
            "doc_id": DOC_ID,
            "source": "manuals/pump.pdf",
            "page": 4,
            "before": [],
            "after": [],
        }
        assert (pixels, about["places"]) == (b"pixels", [figure_place])

    ask(address, work, mode)


@pytest.mark.parametrize(
    ("tool", "arguments", "line"),
    [
        (
            "search",
            {"corpus": "nothing", "query": "valve"},
            "404 not_found: there is no corpus 'nothing'; served here: pumps",
        ),
        ("search", {"corpus": "../../metrics", "query": "valve"}, "404 not_found: there is nothing at"),
        ("search", {"corpus": "pumps", "query": "valve", "k": 101}, "422 invalid: k: "),
        ("search", {"corpus": "pumps", "query": "valve", "documents": ["x"] * 1001}, "422 invalid: filters.documents: "),
        ("search", {"corpus": "pumps", "query": "busy"}, "503 unavailable: the index does not answer"),
        ("search", {"corpus": "pumps", "query": "bug"}, "500 internal: something went wrong here"),
        ("open_page", {"corpus": "pumps", "doc_id": DOC_ID, "page": 0}, "422 invalid: page: "),
        ("open_page", {"corpus": "pumps", "doc_id": DOC_ID, "page": 7}, "422 unreadable: page 7 can't be drawn"),
        ("open_page", {"corpus": "pumps", "doc_id": "x", "page": 1}, "422 invalid: doc_id: "),
    ],
)
def test_an_error_is_a_line_that_an_agent_can_use(address: str, tool: str, arguments: dict[str, Any], line: str) -> None:
    async def work(client: Client) -> None:
        with pytest.raises(ValueError, match=r"^Error executing tool") as raised:
            await call(client, tool, **arguments)
        assert line in str(raised.value)
        assert "Traceback" not in str(raised.value)

    ask(address, work)


def test_keys_hold_for_agents(corpus: FakeCorpus, tmp_path: Path) -> None:
    key, file = new_key(), tmp_path / "keys.jsonl"
    file.write_text(key_line(Key(name="team", sha256=digest(key), corpora=("pumps",), concurrent=1, per_minute=2)))
    app = create_app({"pumps": corpus, "secret": FakeCorpus("secret")}, access=Access(KeyFile(file)))

    async def repeat(client: Client) -> None:
        for _ in range(3):  # a minute that begins meanwhile allows one more
            await call(client, "list_corpora")

    async def work(client: Client) -> None:
        with pytest.raises(ValueError, match="there is no corpus 'secret'; served here: pumps"):
            await call(client, "search", corpus="secret", query="valve")
        assert (await call(client, "list_corpora"))["name"] == "pumps"
        with pytest.raises(ValueError, match="429 too_many_requests: team may send 2 requests a minute"):
            await repeat(client)

    with serving(app) as url:
        sent = {"authorization": f"Bearer {key}"}
        ask(loaded(url, sent), work, headers=sent)
        assert httpx.post(f"{url}/mcp", json={}).status_code == 401


@pytest.mark.parametrize("proxies", [LOOPBACK_NETWORKS, ()])
def test_a_user_whom_a_proxy_names_is_believed_from_the_proxy_alone(corpus: FakeCorpus, proxies: Sequence[Network]) -> None:
    async def work(client: Client) -> None:
        assert (await call(client, "list_corpora"))["name"] == "pumps"

    sent = {"x-forwarded-user": "ann"}
    with serving(create_app({"pumps": corpus}, access=Access(header="x-forwarded-user", proxies=proxies))) as url:
        address = loaded(url, sent)
        if proxies:
            ask(address, work, headers=sent)
        else:
            assert httpx.post(address, json={}, headers=sent).status_code == 401


LEGACY = {"mcp-protocol-version": "2025-06-18"}
MODERN = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "answer"}
ACCEPT = {"accept": "application/json, text/event-stream"}
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


@pytest.mark.parametrize(("headers", "meta"), [(LEGACY, {}), (MODERN, {"_meta": ENVELOPE})], ids=["legacy", "modern"])
def test_an_answer_ends_when_the_agent_leaves(
    address: str, corpus: FakeCorpus, headers: dict[str, str], meta: dict[str, Any]
) -> None:
    released = corpus.streams["slowly"] = Released(AnswerStarted(version=LIVE, preset="extractive"))
    arguments = {"corpus": "pumps", "question": "slowly"}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "answer", "arguments": arguments, **meta}}

    async def leave() -> None:
        async with httpx.AsyncClient(timeout=None) as http:
            request = asyncio.create_task(http.post(address, json=body, headers={**ACCEPT, **headers}))
            while not corpus.answer_queries:
                await asyncio.sleep(0)
            request.cancel()
            await asyncio.wait([request])

    asyncio.run(leave())
    assert released.has_stopped.wait(30)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"[" * 50_000,
        b'{"jsonrpc": "2.0", "id": 1' + b"0" * 5_000 + b', "method": "ping"}',
        b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "search", "arguments": [1]}}',
        b'{"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": {}}',
        b"x" * 200_000,
    ],
)
@pytest.mark.parametrize("headers", [{}, LEGACY, MODERN])
def test_what_is_no_request_of_the_protocol_harms_nothing(address: str, body: bytes, headers: dict[str, str]) -> None:
    sent = {"content-type": "application/json", **ACCEPT, **headers}
    assert httpx.post(address, content=body, headers=sent).status_code < 500
    assert httpx.post(address, content=body).status_code < 500


def test_a_request_of_a_page_elsewhere_is_refused(address: str) -> None:
    assert httpx.post(address, json={}, headers={"host": "evil.example"}).status_code == 400
    assert httpx.get(address).status_code == 405


async def _reads(client: Client) -> None:
    """Do what an agent does with the small corpus."""
    corpus_info = await call(client, "list_corpora")
    assert (corpus_info["name"], corpus_info["documents"]) == ("manuals", 2)
    result = await call(client, "search", corpus="manuals", query="water pump figure", k=5)
    hit = next(hit for hit in result["hits"] if hit["figures"])
    arguments = {"corpus": "manuals", "version": result["version"]}
    page = await call(client, "open_page", doc_id=hit["doc_id"], page=hit["page"], **arguments)
    figure, about = await call(client, "open_figure", figure_id=hit["figures"][0]["figure_id"], **arguments)
    figure_place = about["places"][0]
    assert (figure_place["caption"], figure_place["source"]) == (hit["figures"][0]["caption"], hit["source"])
    assert figure_place["before"] or figure_place["after"]
    assert page[:8] == figure[:8] == b"\x89PNG\r\n\x1a\n"
    answer = await call(client, "answer", corpus="manuals", question="How is the water pump serviced?")
    assert answer["parts"]
    assert answer["citations"][0]["page_link"].startswith("/v1/corpora/manuals/documents/")


@pytest.mark.slow
def test_an_agent_reads_a_corpus_over_http(refreshed_once: Path) -> None:
    with serving(ServiceOptions(corpora=[str(refreshed_once / "corpora" / "manuals.yaml")]).open()) as url:
        ask(loaded(url), _reads)


@pytest.mark.slow
def test_an_agent_reads_a_corpus_by_standard_input(refreshed_once: Path) -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith("INSET")}
    path = os.pathsep.join([str(ROOT), str(ROOT / "clients" / "python")])
    corpus = str(refreshed_once / "corpora" / "manuals.yaml")
    server = StdioServerParameters(
        command=sys.executable, args=["-m", "cli.main", "mcp", corpus], env={**env, "PYTHONPATH": path}
    )
    ask(server, _reads)
