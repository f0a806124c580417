"""Many vectors a picture: ColQwen2, ColQwen2.5 and ColPali of transformers, tiny and with random weights."""

import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from backends.engines.lancedb_index import LanceIndex
from backends.models.late_interaction import LateInteraction
from backends.models.registry import LATE_EMBEDDERS
from schemas.errors import BadInputError, UserError
from schemas.evidence import EVIDENCE
from schemas.filters import Filters
from schemas.models import ModelName
from schemas.ports import Vector
from tests.contract.test_search_index import ROWS
from tests.memory_index import MemoryIndex
from tests.tiny_models import LATE_DIMENSION, draw, png, write_clip, write_colpali, write_colqwen2, write_colqwen2_5

PICTURES = [draw(seed, 30 + 31 * seed, 90 - 7 * seed) for seed in range(6)]
ROUNDING = 1e-5


@pytest.fixture(
    scope="module", params=[write_colqwen2, write_colqwen2_5, write_colpali], ids=["ColQwen2", "ColQwen2.5", "ColPali"]
)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    write: Callable[[Path], Path] = request.param
    return write(tmp_path_factory.mktemp("late"))


def named(folder: Path) -> ModelName:
    return ModelName(str(folder), "1", (), "embeddings.late")


@pytest.fixture(scope="module")
def embedder(folder: Path) -> LateInteraction:
    model: LateInteraction = LATE_EMBEDDERS.find(named(folder)).load(4)
    return model


def maxsim(question: Vector, picture: Vector) -> float:
    return float((question @ picture.T).max(axis=1).sum())


def test_a_picture_and_a_question_are_many_unit_vectors(folder: Path, embedder: LateInteraction) -> None:
    card = LATE_EMBEDDERS.find(named(folder)).card()
    assert (card.name, card.revision, card.dimension) == (str(folder), "1", LATE_DIMENSION)
    assert (embedder.name, embedder.dimension) == (card.name, card.dimension)
    question = embedder.embed_query("a pump seen from a side")
    for vectors in (*embedder.embed_pictures(PICTURES), question, embedder.embed_query("")):
        assert vectors.dtype == np.float32
        assert vectors.shape == (len(vectors), LATE_DIMENSION)
        assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(len(vectors)), abs=1e-6)
    assert len(question) > len(embedder.embed_query("a"))
    assert embedder.embed_pictures([]) == []
    assert embedder.embed_query_picture(PICTURES[1]) == pytest.approx(embedder.embed_pictures(PICTURES)[1], abs=ROUNDING)


def test_neither_padding_nor_neighbours_change_a_vector(folder: Path, embedder: LateInteraction) -> None:
    alone = [embedder.embed_pictures([picture])[0] for picture in PICTURES]
    for batch in (2, 6):
        for mine, together in zip(alone, LateInteraction(named(folder), batch).embed_pictures(PICTURES), strict=True):
            assert together.shape == mine.shape, "a vector of padding is none of the picture's"
            assert together == pytest.approx(mine, abs=ROUNDING)


def test_the_precision_is_what_its_settings_say_whatever_the_device(folder: Path, embedder: LateInteraction) -> None:
    (exact,) = embedder.embed_pictures(PICTURES[:1])
    named_so = ModelName(str(folder), "1", (("precision", "bfloat16"),), "embeddings.late")
    (rounded,) = LATE_EMBEDDERS.find(named_so).load(4).embed_pictures(PICTURES[:1])
    assert not np.array_equal(rounded, exact)
    assert (rounded * exact).sum(axis=1) == pytest.approx(np.ones(len(exact)), abs=2e-2)


def test_maxsim_is_that_of_the_model_s_own_processor_and_of_the_engines(
    folder: Path, embedder: LateInteraction, tmp_path: Path
) -> None:
    import torch
    import transformers

    (architecture,) = json.loads((folder / "config.json").read_text())["architectures"]
    processor = transformers.AutoProcessor.from_pretrained(folder)
    model = getattr(transformers, architecture).from_pretrained(folder).eval()
    images = [Image.open(io.BytesIO(picture)) for picture in PICTURES]
    with torch.inference_mode():
        query_inputs, picture_inputs = processor.process_queries(text=["a pump"]), processor.process_images(images=images)
        theirs = processor.score_retrieval(
            list(model(**query_inputs).embeddings),
            list(model(**{name: value for name, value in picture_inputs.items() if name != "labels"}).embeddings),
        )[0].numpy()
    question, pictures = embedder.embed_query("a pump"), embedder.embed_pictures(PICTURES)
    mine = [maxsim(question, vectors) for vectors in pictures]
    assert mine == pytest.approx(theirs, abs=1e-4)

    field = pa.field("vector_late", pa.list_(pa.list_(pa.float32(), LATE_DIMENSION)))
    schema = pa.schema([*EVIDENCE, pa.field("search_text", pa.string()), field])
    rows = [
        {**row, "search_text": "", "vector_late": vectors.tolist()}
        for row, vectors in zip(ROWS[: len(PICTURES)], pictures, strict=True)
    ]
    names = [str(row["evidence_id"]) for row in rows]
    for index in (MemoryIndex(), LanceIndex(str(tmp_path / "lance"), "t")):
        index.create(schema, {"late": LATE_DIMENSION})
        index.add(pa.Table.from_pylist(rows, schema=schema).to_batches())
        index.finish()
        scores = dict(index.late(question, 10, Filters(), "late"))
        assert [scores[name] for name in names] == pytest.approx(mine, abs=1e-3)


def test_strips_are_seen_and_what_is_no_picture_is_refused(embedder: LateInteraction) -> None:
    for size in ((3000, 2), (2, 3000), (1, 1)):
        assert np.isfinite(embedder.embed_query_picture(png(Image.new("RGB", size)))).all()
    with pytest.raises(BadInputError, match="can't be decoded"):
        embedder.embed_pictures([b"no picture"])


def test_what_is_no_such_model_is_named(tmp_path: Path) -> None:
    clip = write_clip(tmp_path / "clip")
    with pytest.raises(UserError, match=r"^embeddings\.late: the folder .* has no config\.json"):
        LATE_EMBEDDERS.find(named(clip)).card()
    (clip / "config.json").write_text('{"architectures": ["BertModel"]}')
    with pytest.raises(UserError, match=r"^embeddings\.late: .* isn't a model for late interaction .*ColPaliForRetrieval"):
        LATE_EMBEDDERS.find(named(clip)).card()
    (clip / "config.json").write_text("{")
    with pytest.raises(UserError, match=r"^embeddings\.late: .*config\.json isn't JSON"):
        LATE_EMBEDDERS.find(named(clip)).card()


def test_weights_that_lack_something_are_no_model(folder: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    shutil.copytree(folder, tmp_path / "half")
    weights = tmp_path / "half" / "model.safetensors"
    tensors = {name: value for name, value in load_file(weights).items() if "embedding_proj_layer" not in name}
    save_file(tensors, weights, {"format": "pt"})
    with pytest.raises(UserError, match=r"^embeddings\.late: the weights of .* are not all .*: no embedding_proj"):
        LateInteraction(named(tmp_path / "half"), 1)
    weights.unlink()
    with pytest.raises(UserError, match=r"^embeddings\.late: transformers can't load .*half: .*model\.safetensors"):
        LateInteraction(named(tmp_path / "half"), 1)
