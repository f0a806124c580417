"""What is in a corpus, as a downstream team reads it: lists to their end, by links, and from version to version."""

import csv
import io
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped] # it has none
import pytest
from fastapi.testclient import TestClient

from pipeline.corpus.workspace import open_workspace
from pipeline.published.contents import Contents
from pipeline.published.corpus import PublishedCorpus
from pipeline.run import refresh
from query_service.access import Access
from query_service.app import create_app
from query_service.keys import Key, KeyFile, digest, key_line
from schemas.documents import TAGGED, Role
from schemas.filters import Modality
from schemas.reports import ListPart
from tests.pipeline.conftest import refreshed_once
from tests.query_service.fake_corpus import FakeCorpus, client_of

__all__ = ["refreshed_once"]

BASE = "/v1/corpora/manuals"
ABSENT = "20200101T000000Z-00000000"


@pytest.fixture(scope="module")
def corpus(refreshed_once: Path) -> Iterator[PublishedCorpus]:
    published = PublishedCorpus(open_workspace(str(refreshed_once / "corpora" / "manuals.yaml")))
    yield published
    published.close()


@pytest.fixture(scope="module")
def client(corpus: PublishedCorpus) -> TestClient:
    return client_of(create_app({"manuals": corpus}))


def _all(client: TestClient, path: str, **parameters: Any) -> list[dict[str, Any]]:
    """Return all items of a list, one a page."""
    items: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while True:
        page = client.get(BASE + path, params={"limit": 1, **parameters, **cursor}).json()
        items += page["items"]
        if page["next"] is None:
            assert len(items) == page["total"]
            return items
        cursor = {"cursor": page["next"]}


def _sources(client: TestClient, **parameters: Any) -> list[str]:
    return [item["sources"][0] for item in _all(client, "/documents", **parameters)]


class TestDocuments:
    def test_they_are_sorted_either_way(self, client: TestClient) -> None:
        assert _sources(client) == ["pump.pdf", "winch.pdf"]
        assert _sources(client, sort="-source") == ["winch.pdf", "pump.pdf"]
        assert _sources(client, sort="-date") == _sources(client, sort="date") == ["winch.pdf", "pump.pdf"]

    @pytest.mark.parametrize(
        ("filters", "sources"),
        [
            ({"source": "w*.pdf"}, ["winch.pdf"]),
            ({"source": ["w*", "pump.*"]}, ["pump.pdf", "winch.pdf"]),
            ({"contains": "WATER"}, ["pump.pdf"]),
            ({"contains": "winch.p"}, ["winch.pdf"]),
            ({"source": "x*"}, []),
        ],
    )
    def test_filters_narrow_them(self, client: TestClient, filters: dict[str, Any], sources: list[str]) -> None:
        assert _sources(client, **filters) == sources

    def test_one_is_found_by_id(self, client: TestClient) -> None:
        (listed,) = _all(client, "/documents", source="winch.pdf")
        document = client.get(listed["links"]["self"]).json()
        assert document | {"version": None} == listed | {"version": None}
        assert (document["title"], document["date"], document["pages"]) == ("Steel Winch manual", "2024-03-01", 2)

    def test_counts_are_those_of_its_lists(self, client: TestClient) -> None:
        for document in _all(client, "/documents"):
            for kind in ("rows", "tables"):
                assert client.get(document["links"][kind]).json()["total"] == document[kind]


