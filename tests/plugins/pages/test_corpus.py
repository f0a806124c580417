"""The tab of a corpus."""

import re
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from pipeline.records.publication import publish_version
from plugins.pages import corpus
from schemas.reports import ChangedDocuments, ChangedQuestions, NumberChange, VersionDiff
from schemas.versions import RunOptions
from tests.pipeline.operations.corpora import REFUSES, version_name, write_corpus, write_version
from tests.plugins.pages.conftest import Rights

TAB = "/inset/dags/refresh_pumps"


def buttons(page: str) -> list[tuple[str, bool]]:
    """Return the action of each button that opens a form, and whether it can be used."""
    return [
        (match[1], "disabled" not in match[0])
        for match in re.finditer(r'<button type="button" data-open="(\w+)"[^>]*>', page)
    ]


def test_the_tab_offers_each_version_what_can_be_done_with_it(client: TestClient, folder: Path) -> None:
    store = write_corpus(folder, "pumps", versions=2)
    write_version(store, "pumps", 2, gates=[REFUSES])
    page = client.get(TAB).text
    assert buttons(page) == [(name, True) for name in ("refresh", "prune", "override", "publish", "roll_back")]
    assert f'data-open="override" data-version="{version_name(2)}"' in page
    assert f'data-open="roll_back" data-version="{version_name(0)}"' in page
    forms = dict(re.findall(r'<dialog id="(\w+)".*?<form data-dag="(\w+)"', page, re.DOTALL))
    assert forms == {
        "publish": "inset_publish",
        "override": "inset_publish",
        "roll_back": "inset_roll_back",
        "prune": "inset_prune",
        "stop": "refresh_pumps",
        "refresh": "refresh_pumps",
    }
    for name in ("publish", "override", "roll_back", "prune"):
        (form,) = re.findall(rf'<dialog id="{name}".*?</dialog>', page, re.DOTALL)
        assert re.search(r'<textarea name="reason"[^>]* required', form), f"{name} needs a reason"
        assert 'name="corpus" value="pumps"' in form


def test_the_options_of_a_refresh_are_those_that_its_run_reads(client: TestClient, folder: Path) -> None:
    write_corpus(folder, "pumps", versions=1)
    (form,) = re.findall(r'<dialog id="refresh".*?</dialog>', client.get(TAB).text, re.DOTALL)
    options = set(re.findall(r'<input type="checkbox" name="(\w+)"', form))
    assert options == {"dry_run", "force", "replay"} <= set(RunOptions.model_fields)


def test_who_may_not_start_runs_sees_buttons_that_do_nothing(client: TestClient, folder: Path, rights: Rights) -> None:
    write_corpus(folder, "pumps", versions=2)
    rights.starts = set()
    assert {usable for _, usable in buttons(client.get(TAB).text)} == {False}
    rights.starts = {"inset_roll_back"}
    assert [name for name, usable in buttons(client.get(TAB).text) if usable] == ["roll_back"]


def test_the_tab_says_who_moved_the_live_version_and_why(client: TestClient, folder: Path) -> None:
    store = write_corpus(folder, "pumps", versions=1)
    refused = write_version(store, "pumps", 1, gates=[REFUSES])
    publish_version(store, "pumps", refused, override="they <b>moved</b>", by="grace")
    page = client.get(TAB).text
    assert "Who did what, and why" in page
    assert "Live by grace (override)" in page
    assert "they &lt;b&gt;moved&lt;/b&gt;" in page
    assert "<b>moved" not in page


def test_the_versions_are_paged(client: TestClient, folder: Path) -> None:
    write_corpus(folder, "pumps", versions=100)
    first, last = (client.get(f"{TAB}?page={page}").text for page in (1, 5))
    assert first.count('name="base"') == last.count('name="base"') == corpus.PER_PAGE
    assert version_name(99) in first
    assert version_name(0) in last
    assert "Page 5 of 5, 100 in all" in last


def test_two_versions_are_compared_in_place(client: TestClient, folder: Path) -> None:
    store = write_corpus(folder, "pumps", versions=2)
    changes = VersionDiff(
        corpus="pumps",
        base=version_name(0),
        version=version_name(1),
        documents=ChangedDocuments(added=["<b>pump</b>_2.pdf"], changed=[], removed=[], lost=[], recovered=[]),
        figures_gained=[],
        figures_lost=[],
        questions=ChangedQuestions(asked=0, won=[], lost=[]),
        metrics={},
        counts={},
        work={"parsed": NumberChange(before=None, now=3)},
        settings={},
    )
    store.replace(f"versions/{version_name(1)}/diff.json", changes.model_dump_json().encode())
    query_string = f"base={version_name(0)}&version={version_name(1)}"
    page = client.get(f"{TAB}?{query_string}").text
    assert f'data-load="refresh_pumps/changes?{query_string.replace("&", "&amp;")}"' in page
    changes_html = client.get(f"{TAB}/changes?{query_string}").text
    assert "<h2>Documents added: 1</h2>" in changes_html
    assert "&lt;b&gt;pump&lt;/b&gt;_2.pdf" in changes_html
    assert '<td class="number">3</td>' in changes_html
    assert "style=" not in changes_html


@pytest.mark.parametrize(
    ("address", "status", "says"),
    [
        ("/inset/dags/nightly_report", 404, "nightly_report refreshes no corpus"),
        (f"{TAB}/changes?base={version_name(0)}&version={version_name(7)}", 404, "there is no version"),
        (f"{TAB}/changes?base=../x&version=y", 422, "string_pattern_mismatch"),
    ],
)
def test_what_does_not_exist_is_said(client: TestClient, folder: Path, address: str, status: int, says: str) -> None:
    write_corpus(folder, "pumps", versions=1)
    reply = client.get(address)
    assert reply.status_code == status
    assert says in reply.text


def test_a_broken_corpus_has_a_tab_that_says_why(client: TestClient, folder: Path) -> None:
    (folder / "corpora" / "pumps.yaml").write_text("name: pumps\nsourc: x\n")
    reply = client.get(TAB)
    assert reply.status_code == 200
    assert "did you mean &#39;source&#39;?" in reply.text
