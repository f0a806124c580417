"""Error responses: ``{"error": {"code": ..., "message": one line for a person}}``."""

import logging

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from schemas.errors import BadInputError, NotFoundError, RequestError, TransientError, UnforeseenError, UserError
from schemas.printing import line, without_secrets

_logger = logging.getLogger("inset.query_service")


class Problem(BaseModel):
    """What went wrong."""

    code: str = Field(
        description="not_found, bad_request, invalid, unreadable, unauthorized, forbidden, too_many_requests, unavailable, "
        "method_not_allowed, too_large or internal."
    )
    message: str = Field(description="One line for a person.")


class ErrorBody(BaseModel):
    """The body of every response that is not a success."""

    error: Problem


_SHOWN = 500
"""Maximum characters of a mistake, which may quote what was sent."""

HTTP_CODES = {
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    413: "too_large",
    422: "invalid",
    429: "too_many_requests",
    431: "too_large",
    503: "unavailable",
}


def install(app: FastAPI) -> None:
    """Install the handlers of errors; unexpected ones are handled by ``Guard``."""

    @app.exception_handler(NotFoundError)
    async def not_found(_: Request, error: NotFoundError) -> JSONResponse:
        return error_response(404, "not_found", error.message)

    @app.exception_handler(RequestError)
    async def mistaken(_: Request, error: RequestError) -> JSONResponse:
        return error_response(400, "bad_request", error.message)

    @app.exception_handler(UserError)
    async def misconfigured(request: Request, error: UserError) -> JSONResponse:
        _logger.error("%s %r: %s", request.method, request.url.path, one_line(error.message))
        return error_response(503, "unavailable", error.message)

    @app.exception_handler(BadInputError)
    async def unreadable(_: Request, error: BadInputError) -> JSONResponse:
        return error_response(422, "unreadable", error.message)

    @app.exception_handler(TransientError)
    async def unavailable(request: Request, error: TransientError) -> JSONResponse:
        cause = error.__cause__ if isinstance(error, UnforeseenError) else None
        _logger.warning("%s %r: %s", request.method, request.url.path, one_line(error.message), exc_info=cause)
        return error_response(503, "unavailable", error.message, {"retry-after": "5"})

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        return error_response(422, "invalid", explained(error))

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> JSONResponse:
        message = f"there is nothing at {request.url.path}" if error.detail == "Not Found" else error.detail
        headers = dict(error.headers or {})
        return error_response(error.status_code, HTTP_CODES.get(error.status_code, "bad_request"), message, headers)


def one_line(message: str) -> str:
    """Return ``message`` on one line, without control characters and secrets of URLs."""
    return line(without_secrets(" ".join(message.split())))


def explained(error: RequestValidationError) -> str:
    """Return the first mistake of a request in one line, with the number of others."""
    mistakes = error.errors()
    first = mistakes[0]
    if first["type"] == "json_invalid":
        return f"the body is not JSON: {first.get('ctx', {}).get('error', 'it can not be read')}"
    where = ".".join(str(part) for part in first["loc"][1:]) or str(first["loc"][0])
    what = str(first["msg"]).removeprefix("Value error, ")
    what = what if len(what) <= _SHOWN else f"{what[:_SHOWN]}…"
    more = f" (and {len(mistakes) - 1} more)" if len(mistakes) > 1 else ""
    return f"{where}: {what[:1].lower()}{what[1:]}{more}"


def error_response(status: int, code: str, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """Return an error response."""
    body = ErrorBody(error=Problem(code=code, message=one_line(message)))
    return JSONResponse(body.model_dump(), status, headers)
