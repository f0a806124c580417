"""open_clip models: pictures and texts in one space, alone or combined into one vector.

They compute in float32 on any device, unless the settings ask for bfloat16: the device is in no key (docs/decisions/0003).
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from backends.models.devices import best_device, raising_memory_errors
from backends.models.files import check_extra, loading, model_folder, model_json
from backends.models.pictures import open_picture
from schemas.base import batched
from schemas.errors import UserError
from schemas.models import BFLOAT16, PRECISION, Model, ModelName
from schemas.ports import Vector
from schemas.versions import ModelCard

CONFIG = "open_clip_config.json"
WEIGHTS = ("*.safetensors", "*.bin", "*.pth")
SETTINGS_VERSION = "1"
"""Raise it with any change here or in ``pictures.py`` that may change a vector."""

CONCATENATION = "concatenation"
COMBINE, IMAGE_WEIGHT = "combine", "image_weight"
"""The settings of combined vectors; all others are open_clip's."""

LARGEST_SIDE_PX = 2048
"""Maximum longer side of a decoded picture: no model takes more than 1,024."""

THREADS = 8


def model(model_name: ModelName) -> "Model[Clip | CombinedVectors]":
    """Return an open_clip model, unloaded; one of combined vectors if the settings say how."""
    check_extra(f"{model_name.option}: {model_name.name!r}", "torch", "open_clip")
    if model_name.setting(COMBINE) is None:
        return Model(card=lambda: clip_card(model_name), load=lambda batch: Clip(model_name, batch))
    tower_settings = tuple(pair for pair in model_name.settings if pair[0] not in (COMBINE, IMAGE_WEIGHT))
    towers = ModelName(model_name.name, model_name.revision, tower_settings, model_name.option)

    def card() -> ModelCard:
        towers_card = clip_card(towers)
        return towers_card.model_copy(update={"dimension": _times(model_name) * (towers_card.dimension or 0)})

    return Model(card=card, load=lambda batch: CombinedVectors(model_name, Clip(towers, batch)))


def clip_card(model_name: ModelName) -> ModelCard:
    """Return a model's card from its configuration, and check that its weights exist; raises as ``Clip`` does."""
    dimension = int(_configuration(model_name)["embed_dim"])
    return ModelCard(
        name=model_name.name, revision=model_name.revision or "", dimension=dimension, settings_version=SETTINGS_VERSION
    )


class Clip:
    """Embeds pictures and texts in one space: a folder, or a name on the hub.

    Raises:
        UserError: The model isn't there, or its weights are another model's.
        TransientError: The hub can't be reached and the model is not in its local cache.
    """

    def __init__(self, model_name: ModelName, batch: int) -> None:
        card = clip_card(model_name)
        self.name, self.dimension = card.name, card.dimension or 0
        self._batch, self._device = batch, best_device()
        self._precision = model_name.setting(PRECISION)
        model_source = f"local-dir:{_folder(model_name)}"

        import open_clip

        with loading(model_name, "open_clip"):
            self._model, self._prepare = open_clip.create_model_from_pretrained(model_source, device=self._device)
            self._tokenize: Callable[[list[str]], Any] = open_clip.get_tokenizer(model_source)
        self._model.eval()

    def embed_pictures(self, pictures: Sequence[bytes]) -> Vector:
        """Return one unit vector a picture, shape ``(pictures, dimension)``.

        Raises:
            BadInputError: A picture can't be decoded.
            MemoryError: The batch is too large.
        """
        # The next batch is decoded while the model runs.
        with ThreadPoolExecutor(min(THREADS, os.cpu_count() or 1)) as threads:
            prepared = threads.map(lambda picture: self._prepare(open_picture(picture, LARGEST_SIDE_PX)), pictures)
            return self._in_batches(prepared, self._model.encode_image)

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        """Return one unit vector a text, shape ``(texts, dimension)``; long texts are truncated."""
        return self._in_batches(iter(self._tokenize(list(texts)) if texts else []), self._model.encode_text)

    def embed_query(self, text: str) -> Vector:
        """Return the unit vector of a question, shape ``(dimension,)``."""
        row: Vector = self.embed_documents([text])[0]
        return row

    def embed_query_picture(self, picture: bytes) -> Vector:
        """Return the unit vector of a query picture; errors as for ``embed_pictures``."""
        row: Vector = self.embed_pictures([picture])[0]
        return row

    def _in_batches(self, items: Iterator[Any], encode: Callable[..., Any]) -> Vector:
        import torch

        batches = [np.empty((0, self.dimension), np.float32)]
        for batch in batched(items, self._batch):
            with (
                raising_memory_errors(self.name),
                torch.inference_mode(),
                torch.autocast(self._device, torch.bfloat16, enabled=self._precision == BFLOAT16),
            ):
                batches.append(encode(torch.stack(batch).to(self._device)).float().cpu().numpy())
        vectors = np.concatenate(batches)
        return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


