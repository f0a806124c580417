import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable

import pytest
from fastapi import FastAPI

from query_service import guard, serve
from query_service.app import create_app
from query_service.serve import listen, server_of
from schemas.errors import UserError
from tests.query_service.fake_corpus import FakeCorpus

POST = b"POST /v1/corpora/pumps/search HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99\r\n\r\n"


def test_a_taken_port_is_one_line() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as bound_socket,
        pytest.raises(UserError, match="something else listens there") as raised,
    ):
        listen("127.0.0.1", bound_socket.getsockname()[1])
    assert "\n" not in raised.value.message


@pytest.mark.parametrize(
    ("host", "port", "line"),
    [
        ("127.0.0.1", 70_000, "a port is a number from 0 to 65535"),
        ("127.0.0.1", -1, "a port is a number from 0 to 65535"),
        ("192.0.2.1", 0, "that is not an address of this machine"),
        ("nowhere.invalid", 0, "there is no such host"),
    ],
)
def test_an_address_that_cannot_be_had_is_one_line(host: str, port: int, line: str) -> None:
    with pytest.raises(UserError, match=line):
        listen(host, port)


def test_a_free_port_is_taken() -> None:
    with listen("127.0.0.1", 0) as bound:
        assert bound.getsockname()[1] > 0


def test_a_traceback_in_the_log_runs_no_escape_sequence(capsys: pytest.CaptureFixture[str]) -> None:
    server_of(FastAPI())
    try:
        raise ValueError("the text of a PDF: \x1b[2J\u202eends")
    except ValueError:
        logging.getLogger("inset.query_service").exception("it failed")
    log = capsys.readouterr().err
    assert "it failed" in log
    assert r"the text of a PDF: \x1b[2J\u202eends" in log
    assert "\x1b" not in log
    assert "Traceback" in log.splitlines()[1]


def test_the_access_log_is_json_alone_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    server = server_of(FastAPI())
    logging.getLogger("inset.access").info('{"status": 200}')
    assert capsys.readouterr() == ('{"status": 200}\n', "")
    assert not server.config.access_log
    assert not server.config.proxy_headers  # a client could name itself loopback


Connect = Callable[[bytes], Awaitable[asyncio.StreamReader]]


def _serving(client: Callable[[Connect], Awaitable[None]]) -> None:
    """Run a client against the service; it connects by sending bytes."""

    async def run() -> None:
        corpus = FakeCorpus("pumps")
        with listen("127.0.0.1", 0) as bound:
            server = server_of(create_app({"pumps": corpus}))
            serving = asyncio.create_task(server.serve(sockets=[bound]))
            writers = []

            async def connect(sent: bytes) -> asyncio.StreamReader:
                reader, writer = await asyncio.open_connection("127.0.0.1", bound.getsockname()[1])
                writers.append(writer)
                writer.write(sent)
                return reader

            async with asyncio.timeout(30):
                await client(connect)
            for writer in writers:
                writer.close()
            server.should_exit = True
            await serving

    asyncio.run(run())


def test_headers_without_end_are_not_read() -> None:
    async def client(connect: Connect) -> None:
        header = b"x-filler: " + b"x" * 40 + b"\r\n"
        reply = await (await connect(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n" + header * 20_000)).readline()
        assert reply.startswith(b"HTTP/1.1 400 ")

    _serving(client)


def test_large_headers_are_refused_with_the_limit() -> None:
    async def client(connect: Connect) -> None:
        lines = b"".join(b"x-%d: %s\r\n" % (number, b"x" * 4_000) for number in range(10))
        reader = await connect(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n" + lines + b"\r\n")
        reply = await reader.read()
        assert reply.startswith(b"HTTP/1.1 431 ")
        assert b"a request has 100 headers at most, of 32 KiB together" in reply

    _serving(client)


GET = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"


@pytest.mark.parametrize("sent", [b"", GET[:-2]], ids=["nothing", "half of the headers"])
def test_connections_with_late_headers_end_and_others_are_served(monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    monkeypatch.setattr(serve, "HEADERS_TIMEOUT_S", 0.2)
    monkeypatch.setattr(serve, "CONNECTIONS", 20)

    async def client(connect: Connect) -> None:
        late = [await connect(sent) for _ in range(30)]  # more than are served at once
        assert await asyncio.gather(*(reader.read() for reader in late)) == [b""] * 30
        reader = await connect(GET)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")

    _serving(client)


def test_headers_after_a_reply_have_their_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "HEADERS_TIMEOUT_S", 0.2)

    async def client(connect: Connect) -> None:
        replies = await (await connect(GET + GET + GET[:-2])).read()
        assert replies.count(b"HTTP/1.1 200 ") == 2

    _serving(client)


@pytest.mark.parametrize("sent", [POST, POST + b"half"], ids=["no body", "half a body"])
def test_a_body_that_is_late_is_refused_and_the_connection_closed(monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    monkeypatch.setattr(guard, "BODY_TIMEOUT_S", 0.1)

    async def client(connect: Connect) -> None:
        reply = await (await connect(sent)).read()
        assert reply.startswith(b"HTTP/1.1 408 ")
        assert b"the request body took longer than 0.1 s" in reply

    _serving(client)


def test_a_page_that_is_drawn_for_longer_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "BODY_TIMEOUT_S", 0.1)

    async def client(connect: Connect) -> None:
        page = f"/v1/corpora/pumps/documents/{'d0' * 32}/pages/9.png"  # never drawn
        reader = await connect(f"GET {page} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 0.5)

    _serving(client)


def test_too_many_connections_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "CONNECTIONS", 2)

    async def client(connect: Connect) -> None:
        get = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"
        assert (await (await connect(get)).readline()).startswith(b"HTTP/1.1 200 ")
        assert (await (await connect(get)).readline()).startswith(b"HTTP/1.1 503 ")

    _serving(client)
