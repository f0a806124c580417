"""What axe-core finds on the web page, in each of its states."""

import shutil

import pytest

from schemas.reports import SearchPreset
from tests.browser import CHROMIUM, Browser
from tests.query_service.fake_browse import FakeBrowse
from tests.query_service.fake_corpus import DOC_ID, FakeCorpus
from tests.query_service.web_page import opened
from tests.tiny_models import draw

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium or Chrome on PATH"),
    pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm on PATH, which fetches axe-core"),
]

OPTIONAL = ("target-size", "label-content-name-mismatch", "p-as-heading", "table-fake-caption", "td-has-header")
"""Rules that axe applies where they are named only."""

FOUND = f"""
axe.run({{ rules: {{ {", ".join(f"'{rule}': {{ enabled: true }}" for rule in OPTIONAL)} }} }}).then(({{ violations }}) =>
  violations.flatMap(({{ id, nodes }}) => nodes.map(({{ target, failureSummary }}) => [id, target.join(" "), failureSummary])))
"""

PRESETS = [
    SearchPreset(name="pages", label="Pages", sentence="by words"),
    SearchPreset(name="image", label="Pictures", sentence="by pictures", takes_picture=True),
    SearchPreset(name="visdom", label="VisDoM", sentence="as in a paper", source="VisDoM"),
]
STATES: dict[str, tuple[str, list[str]]] = {
    "empty": ("", []),
    "answer": ("q=valve", []),
    "filtered": ("q=valve&section=Service&phrase=oil+filter", ["#filter"]),
    "page": ("q=valve", [".source"]),
    "figure": ("q=valve", ["figure .picture"]),
    "table": ("q=valve&sentences=1&group=page", []),
    "compared": ("q=valve&compare=preset:image", []),
    "compared versions": ("q=valve&compare=version:20260201T061502Z-1a2b3c4d", []),
    "documents": ("browse=documents", []),
    "outline": (f"browse=outline&doc={DOC_ID}", []),
    "figures": ("browse=figures", []),
    "tables": (f"browse=tables&doc={DOC_ID}", [".tables summary"]),
    "unknown corpus": ("corpus=none", []),
}


def _found(browser: Browser, axe: str) -> list[object]:
    browser.run(f"{axe};void 0")
    violations: list[object] = browser.run(FOUND)
    wider = browser.run("document.documentElement.scrollWidth - innerWidth")
    return [*violations, *([f"{wider} pixels wider than the window"] if wider else [])]


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (360, False)], ids=["light", "dark", "phone"])
@pytest.mark.parametrize("state", STATES)
def test_axe_finds_nothing(state: str, width: int, dark: bool, axe: str, browser: Browser) -> None:
    corpus = FakeCorpus("pumps", table=state == "table")
    corpus.rows = [["", "Does", ""], ["7", "stops", "it"], ["8", "runs", "it"]]
    corpus.pixels = draw(1)
    corpus.documents = 2
    corpus.search_presets = PRESETS
    corpus.older = ["20260201T061502Z-1a2b3c4d"]
    query, clicks = STATES[state]
    with opened(browser, corpus, query, routes=FakeBrowse().router, width=width, dark=dark):
        browser.settled()
        for selector in clicks:
            browser.click(selector)
            browser.settled()
        assert _found(browser, axe) == []


@pytest.mark.parametrize("width", [1280, 360], ids=["wide", "phone"])
def test_axe_finds_nothing_in_the_reference(width: int, axe: str, browser: Browser) -> None:
    with opened(browser, FakeCorpus("pumps"), path="/api", width=width):
        browser.until("document.querySelector('[id=\"operation/search\"]')")
        browser.run("document.querySelectorAll('[id=\"operation/search\"] button').forEach((each) => each.click())")
        browser.settled()
        assert _found(browser, axe) == []
    browser.complaints.clear()


WRONG = """
document.querySelector("#ask .primary").setAttribute("aria-label", "Send it");
document.querySelector(".hit").style.width = "500px";
for (const name of ["One", "Other"]) {
  const button = document.createElement("button");
  button.setAttribute("aria-label", name);
  button.style = "width: 9px; height: 9px; padding: 0";
  document.querySelector("main").prepend(button);
}
"""


def test_axe_finds_what_is_wrong(axe: str, browser: Browser) -> None:
    with opened(browser, FakeCorpus("pumps"), width=360):
        browser.settled()
        browser.run(WRONG)
        violations = _found(browser, axe)
    assert [violation[0] for violation in violations if isinstance(violation, list)] == [
        "label-content-name-mismatch",
        "target-size",
        "target-size",
    ]
    assert "pixels wider" in str(violations[-1])
