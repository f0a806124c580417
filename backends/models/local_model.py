"""Generative models of ``transformers`` in this process: on a GPU in bfloat16, else on the CPU in float32. Nothing is downloaded.

Prompts are padded on the left and masked, so at temperature 0 replies don't depend on the batch in float32; in bfloat16 nearly
equal words may swap. Control tokens in a prompt's text (``<|im_end|>``, a picture's place) are encoded letter by letter, so that
documents can't inject them.
"""

import copy
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from backends.models.devices import BatchSize, Outcome, ahead
from backends.models.files import check_extra, model_files
from backends.models.pictures import fit
from schemas.corpus.models import ModelEntry
from schemas.errors import BadInputError, FailureCode, TransientError, UserError
from schemas.models import Message, Model, Reply, Request, Usage
from schemas.ports import LanguageModel
from schemas.versions import ModelCard

SETTINGS_VERSION = "1"
"""Raise it with any change here or in ``pictures.py`` that may change replies."""

FAILURES_FROM_THE_START = 20
"""Initial failures after which the model itself is broken."""


class LocalModel:
    """A ``LanguageModel`` in this process; ``config_key`` is the corpus file's key, for messages.

    ``faults`` are named ``out_of_memory``, ``failures`` and ``empty_answers``.

    Raises:
        UserError: The model isn't on this machine, or writes no replies.
    """

    def __init__(self, config_key: str, captioner: ModelEntry, batch: int) -> None:
        import torch

        self.name, self.usage, self.faults = captioner.model, Usage(), Counter[str]()
        self._where = config_key
        self._max_side_px = captioner.max_side_px
        self._batch = BatchSize(batch)
        self._failed_from_the_start: int | None = 0
        self.device = "cuda" if captioner.gpu_share and torch.cuda.is_available() else "cpu"
        self.model, self._processor = _load(captioner, self._where, self.device)
        self._tokenizer = getattr(self._processor, "tokenizer", self._processor)
        self._sees = self._tokenizer is not self._processor
        self._settings = self._generation_settings(captioner)

    def replies(self, requests: Iterable[Request]) -> Iterator[tuple[str, Outcome]]:
        """Yield the outcome of each request, batch by batch; raise ``UserError`` if the model fails on every request."""
        waiting = iter(requests)
        batches = iter(lambda: list(islice(waiting, self._batch.size)), [])
        for chats, refused in ahead(batches, self._chats):
            yield from refused
            waiting_chats = iter(chats)
            while some := list(islice(waiting_chats, self._batch.size)):
                yield from self._outcomes(some)
                self._batch.fitted()

    def _chats(self, requests: Sequence[Request]) -> "tuple[list[_Chat], list[tuple[str, BadInputError]]]":
        """Return requests as chat templates take them, and those whose pictures can't be used."""
        chats: list[_Chat] = []
        refused: list[tuple[str, BadInputError]] = []
        for request in requests:
            try:
                chats.append(self._chat(request))
            except BadInputError as error:
                refused.append((request.id, error))
        return chats, refused

    def stream(self, request: Request, *, stopped: Callable[[], bool] = lambda: False) -> Generator[str | Outcome]:
        """Yield the text of one reply, whole, then the outcome; see ``LanguageModel.stream``. Errors as for ``replies``."""
        try:
            chat = self._chat(request)
        except BadInputError as error:
            yield error
            return
        ((_, outcome),) = self._outcomes([chat], stopped)
        if stopped():
            yield TransientError("the caller no longer waits for the reply")
            return
        if isinstance(outcome, Reply):
            yield outcome.text
        yield outcome

    def _outcomes(
        self, chats: Sequence["_Chat"], stopped: Callable[[], bool] = lambda: False
    ) -> Iterator[tuple[str, Outcome]]:
        """Yield the outcomes of a batch; a failing batch is split. Replies end once ``stopped`` returns true."""
        import torch

        if not chats:
            return
        failure: str | None = None
        try:
            outcomes = self._generate([messages for _, messages in chats], stopped)
        except torch.AcceleratorError as error:
            if not _is_out_of_memory(error):
                raise  # after that no call of this process succeeds
            failure, starved = str(error), True
        except Exception as error:  # noqa: BLE001  whatever a model stumbles over lies in what it was given
            failure, starved = str(error) or type(error).__name__, _is_out_of_memory(error)
        if failure is None:
            # A model that has answered once isn't broken, however often it fails from now on.
            self._failed_from_the_start = None
            yield from zip((name for name, _ in chats), outcomes, strict=True)
            return
        # Out of the handler, so that the failed call's tensors are gone.
        half = len(chats) // 2
        if starved:
            self.faults["out_of_memory"] += 1
            self._batch.starved(len(chats))
            if self.device == "cuda":
                torch.cuda.empty_cache()
        # A batch that fails is halved until the request that it fails on is alone.
        if half:
            yield from self._outcomes(chats[:half])
            yield from self._outcomes(chats[half:])
        else:
            yield chats[0][0], self._failed(failure, starved=starved)

    def _failed(self, failure: str, *, starved: bool) -> BadInputError | TransientError:
        why = failure.strip().partition("\n")[0][:200]
        if starved:
            return TransientError(
                f"{self._where}: one request doesn't fit into memory; lower max_side_px or max_tokens: {why}"
            )
        self.faults["failures"] += 1
        if self._failed_from_the_start is not None:
            self._failed_from_the_start += 1
            if self._failed_from_the_start == FAILURES_FROM_THE_START:
                raise UserError(f"{self._where}: {self.name!r} fails on every request: {why}")
        return BadInputError(f"{self._where}: {self.name!r} fails on it: {why}", FailureCode.MODEL_FAILED)

    def _chat(self, request: Request) -> "_Chat":
        """Return a request as chat templates take it; raise ``BadInputError`` if a picture can't be decoded or seen."""
        return request.id, [{"role": message.role, "content": self._content(message)} for message in request.messages]

    def _content(self, message: Message) -> str | list[dict[str, object]]:
        if self._sees:
            pictures = [{"type": "image", "image": fit(picture, self._max_side_px)} for picture in message.pictures]
            return [*pictures, {"type": "text", "text": message.text}]
        if message.pictures:
            why = f"{self._where}: {self.name!r} reads text alone and sees no pictures; name a model that sees"
            raise BadInputError(why, FailureCode.MODEL_FAILED)
        return message.text

    def _generate(self, chats: Sequence["_Messages"], stopped: Callable[[], bool]) -> list[Outcome]:
        import torch
        from transformers import StoppingCriteriaList

        template: dict[str, Any] = {
            "tokenize": True,
            "return_dict": True,
            "return_tensors": "pt",
            "add_generation_prompt": True,
            "sanitize_control_tokens": True,
        }
        if self._sees:
            template["processor_kwargs"] = {"padding": True, "padding_side": "left"}
            prompts = self._processor.apply_chat_template(chats, **template).to(self.device, dtype=self.model.dtype)
        else:
            prompts = self._processor.apply_chat_template(chats, padding=True, **template).to(self.device)
        with torch.inference_mode():
            criteria = StoppingCriteriaList([lambda *_, **_more: stopped()])
            generated_ids = self.model.generate(**prompts, generation_config=self._settings, stopping_criteria=criteria)
        start = prompts["input_ids"].shape[1]
        read = prompts["attention_mask"].sum(dim=1).tolist()
        return [self._outcome(ids, tokens) for ids, tokens in zip(generated_ids[:, start:].tolist(), read, strict=True)]

    def _outcome(self, ids: list[int], read: int) -> Outcome:
        end = next((position for position, token in enumerate(ids, start=1) if token in self._ends), None)
        used = Usage(calls=1, input_tokens=read, output_tokens=end or len(ids))
        self.usage.add(used)
        text = self._processor.decode(ids[:end], skip_special_tokens=True).strip()
        if not text:
            self.faults["empty_answers"] += 1
            return BadInputError(f"{self._where}: the model's answer is empty", FailureCode.MODEL_FAILED)
        return Reply(text, self.name, used.calls, used.input_tokens, used.output_tokens, complete=end is not None)

    def _generation_settings(self, captioner: ModelEntry) -> Any:
        """Return the model's own generation settings with those of the corpus file."""
        settings = copy.deepcopy(self.model.generation_config)
        tokenizer = self._tokenizer
        ends = settings.eos_token_id if settings.eos_token_id is not None else tokenizer.eos_token_id
        self._ends = frozenset(ends if isinstance(ends, list) else [ends])
        sampled = captioner.temperature > 0
        settings.update(
            max_length=None,
            max_new_tokens=captioner.max_tokens,
            do_sample=sampled,
            temperature=captioner.temperature if sampled else None,
            top_p=captioner.top_p if sampled else None,
            top_k=0 if sampled else None,
            eos_token_id=sorted(self._ends),
            pad_token_id=tokenizer.pad_token_id if tokenizer.pad_token_id is not None else min(self._ends),
        )
        return settings


