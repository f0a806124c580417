"""Connections whose client does nothing."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import uvicorn
from fastapi import FastAPI, Request, Response
from starlette.requests import ClientDisconnect
from uvicorn.protocols.http.h11_impl import H11Protocol

from query_service import serve
from query_service.serve import STALLED_S, listen, server_of

GET = b"GET /%s HTTP/1.1\r\nhost: localhost\r\n"
POST = b"POST /echo HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n"
LARGE = 64 << 20


class _Served:
    """The service's server with an app of three endpoints, and a clock that goes by hand."""

    def __init__(self, server: uvicorn.Server, port: int) -> None:
        self.server = server
        self.port = port
        self.now = 0.0
        self.go_on = asyncio.Event()
        self.reached = asyncio.Event()
        self.writers: list[asyncio.StreamWriter] = []

    async def connect(self, sent: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        before = set(self.server.server_state.connections)
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 10)
        self.writers.append(writer)
        writer.write(sent)
        while not (made := set(self.server.server_state.connections) - before):
            await asyncio.sleep(0)
        (connection,) = made
        assert isinstance(connection, H11Protocol)
        while b"\r\n\r\n" in sent and connection.cycle is None:  # until the request has begun
            await asyncio.sleep(0)
        return reader, writer

    async def look(self, now: float) -> int:
        """Let the server look at its connections, and return how many it has then."""
        self.now = now
        assert self.server.config.callback_notify is not None
        await self.server.config.callback_notify()
        for _ in range(3):  # a connection is lost in the turn after it was ended
            await asyncio.sleep(0)
        return len(self.server.server_state.connections)


@contextlib.asynccontextmanager
async def _serving(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[_Served]:
    app = FastAPI()
    with listen("127.0.0.1", 0) as bound:
        server = server_of(app)
        served = _Served(server, bound.getsockname()[1])
        monkeypatch.setattr(serve, "monotonic", lambda: served.now)

        @app.get("/busy")
        async def busy() -> str:
            served.reached.set()
            await served.go_on.wait()
            return "done"

        @app.get("/large")
        async def large() -> Response:
            return Response(b"x" * LARGE)

        @app.post("/echo")
        async def echo(request: Request) -> None:
            with contextlib.suppress(ClientDisconnect):
                await request.body()

        running = asyncio.create_task(server.serve(sockets=[bound]))
        while not server.started:
            await asyncio.sleep(0.01)
        try:
            yield served
        finally:
            served.go_on.set()
            for writer in served.writers:
                writer.close()
                with contextlib.suppress(ConnectionError):
                    await writer.wait_closed()
            server.should_exit = True
            await running


def _run(monkeypatch: pytest.MonkeyPatch, play: Callable[[_Served], Awaitable[None]]) -> None:
    async def played() -> None:
        async with _serving(monkeypatch) as served:
            await play(served)

    asyncio.run(played())


async def _is_ended(reader: asyncio.StreamReader) -> bool:
    try:
        return await reader.read(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize(
    "sent", [b"", b"GET / HT", GET % b"large", GET % b"large" + b"x: " + b"y" * 100, POST, POST + b"half"],
    ids=["nothing", "half a line", "no end", "half a header", "no body", "half a body"],
)  # fmt: skip
def test_a_request_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    async def play(served: _Served) -> None:
        reader, writer = await served.connect(sent)
        assert await served.look(0) == 1
        assert await served.look(STALLED_S - 1) == 1
        writer.write(b"!")  # a trickle doesn't count as a request
        assert await served.look(STALLED_S) == 0
        assert await _is_ended(reader)

    _run(monkeypatch, play)


def test_a_response_that_is_not_read_is_given_up_and_one_that_is_read_slowly_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def play(served: _Served) -> None:
        reader, _ = await served.connect(GET % b"large" + b"\r\n")
        assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
        for step in range(1, 4):
            assert await served.look(step * (STALLED_S - 1)) == 1
            await reader.readexactly(LARGE // 8)
        # What lies between the two may still fill up.
        ended = [await served.look(step * STALLED_S) == 0 for step in range(10, 100)]
        assert not ended[0]
        assert ended[-1]

    _run(monkeypatch, play)


def test_what_the_service_itself_is_busy_with_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(served: _Served) -> None:
        reader, _ = await served.connect(GET % b"busy" + b"\r\n")
        await served.reached.wait()
        for now in (0, STALLED_S, 100 * STALLED_S):
            assert await served.look(now) == 1
        served.go_on.set()
        assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"

    _run(monkeypatch, play)
