"""Late-interaction models of transformers, such as ColPali and ColQwen2: many vectors a picture, many a question.

MaxSim compares them: for each of the question's vectors the nearest of the picture's, summed. They compute in float32 on
any device, unless the settings ask for bfloat16 (docs/decisions/0003).
"""

from collections.abc import Sequence
from typing import Any

from backends.models.devices import ahead, best_device, raising_memory_errors
from backends.models.files import check_extra, loading, model_folder, model_json
from backends.models.passage_scorers import unpadded
from backends.models.pictures import open_picture
from schemas.base import batched
from schemas.errors import UserError
from schemas.models import BFLOAT16, PRECISION, Model, ModelName
from schemas.ports import Vector
from schemas.versions import ModelCard

ARCHITECTURES = ("ColPaliForRetrieval", "ColQwen2ForRetrieval", "ColModernVBertForRetrieval")
FILES = ("*.json", "*.txt", "*.model", "*.jinja", "*.safetensors")
SETTINGS_VERSION = "1"
"""Raise it with any change here or in ``pictures.py`` that may change a vector."""

DIMENSION = 128
"""Of a model whose configuration doesn't say another."""

LARGEST_SIDE_PX = 4096
"""Maximum longer side of a decoded picture; the model's processor scales it down further."""


def model(model_name: ModelName) -> "Model[LateInteraction]":
    """Return a late-interaction model, unloaded."""
    check_extra(f"{model_name.option}: {model_name.name!r}", "torch", "transformers", "torch")
    return Model(card=lambda: late_card(model_name), load=lambda batch: LateInteraction(model_name, batch))


def late_card(model_name: ModelName) -> ModelCard:
    """Return a model's card from its configuration; raises as ``LateInteraction`` does."""
    configuration = model_json(model_name, "config.json")
    _architecture(model_name, configuration)
    dimension = int(configuration.get("embedding_dim", DIMENSION))
    return ModelCard(
        name=model_name.name, revision=model_name.revision or "", dimension=dimension, settings_version=SETTINGS_VERSION
    )


class LateInteraction:
    """Embeds a picture or a question as many vectors, one a patch or token: a folder, or a name on the hub.

    Raises:
        UserError: The model isn't there, or its weights can't be loaded.
        TransientError: The hub can't be reached and the model is not in its local cache.
    """

    def __init__(self, model_name: ModelName, batch: int) -> None:
        card = late_card(model_name)
        self.name, self.dimension = card.name, card.dimension or 0
        architecture = _architecture(model_name, model_json(model_name, "config.json"))
        folder = model_folder(model_name, FILES)

        import torch
        import transformers

        transformers.utils.logging.disable_progress_bar()
        self._batch, self._device = batch, best_device()
        dtype = torch.bfloat16 if model_name.setting(PRECISION) == BFLOAT16 else torch.float32
        with loading(model_name, "transformers"):
            self._processor: Any = transformers.AutoProcessor.from_pretrained(folder, local_files_only=True)
            loaded, report = getattr(transformers, architecture).from_pretrained(
                folder, local_files_only=True, dtype=dtype, output_loading_info=True
            )
        if lacking := sorted(report["missing_keys"]):  # they would be random
            raise UserError(
                f"{model_name.option}: the weights of {model_name.name} are not all that the model has: no {lacking[0]}"
            )
        self._model: Any = loaded.to(self._device).eval()

    def embed_pictures(self, pictures: Sequence[bytes]) -> list[Vector]:
        """Return the unit vectors of each picture, shape ``(n, dimension)``, without padding.

        Raises:
            BadInputError: A picture can't be decoded.
            MemoryError: The batch is too large.
        """
        # The next batch is decoded and cut into patches while the model runs.
        prepared = ahead(batched(pictures, self._batch), self._patches)
        return [vectors for patches in prepared for vectors in self._embed(patches)]

    def _patches(self, pictures: Sequence[bytes]) -> Any:
        return self._processor.process_images(images=[open_picture(picture, LARGEST_SIDE_PX) for picture in pictures])

    def embed_query(self, text: str) -> Vector:
        """Return the unit vectors of a question, shape ``(n, dimension)``."""
        return self._embed(self._processor.process_queries(text=[text]))[0]

    def embed_query_picture(self, picture: bytes) -> Vector:
        """Return the unit vectors of a query picture; errors as for ``embed_pictures``."""
        return self.embed_pictures([picture])[0]

    def _embed(self, inputs: Any) -> list[Vector]:
        import torch

        inputs.pop("labels", None)  # what training compares with
        with raising_memory_errors(self.name), torch.inference_mode():
            embeddings = self._model(**inputs.to(self._device)).embeddings.float().cpu().numpy()
        return unpadded(embeddings, inputs["attention_mask"])


def _architecture(model_name: ModelName, configuration: Any) -> str:
    for name in configuration.get("architectures") or ():
        if name in ARCHITECTURES:
            return str(name)
    raise UserError(
        f"{model_name.option}: {model_name.name} isn't a model for late interaction that transformers has: those are "
        f"{', '.join(ARCHITECTURES)}"
    )