_Messages = list[dict[str, Any]]
_Chat = tuple[str, _Messages]
"""The id of a request, and its messages as chat templates take them."""


def card(captioner: ModelEntry) -> ModelCard:
    """Return a model's card; nothing needs to be installed."""
    return ModelCard(name=captioner.model, revision=captioner.revision or "", settings_version=SETTINGS_VERSION)


def model(config_key: str, captioner: ModelEntry) -> Model[LanguageModel]:
    """Return a generative model of ``transformers``, unloaded, which must be installed at planning already."""
    check_extra(f"{config_key}: a local model", "torch", "torch", "torchvision", "transformers")
    return Model(card=lambda: card(captioner), load=lambda batch: LocalModel(config_key, captioner, batch))


def _load(captioner: ModelEntry, config_key: str, device: str) -> tuple[Any, Any]:
    """Return a model and its processor; raise ``UserError`` if the model isn't there, or can't be used."""
    import torch
    from transformers import (
        MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING,
        AutoConfig,
        AutoModelForCausalLM,
        AutoModelForImageTextToText,
        AutoProcessor,
        AutoTokenizer,
    )
    from transformers.utils import logging

    folder = model_files(captioner.model, captioner.revision or "", config_key)
    logging.disable_progress_bar()
    try:
        sees = type(AutoConfig.from_pretrained(folder, local_files_only=True)) in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING
        processor = (AutoProcessor if sees else AutoTokenizer).from_pretrained(folder, local_files_only=True)
        loaded_model, loading_report = (AutoModelForImageTextToText if sees else AutoModelForCausalLM).from_pretrained(
            folder,
            dtype=torch.bfloat16 if device == "cuda" else torch.float32,
            local_files_only=True,
            output_loading_info=True,
        )
    except (torch.AcceleratorError, torch.OutOfMemoryError, MemoryError):
        # These say nothing about the files of the model.
        raise
    except Exception as error:
        why = str(error).strip().partition("\n")[0][:200]
        raise UserError(
            f"{config_key}: {folder} can't be loaded as a model that writes replies, or is not all here: {why}"
        ) from error
    if missing := sorted(loading_report["missing_keys"]):  # they would be random
        raise UserError(f"{config_key}: the weights in {folder} are not all that the model has; {missing[0]} is missing")
    if getattr(processor, "chat_template", None) is None:
        raise UserError(
            f"{config_key}: the model in {folder} has no chat template; use one that is made to follow instructions"
        )
    tokenizer = processor.tokenizer if sees else processor
    if not any((folder / file).is_file() for file in tokenizer.vocab_files_names.values()):  # it would be empty
        raise UserError(f"{config_key}: {folder} has no tokenizer")
    if not sees:
        tokenizer.padding_side = "left"
        tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    return loaded_model.to(device).eval(), processor


def _is_out_of_memory(error: Exception) -> bool:
    import torch

    message = str(error).lower()
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or "out of memory" in message or "alloc" in message
