"""A picture and its description as one vector, by an open_clip model."""

from collections.abc import Sequence

import numpy as np

from backends.models import clip
from schemas.ids import FIRST_VERSION
from schemas.models import Model, ModelName
from schemas.ports import PairEmbedder, PictureEmbedder, Vector
from schemas.versions import ModelCard

SETTINGS_VERSION = "1"
"""Raise it, beside that of ``clip``, with any change of how two vectors are combined."""

CONCATENATION = "concatenation"
COMBINE, IMAGE_WEIGHT = "combine", "image_weight"
"""The settings of the combination; all others are open_clip's."""


def model(model_name: ModelName) -> Model[PairEmbedder]:
    """Return an open_clip model, unloaded; errors as for ``clip.model``."""
    towers = clip.model(_towers(model_name))
    return Model(
        card=lambda: _card(model_name, towers.card()), load=lambda batch: CombinedVectors(model_name, towers.load(batch))
    )


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
    """A ``PairEmbedder``; a query of words or a picture is combined with itself."""

    def __init__(self, model_name: ModelName, towers: PictureEmbedder) -> None:
        self._towers = towers
        self._how, self._image_weight = str(model_name.setting(COMBINE)), float(model_name.setting(IMAGE_WEIGHT) or 0)
        self.name, self.revision, self.dimension = towers.name, towers.revision, _times(model_name) * towers.dimension

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


def _card(model_name: ModelName, towers: ModelCard) -> ModelCard:
    towers_version = towers.settings_version
    used = towers_version if SETTINGS_VERSION == FIRST_VERSION else f"{towers_version}-{SETTINGS_VERSION}"
    return towers.model_copy(update={"dimension": _times(model_name) * (towers.dimension or 0), "settings_version": used})


def _times(model_name: ModelName) -> int:
    return 2 if model_name.setting(COMBINE) == CONCATENATION else 1


def _towers(model_name: ModelName) -> ModelName:
    tower_settings = tuple(pair for pair in model_name.settings if pair[0] not in (COMBINE, IMAGE_WEIGHT))
    return ModelName(model_name.name, model_name.revision, tower_settings, model_name.option)
