"""Late interaction over the tokens of a text encoder of transformers, such as ColBERT.

MaxSim averaged over the question's tokens. Tokens are projected by ColBERT's ``linear.weight`` if the folder holds it.
"""

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from backends.models.devices import best_device, raising_memory_errors
from backends.models.files import model_folder
from backends.models.tokens import best_cosines, of_unit_length
from schemas.corpus.models import ScorerConfig
from schemas.errors import UserError
from schemas.models import Model, ModelName
from schemas.ports import PassageScorer, Vector
from schemas.versions import ModelCard

FILES = ("*.json", "*.txt", "*.model", "*.safetensors")
PASSAGES_AT_ONCE = 16
LONGEST_TOKENS = 512
PROJECTION = "linear.weight"


def model(config_key: str, options: ScorerConfig) -> Model[PassageScorer]:
    """Return a text encoder for late interaction, unloaded.

    Raises:
        UserError: transformers is not installed.
    """
    if importlib.util.find_spec("transformers") is None or importlib.util.find_spec("torch") is None:
        raise UserError(f"{config_key}: a late-interaction model needs the extra: pip install -e '.[torch]', or make setup")
    model_name = ModelName(options.model, options.revision, option=config_key)
    return Model(
        card=lambda: ModelCard(name=options.model, revision=options.revision), load=lambda _batch: LateScorer(model_name)
    )


class LateScorer:
    """A ``PassageScorer`` over the last hidden states of a text encoder; ``named`` is a folder, or a name on the hub.

    Raises:
        UserError: The model isn't there, or can't be loaded.
        TransientError: The hub can't be reached and the model is not in its local cache.

    Source:
        Khattab and Zaharia, "ColBERT", SIGIR 2020.
    """

    sees_pictures = False

    def __init__(self, model_name: ModelName) -> None:
        folder = model_folder(model_name, FILES)

        import transformers

        self._name, self._device = model_name.name, best_device()
        try:
            self._tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
            loaded = transformers.AutoModel.from_pretrained(folder, local_files_only=True)
            self._projection = _projection(folder)
        except Exception as error:
            cause = " ".join(str(error).split())[:300] or type(error).__name__
            raise UserError(f"{model_name.option}: transformers can't load {model_name.name}: {cause}") from error
        self._model: Any = loaded.to(self._device).eval()

    def scores(self, question: str, passages: Sequence[str], pictures: Sequence[bytes | None] = ()) -> list[float]:
        """Return the mean over the question's tokens of the best cosine of the passage's."""
        (terms,) = self._tokens([question])
        parts = (list(passages[start : start + PASSAGES_AT_ONCE]) for start in range(0, len(passages), PASSAGES_AT_ONCE))
        return best_cosines(terms, (tokens for part in parts for tokens in self._tokens(part)))

    def _tokens(self, texts: list[str]) -> list[Vector]:
        """Return the unit vectors of each text's tokens, shape ``(tokens, dimension)``, without padding."""
        import torch

        inputs = self._tokenizer(texts, padding=True, truncation=True, max_length=LONGEST_TOKENS, return_tensors="pt")
        with raising_memory_errors(self._name), torch.inference_mode():
            states = self._model(**inputs.to(self._device)).last_hidden_state.float().cpu().numpy()
        if self._projection is not None:
            states = states @ self._projection.T
        masks = inputs["attention_mask"].cpu().numpy().astype(bool)
        unpadded = (vectors[mask] for vectors, mask in zip(states, masks, strict=True))
        return [of_unit_length(vectors) for vectors in unpadded]


def _projection(folder: Path) -> Vector | None:
    """Return ColBERT's projection, which isn't part of the encoder; None without one."""
    from safetensors import safe_open

    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, "np") as weights:
            if PROJECTION in weights.keys():  # noqa: SIM118 (no mapping)
                return np.asarray(weights.get_tensor(PROJECTION), np.float32)
    return None
