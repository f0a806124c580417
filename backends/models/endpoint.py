"""Generative models behind a server that speaks OpenAI's protocol: vLLM, Ollama, a cloud.

Failed calls are handled as in ``endpoint_calls.py``; a refusal and an empty answer are a ``BadInputError`` without a retry.

A stream differs in three points: it isn't retried after the first word, ``timeout_s`` bounds the wait for each chunk, and a
reply longer than ``max_tokens`` is cut.
"""

import logging
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, cast

from pydantic import BaseModel, ValidationError

from backends.models.devices import Outcome, words_of
from backends.models.endpoint_calls import UNKNOWN_PARAMETER, EndpointCalls, Parameters, Tokens, message_of
from backends.models.files import check_extra
from backends.models.pictures import content_parts
from schemas.corpus.models import ModelEntry
from schemas.errors import BadInputError, ContractError, FailureCode, TransientError, UserError
from schemas.models import Model, Reply, Request, Usage
from schemas.ports import LanguageModel
from schemas.versions import ModelCard

if TYPE_CHECKING:
    from openai import APIStatusError
    from openai.types.chat import ChatCompletionMessageParam as Sent

_logger = logging.getLogger(__name__)

SETTINGS_VERSION = "1"
"""Raise it with any change that may change requests or replies: all replies are paid for again.

It is of this module, ``endpoint_calls.py`` and ``pictures.py``.
"""

CHARACTERS_A_TOKEN = 32
"""Maximum characters of a stream for each of ``max_tokens``."""


