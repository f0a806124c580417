"""A space of Confluence as a source of Inset: its pages as HTML, and its attachments as they are.

An example of the entry point ``inset.sources``. An address is ``confluence://host/SPACE``, or ``confluence+http://`` without TLS.
``CONFLUENCE_TOKEN`` is a personal access token; with ``CONFLUENCE_USER`` it is the user's API token, as Confluence Cloud wants.
"""

import os
import re
from collections.abc import Iterator
from html import escape
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import requests
from atlassian import Confluence

from schemas.versions import SourceFile

_FACTS = "version,children.attachment.version"
_PICTURE = re.compile(r'src="[^"]*?/download/(?:attachments|thumbnails)/(\d+)/([^"?]+)[^"]*"')


class Space:
    """The pages and attachments of a space; ``<page id>/<title>.html``, and ``<page id>/<file name>``."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self._space = parts.path.strip("/").rpartition("/")[2]
        scheme = "http" if parts.scheme.endswith("+http") else "https"
        root = f"{scheme}://{parts.netloc}/{parts.path.strip('/').removesuffix(self._space)}"
        user, token = os.environ.get("CONFLUENCE_USER"), os.environ.get("CONFLUENCE_TOKEN")
        login = {"username": user, "password": token} if user else {"token": token}
        self._client = Confluence(root.rstrip("/"), cloud=".atlassian.net" in parts.netloc, **login)

    def list(self) -> Iterator[SourceFile]:
        """Yield every page and attachment; its version is its stamp."""
        for page in self._client.get_all_pages_from_space(self._space, expand=_FACTS, limit=100):
            yield SourceFile(f"{page['id']}/{_file_name(page['title'])}.html", None, str(page["version"]["number"]))
            for attachment in self._attachments(page):
                number = attachment["version"]["number"]
                yield SourceFile(f"{page['id']}/{attachment['title']}", None, f"{attachment['id']}.{number}")

    def read(self, name: str) -> bytes:
        """Return a page as HTML whose pictures are the attachments beside it, or an attachment."""
        page_id, _, file_name = name.partition("/")
        try:
            if file_name.endswith(".html"):
                page = self._client.get(f"rest/api/content/{page_id}", params={"expand": "body.export_view"})
                if f"{_file_name(page['title'])}.html" == file_name:
                    return _html(page["title"], page["body"]["export_view"]["value"]).encode()
            path = f"download/attachments/{page_id}/{quote(file_name)}"
            return bytes(self._client.get(path, not_json_response=True))
        except requests.HTTPError as error:
            status = error.response.status_code if error.response is not None else 0
            if status == 404:
                raise FileNotFoundError(name) from error
            if status in (401, 403):
                raise PermissionError(name) from error
            raise

    def describe(self) -> str:
        """Return the space and its server."""
        return f"space {self._space} of {urlsplit(self._client.url).netloc}"

    def _attachments(self, page: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield a page's attachments; a listing of pages has the first of each alone."""
        attachments = page["children"]["attachment"]
        yield from attachments["results"]
        start = len(attachments["results"])
        while attachments.get("_links", {}).get("next"):
            path = f"rest/api/content/{page['id']}/child/attachment"
            attachments = self._client.get(path, params={"start": start, "limit": 200, "expand": "version"})
            yield from attachments["results"]
            start += len(attachments["results"])


def _file_name(title: str) -> str:
    return re.sub(r"[/\x00-\x1f]", "_", title)


def _html(title: str, body: str) -> str:
    with_pictures = _PICTURE.sub(lambda match: f'src="../{match[1]}/{escape(quote(unquote(match[2])))}"', body)
    return f"<!doctype html><title>{escape(title)}</title><h1>{escape(title)}</h1>{with_pictures}"
