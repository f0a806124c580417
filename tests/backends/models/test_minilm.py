import random
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from backends.models.minilm import (
    CARD,
    WEIGHTS_SHA256,
    MiniLM,
    packaged_folder,
)
from backends.models.registry import TEXT_EMBEDDERS
from backends.models.sentence_transformer import TokenCounter
from schemas.corpus import EmbeddingOptions
from schemas.errors import ContractError, UserError
from schemas.ports import TextEmbedder
from schemas.versions import ModelCard

WORDS = ["the", "account", "register", "of", "your", "bank's", "balance", "straße", "中文", "don't", "3.5mm", "Ctrl+F4"]


def texts(count: int) -> list[str]:
    chance = random.Random(7)
    return [" ".join(chance.choices(WORDS, k=chance.choice((1, 3, 8, 20, 40, 70)))) for _ in range(count)]


@pytest.fixture(scope="module")
def embedder() -> MiniLM:
    return MiniLM(threads=1)  # on a busy machine more threads wait for each other


def test_is_a_text_embedder_and_says_what_it_is(embedder: MiniLM) -> None:
    port: TextEmbedder = embedder
    assert (port.name, port.revision, port.dimension, port.max_tokens) == ("minilm", WEIGHTS_SHA256[:12], 384, 254)
    assert WEIGHTS_SHA256.startswith("53aa5117")
    assert TEXT_EMBEDDERS.of(EmbeddingOptions()).card() == CARD


def test_near_in_meaning_is_near_in_space(embedder: MiniLM) -> None:
    near, far = embedder.embed_documents(["How to fix a puncture in a bicycle wheel", "Quarterly earnings rose by 4 %"])
    query = embedder.embed_query("repair a flat tyre")
    assert query @ near > query @ far + 0.3


def test_longer_texts_are_cut_at_max_tokens(embedder: MiniLM) -> None:
    kept = "word " * embedder.max_tokens
    assert np.array_equal(*embedder.embed_documents([kept, kept + "and all the rest"]))
    assert not np.array_equal(*embedder.embed_documents([kept[:-5], kept]))


def test_planning_and_chunking_do_not_import_torch() -> None:
    script = (
        "import sys; from backends.models.registry import TEXT_EMBEDDERS; from schemas.corpus import EmbeddingOptions; "
        "model = TEXT_EMBEDDERS.of(EmbeddingOptions()); model.card(); model.token_counter()(['a']); "
        "sys.exit(bool({'torch', 'transformers', 'sentence_transformers'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_other_weights_are_refused(tmp_path: Path) -> None:
    for file in ("tokenizer.json", "config.json"):
        shutil.copy(packaged_folder() / file, tmp_path)
    weights = bytearray((packaged_folder() / "model.safetensors").read_bytes()[:4096])
    (tmp_path / "model.safetensors").write_bytes(weights)
    with pytest.raises(ContractError, match="53aa51172d14"):
        MiniLM(folder=tmp_path)


def test_a_folder_without_a_model_is_the_users_mistake(tmp_path: Path) -> None:
    model = TEXT_EMBEDDERS.of(EmbeddingOptions(text=str(tmp_path), revision="1"))
    for opened in (model.card, model.token_counter, lambda: model.load(1)):
        with pytest.raises(UserError, match=r"embeddings\.text"):
            opened()
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(UserError, match="tokenizer"):
        TokenCounter(tmp_path / "tokenizer.json")


def test_a_folders_card_is_read_from_its_configuration() -> None:
    folder = str(packaged_folder())
    card = TEXT_EMBEDDERS.of(EmbeddingOptions(text=folder, revision="main")).card()
    assert card == ModelCard(name=folder, revision="main", dimension=384)


@pytest.mark.slow  # importing sentence-transformers takes half a minute
def test_a_sentence_transformers_folder_gives_the_same_vectors(embedder: MiniLM) -> None:
    from sentence_transformers import SentenceTransformer

    folder = str(packaged_folder())
    other = TEXT_EMBEDDERS.of(EmbeddingOptions(text=folder, revision="main")).load(32)
    mine = embedder.embed_documents(texts(20))
    assert other.max_tokens == embedder.max_tokens
    assert np.abs(other.embed_documents(texts(20)) - mine).max() < 1e-5
    reference = SentenceTransformer(folder, device="cpu").encode(texts(20), normalize_embeddings=True)
    assert np.abs(reference - mine).max() < 1e-5
