"""Calls to a server that speaks OpenAI's protocol, and what becomes of those that fail.

* Timeout, broken connection, 408, 409, 425, 429, 5xx, half an answer, no valid answer: retried with exponential, random
  backoff and ``Retry-After``; ``TransientError`` when all retries failed. The client's own retries are off, so that each is
  counted.
* 400, 413, 415, 422: ``BadInputError`` without a retry, which would cost again and end alike.
* Another model's answer: gateways fall back to other models, and servers call a model by its file. The name in the answer
  should be the configured name or ``revision``, perhaps with a folder before it or a date after it. Vectors of another
  name are refused (``TransientError`` without a retry); words of another name are taken, and the reply's ``note`` says so.
* No credit, a wait for hours, or many failures in a row: a ``TransientError`` for every further request.
* 401, 403, 404 and the like, an unknown parameter, only 400 from the start: ``UserError``.
"""

import os
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import tenacity
from pydantic import BaseModel

from schemas.corpus.models import EndpointOptions
from schemas.errors import BadInputError, FailureCode, TransientError, UserError
from schemas.models import Usage
from schemas.printing import listed

if TYPE_CHECKING:
    import ssl

    from anyio.from_thread import BlockingPortal
    from openai import APIStatusError

FAILURES_IN_A_ROW = 20
"""Consecutive failures after which no more requests are sent."""

LONGEST_HOLD_S = 600.0
"""Maximum ``Retry-After``; a longer one ends the refresh's requests."""

FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 60.0
"""Bounds of the random wait between two tries: the first, doubled up to the longest."""

LISTED_WITHIN_S = 10.0
MODELS_SHOWN = 5

_AGAIN = {408, 409, 425, 429}
_OF_THE_REQUEST = {400, 413, 415, 422}
UNKNOWN_PARAMETER = ("unsupported_parameter", "unsupported_value")
_DATED = re.compile(r"[-@:](\d{4}-\d{2}-\d{2}|\d{2}-\d{2}|\d{3,8}|latest)")
_SHOWN_CHARACTERS = 200

Parameters = Mapping[str, Any]


class Tokens(BaseModel):
    """Tokens that a server counts."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None


Answer = TypeVar("Answer")


class Clock:
    """The clock of waits."""

    def now(self) -> float:
        """Return seconds since any fixed moment."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Return when so many seconds have passed."""
        import anyio

        await anyio.sleep(seconds)


class TryAgainError(TransientError):
    """A retry may succeed."""


