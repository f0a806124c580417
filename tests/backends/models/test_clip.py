"""Pictures and texts in one space: any model of open_clip, here a tiny one with random weights."""

import io
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from backends.models import clip
from backends.models.clip import Clip, combine
from backends.models.registry import IMAGE_EMBEDDERS
from schemas.errors import BadInputError, UserError
from schemas.models import ModelName
from tests.tiny_models import CLIP_DIMENSION, draw, png, square, write_clip

PICTURES = [draw(seed, 30 + 11 * seed, 90 - 7 * seed) for seed in range(9)]
ROUNDING = 1e-5


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_clip(tmp_path_factory.mktemp("clip") / "tiny")


def named(folder: Path, **settings: str | float) -> ModelName:
    return ModelName(str(folder), "1", tuple(sorted(settings.items())), "embeddings.image")


@pytest.fixture(scope="module")
def embedder(folder: Path) -> clip.Clip:
    model: clip.Clip = IMAGE_EMBEDDERS.find(named(folder)).load(4)
    return model


def test_it_is_what_its_card_says(folder: Path, embedder: clip.Clip) -> None:
    card = IMAGE_EMBEDDERS.find(named(folder)).card()
    assert (card.name, card.revision, card.dimension) == (str(folder), "1", CLIP_DIMENSION)
    assert (embedder.name, embedder.dimension) == (card.name, card.dimension)


def test_pictures_and_texts_are_unit_vectors_of_one_space(embedder: clip.Clip) -> None:
    pictures, texts = embedder.embed_pictures(PICTURES), embedder.embed_documents(["a pump", "", "long " * 500])
    for vectors, count in ((pictures, len(PICTURES)), (texts, 3)):
        assert vectors.shape == (count, CLIP_DIMENSION)
        assert vectors.dtype == np.float32
        assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(count), abs=1e-6)
    assert len(np.unique(pictures.round(4), axis=0)) == len(PICTURES)
    assert embedder.embed_query("a pump") == pytest.approx(texts[0], abs=ROUNDING)
    assert embedder.embed_query_picture(PICTURES[3]) == pytest.approx(pictures[3], abs=ROUNDING)
    assert embedder.embed_pictures([]).shape == embedder.embed_documents([]).shape == (0, CLIP_DIMENSION)


def test_a_vector_does_not_depend_on_its_batch(folder: Path, embedder: clip.Clip) -> None:
    alone = np.stack([embedder.embed_pictures([picture])[0] for picture in PICTURES])
    assert embedder.embed_pictures(PICTURES) == pytest.approx(alone, abs=ROUNDING)
    assert Clip(named(folder), 2).embed_pictures(PICTURES[::-1])[::-1] == pytest.approx(alone, abs=ROUNDING)


def test_the_precision_is_what_its_settings_say_whatever_the_device(folder: Path, embedder: clip.Clip) -> None:
    exact = embedder.embed_pictures(PICTURES)
    assert np.array_equal(Clip(named(folder, precision="float32"), 4).embed_pictures(PICTURES), exact)
    rounded = Clip(named(folder, precision="bfloat16"), 4).embed_pictures(PICTURES)
    assert not np.array_equal(rounded, exact)
    assert (rounded * exact).sum(axis=1) == pytest.approx(np.ones(len(PICTURES)), abs=1e-2)


def test_it_is_open_clip_s_own_computation(folder: Path, embedder: clip.Clip) -> None:
    import open_clip
    import torch

    model, prepare = open_clip.create_model_from_pretrained(f"local-dir:{folder}")
    with torch.inference_mode():
        image = prepare(Image.open(io.BytesIO(PICTURES[0]))).unsqueeze(0)
        words = open_clip.get_tokenizer(f"local-dir:{folder}")(["a pump"])
        theirs = [model.eval().encode_image(image, normalize=True)[0], model.encode_text(words, normalize=True)[0]]
    assert embedder.embed_query_picture(PICTURES[0]) == pytest.approx(theirs[0].numpy(), abs=ROUNDING)
    assert embedder.embed_query("a pump") == pytest.approx(theirs[1].numpy(), abs=ROUNDING)


def test_strips_and_transparent_pictures_are_seen_on_white(embedder: clip.Clip) -> None:
    assert np.isfinite(
        embedder.embed_pictures([png(Image.new("RGB", size)) for size in ((5000, 1), (1, 5000), (1, 1))])
    ).all()
    clear, white = Image.new("RGBA", (60, 60), (255, 0, 0, 0)), Image.new("RGB", (60, 60), "white")
    assert embedder.embed_query_picture(png(clear)) == pytest.approx(embedder.embed_query_picture(png(white)), abs=ROUNDING)
    with pytest.raises(BadInputError, match="can't be decoded"):
        embedder.embed_pictures([b"no picture"])


