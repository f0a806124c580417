"""The guide's place of one's own: a space of Confluence, before a server of our own that speaks its REST API."""

import json
import threading
import tomllib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from PIL import Image

from backends.stores.places import ListedSource
from pipeline.corpus.workspace import open_workspace
from pipeline.run import refresh
from schemas.errors import TransientError, UserError
from tests.contract.sources import faults_of
from tests.tiny_models import png

GUIDE = (Path(__file__).parents[3] / "docs/guides/places.md").read_text(encoding="utf-8")
CODE, PROJECT = (
    GUIDE.partition(f"```{kind} inset_confluence.{ending}\n")[2].partition("```")[0]
    for kind, ending in (("python", "py"), ("toml", "toml"))
)
BODY = '<p>Fill the pump.</p><img src="http://{host}/download/attachments/7/pump%20part.png?version=1"><p>Close it.</p>'
PICTURE = png(Image.linear_gradient("L").convert("RGB"))
PAGES = {
    "7": {"title": "Pump / service", "body": BODY, "attachments": {"pump part.png": PICTURE, "notes.txt": b"Use oil."}},
    "8": {"title": "Winch", "body": "<p>Turn the winch.</p>", "attachments": {}},
}


@pytest.fixture(scope="module")
def example() -> ModuleType:
    module = ModuleType("inset_confluence")
    exec(CODE, vars(module))
    return module


class Wiki:
    """A server with a space whose listing has a page at a time, and of each page one attachment."""

    def __init__(self) -> None:
        self.host, self.status = "", 200

    def reply(self, path: str, query: dict[str, list[str]]) -> Any:
        """Return JSON, bytes of a file, or None."""
        start = int(query.get("start", ["0"])[0])
        match path.strip("/").split("/"):
            case ["rest", "api", *_, "content"]:
                (page_id,) = [*PAGES][start : start + 1]
                rest = {"next": f"/rest/api/content?spaceKey=DOC&start={start + 1}"} if start + 1 < len(PAGES) else {}
                page = {"id": page_id, "title": PAGES[page_id]["title"], "version": {"number": 3}}
                return {"results": [{**page, "children": {"attachment": self._attachments(page_id, 0)}}], "_links": rest}
            case ["rest", "api", *_, "content", page_id, "child", "attachment"]:
                return self._attachments(page_id, start)
            case ["rest", "api", *_, "content", page_id] if page_id in PAGES:
                view = {"value": str(PAGES[page_id]["body"]).format(host=self.host)}
                return {"title": PAGES[page_id]["title"], "body": {"export_view": view}}
            case ["download", "attachments", page_id, file_name]:
                return next((data for name, data in self._files(page_id) if quote(name) == file_name), None)
        return None

    def _files(self, page_id: str) -> list[tuple[str, bytes]]:
        files = PAGES.get(page_id, {}).get("attachments", {})
        return [*files.items()] if isinstance(files, dict) else []

    def _attachments(self, page_id: str, start: int) -> dict[str, Any]:
        names = [name for name, _ in self._files(page_id)]
        results = [{"id": f"att{start}", "title": name, "version": {"number": 1}} for name in names[start : start + 1]]
        return {"results": results, "_links": {"next": "more"} if start + 1 < len(names) else {}}


@pytest.fixture
def wiki(monkeypatch: pytest.MonkeyPatch) -> Iterator[Wiki]:
    wiki = Wiki()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            reply = wiki.reply(parts.path, parse_qs(parts.query)) if wiki.status == 200 else {"message": "no"}
            body = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
            self.send_response(404 if reply is None else wiki.status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: object) -> None:
            pass

    monkeypatch.setattr("tenacity.nap.time.sleep", lambda _seconds: None)
    monkeypatch.setenv("CONFLUENCE_TOKEN", "secret-token")
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        wiki.host = f"127.0.0.1:{server.server_port}"
        yield wiki
        server.shutdown()


def test_a_space_is_a_source_that_keeps_its_contract(wiki: Wiki, example: ModuleType) -> None:
    address = f"confluence+http://{wiki.host}/DOC"
    place = example.Space(address)
    assert faults_of(place) == []
    source = ListedSource(address, place)
    assert [(file.source, file.stamp) for file in source.files()] == [
        ("7/Pump _ service.html", "3"),
        ("7/notes.txt", "att1.1"),
        ("8/Winch.html", "3"),
    ]
    page = source.read("7/Pump _ service.html").decode()
    assert '<img src="../7/pump%20part.png">' in page
    assert source.read("7/pump part.png") == PICTURE
    assert "secret-token" not in source.describe()
    for status, error in ((503, TransientError), (401, UserError)):
        wiki.status = status
        with pytest.raises(error) as caught:
            source.files()
        assert "secret-token" not in str(caught.value)


def test_a_figure_of_a_page_of_the_space_stands_in_its_place(
    wiki: Wiki, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What pip would install.
    project = tomllib.loads(PROJECT)["project"]
    installed = tmp_path / "site" / "inset_confluence-0.1.0.dist-info"
    installed.mkdir(parents=True)
    entries = "".join(f"{name} = {target}\n" for name, target in project["entry-points"]["inset.sources"].items())
    (installed / "entry_points.txt").write_text(f"[inset.sources]\n{entries}")
    (installed / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    (tmp_path / "site" / "inset_confluence.py").write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path / "site")
    (tmp_path / "wiki.yaml").write_text(
        f"name: wiki\nsource: confluence+http://{wiki.host}/DOC\nstore: store\ncaptions: {{ocr: none}}\nparse: {{workers: 1}}\n"
    )
    result = refresh(open_workspace(str(tmp_path / "wiki.yaml")))
    assert (result.published, result.counts.documents, result.failures) == (True, 3, [])
    assert result.counts.figures == 1
