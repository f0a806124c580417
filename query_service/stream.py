"""Stream answers from a worker thread, which ends when the client disconnects."""

import asyncio
import logging
import re
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

from fastapi import Request
from pydantic import BaseModel, TypeAdapter

from query_service.errors import problem
from schemas.answers import AnswerEvent
from schemas.errors import InsetError
from tasks.answering.trace import Stopped

_DATA: dict[str, Any] = TypeAdapter(AnswerEvent).json_schema(
    mode="serialization", ref_template="#/components/schemas/{model}"
)
EVENT_MODELS: dict[str, Any] = _DATA.pop("$defs")
"""JSON schemas that ``EVENT`` refers to, by name."""

EVENT: dict[str, Any] = {  # before OpenAPI 3.2, the schema of an event stream describes one event
    "type": "object",
    "required": ["event", "data"],
    "properties": {
        "event": {"type": "string", "enum": ["start", "text", "part", "result", "error"]},
        "data": {
            "type": "string",
            "contentMediaType": "application/json",
            "contentSchema": {"anyOf": [*_DATA["anyOf"], {"$ref": "#/components/schemas/Problem"}]},
        },
    },
}
"""JSON schema of an event of an answer; the data of ``error`` is a problem."""

_logger = logging.getLogger("inset.query_service")


async def events_of(
    request: Request,
    make: Callable[[Callable[[], bool]], Iterator[AnswerEvent]],
    run: Callable[[Callable[[], None]], Awaitable[None]],
    late: Callable[[], Exception],
    deadline_s: float,
) -> AsyncGenerator[AnswerEvent, None]:
    """Yield the events of an answer until the client disconnects; raises what ``make`` or ``run`` raises.

    Args:
        request: The client's request.
        make: Returns the events, given a function that returns true once the client has disconnected.
        run: Runs a function in a worker thread, where the events are made and consumed.
        late: Returns the error that ends the events after the deadline.
        deadline_s: Time for all events.
    """
    loop = asyncio.get_running_loop()
    # One queue takes the events, and all that ends them: the end, an error, a disconnect and the deadline.
    queue: asyncio.Queue[AnswerEvent | Exception | None] = asyncio.Queue()
    stopped = threading.Event()

    def put(item: AnswerEvent | Exception | None) -> None:
        loop.call_soon_threadsafe(queue.put_nowait, item)

    def work() -> None:
        try:
            for event in make(stopped.is_set):
                put(event)
        except Stopped:
            put(None)
        except Exception as error:  # noqa: BLE001 - raised again where the events are read
            put(error)
        else:
            put(None)

    async def until_disconnected() -> None:
        await disconnected(request)
        queue.put_nowait(None)

    async def running() -> None:
        try:
            await run(work)
        except Exception as error:  # noqa: BLE001 - raised again where the events are read
            queue.put_nowait(error)

    answer_task, disconnect_task = asyncio.ensure_future(running()), asyncio.ensure_future(until_disconnected())
    deadline = loop.call_later(deadline_s, lambda: queue.put_nowait(late()))
    try:
        while (item := await queue.get()) is not None:
            if isinstance(item, Exception):
                raise item
            yield item
    finally:
        # A thread can't be cancelled: it ends once it sees that nobody waits.
        stopped.set()
        deadline.cancel()
        disconnect_task.cancel()
        answer_task.cancel()


async def disconnected(request: Request) -> None:
    """Return when the client has disconnected."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def as_server_sent(first: AnswerEvent, later_events: AsyncIterator[AnswerEvent]) -> AsyncIterator[str]:
    """Yield events in the format of server-sent events; an error after the first becomes the last event."""
    yield _server_sent(first.event, first)
    try:
        async for event in later_events:
            yield _server_sent(event.event, event)
    except InsetError as error:
        yield _server_sent("error", problem(503, error.message))
    except Exception:
        _logger.exception("an answer failed while it was streamed")
        yield _server_sent("error", problem(500, "something went wrong here; the service's log says what"))


def as_json(reply: BaseModel) -> str:
    """Return a reply as JSON without U+0000, which databases and C programs don't take; offsets stay as they are."""
    text = reply.model_dump_json()
    return _NUL.sub(r"\1\\ufffd", text) if "\\u0000" in text else text


_NUL = re.compile(r"(?<!\\)((?:\\\\)*)\\u0000")


def _server_sent(event: str, data: BaseModel) -> str:
    return f"event: {event}\ndata: {as_json(data)}\n\n"
