"""Browsing documents on the web page, in a real browser."""

import pytest

from tests.browser import CHROMIUM, Browser
from tests.query_service.fake_browse import CELLS, FakeBrowse
from tests.query_service.fake_corpus import DOC_ID, FIGURE_ID, LIVE, OTHER_ID, FakeCorpus
from tests.query_service.web_page import opened
from tests.tiny_models import draw

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium or Chrome on PATH"),
]

STATUS = "document.querySelector('#status-answer').textContent"


@pytest.fixture
def corpus() -> FakeCorpus:
    corpus = FakeCorpus("pumps")
    corpus.pixels = draw(1)
    return corpus


def _texts(browser: Browser, selector: str) -> list[str]:
    texts: list[str] = browser.run(f"[...document.querySelectorAll('{selector}')].map((each) => each.textContent)")
    return texts


def test_documents_are_listed_narrowed_and_sorted(corpus: FakeCorpus, browser: Browser) -> None:
    browse = FakeBrowse()
    with opened(browser, corpus, "", routes=browse.router):
        browser.settled()
        browser.click("#browse-link")
        browser.settled()
        assert _texts(browser, "#browse-list tbody tr > *") == [
            *("Pump <7>manuals/<b>pump</b>.pdf", "4", "2", "1", "English", "2026-01-31"),
        ]
        assert browser.run(STATUS) == "1 document."
        browser.run("document.querySelector('#browse-sort').value = '-date'")
        browser.run("document.querySelector('#browse-contains').value = 'nothing'")
        browser.run("document.querySelector('#browse-narrow').requestSubmit()")
        browser.settled()
        assert _texts(browser, "#browse-list") == ["There are no documents."]
        browser.run("history.back()")
        browser.until("document.querySelector('#browse-list tbody')")
    assert browse.asked == [(None, None, None), ("nothing", "-date", None), (None, None, None)]


def test_a_section_of_an_outline_opens_its_page(corpus: FakeCorpus, browser: Browser) -> None:
    with opened(browser, corpus, "browse=documents", routes=FakeBrowse().router):
        browser.click("#browse-list tbody a")
        browser.until("document.querySelector('.outline')")
        browser.settled()
        assert browser.run("new URLSearchParams(location.search).get('doc')") == DOC_ID
        assert _texts(browser, ".outline li") == ["Servicepage iv (PDF page 3)", "Parts", "Valvespage 4"]
        assert _texts(browser, "#browse-title") == ["Pump <7>"]
        browser.click(".outline li:last-child button")
        browser.settled()
        assert browser.run("document.querySelector('#viewer-pdf').hash") == "#page=4"
        assert _texts(browser, "#viewer-section") == ["Service › Valves"]


@pytest.mark.parametrize(
    ("address", "tab"), [("browse=outline", "Documents"), (f"browse=documents&doc={DOC_ID}", "Outline")]
)
def test_a_list_that_there_is_not_gives_way_to_the_first(
    address: str, tab: str, corpus: FakeCorpus, browser: Browser
) -> None:
    with opened(browser, corpus, address, routes=FakeBrowse().router):
        browser.settled()
        assert _texts(browser, "#browse-tabs [aria-current]") == [tab]
        assert _texts(browser, "#browse-list [role=alert]") == []


@pytest.mark.parametrize("doc", ["", f"&doc={DOC_ID}"], ids=["of all", "of one"])
def test_figures_are_a_contact_sheet_and_each_leads_to_its_page(doc: str, corpus: FakeCorpus, browser: Browser) -> None:
    with opened(browser, corpus, f"browse=figures{doc}", routes=FakeBrowse().router):
        browser.settled()
        assert browser.run(STATUS) == "2 figures, 1 of them shown."
        browser.click("#browse-more")
        browser.settled()
        assert browser.run(STATUS) == "2 figures."
        image_urls = browser.run("[...document.querySelectorAll('.contacts img')].map((each) => each.getAttribute('src'))")
        assert image_urls == [f"v1/corpora/pumps/figures/{figure_id}?version={LIVE}" for figure_id in (FIGURE_ID, OTHER_ID)]
        browser.run("document.querySelector('#browse-role').value = 'decorative'")
        browser.run("document.querySelector('#browse-narrow').requestSubmit()")
        browser.settled()
        assert browser.run(STATUS) == "1 figure."
        assert browser.run("new URLSearchParams(location.search).get('role')") == "decorative"
        browser.run("history.back()")
        browser.until("document.querySelector('.contacts img')?.alt === 'The <i>valve</i>'")
        browser.click(".contacts .picture")
        browser.settled()
        assert _texts(browser, "#lightbox-caption") == ["The <i>valve</i>"]
        browser.click("#lightbox-places button")
        browser.settled()
        assert browser.run("document.querySelector('#viewer-pdf').hash") == "#page=4"
    (call,) = (call for call in corpus.calls if call.get("page") == 4)
    assert call["highlight"] == [(5.0, 6.0, 7.0, 8.0)]


def test_a_table_is_drawn_when_it_is_opened_and_offered_as_csv(corpus: FakeCorpus, browser: Browser) -> None:
    with opened(browser, corpus, f"browse=tables&doc={DOC_ID}", routes=FakeBrowse().router):
        browser.settled()
        assert _texts(browser, ".tables .about") == ["page iv (PDF page 3) · CSV ↗"]
        assert _texts(browser, ".tables td") == []
        browser.click(".tables summary")
        browser.until("document.querySelector('.tables td')")
        assert _texts(browser, ".tables :is(th, td)") == [cell for row in CELLS for cell in row]
        csv = browser.run("document.querySelector('.tables .about a').getAttribute('href')")
    assert csv == f"v1/corpora/pumps/tables/t1?format=csv&version={LIVE}"


def test_the_viewer_jumps_to_a_printed_page_that_nothing_cites(corpus: FakeCorpus, browser: Browser) -> None:
    with opened(browser, corpus, routes=FakeBrowse().router):
        browser.click(".source")
        browser.until("document.querySelector('#viewer').open")
        browser.click("#next")
        browser.run("document.querySelector('#go-to-page').value = 'iv'")
        browser.run("document.querySelector('#go-to').requestSubmit()")
        browser.until("document.querySelector('#viewer-pdf').hash === '#page=3'")


def test_a_question_leaves_the_documents(corpus: FakeCorpus, browser: Browser) -> None:
    with opened(browser, corpus, "browse=documents", routes=FakeBrowse().router):
        browser.settled()
        browser.run("document.querySelector('#question').value = 'valve'")
        browser.run("document.querySelector('#ask').requestSubmit()")
        browser.until("document.querySelector('.cite')")
        assert not browser.run("document.querySelector('#browse').checkVisibility()")
        assert browser.run("location.search") == "?corpus=pumps&q=valve"


def test_a_list_that_fails_says_why(corpus: FakeCorpus, browser: Browser) -> None:
    with opened(browser, corpus, f"browse=outline&doc={'0' * 64}", routes=FakeBrowse().router):
        browser.until("document.querySelector('#browse .wrong')")
        assert _texts(browser, "#browse .wrong") == [f"This can’t be listedThere is no document {'0' * 64}"]
