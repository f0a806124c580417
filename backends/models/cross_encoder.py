"""Cross-encoders of sentence-transformers."""

import importlib.util
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from backends.models.devices import best_device, raising_memory_errors
from backends.models.files import model_folder
from backends.models.pictures import fit
from schemas.corpus.models import ScorerConfig
from schemas.errors import UserError
from schemas.models import Model, ModelName
from schemas.ports import PassageScorer
from schemas.versions import ModelCard

FILES = ("*.json", "*.jinja", "*.txt", "*.model", "*.safetensors")
PAIRS_AT_ONCE = 16
LARGEST_SIDE_PX = 1024
"""Pictures are scaled down to this before the model's own processor scales them."""


def model(config_key: str, options: ScorerConfig) -> Model[PassageScorer]:
    """Return a cross-encoder, unloaded.

    Raises:
        UserError: sentence-transformers is not installed.
    """
    if importlib.util.find_spec("sentence_transformers") is None:
        raise UserError(f"{config_key}: a cross-encoder needs the extra: pip install -e '.[torch]', or make setup")
    model_name = ModelName(options.model, options.revision, option=config_key)
    return Model(
        card=lambda: ModelCard(name=options.model, revision=options.revision), load=lambda _batch: CrossEncoder(model_name)
    )


class CrossEncoder:
    """A ``PassageScorer``; ``named`` is a folder, or a name on the hub.

    Raises:
        UserError: The model isn't there, or can't be loaded.
        TransientError: The hub can't be reached and the model is not in its local cache.
    """

    def __init__(self, model_name: ModelName) -> None:
        folder = model_folder(model_name, FILES)

        import sentence_transformers

        self._name = model_name.name
        try:
            self._model: Any = sentence_transformers.CrossEncoder(
                str(folder), device=best_device(), local_files_only=True, num_labels=1
            )
        except Exception as error:
            cause = " ".join(str(error).split())[:300] or type(error).__name__
            raise UserError(f"{model_name.option}: sentence-transformers can't load {model_name.name}: {cause}") from error
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
            predictions = self._model.predict(pairs, batch_size=PAIRS_AT_ONCE, show_progress_bar=False)
        return [float(score) for score in predictions]