class TestParts:
    def test_pages_count_what_stands_on_them(self, client: TestClient) -> None:
        document = client.get(f"{BASE}/documents").json()["items"][0]
        for page in client.get(document["links"]["pages"]).json()["items"]:
            on = client.get(page["links"]["rows"]).json()
            assert on["total"] == page["rows"] > 0
            assert all(page["page"] in {region["page"] for region in row["regions"]} for row in on["items"])

    def test_the_outline_has_every_section_of_the_rows(self, client: TestClient) -> None:
        document = client.get(f"{BASE}/documents").json()["items"][0]
        rows = client.get(document["links"]["rows"]).json()["items"]
        sections = client.get(document["links"]["outline"]).json()["items"]
        assert {tuple(row["section_path"]) for row in rows} == {tuple(section["path"]) for section in sections}
        assert sum(section["rows"] for section in sections) == len(rows)

    def test_documents_count_their_rows(self, client: TestClient) -> None:
        for document in _all(client, "/documents"):
            rows = _all(client, f"/documents/{document['doc_id']}/rows")
            assert document["rows"] == len(rows)
            for modality in ("table", "figure"):
                of_kind = _all(client, f"/documents/{document['doc_id']}/rows", modality=modality)
                assert of_kind == [row for row in rows if row["modality"] == modality]
                assert document[f"{modality}s"] == len(of_kind)

    def test_a_row_that_a_hit_names_is_there(self, client: TestClient) -> None:
        hit = client.post(f"{BASE}/search", json={"query": "steel winch", "k": 1}).json()["hits"][0]
        row = client.get(f"{BASE}/rows/{hit['evidence_id']}").json()
        assert all(row[name] == hit[name] for name in row.keys() & hit.keys() - {"version"})
        assert client.get(f"{BASE}/rows/{'0' * 8}-0000-0000-0000-{'0' * 12}").status_code == 404
        assert client.get(f"{BASE}/tables/{hit['evidence_id']}").status_code == 404

    def test_a_figure_has_its_neighbours(self, client: TestClient) -> None:
        figures = _all(client, "/figures")
        assert len(figures) == 4
        assert _all(client, "/figures", contains="WINCH seen from side 2") == [
            figure for figure in figures if (figure["source"], figure["page"]) == ("winch.pdf", 2)
        ]
        for figure in figures:
            (placed,) = client.get(figure["links"]["context"], params={"around": 1}).json()["items"]
            rows = client.get(f"{BASE}/documents/{figure['doc_id']}/rows").json()["items"]
            index = rows.index(placed["row"])
            assert placed["row"]["figure_id"] == figure["figure_id"]
            assert placed["before"] == rows[max(0, index - 1) : index]
            assert placed["after"] == rows[index + 1 : index + 2]

    def test_figures_are_listed_by_role(self, client: TestClient) -> None:
        tagged = _all(client, "/figures")
        figures_by_role = {role: _all(client, "/figures", role=role) for role in Role}
        assert {figure["role"] for figure in tagged} <= TAGGED
        assert figures_by_role[Role.CONTENT] == [figure for figure in tagged if figure["role"] == Role.CONTENT]
        assert _all(client, "/figures", role=["content", "icon"]) == tagged
        for role, figures in figures_by_role.items():
            assert {figure["role"] for figure in figures} <= {role}
            assert all((figure["number"] is None) == (role not in TAGGED) for figure in figures)
        doc_id = tagged[0]["doc_id"]
        of_document = _all(client, f"/documents/{doc_id}/figures", role="content")
        assert of_document == [figure for figure in figures_by_role[Role.CONTENT] if figure["doc_id"] == doc_id]
        assert client.get(f"{BASE}/figures", params={"role": "portrait"}).status_code == 422

    def test_every_link_leads_somewhere(self, client: TestClient) -> None:
        documents = [f"/documents/{document['doc_id']}" for document in _all(client, "/documents")]
        lists = ["/documents", "/figures", *(f"{path}/{kind}" for path in documents for kind in ("rows", "tables"))]
        links = {link for path in lists for item in _all(client, path) for link in item["links"].values()}
        assert len(links) > 20
        assert {client.get(link).status_code for link in links} == {200}