class EndpointCalls:
    """The calls of one model at an endpoint, all on one event loop at a time.

    ``parameters`` are those of every request, which a server may refuse. ``config_key`` is the corpus file's key, for messages.
    ``usage`` counts what is used, ``faults`` what goes wrong.

    Raises:
        UserError: The address is invalid, or the environment variable holds no usable key.
    """

    clock = Clock()

    def __init__(self, config_key: str, model_and_revision: tuple[str, str], options: EndpointOptions) -> None:
        self.parameters: dict[str, Any] = {}
        self.where, self._options = config_key, options
        self.usage, self.faults = Usage(), Counter[str]()
        self.name, self._revision = model_and_revision
        self._server = _server(options.url)
        self._api_key = _api_key(options.api_key_env, config_key)
        self._next_call = 0.0
        self._failed_in_a_row = 0
        self._only_rejected = 0
        self._has_answered = False
        self._ended: TransientError | UserError | None = None

    @property
    def has_ended(self) -> bool:
        """Whether no more requests are sent."""
        return self._ended is not None

    @contextmanager
    def connected(self) -> "Iterator[BlockingPortal]":
        """Yield an event loop in a thread, ready for calls."""
        from anyio.from_thread import start_blocking_portal

        with start_blocking_portal() as portal, portal.wrap_async_context_manager(self._open()):
            yield portal

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[None]:
        """Be ready for calls, on this event loop, until the block ends."""
        import anyio
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient

        if isinstance(self._ended, UserError):  # the mistake may be corrected by now
            self._ended = None
        self._turn, self._waits = anyio.Lock(), set[anyio.CancelScope]()
        # Without a key of its own the client would take whatever OPENAI_API_KEY holds, and send it anywhere.
        self.client: AsyncOpenAI = AsyncOpenAI(
            base_url=self._options.url,
            api_key=self._api_key or "none",
            max_retries=0,
            timeout=self._options.timeout_s,
            http_client=DefaultAsyncHttpxClient(verify=_tls()),
        )
        async with self.client:
            yield

    async def retried(
        self, attempt: Callable[[], Coroutine[Any, Any, Answer]], can_retry: Callable[[], bool] = lambda: True
    ) -> Answer:
        """Return the answer of an attempt, after all retries; a lambda isn't one, since tenacity doesn't await it.

        Raises:
            BadInputError: The model doesn't answer this request.
            TransientError: All retries failed, or no more requests are sent.
            UserError: No request would succeed.
        """
        retrying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception(lambda error: isinstance(error, TryAgainError) and can_retry()),
            stop=tenacity.stop_after_attempt(self._options.retries + 1),
            wait=tenacity.wait_random_exponential(FIRST_WAIT_S, max=LONGEST_WAIT_S),
            sleep=self._sleep,
            reraise=True,
        )
        try:
            self.check_not_ended()
            answer: Answer = await retrying(attempt)
        except BadInputError:
            # A request that is rejected shows that the server works.
            self._failed_in_a_row = 0
            raise
        except TransientError as error:
            self._failed_in_a_row += 1
            if self._failed_in_a_row == FAILURES_IN_A_ROW:
                self._end(
                    TransientError(
                        f"{self.where}: {FAILURES_IN_A_ROW} requests in a row failed at {self._server}, so no more are sent; "
                        f"the last one: {error.message}"
                    )
                )
            raise TransientError(error.message) from error
        except UserError as error:
            self._end(error)
            raise
        self._failed_in_a_row = 0
        return answer

    async def call(
        self, send: Callable[[Parameters], Awaitable[Answer]], parameters: Callable[[], Parameters], used: Usage
    ) -> Answer:
        """Send a request in its turn.

        Raises:
            TryAgainError: A retry may succeed.
            TransientError: It may succeed later.
            BadInputError: The model doesn't answer this request.
            UserError: No request would succeed.
        """
        from httpx2 import ConnectError
        from openai import APIConnectionError, APIError, APIStatusError, APITimeoutError

        await self._take_turn()
        sent = parameters()
        # A call counts as paid unless it surely did no work: no connection was made, or the status is an error.
        paid = True
        try:
            return await send(sent)
        except (TimeoutError, APITimeoutError) as error:
            raise self.fault("timeouts", f"no answer within {self._options.timeout_s:g} s") from error
        except APIConnectionError as error:
            cause = error.__cause__ or error
            paid = not isinstance(cause, ConnectError)
            raise self.fault("broken_connections", f"the connection failed: {cause or type(cause).__name__}") from error
        except APIStatusError as error:
            paid = False
            if self.can_do_without(error, sent):
                return await self.call(send, parameters, used)
            raise self._refused(error) from error
        except APIError as error:
            raise self.fault("server_errors", f"the stream ends in an error: {self.shown(error.message)}") from error
        finally:
            used.calls += paid

    def can_do_without(self, _error: "APIStatusError", _sent: Parameters) -> bool:
        """Return whether a rejected parameter can be left out, and leave it out from now on."""
        return False

    async def _take_turn(self) -> None:
        """Wait until the next call may start, as long as the server asked for, in order."""
        async with self._turn:
            self.check_not_ended()
            # In a loop, since the answer of a running call may make all wait longer.
            while (wait_s := self._next_call - self.clock.now()) > 0:
                await self._sleep(wait_s)
                self.check_not_ended()

    async def _sleep(self, seconds: float) -> None:
        import anyio

        with anyio.CancelScope() as scope:
            self._waits.add(scope)
            try:
                await self.clock.sleep(seconds)
            finally:
                self._waits.discard(scope)

    def _end(self, reason: TransientError | UserError) -> None:
        """Send no more requests; calls that run may finish."""
        self._ended = self._ended or reason
        for scope in self._waits:
            scope.cancel()

    def check_not_ended(self) -> None:
        """Raise the error after which no more requests are sent."""
        if self._ended is not None:
            raise self._ended

    def other_name(self, answered: str | None) -> str:
        """Count and return that another model answered, in words; "" if the one answered that was asked for."""
        if not answered or any(_is_the_same(answered, name) for name in (self.name, self._revision)):
            return ""
        self.faults["other_models"] += 1
        return (
            f"{self.where}: {self._server} was asked for {self.name!r} and {self.shown(answered)!r} answered; "
            f"if that is the model you mean, name it in model or revision"
        )

    def _refused(self, error: "APIStatusError") -> Exception:
        """Return the error of a status other than 200."""
        status, why = error.status_code, self.shown(message_of(error.body))
        if status == 402 or error.code == "insufficient_quota":
            self._end(TransientError(f"{self.where}: {self._server} refuses further calls with this key ({status}): {why}"))
            return self.fault("rate_limits", why)
        if status in _AGAIN or status >= 500:
            hold = _hold_s(error.response.headers)
            if hold > LONGEST_HOLD_S:
                self._end(
                    TransientError(f"{self.where}: {self._server} takes no calls for the next {hold:.0f} s ({status})")
                )
            self._next_call = max(self._next_call, self.clock.now() + hold)  # and no later if hold isn't a number
            return self.fault("rate_limits" if status == 429 else "server_errors", f"it answered {status}: {why}")
        if status in _OF_THE_REQUEST:
            self.faults["rejected_requests"] += 1
            if error.code in UNKNOWN_PARAMETER and error.param in self.parameters:
                return UserError(f"{self.where}.{error.param}: {self._server} doesn't take it: {why}")
            # A server that has answered once rejects single requests, and isn't misconfigured.
            self._only_rejected += not self._has_answered
            if self._only_rejected == FAILURES_IN_A_ROW:
                return UserError(f"{self.where}: {self._server} rejects every request ({status}): {why}")
            message = f"{self.where}: {self._server} rejects the request ({status}): {why}"
            return BadInputError(message, FailureCode.MODEL_FAILED)
        if status in (401, 403):
            return UserError(f"{self.where}.endpoint.api_key_env: {self._server} {self._key_refused(status)}")
        if status == 404:
            return UserError(
                f"{self.where}: {self._server} knows no model {self.name!r}, or endpoint.url isn't its address up to the "
                f"version, such as http://localhost:8000/v1 (404): {why}"
            )
        return UserError(f"{self.where}.endpoint.url: {self._server} answered {status}: {why}")

    def _key_refused(self, status: int) -> str:
        """Return the error of a rejected key, without the server's message, which may quote the key."""
        if self._options.api_key_env is None:
            return f"wants an API key ({status}); name the environment variable that holds one"
        return f"refuses the API key in {self._options.api_key_env}, or the model to it ({status})"

    def fault(self, kind: str, problem: str) -> TryAgainError:
        """Count a fault, and return its error."""
        self.faults[kind] += 1
        return TryAgainError(f"{self.where}: {self._server}: {problem}")

    def shown(self, text: str) -> str:
        """Return the first line of a server's text, without the key."""
        line = next((line.strip() for line in text.splitlines() if line.strip()), "no more is known")
        return (line.replace(self._api_key, "***") if self._api_key else line)[:_SHOWN_CHARACTERS]


