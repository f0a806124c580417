"""The tab of a run."""

import json
import re
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from pipeline.records import lease
from pipeline.records.differences import Compared, stored_name
from pipeline.records.notes import StageNote, read_plan_summary, write_note
from plugins.airflow_run import plan_summary
from schemas.gates import GateResult
from schemas.ids import version_file
from schemas.stages import Stage
from tests.pipeline.operations.corpora import REFUSES, version_name, write_corpus, write_version
from tests.pipeline.operations.test_runs import write_planned

DAG = "/inset/dags/refresh_pumps"


def words(page: str) -> str:
    """Return the text of a page in one line."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))


def test_the_tab_shows_the_version_that_the_run_built(
    client: TestClient, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INSET_SEARCH_PAGE", "https://search.example.org/docs/")
    store = write_corpus(folder, "pumps", versions=2)
    version = write_version(store, "pumps", 2, run_id="airflow:manual__2026-03-01T05:00:00+00:00")
    write_planned(store, 2, documents=25)
    write_note(store, version, Stage.ASSEMBLE, StageNote(seconds=4.0, counts={"rows": 100}))
    write_note(store, version, Stage.BUILD, StageNote(seconds=1.0, counts={"rows_written": 30, "rows_built": 100}))
    store.replace(version_file(version, "release_note.md"), b"# pumps\n\n## Documents added: 1\n\n- <i>a</i>.pdf\n")
    page = client.get(f"{DAG}/runs/manual__2026-03-01T05%3A00%3A00%2B00%3A00").text
    page_words = words(page)
    assert f"pumps: {version}" in page_words
    assert "holds all its gates" in page_words
    assert f'href="../../../dags/refresh_pumps/versions/{version_name(1)}"' in page
    assert '<dd data-plan="new">25</dd>' in page
    assert "manual_00019.pdf" in page
    assert "manual_00020.pdf" not in page
    assert "… and 5 more" in page_words
    assert "vlm figures 20 5 estimated 15 20 2.50" in page_words
    assert "assemble 4.0 –" in page_words
    assert "build 1.0 –" in page_words
    assert [float(width) for width in re.findall(r'<rect width="([\d.]+)"', page)] == [0, 0, 100, 0, 25, 0]
    assert "quarantine ceiling 0.05 0.20" in page_words
    assert "&lt;i&gt;a&lt;/i&gt;.pdf" in page
    assert not re.findall(r'(?:href|src)="/', page), "absolute addresses break under a path prefix"


def test_a_refused_version_says_why_and_what_stays_live(client: TestClient, folder: Path) -> None:
    store = write_corpus(folder, "pumps", versions=1)
    write_version(store, "pumps", 1, gates=[REFUSES], run_id="airflow:nightly")
    page_words = words(client.get(f"{DAG}/runs/nightly").text)
    assert f"Gates refused this version, so {version_name(0)} stays live" in page_words
    assert "rows not lost: a loss of 80 %; see what is gone" in page_words


def test_a_run_under_way_and_one_that_died_are_told_apart(client: TestClient, folder: Path) -> None:
    store = write_corpus(folder, "pumps", versions=1)
    write_planned(store, 1, shards=3, documents=30)
    write_note(store, version_name(1), Stage.PARSE, StageNote(seconds=2.0, counts={"parsed": 10}), shard=0)
    died = client.get(f"{DAG}/versions/{version_name(1)}").text
    assert "was begun and not finished" in died
    lease.acquire(store, "run-1", tied_to_process=False)
    page_words = words(client.get(f"{DAG}/versions/{version_name(1)}").text)
    assert "is building this version" in page_words
    assert "running" in page_words


def test_a_run_that_built_nothing_leaves_the_answer_to_airflow(client: TestClient, folder: Path) -> None:
    write_corpus(folder, "pumps", versions=1)
    page = client.get(f"{DAG}/runs/dry").text
    assert 'data-run="dry" data-of="refresh_pumps"' in page
    assert set(re.findall(r'data-outcome="(\w+)" hidden', page)) == {
        *("unchanged", "ready", "refused", "held"),
        *("build", "running", "failed"),
    }
    assert '<section id="plan" aria-labelledby="plan-title" hidden>' in page


def test_every_expectation_is_listed(client: TestClient, folder: Path) -> None:
    store = write_corpus(folder, "pumps")
    broken = GateResult(gate="rows: a text is <short>", passed=False, value=0.25, bound=0.1, message="not so in 25 of 100")
    version = write_version(store, "pumps", 0, gates=[broken])
    store.replace(version_file(version, "quality/index.html"), b"<script>alert(1)</script>")
    page = client.get(f"{DAG}/versions/{version}").text
    assert "rows: a text is &lt;short&gt;" in page
    assert "not so in 25 of 100" in page
    assert f"{version}/quality/index.html" in page


@pytest.mark.parametrize(
    ("address", "status", "says"),
    [
        ("/inset/dags/nightly_report/runs/x", 404, "nightly_report refreshes no corpus"),
        (f"{DAG}/versions/{version_name(7)}", 404, "there is no version"),
        (f"{DAG}/versions/x", 422, "string_pattern_mismatch"),
    ],
)
def test_what_does_not_exist_is_said(client: TestClient, folder: Path, address: str, status: int, says: str) -> None:
    write_corpus(folder, "pumps", versions=1)
    reply = client.get(address)
    assert reply.status_code == status
    assert says in reply.text


def test_the_run_of_a_broken_corpus_says_what_is_broken(client: TestClient, folder: Path) -> None:
    (folder / "corpora" / "pumps.yaml").write_text("name: pumps\nsourc: x\n")
    reply = client.get(f"{DAG}/runs/nightly")
    assert reply.status_code == 404
    assert "did you mean &#39;source&#39;?" in reply.text


def test_the_summary_of_a_plan_that_airflow_keeps_names_few_sources(folder: Path) -> None:
    store = write_corpus(folder, "pumps", versions=1)
    plan = read_plan_summary(store, write_planned(store, 1, documents=10_000))
    summary = plan_summary(plan)
    assert (summary["new"], len(summary["sources"]["new"]), summary["sources"]["gone"]) == (10_000, 20, ["old.pdf"])
    assert summary["captions"]["vlm"]["spent"]["money"] == 2.5
    assert json.loads(json.dumps(summary)) == summary
    assert len(json.dumps(summary)) < 2_000


def test_reports_of_experiments_on_a_version_are_linked_and_shown_without_scripts(client: TestClient, folder: Path) -> None:
    store = write_corpus(folder, "pumps", versions=2)
    store.replace(stored_name(version_name(1), "winch words", "report.html"), b"<title>winch words</title>")
    compared = Compared(worse=["since 1: bm25: mrr@10 -0.5"], better=["since 1: ilt: answered +0.2"])
    store.replace(stored_name(version_name(1), "winch words", "changes.json"), compared.model_dump_json().encode())
    page = client.get(f"{DAG}/versions/{version_name(1)}").text
    assert "worse since 1: bm25: mrr@10 -0.5" in page
    assert "better since 1: ilt: answered +0.2" in page
    (address,) = re.findall(r'href="../../../([^"]*/experiments/[^"]*)"', page)
    reply = client.get(f"/inset/{address}")
    assert reply.text == "<title>winch words</title>"
    assert "sandbox" in reply.headers["Content-Security-Policy"].split("; ")
    assert "no experiment words ran" in client.get(f"{DAG}/versions/{version_name(1)}/experiments/words").text
    assert "/experiments/" not in client.get(f"{DAG}/versions/{version_name(0)}").text
