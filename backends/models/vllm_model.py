"""Generative models by vLLM in this process, split over several GPUs of a node (``tensor_parallel``).

vLLM isn't a dependency: it pins torch itself, so it is installed on GPU nodes alone. Weights come from a folder or from the
hub's cache, in bfloat16. Replies may differ from those of ``local_model`` in nearly equal words, so the card does, too.
"""

import base64
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import islice
from typing import Any

from backends.models.files import model_files
from backends.models.pictures import encode
from backends.models.streaming import Outcome
from schemas.corpus.models import ModelCaptioner
from schemas.errors import BadInputError, FailureCode, UserError
from schemas.models import Message, Reply, Request, Usage

SETTINGS_VERSION = "vllm-1"
"""Raise it with any change here or in ``pictures.py`` that may change replies."""

BATCHES_TOGETHER = 32
"""Times ``batch`` requests that vLLM gets at once: it schedules them itself, as many as its cache of keys holds."""


class VllmModel:
    """A ``LanguageModel`` of vLLM.

    Args:
        config_key: The corpus file's key, for messages.
        captioner: The configuration.
        batch: Requests at once, times ``BATCHES_TOGETHER``.

    Raises:
        UserError: vLLM or the model isn't on this machine, or can't be used.
    """

    def __init__(self, config_key: str, captioner: ModelCaptioner, batch: int) -> None:
        try:
            import vllm
        except ImportError as error:
            raise UserError(
                f"{config_key}: tensor_parallel needs vLLM where the model runs; install it on the GPU nodes, "
                "or leave the key out"
            ) from error

        self.name, self.revision = captioner.model, captioner.revision
        self.usage, self.faults = Usage(), Counter[str]()
        self._where, self._max_side_px = config_key, captioner.max_side_px
        self._together = batch * BATCHES_TOGETHER
        folder = model_files(captioner.model, captioner.revision, config_key)
        try:
            self._model: Any = vllm.LLM(
                model=str(folder), tensor_parallel_size=captioner.tensor_parallel, dtype="bfloat16", seed=0
            )
        except Exception as error:
            why = str(error).strip().partition("\n")[0][:200] or type(error).__name__
            raise UserError(
                f"{config_key}: vLLM can't run {captioner.model!r} on {captioner.tensor_parallel} GPUs: {why}"
            ) from error
        self._sampling = vllm.SamplingParams(
            temperature=captioner.temperature, top_p=captioner.top_p, max_tokens=captioner.max_tokens
        )

    def replies(self, requests: Iterable[Request]) -> Iterator[tuple[str, Outcome]]:
        """Yield the outcome of each request."""
        waiting = iter(requests)
        while together := list(islice(waiting, self._together)):
            chats: list[tuple[str, list[dict[str, Any]]]] = []
            for request in together:
                try:
                    chats.append((request.id, [self._message(message) for message in request.messages]))
                except BadInputError as error:
                    yield request.id, error
            if not chats:
                continue
            completions = self._model.chat([messages for _, messages in chats], self._sampling, use_tqdm=False)
            yield from ((name, self._outcome(completion)) for (name, _), completion in zip(chats, completions, strict=True))

    def stream(self, request: Request, *, stopped: Callable[[], bool] = lambda: False) -> Generator[str | Outcome]:
        """Yield the whole reply, then the outcome: vLLM's offline engine has no streams."""
        for _, outcome in self.replies([request]):
            if isinstance(outcome, Reply):
                yield outcome.text
            yield outcome

    def _message(self, message: Message) -> dict[str, Any]:
        pictures = [encode(picture, self._max_side_px) for picture in message.pictures]
        picture_parts = [
            {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{base64.b64encode(picture).decode()}"}}
            for picture, kind in pictures
        ]
        return {"role": message.role, "content": [*picture_parts, {"type": "text", "text": message.text}]}

    def _outcome(self, completion: Any) -> Outcome:
        (reply,) = completion.outputs
        used = Usage(1, len(completion.prompt_token_ids), len(reply.token_ids))
        self.usage.add(used)
        if not (text := reply.text.strip()):
            self.faults["empty_answers"] += 1
            return BadInputError(f"{self._where}: the model answered without a word", FailureCode.MODEL_FAILED)
        return Reply(text, self.name, 1, used.input_tokens, used.output_tokens, complete=reply.finish_reason == "stop")
