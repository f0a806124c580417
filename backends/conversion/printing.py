"""Print HTML, Markdown and plain text as PDFs; no script runs, and nothing is fetched from outside the source."""

import html
import importlib.metadata
import logging
import re
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from typing import Any
from urllib.parse import quote, unquote, urljoin, urlsplit

from schemas.errors import BadInputError, FailureCode, rejecting
from schemas.formats import Format, format_of

RELEASE = importlib.metadata.version("weasyprint")

_BASE = "http://source.invalid/"
"""Stands for the root of the source, so that no relative address leaves it."""

_STYLE = """
@page { size: A4; margin: 2cm }
html { font: 10.5pt "DejaVu Sans", sans-serif; overflow-wrap: break-word }
h1 { font-size: 20pt } h2 { font-size: 16pt } h3 { font-size: 13pt } h4, h5, h6 { font-size: 11.5pt }
h1, h2, h3, h4, h5, h6 { break-after: avoid }
img, svg { max-width: 100%; max-height: 24cm }
table { border-collapse: collapse; max-width: 100% } th, td { border: 0.5pt solid; padding: 2pt 4pt }
pre, code { font-family: "DejaVu Sans Mono", monospace; white-space: pre-wrap; font-size: 9pt }
p.plain { white-space: pre-wrap }
"""
"""For pages without a style of their own; rules round tables let the reader see them."""

_BREAK_WORDS = "html { overflow-wrap: anywhere }"
"""Lets the columns of a table be narrower than their words, so that it fits a page."""

_CSS_ADDRESS = re.compile(r"""(?:url\(\s*|@import\s+)["']?([^"')\s;]+)""")
_FRONT_MATTER = re.compile(r"---\s*\n(.*?\n)(?:---|\.\.\.)\s*\n", re.DOTALL)
_SET_OUT = {"title": "title", "author": "author", "date": "dcterms.modified", "lang": "lang"}
_BLANK_LINES = re.compile(r"\n[ \t]*\n\s*")


def is_installed() -> bool:
    """Return whether Pango is there, the library that sets text."""
    try:
        import weasyprint  # noqa: F401
    except OSError:
        return False
    return True


def as_text(data: bytes) -> str:
    """Decode a text by its byte order mark, as UTF-8, or by its letters."""
    from charset_normalizer import from_bytes

    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", errors="replace")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        best = from_bytes(data).best()
        return str(best) if best is not None else data.decode("latin-1")


def as_html(data: bytes, source: str) -> str:
    """Return a text as HTML: Markdown by its marks, plain text by its paragraphs."""
    kind = format_of(source)
    if kind is Format.HTML:
        declared = re.search(rb"charset=[\"']?([\w-]+)", data[:2048])
        try:
            return data.decode(declared[1].decode()) if declared else as_text(data)
        except (LookupError, UnicodeDecodeError):
            return as_text(data)
    text = as_text(data).replace("\r\n", "\n")
    if kind is Format.PLAIN:
        return "".join(f'<p class="plain">{html.escape(part)}</p>' for part in _BLANK_LINES.split(text.strip("\n")))
    return _of_markdown(text)


def _of_markdown(text: str) -> str:
    from markdown_it import MarkdownIt

    facts: Any = {}
    if front := _FRONT_MATTER.match(text):
        import yaml

        try:
            facts = yaml.safe_load(front[1])
        except yaml.YAMLError:
            facts = None
        text = text[front.end() :] if isinstance(facts, dict) else text
    facts = {name: html.escape(str(value)) for name, value in facts.items()} if isinstance(facts, dict) else {}
    meta = "".join(f'<meta name="{name}" content="{facts[field]}">' for field, name in _SET_OUT.items() if field in facts)
    body = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(text)
    language = f' lang="{facts["lang"]}"' if "lang" in facts else ""
    return f"<html{language}><head><title>{facts.get('title', '')}</title>{meta}</head><body>{body}</body></html>"


_ADDRESS_OF = {
    **dict.fromkeys(("img", "embed", "input"), "src"),
    "object": "data",
    **dict.fromkeys(("link", "image"), "href"),
}
"""The attributes with the addresses of pictures and style sheets, by tag."""


class _Addresses(HTMLParser):
    """Collects the addresses of pictures and style sheets, and what the page says of itself."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        addresses = (attributes.get(name) for name in (_ADDRESS_OF.get(tag, ""), "xlink:href"))
        self.addresses += filter(None, addresses)


def parts_of(text: str, at: str) -> Iterator[str]:
    """Yield the names in the source of the pictures and style sheets of a page or a style sheet, named ``at``."""
    page = _Addresses()
    page.feed(text)
    for address in [*page.addresses, *_CSS_ADDRESS.findall(text)]:
        if (name := _name_of(urljoin(_BASE + quote(at), address))) is not None:
            yield name


def _name_of(address: str) -> str | None:
    try:
        parts = urlsplit(address)
    except ValueError:
        return None
    return unquote(parts.path).lstrip("/") or None if address.startswith(_BASE) else None


def print_pdf(page: str, source: str, parts: Mapping[str, bytes], *, breaks_words: bool = False) -> bytes:
    """Print a page of HTML.

    Args:
        page: The HTML.
        source: Its name in the source, against which addresses count.
        parts: Its pictures and style sheets, by their names in the source; others are left out.
        breaks_words: Narrow the columns of tables at the cost of broken words.

    Raises:
        BadInputError: Pango isn't installed, or the page can't be printed.
    """
    try:
        import weasyprint
        from weasyprint.urls import URLFetcher, URLFetcherResponse
    except OSError as error:
        message = f"Pango isn't installed, which prints HTML, Markdown and text: {error}"
        raise BadInputError(message.splitlines()[0], FailureCode.NEEDS_PANGO) from error

    class Fetcher(URLFetcher):  # type: ignore[misc]
        def fetch(self, url: str, headers: Any = None) -> Any:
            if url.startswith("data:"):
                return super().fetch(url, headers)
            name = _name_of(url)
            if name is None or name not in parts:
                raise ValueError("nothing is fetched from outside the source")
            return URLFetcherResponse(url, parts[name])

    logging.getLogger("weasyprint").setLevel(logging.CRITICAL)
    logging.getLogger("fontTools").setLevel(logging.ERROR)
    also = (RecursionError,)
    with rejecting("the page can't be printed", FailureCode.NOT_CONVERTED, also=also):
        document = weasyprint.HTML(
            string=page, base_url=_BASE + quote(source), url_fetcher=Fetcher(allowed_protocols=("data",))
        )
        style = weasyprint.CSS(string=_STYLE + (_BREAK_WORDS if breaks_words else ""))
        return bytes(document.write_pdf(stylesheets=[style], pdf_tags=True, presentational_hints=True))
