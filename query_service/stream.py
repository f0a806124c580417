"""Answers as server-sent events, and replies as JSON."""

import logging
import re
from collections.abc import AsyncIterator
from typing import Any

from fastapi import Request
from pydantic import BaseModel, TypeAdapter

from query_service.errors import problem
from schemas.answers import AnswerEvent
from schemas.errors import InsetError

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
