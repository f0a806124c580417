"""The web page over a fake corpus, in a real browser."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import uvicorn
from fastapi import APIRouter, FastAPI

from query_service.access import Access
from query_service.app import create_app
from query_service.serve import listen
from tests.browser import Browser
from tests.query_service.fake_corpus import FakeCorpus


@contextmanager
def serving(app: FastAPI) -> Iterator[str]:
    """Serve an app, and return its address."""
    with listen("127.0.0.1", 0) as bound:
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", ws="none"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
        thread.start()
        try:
            while thread.is_alive() and not server.started:
                time.sleep(0.01)
            yield f"http://127.0.0.1:{bound.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


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
    with serving(app) as place:
        browser.open(f"{place}{path}?{query}", width=width, dark=dark)
        yield place
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
