"""A key of one corpus: what doesn't exist and what it may not see are answered alike, on every route, page and tool."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from mcp import Client

from pipeline.corpus.workspace import open_workspace
from pipeline.published.corpus import PublishedCorpus
from pipeline.run import refresh
from query_service.access import Access
from query_service.app import create_app
from query_service.keys import Key, KeyFile, digest, key_line, new_key
from schemas.retrieval import Query
from tests.clients.test_mcp import ask, loaded
from tests.manuals import write_manual
from tests.query_service.fake_corpus import DOC_ID, FIGURE_ID, LIVE, FakeCorpus
from tests.query_service.live import serving

KEY = new_key()
ELSEWHERE = ["ab", "A", "a%2F..", "a%2F..%2Fab", "a%20", "a%00", "aa", "*", "none"]
"""Names that aren't ``a``; ``ab`` is served, to others."""

PARAMETERS: dict[str, str | int] = {
    "figure_id": FIGURE_ID,
    "doc_id": DOC_ID,
    "page": 1,
    "evidence_id": "00000000-0000-5000-8000-000000000000",
    "source": "manuals/pump.pdf",
    "since": LIVE,
    "webhook_id": "1a2b3c4d5e6f7a8b",
}
BODIES = {
    "search": {"query": "valve"},
    "answer": {"question": "valve?"},
    "searches": {"searches": [{"query": "valve"}]},
    "feedback": {"question": "valve?", "helpful": False},
    "webhooks": {"url": "https://10.0.0.7/", "event": "version_live"},
}
OPERATIONS = [
    (method.upper(), path, [each["name"] for each in operation.get("parameters", []) if each["in"] == "query"])
    for path, operations in create_app({}).openapi()["paths"].items()
    for method, operation in operations.items()
    if "{corpus}" in path
]


def keys(folder: Path, *corpora: str) -> Access:
    entry = Key(name="team", sha256=digest(KEY), corpora=corpora)
    (folder / "keys.jsonl").write_text(key_line(entry) + "\n")
    return Access(KeyFile(folder / "keys.jsonl"))


@pytest.fixture
def fakes() -> dict[str, PublishedCorpus]:
    return {name: FakeCorpus(name) for name in ("a", "ab")}


def request(client: TestClient, method: str, path: str, corpus: str, query: list[str]) -> Any:
    parameters = {name: PARAMETERS[name] for name in query if name in PARAMETERS}
    return client.request(
        method,
        path.format(**{**PARAMETERS, "corpus": corpus}),
        params=parameters,
        json=BODIES[path.rpartition("/")[2]] if method == "POST" else None,
        headers={"x-api-key": KEY, "x-request-id": "same"},
    )


@pytest.mark.parametrize(("method", "path", "query"), OPERATIONS, ids=lambda each: str(each).removeprefix("/v1/corpora"))
def test_every_route_hides_the_corpora_of_others(
    tmp_path: Path, fakes: dict[str, PublishedCorpus], method: str, path: str, query: list[str]
) -> None:
    with_other = TestClient(create_app(fakes, access=keys(tmp_path, "a")), base_url="http://localhost")
    without = TestClient(create_app({"a": fakes["a"]}, access=keys(tmp_path, "a")), base_url="http://localhost")
    for name in ELSEWHERE:
        hidden, absent = (request(client, method, path, name, query) for client in (with_other, without))
        assert hidden.status_code == absent.status_code == 404, name
        assert (hidden.content, hidden.headers) == (absent.content, absent.headers)


def test_the_key_of_a_corpus_opens_it(tmp_path: Path, fakes: dict[str, PublishedCorpus]) -> None:
    client = TestClient(create_app(fakes, access=keys(tmp_path, "a")), base_url="http://localhost")
    assert request(client, "POST", "/v1/corpora/{corpus}/search", "a", []).status_code == 200
    assert [corpus["name"] for corpus in client.get("/v1/corpora", headers={"x-api-key": KEY}).json()] == ["a"]


