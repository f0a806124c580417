"""The pages in a real Airflow, under a path prefix, in a real browser."""

import json
import urllib.error
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from tests.airflow_server import Airflow, fetch, running
from tests.browser import CHROMIUM, Browser
from tests.pipeline.operations.corpora import REFUSES, version_name, write_corpus, write_version
from tests.pipeline.operations.sheets import failure, write_quarantine
from tests.pipeline.operations.test_runs import write_planned

pytestmark = [
    pytest.mark.live,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium or Chrome on PATH"),
]

FRAME = "document.querySelector('iframe').contentDocument"


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Airflow]:
    """Airflow's API server with Inset's plugin and the DAGs of two corpora."""
    assert entry_points(group="airflow.plugins", name="inset"), "Inset is installed without its plugin: make setup"
    folder = tmp_path_factory.mktemp("airflow")
    store = write_corpus(folder, "pumps", versions=3)
    write_version(store, "pumps", 3, gates=[REFUSES], run_id="airflow:nightly")
    write_planned(store, 4, run_id="airflow:begun")
    winches = write_corpus(folder, "winches", versions=1)
    write_quarantine(winches, version_name(0), [failure("winch.pdf", page=2)])
    with running(folder, prefix="/team/airflow") as server:
        yield server


@pytest.fixture
def browser(airflow: Airflow, tmp_path: Path) -> Iterator[Browser]:
    """A browser in which Ada, who may do everything, is logged in; pages must not complain."""
    with Browser(tmp_path / "profile") as session:
        airflow.log_in(session, "ada")
        yield session
        assert session.complaints == []


def test_a_page_needs_a_login(airflow: Airflow) -> None:
    with pytest.raises(urllib.error.HTTPError, match="401"):
        fetch(f"{airflow.address}/inset/")


def test_the_home_page_has_a_line_a_corpus_which_leads_to_its_tab(airflow: Airflow, browser: Browser) -> None:
    browser.open(airflow.address)
    line = "[...document.querySelectorAll('a')].find((link) => link.textContent === 'pumps')"
    assert "a loss of 80 %" in browser.until(f"{line}.parentElement.textContent")
    browser.run(f"{line}.click()")
    assert browser.until(f"{FRAME}.querySelector('h1').textContent") == "pumps"


def test_the_navigation_leads_to_the_overview_in_the_theme_of_airflow(airflow: Airflow, browser: Browser) -> None:
    browser.open(airflow.address)
    browser.until("document.querySelector('a[href*=\"plugin/inset\"]')")
    browser.run("[...document.querySelectorAll('nav a, a')].find((link) => link.href.endsWith('/plugin/inset')).click()")
    assert browser.until(f"{FRAME}.querySelectorAll('tbody tr:not(.problems)').length") == 2
    colours = []
    for scheme in ("light", "dark"):
        browser.run(f"document.documentElement.className = '{scheme}'")
        browser.until(f"{FRAME}.documentElement.classList.contains('dark') === {json.dumps(scheme == 'dark')}")
        colours.append(browser.run(f"getComputedStyle({FRAME}.body).backgroundColor"))
    assert colours[0] != colours[1]
    browser.run(f"{FRAME}.querySelector('tbody a').click()")
    assert browser.until("location.pathname.endsWith('/dags/refresh_pumps/plugin/inset_corpus')")


def test_two_versions_are_compared_in_the_tab(airflow: Airflow, browser: Browser) -> None:
    browser.open(f"{airflow.address}/dags/refresh_pumps/plugin/inset_corpus")
    browser.until(f"{FRAME}.querySelector('form.versions [type=submit]')")
    assert browser.until(f"getComputedStyle({FRAME}.querySelector('[data-paused]')).display !== 'none'"), (
        "a new DAG is paused"
    )
    browser.run(f"{FRAME}.querySelector('form.versions [type=submit]').click()")
    heading = browser.until(f"{FRAME}.querySelector('#changes-title').textContent")
    assert heading == f"Changes from {version_name(2)} to {version_name(3)}"
    # These versions have no rows, so that there is nothing to compare, and the page says so.
    assert browser.until(f"{FRAME}.querySelector('[data-load] .error').textContent")
    browser.complaints.clear()  # of the reply's status


