"""The overview and the home card."""

import re
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from plugins.pages import overview
from tests.pipeline.operations.corpora import REFUSES, version_name, write_corpus, write_version
from tests.plugins.pages.conftest import Rights


def test_the_overview_shows_every_corpus_and_links_to_its_tab(client: TestClient, folder: Path) -> None:
    store = write_corpus(folder, "pumps", versions=2, more='schedule: "@daily"\n')
    write_version(store, "pumps", 2, gates=[REFUSES])
    (folder / "corpora" / "broken.yaml").write_text("name: broken\nsourc: <b>x</b>\n")
    page = client.get("/inset/").text
    assert version_name(1) in page
    assert "a loss of 80 %" in page
    assert 'href="./../dags/refresh_pumps/plugin/inset_corpus"' in page
    assert "did you mean &#39;source&#39;?" in page
    assert not re.findall(r'(?:href|src)="/', page), "absolute addresses break under a path prefix"


def test_links_lead_to_the_search_page_of_the_service(
    client: TestClient, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_corpus(folder, "pumps", versions=1)
    addresses = ["/inset/", "/inset/dags/refresh_pumps", "/inset/dags/refresh_pumps/quarantine"]
    assert not [page for page in addresses if ">Search<" in client.get(page).text]
    monkeypatch.setenv("INSET_SEARCH_PAGE", "https://search.example.org/")
    link = '<a href="https://search.example.org/?corpus=pumps" data-outer>Search</a>'
    assert [page for page in addresses if link in client.get(page).text] == addresses
    monkeypatch.setenv("INSET_SEARCH_PAGE", "javascript:alert(1)")
    assert "INSET_SEARCH_PAGE=javascript:alert(1): set it to" in client.get("/inset/").text


def test_a_user_sees_only_corpora_whose_dag_they_may_read(client: TestClient, folder: Path, rights: Rights) -> None:
    write_corpus(folder, "pumps", versions=1)
    write_corpus(folder, "secret", versions=1)
    rights.hidden = {"refresh_secret"}
    page = client.get("/inset/").text
    assert "secret" not in page
    assert "<h1>1 corpus</h1>" in page
    assert [line["corpus"] for line in client.get("/inset/health.json").json()] == ["pumps"]


def test_the_overview_shows_the_worst_first_and_filters(client: TestClient, folder: Path) -> None:
    write_corpus(folder, "fine", versions=1)
    write_corpus(folder, "new")
    write_version(write_corpus(folder, "refused", versions=1), "refused", 1, gates=[REFUSES])

    def shown(query: str) -> list[str]:
        page = client.get(f"/inset/{query}").text
        return re.findall(r'href="[^"]*dags/refresh_(\w+)/plugin/inset_corpus"', page)

    assert list(dict.fromkeys(shown(""))) == ["refused", "new", "fine"]
    assert set(shown("?state=empty")) == {"new"}
    assert set(shown("?name=f")) == {"refused", "fine"}


def test_the_overview_is_paged(client: TestClient, folder: Path) -> None:
    for number in range(overview.PER_PAGE + 1):
        write_corpus(folder, f"corpus_{number:02}")
    first, last = (client.get(f"/inset/?page={page}").text for page in (1, 2))
    assert first.count('scope="row"') == overview.PER_PAGE
    assert last.count('scope="row"') == 1
    assert 'href="?page=2"' in first
    assert 'href="?page=1"' in last


def test_the_card_has_a_line_a_corpus_the_worst_first(client: TestClient, folder: Path) -> None:
    write_corpus(folder, "fine", versions=1)
    store = write_corpus(folder, "refused", versions=1)
    write_version(store, "refused", 1, gates=[REFUSES])
    lines = client.get("/inset/health.json").json()
    assert [(line["corpus"], line["state"]) for line in lines] == [("refused", "refused"), ("fine", "ok")]
    assert lines[0]["dag_id"] == "refresh_refused"
    assert "a loss of 80 %" in lines[0]["line"]
