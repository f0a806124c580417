"""Calls of Airflow's REST API, by the demo too, against a server that answers as a locked SQLite makes Airflow answer."""

import threading
import urllib.error
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests import airflow_server


class Airflow(ThreadingHTTPServer):
    """Answers the statuses of a list, one a request."""

    def __init__(self, statuses: list[int]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.statuses = statuses


class _Handler(BaseHTTPRequestHandler):
    server: Airflow

    def do_POST(self) -> None:
        """Answer the next status, with a body of JSON."""
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(self.server.statuses.pop(0))
        self.end_headers()
        self.wfile.write(b'{"name": "inset_enrich"}')

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- the name of the base class
        """Write nothing."""


@pytest.fixture
def server() -> Iterator[Airflow]:
    with Airflow([]) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def airflow(server: Airflow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> airflow_server.Airflow:
    monkeypatch.setattr(airflow_server, "_PAUSE_S", 0.0)
    address = f"http://127.0.0.1:{server.server_port}"
    return airflow_server.Airflow(address, tmp_path, {}, None, _tokens={"ada": "token"})


def test_a_server_error_is_tried_again(server: Airflow, airflow: airflow_server.Airflow) -> None:
    server.statuses = [500, 500, 201]
    assert airflow.call("pools", {"name": "inset_enrich"}) == {"name": "inset_enrich"}
    assert server.statuses == []


def test_a_mistake_of_the_caller_is_not(server: Airflow, airflow: airflow_server.Airflow) -> None:
    server.statuses = [409, 201]
    with pytest.raises(urllib.error.HTTPError, match="409"):
        airflow.call("pools", {"name": "inset_enrich"})
    assert server.statuses == [201]
