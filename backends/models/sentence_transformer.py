"""Text embedders whose vectors do not depend on the batch they were made in.

Padded to the longest text of its batch, a text gets other bits beside other texts (seven in ten of MiniLM's). Here a text
is padded to the bucket of its own length and meets only texts of that bucket, so the same text gives the same bits on one
machine, whatever the batch size, the order and the threads.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from schemas.errors import ContractError, TransientError, UserError
from schemas.models import ModelName, TextModel
from schemas.ports import Vector
from schemas.versions import ModelCard

if TYPE_CHECKING:
    from tokenizers import Tokenizer

BUCKET_TOKENS = 32

Tokens = NDArray[np.int64]
Forward = Callable[[Tokens, Tokens], Vector]
"""Takes token ids and attention mask, both ``(batch, length)``; returns pooled vectors ``(batch, dimension)``."""


class TokenCounter:
    """Counts a model's tokens with its tokenizer alone; neither torch nor the weights are loaded.

    Args:
        tokenizer_file: The model's ``tokenizer.json``.
    """

    def __init__(self, tokenizer_file: Path) -> None:
        self.tokenizer = load_tokenizer(tokenizer_file)

    def __call__(self, texts: Sequence[str]) -> list[int]:
        """Return how many tokens each text has, special ones left out."""
        return [len(found) for found in self.tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]


def load_tokenizer(file: Path) -> "Tokenizer":
    """Read a ``tokenizer.json``; what it says of truncation and padding is set aside.

    Raises:
        UserError: The file isn't there or is no tokenizer.
    """
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:
        raise UserError(f"embeddings.text: can't read the tokenizer {file}: {error}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


class SentenceEmbedder:
    """A ``TextEmbedder`` over a tokenizer and a forward pass.

    Args:
        card: The model's name, revision and dimension.
        counter: Counts, and cuts texts into, the model's tokens.
        forward: The model; called with one bucket's texts at a time.
        longest: Tokens of the longest text the model takes, special ones included; longer texts are cut.
        batch: Texts the model is given at once at most.
        pad: Token id to pad with.
        prompts: What the model wants before a document and before a question.
    """

    def __init__(
        self,
        card: ModelCard,
        counter: TokenCounter,
        forward: Forward,
        *,
        longest: int,
        batch: int,
        pad: int = 0,
        prompts: tuple[str, str] = ("", ""),
    ) -> None:
        self.name = card.name
        self.revision = card.revision
        self.dimension = card.dimension or 0
        self.max_tokens = longest - counter.tokenizer.num_special_tokens_to_add(is_pair=False)
        self.count_tokens = counter
        self._forward = forward
        self._batch = batch
        self._pad = pad
        self._document_prompt, self._query_prompt = prompts
        # A tokenizer of its own: the counter's must not truncate.
        self._tokenizer = type(counter.tokenizer).from_str(counter.tokenizer.to_str())
        self._tokenizer.enable_truncation(longest)

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        """Return one unit vector a text, shape ``(texts, dimension)``; a row never depends on the texts beside it."""
        return self._embed([self._document_prompt + text for text in texts])

    def embed_query(self, text: str) -> Vector:
        """Return the unit vector of a question, shape ``(dimension,)``."""
        row: Vector = self._embed([self._query_prompt + text])[0]
        return row

    def _embed(self, texts: list[str]) -> Vector:
        vectors = np.empty((len(texts), self.dimension), np.float32)
        tokens = [found.ids for found in self._tokenizer.encode_batch_fast(texts)]
        buckets: dict[int, list[int]] = defaultdict(list)
        for place, ids in enumerate(tokens):
            buckets[max(1, -(-len(ids) // BUCKET_TOKENS)) * BUCKET_TOKENS].append(place)
        for length, places in sorted(buckets.items()):
            for start in range(0, len(places), self._batch):
                together = places[start : start + self._batch]
                pooled = self._forward(*self._padded([tokens[place] for place in together], length))
                vectors[together] = pooled / np.linalg.norm(pooled, axis=1, keepdims=True)
        return vectors

    def _padded(self, tokens: Sequence[Sequence[int]], length: int) -> tuple[Tokens, Tokens]:
        ids = np.full((len(tokens), length), self._pad, np.int64)
        mask = np.zeros((len(tokens), length), np.int64)
        for row, found in enumerate(tokens):
            ids[row, : len(found)] = found
            mask[row, : len(found)] = 1
        return ids, mask


def model(named: ModelName) -> TextModel:
    """Offer any sentence-transformers model to the registry."""
    name, revision = named.name, named.revision
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
        forward,
        longest=model.max_seq_length or 512,
        batch=batch,
        pad=model.tokenizer.pad_token_id or 0,
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
