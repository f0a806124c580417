"""Actors that embed: batches for which there is no memory, pictures that are damaged, and a pool on Ray."""

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from backends.models.devices import ahead
from backends.stores.object_store import open_store
from ray_jobs.cluster import connected
from ray_jobs.embed import EmbedderActor, embed
from ray_jobs.pools import Outcome
from schemas.corpus.models import EmbeddingModels, EntryKind, ModelEntry
from schemas.corpus.operations import RayOptions
from schemas.errors import DamagedError, FailureCode
from schemas.ids import figure_file
from schemas.models import Embeds, ModelName, Usage
from schemas.ports import Vector
from tasks.enriching.spaces import IMAGE, EmbeddingInput
from tests.tiny_models import draw, write_clip

COUNT = 21


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_clip(tmp_path_factory.mktemp("clip"))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    figure_store = open_store(str(tmp_path_factory.mktemp("store")))
    for number in range(COUNT):
        figure_store.put(figure_file(str(number)), draw(number))
    return figure_store.root


@pytest.fixture
def actor(folder: Path, store: str) -> EmbedderActor:
    return EmbedderActor(Embeds.PICTURES, ModelName(str(folder), "1", (), "embeddings.image"), 4, store)


ROWS = [(str(number), EmbeddingInput(picture=str(number))) for number in range(COUNT)]


def by_name(outcomes: Sequence[Outcome[Vector]]) -> dict[str, Vector | None]:
    return {outcome.row_id: outcome.value for outcome in outcomes}


def starving(monkeypatch: pytest.MonkeyPatch, limit: int) -> list[int]:
    """Let the model have room for so many pictures at once; return what it is given."""
    import open_clip
    import torch

    batch_sizes: list[int] = []
    encode: Any = open_clip.CLIP.encode_image

    def encode_some(self: Any, image: Any, *, normalize: bool = False) -> Any:
        batch_sizes.append(len(image))
        if len(image) > limit:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return encode(self, image, normalize=normalize)

    monkeypatch.setattr("open_clip.CLIP.encode_image", encode_some)
    return batch_sizes


def test_a_batch_without_room_is_halved_and_so_are_those_that_follow(
    actor: EmbedderActor, monkeypatch: pytest.MonkeyPatch
) -> None:
    unhalved = by_name(actor.run(ROWS))
    batch_sizes = starving(monkeypatch, 3)
    halved = by_name(actor.run(ROWS))
    assert [*halved] == [*unhalved] == [name for name, _ in ROWS]
    for name, vector in unhalved.items():
        assert halved[name] == pytest.approx(vector, abs=1e-5)
    refused = [count for count in batch_sizes if count > 3]
    assert len(refused) == 3, "16 at once, then 8, then 4"
    batch_sizes.clear()
    assert len(actor.run(ROWS)) == COUNT
    assert [count for count in batch_sizes if count > 3] == [4], "a larger batch is tried once in 16"


def test_a_halved_batch_grows_again_where_there_is_memory(actor: EmbedderActor, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as while_short:
        starving(while_short, 1)
        actor.run(ROWS[:4])
    batch_sizes = starving(monkeypatch, COUNT)
    for _ in range(4):
        actor.run(ROWS)
    assert batch_sizes[0] == 1
    assert batch_sizes[-1] == 1
    assert max(batch_sizes) == 4
    assert batch_sizes.index(4) > batch_sizes.index(2) > 0


def test_the_next_batch_is_read_and_prepared_while_this_one_is_used() -> None:
    prepared: list[int] = []
    entered = threading.Event()

    def prepare(number: int) -> int:
        prepared.append(number)
        if number == 2:
            entered.set()
        return 10 * number

    coming = ahead(iter([1, 2, 3]), prepare)
    assert next(coming) == 10
    assert entered.wait(60), "the second is prepared before it is asked for"
    assert [*coming] == [20, 30]
    assert prepared == [1, 2, 3]


def test_an_error_of_preparation_is_raised_in_order() -> None:
    coming = ahead([1, 0, 1], lambda number: 1 // number)
    assert next(coming) == 1
    with pytest.raises(ZeroDivisionError):
        next(coming)


def test_a_single_input_without_room_fails_alone(actor: EmbedderActor, monkeypatch: pytest.MonkeyPatch) -> None:
    starving(monkeypatch, 0)
    failed = actor.run(ROWS[:2])
    assert [(outcome.row_id, outcome.value) for outcome in failed] == [("0", None), ("1", None)]
    assert all(outcome.failure is not None and outcome.failure.code is FailureCode.MEMORY_LIMIT for outcome in failed)


def test_a_stored_picture_that_can_t_be_decoded_is_damage(folder: Path, tmp_path: Path) -> None:
    figure_store = open_store(str(tmp_path))
    figure_store.put(figure_file("whole"), draw(1))
    figure_store.put(figure_file("broken"), draw(2)[:60])
    actor = EmbedderActor(Embeds.PICTURES, ModelName(str(folder), "1"), 4, figure_store.root)
    with pytest.raises(DamagedError, match="can't be decoded") as caught:
        actor.run([(name, EmbeddingInput(picture=name)) for name in ("whole", "broken")])
    assert caught.value.name == figure_file("broken")


@pytest.mark.slow  # each actor imports torch
def test_a_pool_makes_the_vectors_of_one_process_and_does_without_a_gpu(
    folder: Path, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = EmbeddingModels(
        image=ModelEntry(kind=EntryKind.IMAGE_EMBEDDER, model=str(folder), revision="1", batch=1, workers=2, gpus="auto")
    )
    names, contents, ray = [name for name, _ in ROWS], dict(ROWS), RayOptions(num_cpus=2)

    def embedded() -> dict[str, Vector | None]:
        batches = embed(names, contents, IMAGE, options, store, ray, Usage())
        return by_name([outcome for outcomes in batches for outcome in outcomes])

    monkeypatch.setattr("ray_jobs.embed.FEW_PICTURES", COUNT)
    local_vectors = embedded()
    monkeypatch.setattr("ray_jobs.embed.FEW_PICTURES", 0)
    with connected(ray):
        pool_vectors = embedded()
    assert pool_vectors.keys() == local_vectors.keys() == contents.keys()
    assert all(np.array_equal(np.asarray(pool_vectors[name]), np.asarray(local_vectors[name])) for name in local_vectors)


def test_a_corpus_without_the_space_has_nothing_to_embed(store: str) -> None:
    assert list(embed(["0"], dict(ROWS), IMAGE, EmbeddingModels(), store, RayOptions(), Usage())) == []
