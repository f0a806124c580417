"""Replies of the service: errors, and events of an answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import httpx

if TYPE_CHECKING:
    from inset_client import models

AnswerEvent: TypeAlias = "models.AnswerStarted | models.TextDelta | models.PartFinished | models.AnswerFinished"
"""For type checkers; a string at run time, since the models are generated and a service runs without them."""


class ApiError(Exception):
    """The service answered with an error.

    Attributes:
        status: HTTP status; of an answer that failed while it was streamed, the status that it would have had.
        code: A word for programs, such as ``not_found``; "" if something else than the service answered.
        detail: One line for a person.
        retry_after_s: Seconds to wait before the next try; None if the service names none.
        request_id: Names the request in the service's log.
    """

    def __init__(self, problem: Mapping[str, Any], retry_after_s: float | None = None, request_id: str = "") -> None:
        self.status = int(problem["status"])
        self.code, self.detail = str(problem["code"]), str(problem["detail"])
        self.retry_after_s, self.request_id = retry_after_s, request_id
        super().__init__(f"{self.status} {self.code}".strip() + f": {self.detail}")


def error_of(response: httpx.Response) -> ApiError:
    """Return the error of a response that has been read."""
    problem: dict[str, Any] = {"status": response.status_code, "code": "", "detail": response.reason_phrase}
    if response.headers.get("content-type", "").startswith("application/problem+json"):
        problem |= json.loads(response.content)
    wait = response.headers.get("retry-after", "")
    # A proxy may send a date instead; such a request is not tried again.
    return ApiError(problem, float(wait) if wait.isdecimal() else None, response.headers.get("x-request-id", ""))


def event_of(block: str) -> AnswerEvent | None:
    """Return the data of a server-sent event; None if it has none, such as a comment that keeps a connection open.

    Raises:
        ApiError: It is an error.
    """
    fields = [line.partition(":") for line in block.split("\n")]
    data = "\n".join(value.removeprefix(" ") for name, _, value in fields if name == "data")
    if not data:
        return None
    event = json.loads(data)
    if ("event", "error") in ((name, value.strip()) for name, _, value in fields):
        raise ApiError(event)
    return cast(AnswerEvent, event)