def test_describing_a_model_imports_neither_torch_nor_open_clip(folder: Path) -> None:
    code = (
        "import sys\nfrom backends.models.registry import IMAGE_EMBEDDERS\nfrom schemas.models import ModelName\n"
        f"assert IMAGE_EMBEDDERS.find(ModelName({str(folder)!r}, '1')).card().dimension == {CLIP_DIMENSION}\n"
        "assert not {'torch', 'open_clip', 'PIL'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("{empty}", r"the folder .* has no open_clip_config\.json"),
        ("{bare}", r"the folder .* has no weights; bring them there"),
        ("{vague}", r"open_clip_config\.json of .* describes no model"),
    ],
    ids=["empty folder", "bare folder", "no model"],
)
def test_what_is_missing_is_named_before_anything_is_loaded(name: str, says: str, folder: Path, tmp_path: Path) -> None:
    for kind, text in (("empty", None), ("bare", (folder / clip.CONFIG).read_text()), ("vague", "{}")):
        (tmp_path / kind).mkdir()
        if text is not None:
            (tmp_path / kind / clip.CONFIG).write_text(text)
    (tmp_path / "vague" / "model.safetensors").touch()
    model_name = name.format(empty=tmp_path / "empty", bare=tmp_path / "bare", vague=tmp_path / "vague")
    with pytest.raises(UserError, match=rf"^embeddings\.image: {says}"):
        IMAGE_EMBEDDERS.find(ModelName(model_name, "1", (), "embeddings.image")).card()


def test_a_name_on_the_hub_is_found_in_its_cache(
    folder: Path, embedder: clip.Clip, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = "0" * 40
    cache_folder = tmp_path / "models--acme--tiny"
    shutil.copytree(folder, cache_folder / "snapshots" / commit)
    (cache_folder / "refs").mkdir()
    (cache_folder / "refs" / "v1").write_text(commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    offered = IMAGE_EMBEDDERS.find(ModelName("acme/tiny", "v1", (), "embeddings.image"))
    assert offered.card().dimension == CLIP_DIMENSION
    assert offered.load(2).embed_query("a pump") == pytest.approx(embedder.embed_query("a pump"), abs=ROUNDING)
    with pytest.raises(
        UserError, match=r"^embeddings\.image: acme/tiny at revision v2 is not on this machine.*hf download"
    ):
        IMAGE_EMBEDDERS.find(ModelName("acme/tiny", "v2", (), "embeddings.image")).card()


@pytest.mark.parametrize("how", ["mean", "concatenation"])
def test_a_unified_vector_is_the_weighted_mean_or_the_concatenation(how: str, folder: Path, embedder: clip.Clip) -> None:
    texts = ["a pump", "a winch", "a gasket"]
    pictures, words = embedder.embed_pictures(PICTURES[:3]), embedder.embed_documents(texts)
    offered = IMAGE_EMBEDDERS.find(named(folder, combine=how, image_weight=0.25))
    unified: clip.CombinedVectors = offered.load(4)
    pair_vectors = unified.embed_pairs(PICTURES[:3], texts)
    query_vector = unified.embed_query("a seal")
    assert np.linalg.norm(pair_vectors, axis=1) == pytest.approx(np.ones(3), abs=1e-6)
    assert pair_vectors.shape[1] == query_vector.size == unified.dimension == offered.card().dimension
    question = embedder.embed_query("a seal")
    if how == "mean":
        mean = 0.25 * pictures + 0.75 * words
        assert pair_vectors == pytest.approx(mean / np.linalg.norm(mean, axis=1, keepdims=True), abs=ROUNDING)
        assert query_vector == pytest.approx(question, abs=ROUNDING)
    else:
        assert pair_vectors == pytest.approx(np.hstack([0.5 * pictures, np.sqrt(0.75) * words]), abs=ROUNDING)
        assert pair_vectors @ query_vector == pytest.approx(
            0.25 * pictures @ question + 0.75 * words @ question, abs=ROUNDING
        )
    assert unified.embed_query_picture(PICTURES[0]).shape == query_vector.shape


@pytest.mark.parametrize("how", ["mean", "concatenation"])
@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_a_weight_of_nothing_or_all_leaves_one_modality(how: str, weight: float) -> None:
    chance = np.random.default_rng(1)
    drawn = (chance.normal(size=(5, 8)).astype(np.float32) for _ in range(3))
    pictures, words, questions = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True) for vectors in drawn)
    pair_vectors = combine(pictures, words, how=how, image_weight=weight)
    question_vectors = combine(questions, questions, how=how, image_weight=weight)
    assert pair_vectors @ question_vectors.T == pytest.approx((pictures if weight else words) @ questions.T, abs=ROUNDING)


@pytest.mark.skipif("INSET_CLIP" not in os.environ, reason="INSET_CLIP names no folder with real weights of open_clip")
def test_a_red_square_is_nearer_to_red_than_to_blue() -> None:
    embedder = IMAGE_EMBEDDERS.find(ModelName(os.environ["INSET_CLIP"], "1")).load(2)
    pictures = embedder.embed_pictures([square("red"), square("blue")])
    question_vectors = np.stack([embedder.embed_query(f"a {colour} square") for colour in ("red", "blue")])
    assert list((pictures @ question_vectors.T).argmax(axis=1)) == [0, 1]
