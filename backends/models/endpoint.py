"""Generative models behind a server that speaks OpenAI's protocol: vLLM, Ollama, a cloud.

The outcome of a request:

* Timeout, broken connection, 408, 409, 425, 429, 5xx, half an answer, no chat completion: retried with exponential, random
backoff and ``Retry-After``; ``TransientError`` when all retries failed. The client's own retries are off, so that each is
counted and keeps the rate. * 400, 413, 415, 422, a refusal, an empty answer: ``BadInputError`` without a retry, which would
cost again and end alike. * Another model's answer: ``TransientError`` without a retry. The name in the answer must be the
configured name or ``revision``, perhaps with a folder before it or a date after it: gateways fall back to other models, and
names like ``latest`` move on. * No credit, a wait for hours, or many failures in a row: a ``TransientError`` for every
further request. * 401, 403, 404 and the like, an unknown parameter, only 400 from the start: ``UserError``.

A stream differs in three points: it isn't retried after the first word, ``timeout_s`` bounds the wait for each chunk, and a
reply longer than ``max_tokens`` is cut.
"""

import base64
import importlib.util
import os
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol, cast
from urllib.parse import urlsplit

import tenacity
from pydantic import BaseModel, ValidationError

from backends.models.pictures import encode
from backends.models.streaming import Outcome, words_of
from schemas.corpus.captions import ModelCaptioner
from schemas.corpus.models import EndpointOptions, ModelConfig
from schemas.errors import BadInputError, ContractError, FailureCode, TransientError, UserError
from schemas.generation import Message, Reply, Request, Usage
from schemas.models import Model
from schemas.ports import LanguageModel
from schemas.versions import ModelCard

if TYPE_CHECKING:
    import ssl

    from openai import APIStatusError
    from openai.types.chat import ChatCompletionMessageParam as Sent

SETTINGS_VERSION = "1"
"""Raise it with any change here or in ``pictures.py`` that may change requests or replies: all replies are paid for again."""

FAILURES_IN_A_ROW = 20
"""Consecutive failures after which no more requests are sent."""

LONGEST_HOLD_S = 600.0
"""Maximum ``Retry-After``; a longer one ends the refresh's requests."""

FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 60.0
"""Bounds of the random wait between two tries: the first, doubled up to the longest."""

CHARACTERS_A_TOKEN = 32
"""Maximum characters of a stream for each of ``max_tokens``."""

_AGAIN = {408, 409, 425, 429}
_OF_THE_REQUEST = {400, 413, 415, 422}
_DATED = re.compile(r"[-@:](\d{4}-\d{2}-\d{2}|\d{2}-\d{2}|\d{3,8}|latest)")

Asked = ModelCaptioner | ModelConfig


class Clock(Protocol):
    """The clock of waits."""

    def now(self) -> float:
        """Return seconds since any fixed moment."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return when so many seconds have passed."""
        ...