@pytest.mark.parametrize("path", ["/", "/api", "/readyz", "/healthz", "/openapi.json", "/static/app.js"])
def test_pages_are_the_same_whoever_else_is_served(tmp_path: Path, fakes: dict[str, PublishedCorpus], path: str) -> None:
    fakes["ab"] = FakeCorpus("ab", live=False)
    for headers in ({}, {"x-api-key": KEY}):
        responses = [
            TestClient(create_app(served, access=keys(tmp_path, "a")), base_url="http://localhost").get(
                path, headers=headers
            )
            for served in (fakes, {"a": fakes["a"]})
        ]
        if path == "/readyz":
            assert '"ab"' not in responses[0].text
        else:
            assert responses[0].content == responses[1].content


def test_every_tool_hides_the_corpora_of_others(tmp_path: Path, fakes: dict[str, PublishedCorpus]) -> None:
    arguments = {**PARAMETERS, "query": "valve", "question": "valve?", "helpful": False}

    async def work(client: Client) -> None:
        tools = [tool for tool in (await client.list_tools()).tools if "corpus" in tool.input_schema["properties"]]
        assert {tool.name for tool in tools} >= {"search", "answer", "open_page", "open_figure"}
        for tool in tools:
            needed = {name: arguments[name] for name in tool.input_schema["required"] if name != "corpus"}
            for name in ("ab", "zz", "A", "a/.."):
                result = await client.call_tool(tool.name, {"corpus": name, **needed})
                reply_text = json.dumps(result.model_dump(mode="json")["content"])
                assert result.is_error
                assert "404 not_found" in reply_text, (tool.name, name, reply_text)
        listed = await client.call_tool("list_corpora", {})
        assert '"ab"' not in json.dumps(listed.model_dump(mode="json"))

    with serving(create_app(fakes, access=keys(tmp_path, "a"))) as url:
        sent = {"authorization": f"Bearer {KEY}"}
        ask(loaded(url, sent), work, headers=sent)


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, PublishedCorpus]]:
    """Two corpora of one manual each, in one store."""
    folder = tmp_path_factory.mktemp("corpora")
    opened = {}
    for seed, name in enumerate(("a", "ab"), 1):
        write_manual(folder / name / "manual.pdf", f"pump {name}", seed=seed)
        file = folder / f"{name}.yaml"
        file.write_text(f"name: {name}\nsource: {name}\ncaptions: {{ocr: none}}\nparse: {{layout: never}}\nstore: store\n")
        assert refresh(open_workspace(str(file))).published
        opened[name] = PublishedCorpus(open_workspace(str(file)))
    yield opened
    for corpus in opened.values():
        corpus.close()


def test_ids_of_another_corpus_lead_nowhere(corpora: dict[str, PublishedCorpus], tmp_path: Path) -> None:
    client = TestClient(create_app(corpora, access=keys(tmp_path, "a")), base_url="http://localhost")
    client.headers["x-api-key"] = KEY
    hit = next(hit for hit in corpora["ab"].search(Query("pump")).hits if hit.figures)
    version, figure = corpora["ab"].versions().versions[0].version, hit.figures[0].figure_id
    for path in (
        f"figures/{figure}",
        f"figures/{figure}/context",
        f"documents/{hit.doc_id}",
        f"documents/{hit.doc_id}.pdf",
        f"documents/{hit.doc_id}/pages/1.png",
        f"documents/{hit.doc_id}/outline",
        f"rows/{hit.evidence_id}",
        f"presets?version={version}",
        f"documents?version={version}",
        f"changes?since={version}",
    ):
        assert client.get(f"/v1/corpora/a/{path}").status_code == 404, path
    for question in ({"query": "pump", "version": version}, {"query": "pump", "version": f"../ab/versions/{version}"}):
        assert client.post("/v1/corpora/a/search", json=question).status_code in (404, 422)
    narrowed = {"query": "pump", "filters": {"evidence_ids": [hit.evidence_id]}}
    assert client.post("/v1/corpora/a/search", json=narrowed).json()["hits"] == []