class Endpoint(EndpointCalls):
    """A ``LanguageModel`` behind a server; ``config_key`` is the corpus file's key, for messages.

    ``faults`` are named ``timeouts``, ``broken_connections``, ``rate_limits``, ``server_errors``, ``bad_answers``,
    ``rejected_requests``, ``refusals``, ``empty_answers`` and ``other_models``.

    Raises:
        UserError: The address is invalid, or the environment variable holds no usable key.
    """

    def __init__(self, config_key: str, captioner: ModelEntry) -> None:
        if captioner.endpoint is None:
            raise ContractError("a model behind an endpoint needs one")
        super().__init__(config_key, (captioner.model, captioner.revision or ""), captioner.endpoint)
        self._max_side_px = captioner.max_side_px
        self.parameters = {
            "temperature": captioner.temperature,
            "top_p": captioner.top_p,
            "max_tokens": captioner.max_tokens,
        }
        self._stream_options: dict[str, Any] = {"stream_options": {"include_usage": True}}
        self._longest = captioner.max_tokens * CHARACTERS_A_TOKEN

    def replies(self, requests: Iterable[Request]) -> Iterator[tuple[str, Outcome]]:
        """Yield the outcome of each request as it comes.

        As many requests are taken as calls may run at once. When the caller stops, running calls are cancelled.

        Raises:
            UserError: The server isn't as configured. Finished answers are yielded first.
        """
        waiting = iter(requests)
        running: dict[Future[Outcome], str] = {}
        unusable: UserError | None = None
        with self.connected() as portal:
            try:
                while True:
                    while unusable is None and len(running) < self._options.concurrency:
                        if (request := next(waiting, None)) is None:
                            break
                        running[portal.start_task_soon(self.outcome, request)] = request.id
                    if not running:
                        break
                    for finished_call in wait(running, return_when=FIRST_COMPLETED).done:
                        request_id = running.pop(finished_call)
                        try:
                            outcome = finished_call.result()
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
        """Yield the text of one reply as it comes, then the outcome; see ``LanguageModel.stream``. Errors as for ``replies``."""
        pieces: SimpleQueue[str | None] = SimpleQueue()
        with self.connected() as portal:
            call = portal.start_task_soon(self.outcome, request, pieces.put)
            try:
                yield from words_of(call, pieces, stopped)
            finally:
                call.cancel()

    async def outcome(self, request: Request, say: Callable[[str], None] | None = None) -> Outcome:
        """Return the outcome of a request after all retries; ``say`` receives the words of a stream."""
        import anyio

        used, pieces = Usage(), list[str]()
        try:
            self.check_not_ended()
            # Pictures are scaled and encoded in a thread, so that other calls go on.
            messages = await anyio.to_thread.run_sync(self._messages, request)
            return await self.retried(partial(self._attempt, messages, used, say, pieces), lambda: not pieces)
        except (BadInputError, TransientError) as error:
            return error
        finally:
            self.usage.add(used)

    def body(self, request: Request) -> dict[str, Any]:
        """Return the body of a call; raise ``BadInputError`` if a picture can't be decoded."""
        return {"model": self.name, "messages": self._messages(request), **self.parameters}

    def outcome_in(self, completion: object) -> tuple[Outcome, Usage]:
        """Return the outcome in a chat completion of a batch, and what it used."""
        used = Usage(1)
        try:
            return self._checked(_Answer.model_validate(completion), used), used
        except ValidationError:
            return self.fault("bad_answers", "the answer isn't a chat completion"), used
        except (BadInputError, TransientError) as error:
            return error, used

    async def _attempt(
        self, messages: "list[Sent]", used: Usage, say: Callable[[str], None] | None, pieces: list[str]
    ) -> Reply:
        """Call once, and check the answer; ``pieces`` gets the words of a stream. Errors as for ``call``."""

        async def send(parameters: Parameters) -> _Answer:
            if say is None:
                return await self._whole(messages, parameters)
            return await self._streamed(messages, parameters, say, pieces)

        answer = await self.call(send, lambda: self.parameters | (self._stream_options if say else {}), used)
        return self._checked(answer, used)

    async def _whole(self, messages: "list[Sent]", parameters: Parameters) -> "_Answer":
        """Return an unstreamed answer; errors as for ``call``."""
        import anyio

        with anyio.fail_after(self._options.timeout_s):
            response = await self.client.chat.completions.with_raw_response.create(
                model=self.name, messages=messages, **parameters
            )
        try:
            return _Answer.model_validate_json(response.content)
        except ValidationError as error:
            excerpt = self.shown(response.content.decode(errors="replace"))
            raise self.fault("bad_answers", f"the answer isn't a chat completion: {excerpt}") from error

    async def _streamed(
        self, messages: "list[Sent]", parameters: Parameters, say: Callable[[str], None], pieces: list[str]
    ) -> "_Answer":
        """Return a streamed answer; errors as for ``call``."""
        import anyio

        answer, message = _Answer(choices=[]), _Message()
        finish_reason: str | None = None
        remaining = self._longest
        with anyio.fail_after(self._options.timeout_s):
            chunks = await self.client.chat.completions.create(
                model=self.name, messages=messages, stream=True, **parameters
            )
        async with chunks:
            while remaining > 0:
                try:
                    with anyio.fail_after(self._options.timeout_s):
                        streamed_chunk = await anext(chunks, None)
                    if streamed_chunk is None:
                        break
                    chunk = _Chunk.model_validate(streamed_chunk, from_attributes=True)
                except ValueError as error:
                    raise self.fault("bad_answers", "a chunk of the stream isn't a chat completion") from error
                answer.model, answer.usage = chunk.model or answer.model, chunk.usage or answer.usage
                # In OpenAI's protocol, the chunk with the usage has no choice.
                for choice in chunk.choices[:1]:
                    finish_reason = choice.finish_reason or finish_reason
                    message.refusal = (message.refusal or "") + (choice.delta.refusal or "")
                    if piece := (choice.delta.content or "")[:remaining]:
                        pieces.append(piece)
                        say(piece)
                        remaining -= len(piece) - 1
                remaining -= 1  # for each chunk, so that one without a word counts, too
            else:
                finish_reason = "length"
        if finish_reason is None:
            raise self.fault("bad_answers", "the stream ends before the reply does")
        message.content = "".join(pieces)
        answer.choices = [_Choice(message=message, finish_reason=finish_reason)]
        return answer

    def _messages(self, request: Request) -> "list[Sent]":
        """Return the messages of a request; raise ``BadInputError`` if a picture can't be decoded."""
        messages: list[Sent] = []
        for message in request.messages:
            is_user = message.role == "user"
            content = content_parts(message.text, message.pictures, self._max_side_px) if is_user else message.text
            messages.append(cast("Sent", {"role": message.role, "content": content}))
        return messages

    def _checked(self, answer: "_Answer", used: Usage) -> Reply:
        """Return the reply in an answer; errors as for ``call``."""
        # Tokens cost money whatever the answer is, so they are counted before it is judged.
        if answer.usage is not None:
            used.input_tokens += answer.usage.prompt_tokens or 0
            used.output_tokens += answer.usage.completion_tokens or 0
        if not answer.choices:
            raise self.fault("bad_answers", "the answer holds no choice")
        self._has_answered = True
        note = self.other_name(answer.model)
        if note and self.faults["other_models"] == 1:
            _logger.warning("%s", note)
        choice = answer.choices[0]
        if choice.message.refusal or choice.finish_reason == "content_filter":
            self.faults["refusals"] += 1
            why = f": {self.shown(choice.message.refusal)}" if choice.message.refusal else " (content filter)"
            raise BadInputError(f"{self.where}: the model refuses to answer{why}", FailureCode.MODEL_FAILED)
        text = (choice.message.content or "").strip()
        if not text:
            self.faults["empty_answers"] += 1
            limit = "; it used up max_tokens on something else" if choice.finish_reason == "length" else ""
            raise BadInputError(f"{self.where}: the model's answer is empty{limit}", FailureCode.MODEL_FAILED)
        return Reply(
            text=text,
            model=answer.model or self.name,
            calls=used.calls,
            input_tokens=used.input_tokens,
            output_tokens=used.output_tokens,
            complete=choice.finish_reason != "length",
            note=note,
        )

    def can_do_without(self, error: "APIStatusError", sent: Parameters) -> bool:
        """Return whether a rejected parameter can be left out, and leave it out from now on."""
        if "stream_options" in sent and "stream_options" in f"{error.param} {message_of(error.body)}":
            self._stream_options = {}
            return True
        unknown = error.param or ""
        if error.status_code != 400 or error.code not in UNKNOWN_PARAMETER or unknown not in sent:
            return False
        if unknown == "max_tokens":
            # Models that think first count those tokens too, and have another name for the limit of both.
            self.parameters["max_completion_tokens"] = sent["max_tokens"]
        elif sent[unknown] != _PROTOCOL_DEFAULT:
            return False
        self.parameters.pop(unknown, None)
        return True