class _Time:
    def now(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        import anyio

        await anyio.sleep(seconds)


class Endpoint:
    """A ``LanguageModel`` behind a server.

    ``faults`` are named ``timeouts``, ``broken_connections``, ``rate_limits``, ``server_errors``, ``bad_answers``,
    ``rejected_requests``, ``refusals``, ``empty_answers`` and ``other_models``.

    Args:
        where: The corpus file's key, for messages.
        captioner: The configuration.
        clock: The clock of waits.

    Raises:
        UserError: The address is invalid, or the environment variable holds no usable key.
    """

    def __init__(self, where: str, captioner: Asked, clock: Clock | None = None) -> None:
        if captioner.endpoint is None:
            raise ContractError("a model behind an endpoint needs one")
        self.name, self.revision = captioner.model, captioner.revision
        self.usage, self.faults = Usage(), Counter[str]()
        self._concurrency = captioner.endpoint.concurrency
        self._calls = _Calls(where, captioner, captioner.endpoint, clock or _Time(), self.usage, self.faults)

    def replies(self, requests: Iterable[Request]) -> Iterator[tuple[str, Outcome]]:
        """Yield the outcome of each request as it comes.

        As many requests are taken as calls may run at once. When the caller stops, running calls are cancelled.

        Raises:
            UserError: The server isn't as configured. Finished answers are yielded first.
        """
        from anyio.from_thread import start_blocking_portal

        waiting = iter(requests)
        running: dict[Future[Outcome], str] = {}
        unusable: UserError | None = None
        with start_blocking_portal() as portal, portal.wrap_async_context_manager(self._calls.open()):
            try:
                while True:
                    while unusable is None and len(running) < self._concurrency:
                        if (request := next(waiting, None)) is None:
                            break
                        running[portal.start_task_soon(self._calls.outcome, request)] = request.id
                    if not running:
                        break
                    for done in wait(running, return_when=FIRST_COMPLETED).done:
                        request_id = running.pop(done)
                        try:
                            outcome = done.result()
                        except UserError as error:
                            unusable = error
                        else:
                            yield request_id, outcome
            finally:
                for call in running:
                    call.cancel()
        if unusable is not None:
            raise unusable

    def stream(self, request: Request, *, stopped: Callable[[], bool] = lambda: False) -> Generator[str | Outcome]:
        """Yield the text of one reply as it comes, then the outcome; see ``LanguageModel.stream``.

        Raises:
            UserError: As for ``replies``.
        """
        from anyio.from_thread import start_blocking_portal

        pieces: SimpleQueue[str | None] = SimpleQueue()
        with start_blocking_portal() as portal, portal.wrap_async_context_manager(self._calls.open()):
            call = portal.start_task_soon(self._calls.outcome, request, pieces.put)
            try:
                yield from words_of(call, pieces, stopped)
            finally:
                call.cancel()


def card(captioner: Asked) -> ModelCard:
    """Return a model's card; nothing needs to be installed."""
    return ModelCard(name=captioner.model, revision=captioner.revision, settings_version=SETTINGS_VERSION)


def model(where: str, captioner: Asked) -> Model[LanguageModel]:
    """Return a model behind an endpoint, unloaded; ``concurrency`` alone bounds the calls at once.

    Raises:
        UserError: openai is not installed.
    """
    if importlib.util.find_spec("openai") is None:
        raise UserError(f"{where}: an endpoint needs the extra: pip install -e '.[endpoints]', or make install")
    return Model(
        card=lambda: card(captioner),
        load=lambda _batch: Endpoint(where, captioner),
    )


class _TryAgainError(TransientError): ...


class _Calls:
    """The calls of one endpoint, all on one event loop at a time."""

    def __init__(
        self,
        where: str,
        captioner: Asked,
        options: EndpointOptions,
        clock: Clock,
        usage: Usage,
        faults: Counter[str],
    ) -> None:
        self._where, self._options, self._clock = where, options, clock
        self._usage, self._faults = usage, faults
        self._asked, self._revision, self._max_side_px = captioner.model, captioner.revision, captioner.max_side_px
        self._server = _server(options.url)
        self._api_key = _api_key(options.api_key_env, where)
        self._parameters: dict[str, Any] = {
            "temperature": captioner.temperature,
            "top_p": captioner.top_p,
            "max_tokens": captioner.max_tokens,
        }
        self._stream_options: dict[str, Any] = {"stream_options": {"include_usage": True}}
        self._longest = captioner.max_tokens * CHARACTERS_A_TOKEN
        self._interval_s = 60 / options.requests_per_minute if options.requests_per_minute else 0.0
        self._next_call = clock.now()
        self._failed_in_a_row = 0
        self._only_rejected = 0
        self._has_answered = False
        self._ended: TransientError | UserError | None = None

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Be ready for calls, on this event loop, until the block ends."""
        import anyio
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient

        if isinstance(self._ended, UserError):  # the mistake may be corrected by now
            self._ended = None
        self._turn, self._waits = anyio.Lock(), set[anyio.CancelScope]()
        # Without a key of its own the client would take whatever OPENAI_API_KEY holds, and send it anywhere.
        self._client = AsyncOpenAI(
            base_url=self._options.url,
            api_key=self._api_key or "none",
            max_retries=0,
            timeout=self._options.timeout_s,
            http_client=DefaultAsyncHttpxClient(verify=_tls()),
        )
        async with self._client:
            yield

    async def outcome(self, request: Request, say: Callable[[str], None] | None = None) -> Outcome:
        """Return the outcome of a request after all retries; ``say`` receives the words of a stream.

        Raises:
            UserError: No request would succeed.
        """
        import anyio

        used, speech = Usage(), say and _Speech(say)
        retrying = tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception(
                lambda error: isinstance(error, _TryAgainError) and not (speech and speech.pieces)
            ),
            stop=tenacity.stop_after_attempt(self._options.retries + 1),
            wait=tenacity.wait_random_exponential(FIRST_WAIT_S, max=LONGEST_WAIT_S),
            sleep=self._sleep,
            reraise=True,
        )
        try:
            self._check_not_ended()
            messages = await anyio.to_thread.run_sync(self._messages, request)
            reply: Reply = await retrying(self._attempt, messages, used, speech)
        except BadInputError as error:
            self._failed_in_a_row = 0
            return error
        except TransientError as error:
            self._failed_in_a_row += 1
            if self._failed_in_a_row == FAILURES_IN_A_ROW:
                self._end(
                    TransientError(
                        f"{self._where}: {FAILURES_IN_A_ROW} requests in a row failed at {self._server}, so no more are sent; "
                        f"the last one: {error.message}"
                    )
                )
            return TransientError(error.message)
        except UserError as error:
            self._end(error)
            raise
        finally:
            self._usage.add(used)
        self._failed_in_a_row = 0
        return reply

    async def _attempt(self, messages: "list[Sent]", used: Usage, speech: "_Speech | None") -> Reply:
        """Call once, and check the answer.

        Raises:
            _TryAgainError: A retry may succeed.
            TransientError: It may succeed later.
            BadInputError: The model doesn't answer this request.
            UserError: No request would succeed.
        """
        from httpx2 import ConnectError
        from openai import APIConnectionError, APIError, APIStatusError, APITimeoutError

        await self._take_turn()
        parameters = self._parameters | (self._stream_options if speech else {})
        paid = True
        try:
            if speech is None:
                answer = await self._whole(messages, parameters)
            else:
                answer = await self._streamed(messages, parameters, speech)
        except (TimeoutError, APITimeoutError) as error:
            raise self._fault("timeouts", f"no answer within {self._options.timeout_s:g} s") from error
        except APIConnectionError as error:
            cause = error.__cause__ or error
            paid = not isinstance(cause, ConnectError)
            raise self._fault("broken_connections", f"the connection failed: {cause or type(cause).__name__}") from error
        except APIStatusError as error:
            paid = False
            if self._can_do_without(error, parameters):
                return await self._attempt(messages, used, speech)
            raise self._refused(error) from error
        except APIError as error:
            raise self._fault("server_errors", f"the stream ends in an error: {self._shown(error.message)}") from error
        finally:
            used.calls += paid
        return self._checked(answer, used)

    async def _whole(self, messages: "list[Sent]", parameters: Mapping[str, Any]) -> "_Answer":
        """Return an unstreamed answer; errors as for ``_attempt``."""
        import anyio

        with anyio.fail_after(self._options.timeout_s):
            found = await self._client.chat.completions.with_raw_response.create(
                model=self._asked, messages=messages, **parameters
            )
        try:
            return _Answer.model_validate_json(found.content)
        except ValidationError as error:
            shown = self._shown(found.content.decode(errors="replace"))
            raise self._fault("bad_answers", f"the answer is no chat completion: {shown}") from error

    async def _streamed(self, messages: "list[Sent]", parameters: Mapping[str, Any], speech: "_Speech") -> "_Answer":
        """Return a streamed answer; errors as for ``_attempt``."""
        import anyio

        answer, message = _Answer(choices=[]), _Message()
        finish_reason: str | None = None
        left = self._longest
        with anyio.fail_after(self._options.timeout_s):
            chunks = await self._client.chat.completions.create(
                model=self._asked, messages=messages, stream=True, **parameters
            )
        async with chunks:
            while left > 0:
                try:
                    with anyio.fail_after(self._options.timeout_s):
                        found = await anext(chunks, None)
                    if found is None:
                        break
                    chunk = _Chunk.model_validate(found, from_attributes=True)
                except ValueError as error:
                    raise self._fault("bad_answers", "a chunk of the stream is no chat completion") from error
                answer.model, answer.usage = chunk.model or answer.model, chunk.usage or answer.usage
                self._check_name(answer.model)
                for choice in chunk.choices[:1]:
                    finish_reason = choice.finish_reason or finish_reason
                    message.refusal = (message.refusal or "") + (choice.delta.refusal or "")
                    if piece := (choice.delta.content or "")[:left]:
                        speech.add(piece)
                        left -= len(piece) - 1
                left -= 1  # for each chunk, so that one without a word counts, too
            else:
                finish_reason = "length"
        if finish_reason is None:
            raise self._fault("bad_answers", "the stream ends before the reply does")
        message.content = "".join(speech.pieces)
        answer.choices = [_Choice(message=message, finish_reason=finish_reason)]
        return answer

    async def _take_turn(self) -> None:
        """Wait until the next call may start, by rate and hold, in order."""
        async with self._turn:
            self._check_not_ended()
            while (left := self._next_call - self._clock.now()) > 0:
                await self._sleep(left)
                self._check_not_ended()
            self._next_call = self._clock.now() + self._interval_s

    async def _sleep(self, seconds: float) -> None:
        import anyio

        with anyio.CancelScope() as scope:
            self._waits.add(scope)
            try:
                await self._clock.sleep(seconds)
            finally:
                self._waits.discard(scope)

    def _end(self, reason: TransientError | UserError) -> None:
        """Send no more requests; calls that run may finish."""
        self._ended = self._ended or reason
        for scope in self._waits:
            scope.cancel()

    def _check_not_ended(self) -> None:
        if self._ended is not None:
            raise self._ended

    def _messages(self, request: Request) -> "list[Sent]":
        """Return the messages of a request.

        Raises:
            BadInputError: A picture can't be decoded.
        """
        return [
            cast(
                "Sent", {"role": message.role, "content": message.text if message.role != "user" else self._parts(message)}
            )
            for message in request.messages
        ]

    def _parts(self, message: Message) -> list[dict[str, Any]]:
        parts: list[dict[str, Any]] = []
        for shown in message.pictures:
            picture, media_type = encode(shown, self._max_side_px)
            url = f"data:{media_type};base64,{base64.b64encode(picture).decode()}"
            parts.append({"type": "image_url", "image_url": {"url": url}})
        return [*parts, {"type": "text", "text": message.text}]

    def _check_name(self, answered: str | None) -> None:
        if answered and not any(_is_the_same(answered, name) for name in (self._asked, self._revision)):
            self._faults["other_models"] += 1
            raise TransientError(
                f"{self._where}: {self._server} was asked for {self._asked!r} and {answered!r} answered; "
                f"if that is the model you mean, name it in model or revision"
            )

    def _checked(self, answer: "_Answer", used: Usage) -> Reply:
        """Return the reply in an answer; errors as for ``_attempt``."""
        if answer.usage is not None:
            used.input_tokens += answer.usage.prompt_tokens or 0
            used.output_tokens += answer.usage.completion_tokens or 0
        if not answer.choices:
            raise self._fault("bad_answers", "the answer holds no choice")
        self._has_answered = True
        self._check_name(answer.model)
        choice = answer.choices[0]
        if choice.message.refusal or choice.finish_reason == "content_filter":
            self._faults["refusals"] += 1
            why = f": {self._shown(choice.message.refusal)}" if choice.message.refusal else " (content filter)"
            raise BadInputError(f"{self._where}: the model refuses to answer{why}", FailureCode.MODEL_FAILED)
        text = (choice.message.content or "").strip()
        if not text:
            self._faults["empty_answers"] += 1
            limit = "; it used up max_tokens on something else" if choice.finish_reason == "length" else ""
            raise BadInputError(f"{self._where}: the model answered without a word{limit}", FailureCode.MODEL_FAILED)
        return Reply(
            text=text,
            model=answer.model or self._asked,
            calls=used.calls,
            input_tokens=used.input_tokens,
            output_tokens=used.output_tokens,
            complete=choice.finish_reason != "length",
        )

    def _refused(self, error: "APIStatusError") -> Exception:
        """Return the error of a status other than 200."""
        status, why = error.status_code, self._shown(_message(error.body))
        if status == 402 or error.code == "insufficient_quota":
            self._end(TransientError(f"{self._where}: {self._server} gives nothing more for this key ({status}): {why}"))
            return self._fault("rate_limits", why)
        if status in _AGAIN or status >= 500:
            hold = _hold_s(error.response.headers)
            if hold > LONGEST_HOLD_S:
                self._end(
                    TransientError(f"{self._where}: {self._server} takes no calls for the next {hold:.0f} s ({status})")
                )
            self._next_call = max(self._next_call, self._clock.now() + hold)  # and no later where hold is no number
            return self._fault("rate_limits" if status == 429 else "server_errors", f"it answered {status}: {why}")
        if status in _OF_THE_REQUEST:
            self._faults["rejected_requests"] += 1
            if error.code in _UNKNOWN_PARAMETER and error.param in self._parameters:
                return UserError(f"{self._where}.{error.param}: {self._server} doesn't take it: {why}")
            self._only_rejected += not self._has_answered
            if self._only_rejected == FAILURES_IN_A_ROW:
                return UserError(f"{self._where}: {self._server} rejects whatever it is asked ({status}): {why}")
            message = f"{self._where}: {self._server} rejects the request ({status}): {why}"
            return BadInputError(message, FailureCode.MODEL_FAILED)
        if status in (401, 403):
            return UserError(f"{self._where}.endpoint.api_key_env: {self._server} {self._key_refused(status)}")
        if status == 404:
            return UserError(
                f"{self._where}: {self._server} knows no model {self._asked!r}, or endpoint.url isn't its address up to the "
                f"version, such as http://localhost:8000/v1 (404): {why}"
            )
        return UserError(f"{self._where}.endpoint.url: {self._server} answered {status}: {why}")

    def _key_refused(self, status: int) -> str:
        """Return the error of a rejected key, without the server's message, which may quote the key."""
        if self._options.api_key_env is None:
            return f"wants an API key ({status}); name the environment variable that holds one"
        return f"refuses the API key in {self._options.api_key_env}, or the model to it ({status})"

    def _can_do_without(self, error: "APIStatusError", sent: Mapping[str, Any]) -> bool:
        """Return whether a rejected parameter can be left out, and leave it out from now on."""
        if "stream_options" in sent and "stream_options" in f"{error.param} {_message(error.body)}":
            self._stream_options = {}
            return True
        unknown = error.param or ""
        if error.status_code != 400 or error.code not in _UNKNOWN_PARAMETER or unknown not in sent:
            return False
        if unknown == "max_tokens":
            # Models that think first count those tokens too, and have another name for the limit of both.
            self._parameters["max_completion_tokens"] = sent["max_tokens"]
        elif sent[unknown] != _PROTOCOL_DEFAULT:
            return False
        self._parameters.pop(unknown, None)
        return True

    def _fault(self, kind: str, what: str) -> _TryAgainError:
        self._faults[kind] += 1
        return _TryAgainError(f"{self._where}: {self._server}: {what}")

    def _shown(self, text: str) -> str:
        line = next((line.strip() for line in text.splitlines() if line.strip()), "no more is known")
        return (line.replace(self._api_key, "***") if self._api_key else line)[:_SHOWN_CHARACTERS]


_UNKNOWN_PARAMETER = ("unsupported_parameter", "unsupported_value")
_PROTOCOL_DEFAULT = 1
"""Of ``temperature`` and ``top_p``; sent all the same, since vLLM has defaults of the model's own."""

_SHOWN_CHARACTERS = 200


class _Message(BaseModel):
    content: str | None = None
    refusal: str | None = None


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None


class _Tokens(BaseModel):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Delta(BaseModel):
    delta: _Message
    finish_reason: str | None = None


class _Answer(BaseModel):
    """The fields of a chat completion that are used, validated; the client's own type isn't."""

    choices: list[_Choice]
    model: str | None = None
    usage: _Tokens | None = None


class _Chunk(BaseModel):
    """The fields of a stream's chunk that are used; ``usage`` is of the reply so far."""

    choices: list[_Delta]
    model: str | None = None
    usage: _Tokens | None = None


@dataclass(frozen=True)
class _Speech:
    say: Callable[[str], None]
    pieces: list[str] = field(default_factory=list)

    def add(self, piece: str) -> None:
        self.pieces.append(piece)
        self.say(piece)


@cache
def _tls() -> "ssl.SSLContext":
    """Return the TLS context, cached: loading certificates takes 20 ms."""
    from httpx2 import create_ssl_context

    return create_ssl_context()


def _is_the_same(answered: str, asked: str) -> bool:
    """Return whether two names mean one model, but for a folder before or a date after one."""
    found, wanted = (name.casefold().rpartition("/")[2] for name in (answered, asked))
    wanted = wanted.removesuffix("latest").rstrip("-:@") or wanted
    return found.startswith(wanted) and (found == wanted or _DATED.fullmatch(found, len(wanted)) is not None)


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


def _message(body: object) -> str:
    if isinstance(body, Mapping):
        return str(next((body[key] for key in ("message", "detail", "error") if body.get(key)), ""))
    return str(body or "")


def _server(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _api_key(variable: str | None, where: str) -> str | None:
    """Return the key in an environment variable; None if none is named.

    Raises:
        UserError: It isn't set, or invalid in a header.
    """
    if variable is None:
        return None
    key = os.environ.get(variable, "").strip()
    if not key:
        raise UserError(f"{where}.endpoint.api_key_env: the environment variable {variable} is not set here")
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise UserError(
            f"{where}.endpoint.api_key_env: what {variable} holds is no API key: it has spaces or special characters"
        )
    return key