def _post(browser: Browser, address: str, body: object) -> None:
    """Call Airflow's REST API as the user who is logged in; a page of Airflow must be open."""
    sent = f"{{method: 'POST', headers: {{'Content-Type': 'application/json'}}, body: {json.dumps(json.dumps(body))}}}"
    assert (
        browser.run(f"fetch({json.dumps(address)}, {sent}).then((reply) => reply.text().then((text) => reply.ok || text))")
        is True
    )


def test_the_tab_of_a_run_shows_why_its_version_was_refused(airflow: Airflow, browser: Browser) -> None:
    browser.open(airflow.address)
    runs = f"{airflow.address}/api/v2/dags/refresh_pumps/dagRuns"
    _post(browser, runs, {"logical_date": None, "dag_run_id": "nightly"})
    browser.open(f"{airflow.address}/dags/refresh_pumps/runs/nightly/plugin/inset_run")
    assert version_name(3) in browser.until(f"{FRAME}.querySelector('h1').textContent")
    assert "a loss of 80 %" in browser.run(f"{FRAME}.querySelector('ul.problems').textContent")
    assert browser.run(f"{FRAME}.querySelector('#gates-title').textContent")


def test_the_tab_of_a_run_between_two_tasks_says_that_it_goes_on(airflow: Airflow, browser: Browser) -> None:
    browser.open(airflow.address)
    runs = f"{airflow.address}/api/v2/dags/refresh_pumps/dagRuns"
    _post(browser, runs, {"logical_date": None, "dag_run_id": "begun"})
    browser.open(f"{airflow.address}/dags/refresh_pumps/runs/begun/plugin/inset_run")
    assert version_name(4) in browser.until(f"{FRAME}.querySelector('h1').textContent")
    reason_script = f"{FRAME}.querySelector('[data-reason]').textContent"
    assert browser.until(f"{reason_script}.includes('it is queued, and its DAG is paused')")


def test_the_tab_of_a_run_whose_version_is_gone_shows_its_plan(airflow: Airflow, browser: Browser) -> None:
    browser.open(airflow.address)
    run = f"{airflow.address}/api/v2/dags/refresh_pumps/dagRuns"
    _post(browser, run, {"logical_date": None, "dag_run_id": "gone"})
    captions = {"vlm": {"subject": "figure", "items": 20, "affordable": 15, "spent": {"calls": 20, "money": 2.5}}}
    summary = {
        **{"new": 30, "changed": 0, "gone": 1, "kept": 4000, "to_parse": 30},
        "sources": {"new": ["<b>crane</b>.pdf"], "changed": [], "gone": ["old.pdf"]},
        "captions": captions,
    }
    for key, value in (("version", version_name(9)), ("outcome", "build"), ("summary", summary)):
        _post(browser, f"{run}/gone/taskInstances/plan/xcomEntries", {"key": key, "value": value, "map_index": -1})
    browser.open(f"{airflow.address}/dags/refresh_pumps/runs/gone/plugin/inset_run")
    state_script = (
        "[...%s.querySelectorAll('[data-outcome]')].filter((one) => !one.hidden).map((one) => one.dataset.outcome).join()"
    )
    browser.until(f"({state_script % FRAME}) === 'build'")
    plan = browser.run(f"[...{FRAME}.querySelectorAll('[data-plan]')].map((place) => place.textContent)")
    assert plan == ["30", "0", "1", "4,000", "30"]
    names = browser.run(f"[...{FRAME}.querySelectorAll('details:not([hidden]) li')].map((name) => name.textContent)")
    assert names == ["<b>crane</b>.pdf", "… and 29 more", "old.pdf"]
    costs = browser.run(f"[...{FRAME}.querySelectorAll('#captioners tbody td')].map((cell) => cell.textContent)")
    assert costs == ["figures", "20", "15", "20", "2.50", "–", "–"]


