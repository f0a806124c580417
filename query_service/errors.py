"""Error responses: problem details (RFC 9457), with a ``code`` for programs and a ``detail`` of one line for people."""

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from schemas.errors import (
    BadInputError,
    InsetError,
    NotFoundError,
    RequestError,
    TransientError,
    UnforeseenError,
    UserError,
)
from schemas.printing import line, without_secrets

_logger = logging.getLogger("inset.query_service")


CLIENT_GONE = 499
"""Status of a response that no client receives, as nginx logs it."""


class ClientGoneError(Exception):
    """The client has disconnected."""


class Problem(BaseModel):
    """The body of every response that is not a success: problem details by RFC 9457."""

    type: str = Field("about:blank", description="about:blank: title is that of the status.")
    title: str
    status: int
    detail: str = Field(description="One line for a person.")
    code: str = Field(
        description="not_found, bad_request, invalid, unreadable, unauthorized, forbidden, too_many_requests, unavailable, "
        "method_not_allowed, too_large or internal."
    )


PROBLEM = "application/problem+json"


_SHOWN = 500
"""Maximum characters of a mistake, which may quote what was sent."""

_CODES = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    413: "too_large",
    422: "invalid",
    429: "too_many_requests",
    431: "too_large",
    500: "internal",
    503: "unavailable",
}


def install(app: FastAPI) -> None:
    """Install the handlers of errors; unexpected ones are handled by ``Guard``."""

    @app.exception_handler(UserError)
    @app.exception_handler(BadInputError)
    @app.exception_handler(TransientError)
    async def expected(request: Request, error: InsetError) -> JSONResponse:
        problem = problem_of(error)
        if problem.status == 503:
            level = logging.WARNING if isinstance(error, TransientError) else logging.ERROR
            cause = error.__cause__ if isinstance(error, UnforeseenError) else None
            _logger.log(level, "%s %r: %s", request.method, request.url.path, problem.detail, exc_info=cause)
        return _response(problem, {"retry-after": "5"} if isinstance(error, TransientError) else None)

    @app.exception_handler(ClientGoneError)
    async def gone(_request: Request, _error: ClientGoneError) -> Response:
        return Response(status_code=CLIENT_GONE)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        return error_response(422, explained(error))

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> JSONResponse:
        message = f"there is nothing at {request.url.path}" if error.detail == "Not Found" else error.detail
        return error_response(error.status_code, message, error.headers)


def one_line(message: str) -> str:
    """Return ``message`` on one line, without control characters and secrets of URLs."""
    return line(without_secrets(" ".join(message.split())))


def explained(error: RequestValidationError) -> str:
    """Return the first mistake of a request in one line, with the number of others."""
    mistakes = error.errors()
    first = mistakes[0]
    if first["type"] == "json_invalid":
        return f"the body is not JSON: {first.get('ctx', {}).get('error', 'it can not be read')}"
    field = ".".join(str(part) for part in first["loc"][1:]) or str(first["loc"][0])
    reason = str(first["msg"]).removeprefix("Value error, ")
    reason = reason if len(reason) <= _SHOWN else f"{reason[:_SHOWN]}…"
    and_more = f" (and {len(mistakes) - 1} more)" if len(mistakes) > 1 else ""
    return f"{field}: {reason[:1].lower()}{reason[1:]}{and_more}"


def error_response(status: int, message: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Return an error response."""
    return _response(problem(status, message), headers)


def unauthorized(line: str, error: str = "") -> HTTPException:
    """Return the error of a request that doesn't say who asks, or not rightly (``error`` of RFC 6750)."""
    challenge = 'Bearer realm="inset"' + (f', error="{error}"' if error else "")
    return HTTPException(401, line, {"www-authenticate": challenge})


def _response(problem: Problem, headers: Mapping[str, str] | None) -> JSONResponse:
    return JSONResponse(problem.model_dump(), problem.status, headers, PROBLEM)


def problem(status: int, message: str, code: str | None = None) -> Problem:
    """Return the body of an error response, with the code of its status unless another is given."""
    code = code or _CODES.get(status, "bad_request")
    return Problem(title=HTTPStatus(status).phrase, status=status, detail=one_line(message), code=code)


def problem_of(error: InsetError | HTTPException) -> Problem:
    """Return the problem of an error."""
    match error:
        case HTTPException():
            return problem(error.status_code, error.detail)
        case NotFoundError():
            return problem(404, error.message)
        case RequestError():
            return problem(400, error.message)
        case BadInputError():
            return problem(422, error.message, "unreadable")
        case _:
            return problem(503, error.message)


def describe_problems(contract: dict[str, Any]) -> dict[str, Any]:
    """Correct the media type of errors in an OpenAPI document, which FastAPI takes for that of successes."""
    for path in contract["paths"].values():
        for operation in path.values():
            for response in operation["responses"].values():
                content = response.get("content", {})
                if content.get("application/json", {}).get("schema") == {"$ref": "#/components/schemas/Problem"}:
                    content[PROBLEM] = content.pop("application/json")
    return contract
