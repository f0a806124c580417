"""Scorers of passages: cross-encoders of sentence-transformers, and late interaction over tokens."""

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from backends.models.devices import best_device, raising_memory_errors
from backends.models.files import check_extra, loading, model_folder
from backends.models.pictures import fit
from schemas.corpus.models import ModelEntry
from schemas.models import Model, ModelName
from schemas.ports import PassageScorer, Vector
from schemas.versions import ModelCard

FILES = ("*.json", "*.jinja", "*.txt", "*.model", "*.safetensors")
AT_ONCE = 16
"""Passages that a model scores at once."""

LARGEST_SIDE_PX = 1024
"""Pictures are scaled down to this before a model's own processor scales them."""


def model(config_key: str, options: ModelEntry) -> Model[PassageScorer]:
    """Return a scorer, unloaded; ``UserError`` if what runs it is not installed."""
    check_extra(f"{config_key}: a cross-encoder", "torch", "sentence_transformers")
    model_name = ModelName(options.model, options.revision, option=config_key)
    return Model(
        card=lambda: ModelCard(name=options.model, revision=options.revision or ""),
        load=lambda _: CrossEncoder(model_name),
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