def test_an_action_by_keyboard_asks_for_a_reason_and_says_how_it_ended(airflow: Airflow, browser: Browser) -> None:
    browser.open(f"{airflow.address}/dags/refresh_pumps/plugin/inset_corpus")
    browser.until(f"{FRAME}.querySelector('[data-open=prune]')")
    browser.run(f"document.querySelector('iframe').focus(), {FRAME}.querySelector('[data-open=prune]').focus()")
    browser.press("Enter")
    opened = f"{FRAME}.querySelector('dialog[open]')"
    browser.until(opened)
    browser.press("Escape")
    browser.until(f"!{opened}")
    browser.press("Enter")
    browser.until(opened)
    browser.run(f"{opened}.querySelector('[type=submit]').click()")
    assert browser.run(f"{opened}.querySelector('.outcome').hidden"), "nothing starts without a reason"
    airflow.call("dags/inset_prune", {"is_paused": True}, "PATCH")
    browser.run(f"{opened}.querySelector('textarea').value = 'The disk is full.'")
    browser.run(f"{opened}.querySelector('[type=submit]').click()")
    # A run of a paused DAG would wait for ever: the page says so instead.
    assert "inset_prune is paused" in browser.until(f"{opened}.querySelector('.outcome.error').textContent")
    browser.complaints.clear()  # of the reply's status


def test_who_only_reads_has_no_buttons_to_press(airflow: Airflow, browser: Browser) -> None:
    airflow.log_in(browser, "vera")
    browser.open(f"{airflow.address}/dags/refresh_pumps/plugin/inset_corpus")
    browser.until(f"{FRAME}.querySelector('[data-open]')")
    assert browser.run(f"[...{FRAME}.querySelectorAll('[data-open]')].every((button) => button.disabled)")


def _section(browser: Browser, title: str) -> None:
    """Follow a link between the pages of a corpus."""
    link = f"[...{FRAME}.querySelectorAll('.sections a')].find((link) => link.textContent === '{title}')"
    browser.until(link)
    browser.run(f"{link}.click()")
    browser.until(f"{FRAME}.querySelector('.sections a[aria-current]').textContent === '{title}'")


def test_a_page_that_cannot_be_drawn_says_why(airflow: Airflow, browser: Browser) -> None:
    browser.open(f"{airflow.address}/dags/refresh_winches/plugin/inset_corpus")
    _section(browser, "Quarantine")
    browser.run(f"{FRAME}.querySelector('tbody .link').click()")
    opened = f"{FRAME}.querySelector('#zoom[open]')"
    assert "neither the store nor the last refresh" in browser.until(f"{opened}.querySelector('.unseen').textContent")
    browser.run(f"{opened}.querySelector('[data-close]').click()")
    browser.until(f"!{opened}")
    browser.complaints.clear()  # of the reply's status


def test_documents_in_quarantine_are_tried_again(airflow: Airflow, browser: Browser) -> None:
    browser.open(f"{airflow.address}/dags/refresh_winches/plugin/inset_corpus")
    _section(browser, "Quarantine")
    assert "winch.pdf is broken" in browser.until(f"{FRAME}.querySelector('tbody').textContent")
    dag = f"{airflow.address}/api/v2/dags/refresh_winches"
    unpause = {"method": "PATCH", "headers": {"Content-Type": "application/json"}, "body": json.dumps({"is_paused": False})}
    assert browser.run(f"fetch('{dag}', {json.dumps(unpause)}).then((reply) => reply.status)") == 200
    browser.run(f"{FRAME}.querySelector('[data-open=replay]').click()")
    opened = f"{FRAME}.querySelector('dialog[open]')"
    browser.run(f"{opened}.querySelector('textarea').value = 'The file was replaced.'")
    browser.run(f"{opened}.querySelector('[type=submit]').click()")
    # No scheduler runs here, so that it waits.
    assert "queued" in browser.until(f"{opened}.querySelector('.outcome a').parentElement.textContent")
    (run,) = browser.run(f"fetch('{dag}/dagRuns').then((reply) => reply.json())")["dag_runs"]
    conf = {"replay": True, "documents": [], "reason": "The file was replaced."}
    assert (run["conf"], run["note"]) == (conf, "The file was replaced.")
    browser.complaints.clear()  # of the page that isn't stored