@cache
def _tls() -> "ssl.SSLContext":
    """Return the TLS context, cached: loading certificates takes 20 ms."""
    from httpx2 import create_ssl_context

    return create_ssl_context()


def problem_of_server(config_key: str, names: Sequence[str], options: EndpointOptions) -> str:
    """Return what is wrong with a model's server, asked for its list of models; "" if it lists one of the ``names``, or has none.

    Raises ``UserError`` as ``EndpointCalls`` does.
    """
    from openai import APIStatusError, DefaultHttpxClient, OpenAI, OpenAIError

    server, api_key = _server(options.url), _api_key(options.api_key_env, config_key)
    client = DefaultHttpxClient(verify=_tls())
    asking = OpenAI(
        base_url=options.url, api_key=api_key or "none", max_retries=0, timeout=LISTED_WITHIN_S, http_client=client
    )
    try:
        with asking:
            models = [model.id for model in asking.models.list()]
    except APIStatusError as error:
        return "" if error.status_code in (404, 405) else f"{server} answers with status {error.status_code}"
    except OpenAIError as error:
        return f"{server} doesn't answer: {error}"
    if any(_is_the_same(model, name) for model in models for name in names):
        return ""
    return f"{server} doesn't list {names[0]!r}, but {listed(models, MODELS_SHOWN) or 'no model'}"


def _is_the_same(answered: str, requested: str) -> bool:
    """Return whether two names mean one model, but for a folder before or a date after one."""
    answered_name, requested_name = (name.casefold().rpartition("/")[2] for name in (answered, requested))
    requested_name = requested_name.removesuffix("latest").rstrip("-:@") or requested_name
    return answered_name.startswith(requested_name) and (
        answered_name == requested_name or _DATED.fullmatch(answered_name, len(requested_name)) is not None
    )


def _hold_s(headers: Mapping[str, str]) -> float:
    for name, seconds in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            return float(headers[name]) * seconds
        except (KeyError, ValueError):
            continue
    try:
        return (parsedate_to_datetime(headers["retry-after"]) - datetime.now(UTC)).total_seconds()
    except (KeyError, ValueError, TypeError):
        return 0.0


def message_of(body: object) -> str:
    """Return the message in the body of an error."""
    if isinstance(body, Mapping):
        return str(next((body[key] for key in ("message", "detail", "error") if body.get(key)), ""))
    return str(body or "")


def _server(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _api_key(variable: str | None, config_key: str) -> str | None:
    """Return the key in an environment variable, None if none is named; raise ``UserError`` if it isn't set, or no key."""
    if variable is None:
        return None
    key = os.environ.get(variable, "").strip()
    if not key:
        raise UserError(f"{config_key}.endpoint.api_key_env: the environment variable {variable} is not set here")
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise UserError(
            f"{config_key}.endpoint.api_key_env: what {variable} holds isn't an API key: it has spaces or special characters"
        )
    return key
