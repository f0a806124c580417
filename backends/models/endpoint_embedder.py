"""Text embedding models behind a server that speaks OpenAI's protocol: vLLM, Ollama, Text Embeddings Inference, a cloud.

Failed calls are handled as in ``endpoint_calls.py``. A text that the server rejects ends the refresh: each row has a vector.
"""

import threading
from collections import Counter
from collections.abc import Sequence
from functools import partial

import numpy as np
from pydantic import BaseModel, ValidationError

from backends.models import minilm
from backends.models.endpoint_calls import EndpointCalls, Parameters, Tokens
from backends.models.files import check_extra
from backends.models.sentence_embedder import PromptedEmbedder
from schemas.corpus.models import EmbeddingEndpoint
from schemas.errors import BadInputError, TransientError, UserError
from schemas.models import DIMENSION, ENDPOINT, MINILM, ModelName, TextModel, Usage
from schemas.ports import Vector
from schemas.versions import ModelCard

SETTINGS_VERSION = "1"
"""Raise it with any change here or in ``endpoint_calls.py`` that may change a vector."""


def card(model_name: ModelName) -> ModelCard:
    """Return a model's card; nothing needs to be installed."""
    dimension = int(model_name.setting(DIMENSION) or 0)
    return ModelCard(
        name=model_name.name, revision=model_name.revision or "", dimension=dimension, settings_version=SETTINGS_VERSION
    )


def model(model_name: ModelName) -> TextModel:
    """Return a model behind an endpoint, unloaded. Tokens are counted by the packaged model's tokenizer."""
    check_extra(f"{model_name.option}: an endpoint", "endpoints", "openai")
    return TextModel(
        card=lambda: card(model_name),
        load=lambda batch: EndpointEmbedder(model_name, batch),
        token_counter=minilm.model(ModelName(MINILM)).token_counter,
    )


class EndpointEmbedder(PromptedEmbedder):
    """A ``TextEmbedder`` behind a server, at most ``batch`` texts a call. Threads share neither connections nor limits of rate.

    ``concurrency`` calls run at once.

    Raises:
        UserError: The address is invalid, or the environment variable holds no usable key; or, when it embeds, the server
            isn't as configured, or rejects a text.
        TransientError: When it embeds: the server doesn't answer, after all retries.
    """

    def __init__(self, model_name: ModelName, batch: int) -> None:
        endpoint_json = model_name.setting(ENDPOINT)
        if endpoint_json is None:
            raise UserError(
                f"{model_name.option}: {model_name.name!r} runs behind an endpoint; name its endpoint in the corpus file"
            )
        self._endpoint = EmbeddingEndpoint.model_validate_json(str(endpoint_json))
        document_prompt, query_prompt = (
            str(model_name.setting(name) or "") for name in ("document_prompt", "query_prompt")
        )
        super().__init__(model_name.name, self._endpoint.dimension, (document_prompt, query_prompt))
        self.usage, self.faults = Usage(), Counter[str]()
        self._named, self._batch = model_name, batch
        self._of_this_thread = threading.local()
        self._calls()

    def _embed(self, texts: list[str]) -> Vector:
        if not texts:
            return np.empty((0, self.dimension), np.float32)
        calls = self._calls()
        with calls.connected() as portal:
            try:
                raw_vectors = portal.call(calls.vectors, texts, self._batch)
            except BadInputError as error:
                raise UserError(f"{error.message}; shorten chunks.tokens, or embed by another model") from error
        lengths = np.linalg.norm(raw_vectors, axis=1, keepdims=True)
        if not (np.isfinite(raw_vectors).all() and (lengths > 0).all()):
            raise TransientError(
                f"{self._named.option}: {self.name} at {self._endpoint.url} returned a vector that is zero or not finite"
            )
        unit: Vector = (raw_vectors / lengths).astype(np.float32)
        return unit

    def _calls(self) -> "_Calls":
        """Return the calls of this thread; new ones after those that ended for good."""
        calls: _Calls | None = getattr(self._of_this_thread, "calls", None)
        if calls is None or calls.has_ended:
            calls = _Calls(self._named, self._endpoint)
            calls.usage, calls.faults = self.usage, self.faults
            self._of_this_thread.calls = calls
        return calls


class _Calls(EndpointCalls):
    """The embeddings of one model."""

    def __init__(self, model_name: ModelName, options: EmbeddingEndpoint) -> None:
        super().__init__(model_name.option, (model_name.name, model_name.revision or ""), options)
        self.parameters = {"encoding_format": "float"} | ({"dimensions": options.dimension} if options.shorten else {})
        self._dimension, self._endpoint = options.dimension, options

    async def vectors(self, texts: Sequence[str], batch: int) -> Vector:
        """Return one vector a text, of any length above zero; errors as for ``retried``."""
        import anyio

        size = self._endpoint.texts_a_call(len(texts), batch)
        vectors_by_start: dict[int, Vector] = {}
        failed: list[Exception] = []
        limit = anyio.Semaphore(self._endpoint.concurrency)

        async def run(start: int) -> None:
            async with limit:
                try:
                    vectors_by_start[start] = await self._batch(texts[start : start + size])
                except (BadInputError, TransientError, UserError) as error:
                    # Not raised here, since a task group would wrap it in an exception group; the other calls end, too.
                    failed.append(error)
                    group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            for start in range(0, len(texts), size):
                group.start_soon(run, start)
        if failed:
            raise failed[0]
        return np.concatenate([vectors_by_start[start] for start in sorted(vectors_by_start)])

    async def _batch(self, texts: Sequence[str]) -> Vector:
        used = Usage()
        try:
            return await self.retried(partial(self._attempt, texts, used))
        finally:
            self.usage.add(used)

    async def _attempt(self, texts: Sequence[str], used: Usage) -> Vector:
        import anyio

        async def send(parameters: Parameters) -> bytes:
            with anyio.fail_after(self._options.timeout_s):
                vectors_by_index = await self.client.embeddings.with_raw_response.create(
                    model=self.name, input=list(texts), **parameters
                )
            content: bytes = vectors_by_index.content
            return content

        content = await self.call(send, lambda: self.parameters, used)
        try:
            answer = _Answer.model_validate_json(content)
        except ValidationError as error:
            excerpt = self.shown(content.decode(errors="replace"))
            raise self.fault("bad_answers", f"the answer holds no embeddings: {excerpt}") from error
        if answer.usage is not None:
            used.input_tokens += answer.usage.prompt_tokens or 0
        if other_model := self.other_name(answer.model):
            raise TransientError(other_model)
        vectors_by_index = {embedding.index: embedding.embedding for embedding in answer.data}
        if sorted(vectors_by_index) != list(range(len(texts))) or len(answer.data) != len(texts):
            raise self.fault("bad_answers", f"it answered {len(answer.data)} embeddings of {len(texts)} texts")
        if wrong := {len(embedding) for embedding in vectors_by_index.values()} - {self._dimension}:
            raise UserError(
                f"{self.where}.dimension: {self.name} at {self._server} makes vectors of {min(wrong)} numbers, not "
                f"{self._dimension}; write that, or shorten: true if the model can make shorter ones"
            )
        self._has_answered = True
        return np.array([vectors_by_index[index] for index in range(len(texts))], np.float64)


class _Embedding(BaseModel):
    index: int
    embedding: list[float]


class _Answer(BaseModel):
    """The fields of an answer that are used, validated; the client's own type isn't."""

    data: list[_Embedding]
    model: str | None = None
    usage: Tokens | None = None
