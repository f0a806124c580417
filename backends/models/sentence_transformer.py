"""Any model of sentence-transformers, run by torch.

Padded to the longest text of its batch, a text gets other bits beside other texts (seven in ten of MiniLM's). Here a text
is padded to the bucket of its own length and meets only texts of that bucket, so the same text gives the same bits on one
machine, whatever the batch size, the order and the threads.
"""

import importlib.util
import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backends.models.sentence_embedder import SentenceEmbedder, TokenCounter
from schemas.errors import ContractError, TransientError, UserError
from schemas.models import ModelName, TextModel
from schemas.ports import Vector
from schemas.versions import ModelCard

BUCKET_TOKENS = 32

Tokens = NDArray[np.int64]
Forward = Callable[[Tokens, Tokens], Vector]
"""Takes token ids and attention mask, both ``(batch, length)``; returns pooled vectors ``(batch, dimension)``."""


@dataclass(frozen=True)
class InBuckets:
    """Gives a model the texts of one bucket of lengths at a time, padded to it.

    Attributes:
        forward: The model.
        dimension: Length of a vector.
        batch: Texts the model is given at once at most.
        pad: Token id to pad with.
    """

    forward: Forward
    dimension: int
    batch: int
    pad: int = 0

    def __call__(self, tokens: Sequence[Sequence[int]]) -> Vector:
        """Return the pooled vector of each text."""
        vectors = np.empty((len(tokens), self.dimension), np.float32)
        buckets: dict[int, list[int]] = defaultdict(list)
        for place, ids in enumerate(tokens):
            buckets[max(1, -(-len(ids) // BUCKET_TOKENS)) * BUCKET_TOKENS].append(place)
        for length, places in sorted(buckets.items()):
            for start in range(0, len(places), self.batch):
                together = places[start : start + self.batch]
                vectors[together] = self.forward(*self._padded([tokens[place] for place in together], length))
        return vectors

    def _padded(self, tokens: Sequence[Sequence[int]], length: int) -> tuple[Tokens, Tokens]:
        ids = np.full((len(tokens), length), self.pad, np.int64)
        mask = np.zeros((len(tokens), length), np.int64)
        for row, found in enumerate(tokens):
            ids[row, : len(found)] = found
            mask[row, : len(found)] = 1
        return ids, mask


def model(named: ModelName) -> TextModel:
    """Offer any sentence-transformers model to the registry.

    Raises:
        UserError: sentence-transformers is not installed. Planning says so already, before anything is parsed.
    """
    name, revision = named.name, named.revision
    if importlib.util.find_spec("sentence_transformers") is None:
        raise UserError(f"embeddings.text: {name!r} needs the extra: pip install -e '.[torch]', or make setup")
    if revision is None:
        raise ContractError("a model that is not packaged needs a revision")
    return TextModel(
        card=lambda: sentence_transformer_card(name, revision),
        load=lambda batch: open_sentence_transformer(name, revision, batch=batch),
        token_counter=lambda: TokenCounter(model_file(name, revision, "tokenizer.json")),
    )


def open_sentence_transformer(name: str, revision: str, *, batch: int) -> SentenceEmbedder:
    """Load any sentence-transformers model by folder, or by name from the Hugging Face hub or its local cache.

    Raises:
        UserError: There is no such model, or it has no ``tokenizer.json``.
        TransientError: The hub can't be reached and the model is not in its local cache.
    """
    card = sentence_transformer_card(name, revision)
    counter = TokenCounter(model_file(name, revision, "tokenizer.json"))

    import torch
    from sentence_transformers import SentenceTransformer

    local = Path(name).is_dir()
    model = SentenceTransformer(name, revision=None if local else revision, device="cpu", local_files_only=local).eval()

    def forward(ids: Tokens, mask: Tokens) -> Vector:
        with torch.inference_mode():
            found = model({"input_ids": torch.from_numpy(ids), "attention_mask": torch.from_numpy(mask)})
        vectors: Vector = found["sentence_embedding"].float().numpy()
        return vectors

    prompts: dict[str, str] = model.prompts
    return SentenceEmbedder(
        card,
        counter,
        InBuckets(forward, card.dimension or 0, batch, model.tokenizer.pad_token_id or 0),
        longest=model.max_seq_length or 512,
        prompts=(prompts.get("document") or prompts.get("passage") or "", prompts.get("query") or ""),
    )


def sentence_transformer_card(name: str, revision: str) -> ModelCard:
    """Describe a model by its configuration files; its weights are not touched.

    Raises:
        UserError: There is no such model, or it does not say how long its vectors are.
        TransientError: The hub can't be reached and the files are not in its local cache.
    """
    dimension: int | None = None
    for module in _json(name, revision, "modules.json"):
        if module["path"] and module["type"].rsplit(".", 1)[-1] in {"Pooling", "Dense"}:
            config = _json(name, revision, f"{module['path']}/config.json")
            sizes = (config.get(size) for size in ("out_features", "word_embedding_dimension", "embedding_dimension"))
            dimension = next((size for size in sizes if size), dimension)
    if dimension is None:
        raise UserError(f"embeddings.text: {name} does not say how long its vectors are; use a sentence-transformers model")
    return ModelCard(name=name, revision=revision, dimension=dimension)


def model_file(name: str, revision: str, file: str) -> Path:
    """Find one small file of a model: in its folder, else in the hub's local cache, else at the hub.

    Raises:
        UserError: The model has no such file.
        TransientError: The hub can't be reached and the file is not in its local cache.
    """
    if Path(name).is_dir():
        if (found := Path(name, file)).is_file():
            return found
        raise UserError(f"embeddings.text: {name} has no {file}; give the folder of a sentence-transformers model")
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(hf_hub_download(name, file, revision=revision))
    except LocalEntryNotFoundError as error:
        raise TransientError(f"embeddings.text: {name} is not on this machine and the hub does not answer") from error
    except (HfHubHTTPError, HFValidationError) as error:
        raise UserError(f"embeddings.text: no {file} of {name} at revision {revision}: {error}") from error


def _json(name: str, revision: str, file: str) -> Any:
    return json.loads(model_file(name, revision, file).read_text(encoding="utf-8"))