def _configuration(model_name: ModelName) -> Any:
    configuration = model_json(model_name, CONFIG)
    if Path(model_name.name).is_dir() and not any(any(Path(model_name.name).glob(kind)) for kind in WEIGHTS):
        raise UserError(
            f"{model_name.option}: the folder {model_name.name} has no weights; bring them there: one of {', '.join(WEIGHTS)}"
        )
    if "embed_dim" not in configuration.get("model_cfg", {}):
        raise UserError(
            f"{model_name.option}: {CONFIG} of {model_name.name} describes no model: it has no model_cfg with embed_dim"
        )
    return configuration["model_cfg"]


def _folder(model_name: ModelName) -> Path:
    if Path(model_name.name).is_dir():
        return Path(model_name.name)
    folder = model_folder(model_name, ("*.json", "*.txt", "*.model", "open_clip_*.safetensors"))
    if not any(folder.glob("*.safetensors")):
        folder = model_folder(model_name, ("*.json", "*.txt", "*.model", "open_clip_*.bin"))
    return folder


def combine(pictures: Vector, words: Vector, *, how: str, image_weight: float) -> Vector:
    """Return one unit vector a row from the unit vectors of pictures and words, shape ``(rows, dimension)``.

    The default is the weighted mean. A ``concatenation`` is twice as long, and its cosine with a query is the weighted mean
    of both cosines. ``image_weight`` is 0 to 1.
    """
    if how == CONCATENATION:
        return np.hstack([np.sqrt(image_weight) * pictures, np.sqrt(1 - image_weight) * words]).astype(np.float32)
    mean = image_weight * pictures + (1 - image_weight) * words
    return np.asarray(mean / np.linalg.norm(mean, axis=1, keepdims=True), np.float32)


class CombinedVectors:
    """Embeds a picture and its description as one vector; a query of words or a picture is combined with itself."""

    def __init__(self, model_name: ModelName, towers: Clip) -> None:
        self._towers = towers
        self._how, self._image_weight = str(model_name.setting(COMBINE)), float(model_name.setting(IMAGE_WEIGHT) or 0)
        self.name, self.dimension = towers.name, _times(model_name) * towers.dimension

    def embed_pairs(self, pictures: Sequence[bytes], texts: Sequence[str]) -> Vector:
        """Return one unit vector a pair; errors as for ``Clip.embed_pictures``."""
        return self._combined(self._towers.embed_pictures(pictures), self._towers.embed_documents(texts))

    def embed_query(self, text: str) -> Vector:
        """Return the unit vector of a question."""
        vector = self._towers.embed_documents([text])
        return np.asarray(self._combined(vector, vector)[0])

    def embed_query_picture(self, picture: bytes) -> Vector:
        """Return the unit vector of a query picture; errors as for ``Clip.embed_pictures``."""
        vector = self._towers.embed_pictures([picture])
        return np.asarray(self._combined(vector, vector)[0])

    def _combined(self, pictures: Vector, words: Vector) -> Vector:
        return combine(pictures, words, how=self._how, image_weight=self._image_weight)


def _times(model_name: ModelName) -> int:
    return 2 if model_name.setting(COMBINE) == CONCATENATION else 1
