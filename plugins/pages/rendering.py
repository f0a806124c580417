"""Turn a template into a page: escaped, with relative links only, under a strict content security policy."""

import os
import urllib.parse
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, TypeVar

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup

from pipeline.records.states import TONES
from plugins.remedies import in_ui
from schemas.errors import UserError
from schemas.versions import AuditEvent

_FOLDER = Path(__file__).parent
WEB = _FOLDER / "web"

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'self'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}

SEARCH_PAGE = "INSET_SEARCH_PAGE"
"""Environment variable of the API server: the address of the query service's search page, as readers' browsers reach it."""

_markdown = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")


def render(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """Return a page.

    Templates have ``root``, the relative address of the plugin's root, and ``airflow``, that of Airflow's, so that pages
    work wherever a proxy puts them, and the parameters of the page's path.
    """
    root = "../" * request.scope["path"].removeprefix(request.scope.get("root_path", "")).lstrip("/").count("/") or "./"
    page = _environment.get_template(template).render(
        root=root, airflow=f"{root}../", now=datetime.now(UTC), **request.path_params, **values
    )
    return HTMLResponse(page, status_code=status, headers=HEADERS)


def markdown(text: str) -> Markup:
    """Return Markdown as HTML; HTML in it is shown as text, and pictures are not loaded."""
    tokens = _markdown.parse(text)
    for token in tokens:
        # Columns of numbers have a style, which the policy forbids.
        if token.attrs.pop("style", None) == "text-align:right":
            token.attrSet("class", "number")
    return Markup(_markdown.renderer.render(tokens, _markdown.options, {}))  # noqa: S704  escaped by the renderer


def search_page(**parameters: str) -> str:
    """Return the address of the search page with parameters; "" if ``SEARCH_PAGE`` isn't set.

    Raises:
        UserError: The variable is no address of a web page.
    """
    address = os.environ.get(SEARCH_PAGE, "").strip()
    if not address:
        return ""
    if not address.startswith(("http://", "https://")):
        raise UserError(f"{SEARCH_PAGE}={address}: set it to an address that begins with http:// or https://")
    return f"{address}?{urllib.parse.urlencode(parameters)}"


def ago(moment: datetime | None, now: datetime) -> str:
    """Return how long ago a moment was, or in how long it is, in its largest unit."""
    if moment is None:
        return "–"
    seconds = (now - moment).total_seconds()
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if abs(seconds) >= length:
            return f"{abs(seconds) / length:.0f} {unit} ago" if seconds > 0 else f"in {abs(seconds) / length:.0f} {unit}"
    return "just now" if seconds >= 0 else "now"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"


def _event(event: AuditEvent) -> Markup:
    """Return an event of the audit log as a line."""
    reason = Markup(": {}").format(event.reason) if event.reason else ""
    return Markup("Live by {} ({}), {}{}").format(event.by, event.action, _time(event.at), reason)


def _seconds(value: float) -> str:
    return f"{value:,.1f}" if value < 100 else f"{value:,.0f}"


def _money(value: float) -> str:
    return f"{value:,.2f}"


def _time(moment: datetime | None) -> Markup:
    """Return a moment as an element that the script shows in the reader's time zone."""
    if moment is None:
        return Markup("–")
    return Markup('<time datetime="{}">{}</time>').format(moment.isoformat(), f"{moment:%Y-%m-%d %H:%M} UTC")


_environment = Environment(
    loader=FileSystemLoader(_FOLDER / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_environment.filters |= {
    "ago": ago,
    "combine": lambda one, other: one | other,
    "event": _event,
    "in_ui": in_ui,
    "given": lambda values: {name: value for name, value in values.items() if value},
    "markdown": markdown,
    "money": _money,
    "number": _number,
    "seconds": _seconds,
    "time": _time,
    "tone": lambda word: TONES.get(word, "red"),
}
_environment.globals["search_page"] = search_page


Item = TypeVar("Item")


class Paged(Generic[Item]):
    """A page of a list; a page beyond the end is the last one.

    Attributes:
        items: Those of this page.
        page: Its number, from 1.
        pages: How many there are, at least 1.
        total: The length of the list.
    """

    def __init__(self, every: Sequence[Item], page: int, size: int) -> None:
        self.total = len(every)
        self.pages = max(1, -(-self.total // size))
        self.page = min(page, self.pages)
        self.items = every[(self.page - 1) * size : self.page * size]
