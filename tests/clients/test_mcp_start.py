"""What ``python -m inset_client.mcp`` says where it can't start."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from query_service.access import Access
from query_service.app import create_app
from query_service.keys import Key, KeyFile, digest, key_line, new_key
from tests.query_service.fake_corpus import FakeCorpus
from tests.query_service.live import serving

ROOT = Path(__file__).parent.parent.parent
BLOCKED = "import runpy, sys; sys.modules['mcp'] = None; runpy.run_module('inset_client.mcp', run_name='__main__')"


def start(*command: str, key: str = "") -> str:
    """Return the one line that the server ends with."""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "clients" / "python"), "INSET_KEY": key}
    process = subprocess.run(
        [sys.executable, *command], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert process.returncode == 1
    assert process.stdout == ""
    (line,) = process.stderr.splitlines()
    return line


@pytest.fixture
def other_server() -> Iterator[str]:
    """A web server that isn't a query service."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<html>")

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_missing_package_is_one_line() -> None:
    assert start("-c", BLOCKED, "http://localhost:1").endswith("install it with: pip install 'inset-client[mcp]'")


def test_an_unreachable_service_is_one_line() -> None:
    with socket.socket() as bound:  # bound and not listening: nobody else can take the port
        bound.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        assert start("-m", "inset_client.mcp", url).startswith(f"no query service can be reached at {url}: ")


@pytest.mark.parametrize("url", ["localhost:8750", "ftp://localhost", "http://[::1", ""])
def test_a_wrong_address_is_one_line(url: str) -> None:
    assert start("-m", "inset_client.mcp", url).startswith(f"no query service can be reached at {url}: ")


def test_another_server_is_one_line(other_server: str) -> None:
    assert start("-m", "inset_client.mcp", other_server).startswith("no query service can be reached at ")


@pytest.mark.parametrize("key", ["", "wrong"])
def test_a_wrong_key_is_one_line(tmp_path: Path, key: str) -> None:
    file = tmp_path / "keys.jsonl"
    file.write_text(key_line(Key(name="team", sha256=digest(new_key()), corpora=("*",))))
    with serving(create_app({"pumps": FakeCorpus("pumps")}, access=Access(KeyFile(file)))) as url:
        line = start("-m", "inset_client.mcp", url, key=key)
        assert line.startswith(f"{url} refuses: 401 unauthorized: ")
        assert line.endswith("set INSET_KEY to a key of the service")


def test_a_key_that_no_header_can_have_is_one_line() -> None:
    line = start("-m", "inset_client.mcp", "http://localhost:1", key="clé")
    assert line == "INSET_KEY has characters that no key has; set it to a key of the service"
