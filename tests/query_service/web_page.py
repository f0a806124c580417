"""The web page over a fake corpus, in a real browser."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from fastapi import APIRouter

from query_service.access import Access
from query_service.app import create_app
from tests.browser import Browser
from tests.query_service.fake_corpus import FakeCorpus
from tests.query_service.live import serving


@contextmanager
def opened(
    browser: Browser,
    corpus: FakeCorpus,
    query: str = "q=valve",
    *,
    path: str = "/",
    access: Access | None = None,
    routes: APIRouter | None = None,
    width: int = 1280,
    dark: bool = False,
) -> Iterator[str]:
    """Open the page of a corpus, and return the address of the service; ``routes`` come before its own."""
    app = create_app({"pumps": corpus}, access=access)
    if routes:
        app.router.routes[:0] = routes.routes
    with serving(app) as address:
        browser.open(f"{address}{path}?{query}", width=width, dark=dark)
        yield address
        browser.open("about:blank")


def page_after(
    browser: Browser,
    corpus: FakeCorpus,
    clicks: Sequence[str] = (),
    query: str = "q=valve",
    *,
    access: Access | None = None,
) -> str:
    """Ask a question, click, and return what the page has become."""
    with opened(browser, corpus, query, access=access):
        browser.settled()
        for selector in clicks:
            browser.click(selector)
            browser.settled()
        return browser.html
