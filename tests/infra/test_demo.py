"""The demo's calls of Airflow's REST API, against a server that answers as a locked SQLite makes Airflow answer."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest

from infra import demo


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


def airflow_client(server: Airflow) -> demo.Airflow:
    return demo.Airflow(f"http://127.0.0.1:{server.server_port}")


def test_a_server_error_is_tried_again(server: Airflow) -> None:
    server.statuses = [500, 500, 201]
    assert airflow_client(server).call("POST", "pools", {"name": "inset_enrich"}) == {"name": "inset_enrich"}
    assert server.statuses == []


def test_a_mistake_of_the_caller_is_not(server: Airflow) -> None:
    server.statuses = [409, 201]
    with pytest.raises(httpx.HTTPStatusError, match="409"):
        airflow_client(server).call("POST", "pools", {"name": "inset_enrich"})
    assert server.statuses == [201]
