"""A server that hostile documents would fetch from, and processes that they leave behind."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil
import pytest


def leftovers(folder: Path) -> list[str]:
    """Return the commands of processes that work in a folder."""
    commands = [" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])]
    return [command for command in commands if "soffice" in command and str(folder) in command]


class Web:
    """A server that notes what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        requested_paths = self.asked

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                requested_paths.append(self.path)
                self.send_response(404)
                self.end_headers()

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_port


@pytest.fixture
def web() -> Iterator[Web]:
    served = Web()
    threading.Thread(target=served.server.serve_forever, daemon=True).start()
    yield served
    served.server.shutdown()
    served.server.server_close()
