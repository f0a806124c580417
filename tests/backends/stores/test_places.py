"""Sources at other places: listed whole or not at all, asked again where they fail, and without their secrets in errors."""

import contextlib
import gc
import hashlib
import pickle
import threading
from collections.abc import Callable, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import fsspec
import pytest

from backends.stores import places
from backends.stores.places import FileSystemPlace, ListedSource, open_place
from backends.stores.sources import open_source
from schemas.errors import BadInputError, FailureCode, TransientError, UserError
from schemas.versions import SourceFile
from tests.contract.sources import faults_of

FILES = {
    "pump.pdf": b"%PDF-1.7 pump",
    "notes/winch é.md": b"# Winch",
    "notes/drum.png": b"\x89PNG",
    "large.txt": b"ab" * 300,
}


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Record waits instead of waiting; read in small ranges."""
    waits: list[float] = []
    monkeypatch.setattr("tenacity.nap.time.sleep", waits.append)
    monkeypatch.setattr(places, "_RANGE_BYTES", 256)
    return waits


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, data in FILES.items():
        (tmp_path / "files" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "files" / name).write_bytes(data)
    return tmp_path / "files"


class Web:
    """A web server over a folder; ``status`` gives the status and headers of the next answers, by a part of the path."""

    def __init__(self, folder: Path) -> None:
        self.statuses: dict[str, list[tuple[int, dict[str, str]]]] = {}
        self.cut: set[str] = set()
        web = self

        class Handler(SimpleHTTPRequestHandler):
            def __init__(self, *given: object) -> None:
                super().__init__(*given, directory=str(folder))  # type: ignore[arg-type]

            def send_head(self) -> Any:
                for part, answers in web.statuses.items():
                    if part in self.path and answers:
                        status, headers = answers.pop(0) if len(answers) > 1 else answers[0]
                        if status != 200:
                            self.send_response(status)
                            for name, value in {"Content-Length": "0", **headers}.items():
                                self.send_header(name, value)
                            self.end_headers()
                            return None
                return super().send_head()

            def copyfile(self, source: Any, outputfile: Any) -> None:
                data = source.read()
                outputfile.write(data[: len(data) // 2] if self.path in web.cut else data)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def web(folder: Path) -> Iterator[Web]:
    served = Web(folder)
    threading.Thread(target=served.server.serve_forever, daemon=True).start()
    yield served
    served.server.shutdown()
    served.server.server_close()
    places.stop_threads()


@contextlib.contextmanager
def _sftp(folder: Path) -> Iterator[str]:
    import asyncio

    import asyncssh

    loop, ready = asyncio.new_event_loop(), threading.Event()
    servers: list[asyncssh.SSHAcceptor] = []

    connections: list[asyncssh.SSHServerConnection] = []

    class Server(asyncssh.SSHServer):
        def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
            connections.append(conn)

        def password_auth_supported(self) -> bool:
            return True

        def validate_password(self, username: str, password: str) -> bool:
            return (username, password) == ("reader", "kept secret")

    async def serve() -> None:
        server = await asyncssh.listen(
            "127.0.0.1",
            0,
            server_factory=Server,
            server_host_keys=[asyncssh.generate_private_key("ssh-ed25519")],
            sftp_factory=lambda channel: asyncssh.SFTPServer(channel, chroot=str(folder).encode()),
        )
        servers.append(server)
        ready.set()

    def run() -> None:
        loop.run_until_complete(serve())
        loop.run_forever()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert ready.wait(30)
    yield f"sftp://127.0.0.1:{servers[0].get_port()}/"

    async def end() -> None:
        servers[0].close()
        await servers[0].wait_closed()
        for connection in connections:
            await connection.wait_closed()

    asyncio.run_coroutine_threadsafe(end(), loop).result(60)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@contextlib.contextmanager
def _memory(folder: Path) -> Iterator[str]:
    files = fsspec.filesystem("memory")
    for name, data in FILES.items():
        files.pipe_file(f"/corpus/{name}", data)
    yield "memory://corpus"
    files.rm("/corpus", recursive=True)


SERVERS: dict[str, Callable[[Path], contextlib.AbstractContextManager[str]]] = {
    "memory": _memory,
    "sftp": _sftp,
}


@pytest.mark.parametrize("kind", SERVERS)
def test_a_place_is_listed_and_read_like_a_folder(kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FSSPEC_SFTP", '{"username": "reader", "password": "kept secret", "known_hosts": null}')
    with SERVERS[kind](folder) as address:
        source = open_source(address)
        _holds_the_files(source)
        assert isinstance(source, ListedSource)
        assert faults_of(FileSystemPlace(address)) == []
        assert "kept secret" not in source.describe()
        del source
        gc.collect()  # connections are closed with their file systems, while the thread lives
        places.stop_threads()


def _holds_the_files(source: object) -> None:
    assert isinstance(source, ListedSource)
    listed = source.files()
    documents = ["large.txt", "notes/winch é.md", "pump.pdf"]
    assert [file.source for file in listed] == documents, "the picture belongs to the page"
    assert [file.size for file in listed] == [len(FILES[name]) for name in documents]
    assert all(file.stamp for file in listed)
    assert source.files() == listed
    for name in documents:
        assert source.read(name) == FILES[name]
        assert source.digest(name) == (hashlib.sha256(FILES[name]).hexdigest(), len(FILES[name]))
    with pytest.raises(FileNotFoundError):
        source.read("gone.pdf")
    assert pickle.loads(pickle.dumps(source)).read("pump.pdf") == FILES["pump.pdf"]


def test_a_listing_page_of_a_web_server_is_a_source(web: Web) -> None:
    _holds_the_files(open_source(f"{web.address}/"))


def test_a_sitemap_or_a_list_names_the_files(web: Web, folder: Path) -> None:
    (folder / "list.txt").write_text(
        f"# ours\n{web.address}/pump.pdf\n{web.address}/notes/winch%20%C3%A9.md\nhttp://other.invalid/x.pdf\n"
    )
    assert [file.source for file in open_source(f"{web.address}/list.txt").files()] == ["notes/winch é.md", "pump.pdf"]
    (folder / "help").write_text("<h1>Help</h1>")
    places_of_map = "".join(
        f"<url><loc>{web.address}/{name}</loc><lastmod>2024-03-31</lastmod></url>" for name in ("pump.pdf", "help")
    )
    (folder / "sitemap.xml").write_text(f"<urlset>{places_of_map}</urlset>")
    source = open_source(f"{web.address}/sitemap.xml")
    assert [(file.source, file.stamp) for file in source.files()] == [
        ("help.html", "2024-03-31"),
        ("pump.pdf", "2024-03-31"),
    ]
    assert source.read("help.html") == b"<h1>Help</h1>"
    (folder / "sitemap.xml").write_text(f"<urlset>{places_of_map}"[:-60])
    with pytest.raises(TransientError, match="its end is missing"):
        source.files()


FAULTS: dict[str, tuple[str, int, type[Exception]]] = {
    "a folder fails": ("/notes", 500, TransientError),
    "the server is busy": ("/", 503, TransientError),
    "too many requests": ("/", 429, TransientError),
    "a folder is refused": ("/notes/", 403, UserError),
    "what a file is can't be asked": ("/pump.pdf", 500, TransientError),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_an_incomplete_listing_is_an_error(web: Web, fault: str) -> None:
    path, status, error = FAULTS[fault]
    source = open_source(f"{web.address}/")
    web.statuses[path] = [(status, {"Retry-After": "7"} if status == 429 else {})]
    with pytest.raises(error) as raised:
        source.files()
    assert str(status) in str(raised.value)


def test_half_a_listing_is_an_error(web: Web) -> None:
    source = open_source(f"{web.address}/")
    web.cut.add("/notes/")
    with pytest.raises(TransientError):
        source.files()


def test_a_server_that_asks_for_patience_is_asked_again_as_late_as_it_says(web: Web, at_once: list[float]) -> None:
    source = open_source(f"{web.address}/")
    web.statuses["/pump.pdf"] = [(429, {"Retry-After": "7"})] * 2 + [(503, {}), (503, {}), (200, {})]
    assert source.read("pump.pdf") == FILES["pump.pdf"]
    assert 7.0 in at_once


@pytest.mark.parametrize(("status", "error"), [(403, BadInputError), (500, TransientError)])
def test_one_file_that_is_refused_is_one_failure(web: Web, status: int, error: type[Exception]) -> None:
    source = open_source(f"{web.address}/")
    web.statuses["/pump.pdf"] = [(status, {})]
    with pytest.raises(error) as raised:
        source.read("pump.pdf")
    if isinstance(raised.value, BadInputError):
        assert raised.value.code is FailureCode.SOURCE_UNREADABLE


class _Place:
    """A place that lists and reads what a test gives it."""

    def __init__(self, files: list[SourceFile], content: dict[str, bytes]) -> None:
        self.listed, self.content = files, content

    def list(self) -> list[SourceFile]:
        return self.listed

    def read(self, name: str) -> bytes:
        if name not in self.content:
            raise FileNotFoundError(name)
        return self.content[name]

    def describe(self) -> str:
        return "sftp://user:kept@host/folder?token=kept"


def test_what_has_no_stamp_is_hashed() -> None:
    storage = _Place([SourceFile("a.pdf", 0, "")], {"a.pdf": b"one"})
    source = ListedSource("x://y", storage)
    before = source.files()
    assert source.files() == before
    storage.content["a.pdf"] = b"two"
    assert source.files() != before
    assert "kept" not in source.describe()


def test_a_loop_of_links_ends_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    file_system = FileSystemPlace("memory://loop")
    monkeypatch.setattr(
        file_system._files, "ls", lambda folder, detail: [{"name": f"{folder}/again", "type": "directory", "size": 0}]
    )
    with pytest.raises(UserError, match="is a link in a loop"):
        ListedSource("memory://loop", file_system).files()


def test_an_entry_point_opens_its_own_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    class EntryPoint:
        def load(self) -> Callable[[str], _Place]:
            return lambda address: _Place([SourceFile(f"{address[10:]}.pdf", 3, "1")], {"page.pdf": b"abc"})

    monkeypatch.setattr("importlib.metadata.entry_points", lambda group, name: [EntryPoint()] if name == "shelves" else [])
    source = open_place("shelves://page")
    assert [file.source for file in source.files()] == ["page.pdf"]
    assert source.read("page.pdf") == b"abc"


def test_the_contract_names_what_a_source_does_wrong() -> None:
    wrong = _Place(
        [SourceFile("/a.pdf", 5, "1"), SourceFile("/a.pdf", 5, "1")], {"/a.pdf": b"abc", "no/such/file.pdf": b""}
    )
    faults = faults_of(wrong)
    assert [fault.partition("'")[0] or fault for fault in faults]
    for part in ("listed twice", "no path below", "5 bytes", "isn't there can be read", "describe()"):
        assert any(part in fault for fault in faults), part


def test_the_example_of_the_guide_keeps_the_contract() -> None:
    guide = (Path(__file__).parents[3] / "docs/guides/places.md").read_text(encoding="utf-8")
    example, check, *_ = (block.partition("```")[0] for block in guide.split("```python\n")[1:])
    exec(f"{example}\n{check}", {"SourceFile": SourceFile})


def test_a_scheme_that_nothing_opens_says_what_to_install() -> None:
    with pytest.raises(UserError, match="nothing installed opens nowhere://"):
        open_place("nowhere://host/folder")