def card(captioner: ModelEntry) -> ModelCard:
    """Return a model's card; nothing needs to be installed."""
    return ModelCard(name=captioner.model, revision=captioner.revision or "", settings_version=SETTINGS_VERSION)


def model(config_key: str, captioner: ModelEntry) -> Model[LanguageModel]:
    """Return a model behind an endpoint, unloaded; ``concurrency`` alone bounds the calls at once."""
    check_extra(f"{config_key}: an endpoint", "endpoints", "openai")
    return Model(card=lambda: card(captioner), load=lambda _batch: Endpoint(config_key, captioner))


_PROTOCOL_DEFAULT = 1
"""Of ``temperature`` and ``top_p``; sent all the same, since vLLM has defaults of the model's own."""


class _Message(BaseModel):
    content: str | None = None
    refusal: str | None = None


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None


class _Delta(BaseModel):
    delta: _Message
    finish_reason: str | None = None


class _Answer(BaseModel):
    """The fields of a chat completion that are used, validated; the client's own type isn't."""

    choices: list[_Choice]
    model: str | None = None
    usage: Tokens | None = None


class _Chunk(BaseModel):
    """The fields of a stream's chunk that are used; ``usage`` is of the reply so far."""

    choices: list[_Delta]
    model: str | None = None
    usage: Tokens | None = None
