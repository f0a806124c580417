"""sentence-transformers models, run by torch.

Padding to the longest text of a batch changes a vector's bits. So texts are batched in buckets of equal padded length: on
one machine a text has the same vector whatever the batch size, order and threads.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from backends.models.devices import best_device, raising_memory_errors
from backends.models.files import check_extra, model_file, model_json
from backends.models.languages import languages_of
from backends.models.sentence_embedder import SentenceEmbedder, TokenCounter, load_tokenizer
from schemas.base import batched
from schemas.errors import ContractError, UserError
from schemas.models import CODE_REVISION, TRUST, ModelName, TextModel
from schemas.ports import Vector
from schemas.versions import ModelCard

SETTINGS_VERSION = "1"
"""Raise it with any change here or in ``sentence_embedder.py`` that may change a vector."""

BUCKET_TOKENS = 32

TEXT_TOKENS = 256
"""Tokens of the texts that ``batch`` counts: of shorter texts more go together, of longer ones fewer."""

_COMMIT = re.compile(r"[0-9a-f]{40}")

Tokens = NDArray[np.int64]
Forward = Callable[[Tokens, Tokens], Vector]
"""Token ids and attention mask, both ``(batch, length)``, to pooled vectors ``(batch, dimension)``."""


@dataclass(frozen=True)
class LengthBuckets:
    """Runs a model on texts of one bucket of lengths at a time: ``batch`` of ``TEXT_TOKENS``, padded with the token ``pad``."""

    forward: Forward
    dimension: int
    batch: int
    pad: int = 0

    def __call__(self, tokens: Sequence[Sequence[int]]) -> Vector:
        """Return the pooled vector of each text."""
        vectors = np.empty((len(tokens), self.dimension), np.float32)
        buckets: dict[int, list[int]] = defaultdict(list)
        for index, ids in enumerate(tokens):
            buckets[max(1, -(-len(ids) // BUCKET_TOKENS)) * BUCKET_TOKENS].append(index)
        for length, indices in sorted(buckets.items()):
            for together in batched(indices, max(1, self.batch * TEXT_TOKENS // length)):
                vectors[together] = self.forward(*self._padded([tokens[index] for index in together], length))
        return vectors

    def _padded(self, tokens: Sequence[Sequence[int]], length: int) -> tuple[Tokens, Tokens]:
        ids = np.full((len(tokens), length), self.pad, np.int64)
        mask = np.zeros((len(tokens), length), np.int64)
        for row, token_ids in enumerate(tokens):
            ids[row, : len(token_ids)] = token_ids
            mask[row, : len(token_ids)] = 1
        return ids, mask


def model(model_name: ModelName) -> TextModel:
    """Return a sentence-transformers model, unloaded.

    Its prompts are its files', unless the settings ``document_prompt`` and ``query_prompt`` override them.

    Raises:
        UserError: sentence-transformers is not installed; raised at planning already.
    """
    check_extra(f"{model_name.option}: {model_name.name!r}", "torch", "sentence_transformers")
    if model_name.revision is None:
        raise ContractError("a model that is not packaged needs a revision")
    return TextModel(
        card=lambda: sentence_transformer_card(model_name),
        load=lambda batch: open_sentence_transformer(model_name, batch=batch),
        token_counter=lambda: TokenCounter(load_tokenizer(model_file(model_name, "tokenizer.json"))),
        languages=languages_of(model_name.name),
    )


def open_sentence_transformer(model_name: ModelName, *, batch: int) -> SentenceEmbedder:
    """Load a sentence-transformers model from a folder, the hub or its local cache.

    Raises:
        UserError: There is no such model, it has no ``tokenizer.json``, or it needs code that isn't allowed.
        TransientError: The hub can't be reached and the model is not in its local cache.
    """
    card = sentence_transformer_card(model_name)
    counter = TokenCounter(load_tokenizer(model_file(model_name, "tokenizer.json")))

    import torch
    from sentence_transformers import SentenceTransformer

    local, device = Path(model_name.name).is_dir(), best_device()
    revision = None if local else model_name.revision
    code = {} if model_name.setting(CODE_REVISION) is None else {"code_revision": model_name.setting(CODE_REVISION)}
    try:
        model = SentenceTransformer(
            model_name.name,
            revision=revision,
            device=device,
            local_files_only=local,
            trust_remote_code=bool(model_name.setting(TRUST)),
            model_kwargs=dict(code),
            config_kwargs=dict(code),
        ).eval()
    except ValueError as error:
        if model_name.setting(TRUST) or "trust_remote_code" not in str(error):
            raise
        raise UserError(
            f"{model_name.option}: {model_name.name} comes with code of its own; read it, and set trust_remote_code: true "
            f"beside the model's revision, or name another model"
        ) from error

    def forward(ids: Tokens, mask: Tokens) -> Vector:
        with raising_memory_errors(model_name.name), torch.inference_mode():
            tokens = {"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(mask)}
            outputs = model({name: values.to(device) for name, values in tokens.items()})
        vectors: Vector = outputs["sentence_embedding"].float().cpu().numpy()
        return vectors

    prompts: dict[str, str] = model.prompts
    set_prompts = (model_name.setting("document_prompt"), model_name.setting("query_prompt"))
    packaged_prompts = (prompts.get("document") or prompts.get("passage") or "", prompts.get("query") or "")
    return SentenceEmbedder(
        card,
        counter,
        LengthBuckets(forward, card.dimension or 0, batch, model.tokenizer.pad_token_id or 0),
        longest=model.max_seq_length or 512,
        prompts=(
            str(packaged_prompts[0] if set_prompts[0] is None else set_prompts[0]),
            str(packaged_prompts[1] if set_prompts[1] is None else set_prompts[1]),
        ),
    )


def sentence_transformer_card(model_name: ModelName) -> ModelCard:
    """Return a model's card from its configuration.

    Raises:
        UserError: There is no such model, its dimension is unknown, or its code isn't pinned.
        TransientError: The hub can't be reached and the files are not in its local cache.
    """
    if model_name.setting(TRUST):
        _check_code_is_pinned(model_name)
    dimension: int | None = None
    for module in model_json(model_name, "modules.json"):
        if module["path"] and module["type"].rsplit(".", 1)[-1] in {"Pooling", "Dense"}:
            config = model_json(model_name, f"{module['path']}/config.json")
            sizes = (config.get(size) for size in ("out_features", "word_embedding_dimension", "embedding_dimension"))
            dimension = next((size for size in sizes if size), dimension)
    if dimension is None:
        raise UserError(
            f"{model_name.option}: {model_name.name} does not say how long its vectors are; use a sentence-transformers model"
        )
    return ModelCard(
        name=model_name.name, revision=model_name.revision or "", dimension=dimension, settings_version=SETTINGS_VERSION
    )


def _check_code_is_pinned(model_name: ModelName) -> None:
    """Raise ``UserError`` if the code that comes with a model may change."""
    option = f"{model_name.option}.trust_remote_code"
    if not Path(model_name.name).is_dir() and not _COMMIT.fullmatch(model_name.revision or ""):
        raise UserError(
            f"{option}: revision {model_name.revision!r} of {model_name.name} may come to mean other "
            f"code; write its commit, 40 hexadecimal digits"
        )
    modules = model_json(model_name, "modules.json")
    first = modules[0]["path"]
    classes = model_json(model_name, f"{first}/config.json" if first else "config.json").get("auto_map", {})
    # Code of another repository is written as ``REPOSITORY--module.Class``.
    elsewhere = "--" in f"{classes} {[module['type'] for module in modules]}"
    if elsewhere and not _COMMIT.fullmatch(str(model_name.setting(CODE_REVISION) or "")):
        raise UserError(
            f"{option}: code of {model_name.name} lies in another repository; write that one's commit, "
            f"40 hexadecimal digits, as code_revision"
        )
