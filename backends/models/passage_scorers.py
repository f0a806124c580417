"""Scorers of passages: cross-encoders of sentence-transformers, and late interaction over the tokens of a text encoder."""

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from backends.models.devices import best_device, raising_memory_errors
from backends.models.files import check_extra, loading, model_folder
from backends.models.pictures import fit
from schemas.base import batched
from schemas.corpus.models import EntryKind, ModelEntry
from schemas.models import Model, ModelName
from schemas.ports import PassageScorer, Vector
from schemas.versions import ModelCard

FILES = ("*.json", "*.jinja", "*.txt", "*.model", "*.safetensors")
AT_ONCE = 16
"""Passages that a model scores at once."""

LARGEST_SIDE_PX = 1024
"""Pictures are scaled down to this before a model's own processor scales them."""

LONGEST_TOKENS = 512
PROJECTION = "linear.weight"
"""ColBERT's projection of tokens, which isn't part of the encoder."""


def model(config_key: str, options: ModelEntry) -> Model[PassageScorer]:
    """Return a scorer, unloaded; ``UserError`` if what runs it is not installed."""
    is_late = options.kind is EntryKind.LATE_SCORER
    if is_late:
        check_extra(f"{config_key}: a late-interaction model", "torch", "transformers", "torch")
    else:
        check_extra(f"{config_key}: a cross-encoder", "torch", "sentence_transformers")
    model_name = ModelName(options.model, options.revision, option=config_key)
    scorer = LateScorer if is_late else CrossEncoder
    return Model(
        card=lambda: ModelCard(name=options.model, revision=options.revision or ""), load=lambda _: scorer(model_name)
    )


class CrossEncoder:
    """A ``PassageScorer``; the model is in a folder, or on the hub.

    Raises:
        UserError: The model isn't there, or can't be loaded.
        TransientError: The hub can't be reached and the model is not in its local cache.
    """

    def __init__(self, model_name: ModelName) -> None:
        folder = model_folder(model_name, FILES)

        import sentence_transformers

        self._name = model_name.name
        with loading(model_name, "sentence-transformers"):
            self._model: Any = sentence_transformers.CrossEncoder(
                str(folder), device=best_device(), local_files_only=True, num_labels=1
            )
        self.sees_pictures: bool = self._model.supports("image")

    def scores(self, question: str, passages: Sequence[str], pictures: Sequence[bytes | None] = ()) -> list[float]:
        """Return a score a passage, larger is better; the model sees a passage's picture beside its words."""
        if not passages:
            return []
        pairs = [
            (question, passage if picture is None else {"text": passage, "image": fit(picture, LARGEST_SIDE_PX)})
            for passage, picture in zip_longest(passages, pictures)
        ]
        with raising_memory_errors(self._name):
            predictions = self._model.predict(pairs, batch_size=AT_ONCE, show_progress_bar=False)
        return [float(score) for score in predictions]


class LateScorer:
    """A ``PassageScorer`` over the last hidden states of a text encoder such as ColBERT; errors as for ``CrossEncoder``."""

    sees_pictures = False

    def __init__(self, model_name: ModelName) -> None:
        folder = model_folder(model_name, FILES)

        import transformers

        self._name, self._device = model_name.name, best_device()
        with loading(model_name, "transformers"):
            self._tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
            encoder = transformers.AutoModel.from_pretrained(folder, local_files_only=True)
            self._projection = _projection(folder)
        self._model: Any = encoder.to(self._device).eval()

    def scores(self, question: str, passages: Sequence[str], pictures: Sequence[bytes | None] = ()) -> list[float]:
        """Return the late-interaction score of each passage; see ``best_cosines``."""
        (terms,) = self._tokens([question])
        return best_cosines(terms, (tokens for part in batched(passages, AT_ONCE) for tokens in self._tokens(part)))

    def _tokens(self, texts: Sequence[str]) -> list[Vector]:
        """Return the unit vectors of each text's tokens, shape ``(tokens, dimension)``, without padding."""
        import torch

        inputs = self._tokenizer(list(texts), padding=True, truncation=True, max_length=LONGEST_TOKENS, return_tensors="pt")
        with raising_memory_errors(self._name), torch.inference_mode():
            states = self._model(**inputs.to(self._device)).last_hidden_state.float().cpu().numpy()
        if self._projection is not None:
            states = states @ self._projection.T
        return unpadded(states, inputs["attention_mask"])


def _projection(folder: Path) -> Vector | None:
    from safetensors import safe_open

    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, "np") as weights:
            if PROJECTION in weights.keys():  # noqa: SIM118 (no mapping)
                return np.asarray(weights.get_tensor(PROJECTION), np.float32)
    return None


def unpadded(vectors: Vector, attention_mask: Any) -> list[Vector]:
    """Return the unit vectors of each row of a batch, where torch's mask has them."""
    masks = attention_mask.cpu().numpy().astype(bool)
    return [of_unit_length(row[mask]) for row, mask in zip(vectors, masks, strict=True)]


def of_unit_length(vectors: Vector) -> Vector:
    """Return vectors, one a row, at length 1."""
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


def best_cosines(question: Vector, passages: Iterable[Vector]) -> list[float]:
    """Return for each passage the mean over the question's tokens, unit vectors, of the best cosine among the passage's.

    Source:
        Khattab and Zaharia, "ColBERT", SIGIR 2020.
    """
    return [float((question @ tokens.T).max(axis=1).mean()) for tokens in passages]
