"""The browser of the judging page's tests."""

from tests.query_service.conftest import axe, browser, one_browser

__all__ = ["axe", "browser", "one_browser"]