class TestLists:
    def test_a_cursor_holds_its_version(self, client: TestClient) -> None:
        page = client.get(f"{BASE}/documents", params={"limit": 1}).json()
        for wrong in ({"version": ABSENT}, {"cursor": "AAAA"}, {"cursor": page["next"][:-3]}):
            response = client.get(f"{BASE}/documents", params={"cursor": page["next"], **wrong})
            assert (response.status_code, response.headers["content-type"]) == (400, "application/problem+json"), wrong
        same = {"cursor": page["next"], "version": page["version"], "limit": 200}
        assert len(client.get(f"{BASE}/documents", params=same).json()["items"]) == 1

    @pytest.mark.parametrize(
        "query_string", ["limit=0", "limit=201", "sort=colour", "cursor=%00", "contains=" + "x" * 201, "version=1"]
    )
    def test_parameters_are_bounded(self, client: TestClient, query_string: str) -> None:
        assert client.get(f"{BASE}/documents?{query_string}").status_code == 422

    def test_an_unchanged_list_is_not_sent_again(self, client: TestClient) -> None:
        first = client.get(f"{BASE}/documents")
        again = client.get(f"{BASE}/documents", headers={"if-none-match": first.headers["etag"]})
        assert (again.status_code, again.content, first.headers["cache-control"]) == (304, b"", "no-cache")
        assert client.get(f"{BASE}/documents", params={"version": ABSENT}).status_code == 404

    def test_a_key_sees_the_contents_of_its_corpora_alone(self, corpus: PublishedCorpus, tmp_path: Path) -> None:
        keys = tmp_path / "keys"
        keys.write_text(key_line(Key(name="team", sha256=digest("k"), corpora=("pumps",))) + "\n")
        client = client_of(create_app({"manuals": corpus, "pumps": FakeCorpus("pumps")}, access=Access(KeyFile(keys))))
        for path in ("documents", "figures", "changes?since=" + ABSENT):
            assert client.get(f"{BASE}/{path}").status_code == 401
            assert client.get(f"{BASE}/{path}", headers={"x-api-key": "k"}).status_code == 404


def test_a_table_is_json_or_csv(client: TestClient, monkeypatch: pytest.MonkeyPatch, corpus: PublishedCorpus) -> None:
    cells = [["Key", "Does, or"], ["7", '<b>turns</b>\n"on"']]
    with corpus.opened() as opened:
        row = opened.contents.rows(ListPart(limit=1), min(opened.sources)).items[0]
        info = opened.contents.row(row.evidence_id).model_copy(update={"modality": Modality.TABLE, "rows": cells})
    monkeypatch.setattr(Contents, "row", lambda *_: info)
    path = f"{BASE}/tables/{row.evidence_id}"
    assert client.get(path).json()["rows"] == cells
    sent = client.get(path, params={"format": "csv"})
    assert sent.headers["content-type"].startswith("text/csv")
    assert list(csv.reader(io.StringIO(sent.text))) == cells


def test_a_list_that_was_begun_goes_on_in_its_version(refreshed_once: Path, tmp_path: Path) -> None:
    shutil.copytree(refreshed_once, tmp_path, dirs_exist_ok=True)
    workspace = open_workspace(str(tmp_path / "corpora" / "manuals.yaml"))
    corpus = PublishedCorpus(workspace)
    client = client_of(create_app({"manuals": corpus}))
    first = client.get(f"{BASE}/documents", params={"limit": 1}).json()
    (tmp_path / "pdfs" / "pump.pdf").unlink()
    assert refresh(workspace).published
    second_page = client.get(f"{BASE}/documents", params={"cursor": first["next"]}).json()
    assert (second_page["version"], [item["sources"] for item in second_page["items"]]) == (
        first["version"],
        [["winch.pdf"]],
    )
    corpus.close()


def test_every_operation_has_an_example_that_is_valid(client: TestClient) -> None:
    api = client.get("/openapi.json").json()

    def check(schema: dict[str, Any], example: Any) -> None:
        jsonschema.Draft202012Validator({**schema, "components": api["components"]}).validate(example)

    for path, methods in api["paths"].items():
        for operation in methods.values():
            examples = 0
            for parameter in operation.get("parameters", []):
                for example in parameter["schema"].get("examples", []):
                    check(parameter["schema"], example)
                    examples += 1
            for content in operation.get("requestBody", {}).get("content", {}).values():
                name = content["schema"]["$ref"].rpartition("/")[2]
                schema_examples = api["components"]["schemas"][name]["examples"]
                for example in schema_examples:
                    check(content["schema"], example)
                    examples += 1
                assert schema_examples
            succeeded = next(response for status, response in operation["responses"].items() if status[0] == "2")
            for content in succeeded.get("content", {}).values():
                if "example" in content:
                    check(content["schema"], json.loads(json.dumps(content["example"])))
                    examples += 1
            assert examples, path
