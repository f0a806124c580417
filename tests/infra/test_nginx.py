"""The sample configuration of nginx, but for TLS, in front of the service, with the project's client."""

import contextlib
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from inset_client import Client
from query_service.app import create_app
from tests.free_port import free_port
from tests.query_service.fake_corpus import FIGURE_ID, FakeCorpus
from tests.query_service.live import serving
from tests.waiting import is_open, wait_for

CONFIGURATION = (Path(__file__).parents[2] / "infra" / "nginx.conf").read_text(encoding="utf-8")
TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
HALF_SENT = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n"
SEARCH = b"POST /v1/corpora/pumps/search HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
CONNECTIONS = 540

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(shutil.which("nginx") is None, reason="NO NGINX: its sample configuration goes untested here"),
]


def _configured(folder: Path, port: int, service: str) -> str:
    """Return the sample on a port of this machine, without TLS, with time-outs of a second."""
    replaced = {
        "events {": f"daemon off;\npid {folder}/pid;\nerror_log {folder}/log;\nevents {{",
        "http {": "http {\naccess_log off;\n" + "".join(f"{name}_temp_path {folder}/{name};\n" for name in TEMPORARY),
        "listen 80;": f"listen 127.0.0.1:{free_port()};",
        "listen 443 ssl;": f"listen 127.0.0.1:{port};",
        "http://127.0.0.1:8750;": f"{service};",
        "client_header_timeout 10s;": "client_header_timeout 1s;",
        "client_body_timeout 20s;": "client_body_timeout 1s;",
    }
    text = "\n".join(line for line in CONFIGURATION.splitlines() if not line.strip().startswith("ssl_"))
    for sample, replacement in replaced.items():
        assert text.count(sample) == 1, sample
        text = text.replace(sample, replacement)
    return ("user root;\n" if os.geteuid() == 0 else "") + text  # another user couldn't read pytest's folders


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of nginx in front of a service."""
    folder, port = tmp_path_factory.mktemp("nginx"), free_port()
    with serving(create_app({"pumps": FakeCorpus("pumps")})) as service:
        file = folder / "nginx.conf"
        file.write_text(_configured(folder, port, service), encoding="utf-8")
        with subprocess.Popen(["nginx", "-p", str(folder), "-c", str(file)]) as process:
            try:
                wait_for(lambda: is_open(port), "nginx listens", within_s=30)
                yield f"http://127.0.0.1:{port}"
            finally:
                process.terminate()


def _sent(address: str, *parts: bytes) -> bytes:
    """Return all that comes back until the connection is closed."""
    port = int(address.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        for part in parts:
            connection.sendall(part)
        received = b""
        with contextlib.suppress(ConnectionResetError):
            while chunk := connection.recv(65_536):
                received += chunk
        return received


def test_a_page_of_figures_is_fetched_by_many_threads(address: str) -> None:
    with Client(address) as client, ThreadPoolExecutor(6) as threads:
        figures = list(threads.map(lambda _: client.figure("pumps", FIGURE_ID), range(330)))
    assert set(figures) == {FakeCorpus("pumps").pixels}


def test_requests_beyond_the_rate_learn_when_to_go_on(address: str) -> None:
    request = b"HEAD /healthz HTTP/1.1\r\nhost: localhost\r\n"
    replies = _sent(address, (request + b"\r\n") * 900, request + b"connection: close\r\n\r\n")
    refused = replies.count(b"HTTP/1.1 429 ")
    assert 0 < refused < 900
    assert replies.count(b"Retry-After: 1\r\n") == refused
    with Client(address) as client:
        assert client.figure("pumps", FIGURE_ID)  # the client waits, and asks again


def test_half_sent_headers_lock_nobody_out_and_end(address: str) -> None:
    port = int(address.rpartition(":")[2])
    with contextlib.ExitStack() as connections:
        half_sent = [
            connections.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60)) for _ in range(CONNECTIONS)
        ]
        for connection in half_sent:
            connection.sendall(HALF_SENT)
        assert httpx.get(f"{address}/readyz", timeout=60).status_code == 200
        for connection in half_sent:
            with contextlib.suppress(ConnectionResetError):
                while connection.recv(4_096):
                    pass


@pytest.mark.parametrize(
    ("parts", "status"),
    [
        ([SEARCH + b"content-length: 13000000\r\n\r\n"], b"413"),
        ([SEARCH + b"content-length: 99\r\n\r\n{"], b"408"),
        ([SEARCH + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"], b"400"),
        ([SEARCH + b"content-length: 5\r\ncontent-length: 6\r\n\r\nxxxxxx"], b"400"),
        ([SEARCH + b"x-filler: " + b"x" * 40_000 + b"\r\n\r\n"], b"400"),
    ],
    ids=["a large body", "a late body", "two ways to end a body", "two lengths", "large headers"],
)
def test_the_proxy_ends_hostile_requests(address: str, parts: list[bytes], status: bytes) -> None:
    reply = _sent(address, *parts)
    assert reply.startswith(b"HTTP/1.1 " + status) or (status == b"408" and not reply)
