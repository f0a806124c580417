"""Embedders as actors over batches."""

import functools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from backends.models.devices import BatchSize
from backends.models.pictures import open_picture
from backends.models.registry import EMBEDDERS
from backends.stores.object_store import open_store
from ray_jobs.cluster import actors, connected
from ray_jobs.pools import Outcome, RowFailure, run_pool
from schemas.base import batched
from schemas.corpus.models import EmbeddingModels
from schemas.corpus.operations import RayOptions
from schemas.errors import BadInputError, DamagedError, FailureCode
from schemas.ids import figure_file
from schemas.models import Embeds, ModelName, Usage
from schemas.ports import Vector
from tasks.enriching.spaces import EmbeddingInput, Space, check_vectors

BATCHES_A_CALL = 4
"""Batches that an actor gets at once, to sort by length and to decode the next one meanwhile."""

FEW_TEXTS, FEW_PICTURES = 512, 16
"""Up to so many are embedded in this process, which is faster than starting Ray."""

FETCHES_AT_ONCE = 8


class EmbedderActor:
    """Embeds texts and stored pictures.

    A batch that runs out of memory is halved and tried again; later ones are as small, and grow again while they fit.
    """

    def __init__(self, embeds: Embeds, model: ModelName, batch: int, store_address: str) -> None:
        self._embeds = embeds
        self._embedder: Any = EMBEDDERS[embeds].find(model).load(batch)
        self._store = open_store(store_address)
        self._batch_size = BatchSize(batch * BATCHES_A_CALL)

    @property
    def usage(self) -> Usage:
        """A copy of the usage of calls so far; zero for a model that runs here."""
        return replace(getattr(self._embedder, "usage", None) or Usage())

    def run(self, batch: Sequence[tuple[str, EmbeddingInput]]) -> list[Outcome[Vector]]:
        """Return the outcome of each input: a vector, or several for late interaction."""
        outcomes: list[Outcome[Vector]] = []
        while len(outcomes) < len(batch):
            sub_batch = batch[len(outcomes) : len(outcomes) + self._batch_size.size]
            try:
                vectors = self._vectors([content for _, content in sub_batch])
            except MemoryError as error:
                # Leaving the block frees what the error holds before the next try.
                starved = str(error)
            else:
                self._batch_size.fitted()
                outcomes += [Outcome(name, vector) for (name, _), vector in zip(sub_batch, vectors, strict=True)]
                continue
            self._batch_size.starved(len(sub_batch))
            if len(sub_batch) == 1:
                name, _ = sub_batch[0]
                outcomes.append(Outcome(name, None, RowFailure(FailureCode.MEMORY_LIMIT, starved)))
        return outcomes

    def _vectors(self, contents: Sequence[EmbeddingInput]) -> Sequence[Vector]:
        texts = [content.text or "" for content in contents]
        vectors: Sequence[Vector]
        match self._embeds:
            case Embeds.TEXTS:
                vectors = self._embedder.embed_documents(texts)
            case Embeds.EITHER:
                vectors = self._embed_mixed(contents)
            case Embeds.PAIRS:
                vectors = self._embed_pictures(contents, lambda pictures: self._embedder.embed_pairs(pictures, texts))
            case _:
                vectors = self._embed_pictures(contents, self._embedder.embed_pictures)
        late = self._embeds is Embeds.PATCHES
        check_vectors(vectors, contents, self._embedder.name, self._embedder.dimension, late=late)
        return vectors

    def _embed_mixed(self, contents: Sequence[EmbeddingInput]) -> list[Vector]:
        words, pictures = (
            [content for content in contents if content.picture is None],
            [content for content in contents if content.picture is not None],
        )
        text_vectors = iter(self._embedder.embed_documents([content.text or "" for content in words]) if words else ())
        picture_vectors = iter(self._embed_pictures(pictures, self._embedder.embed_pictures) if pictures else ())
        return [next(text_vectors if content.picture is None else picture_vectors) for content in contents]

    def _embed_pictures(
        self, contents: Sequence[EmbeddingInput], embed: Callable[[list[bytes]], Sequence[Vector]]
    ) -> Sequence[Vector]:
        names = [figure_file(content.picture or "") for content in contents]
        with ThreadPoolExecutor(FETCHES_AT_ONCE) as threads:
            pictures = list(threads.map(self._store.get, names))
        try:
            return embed(pictures)
        except BadInputError as error:
            # It was valid when it was stored.
            raise DamagedError(f"{self._store.root}: {error.message}", _undecodable(pictures, names)) from error


def _undecodable(pictures: Sequence[bytes], names: Sequence[str]) -> str:
    for name, picture in zip(names, pictures, strict=True):
        try:
            open_picture(picture, 1)
        except BadInputError:
            return name
    return names[0]


class _RemoteEmbedder(EmbedderActor):
    """An embedder in a process of its own."""

    def __init__(self, gpus: float, *arguments: Any) -> None:
        if not gpus:
            # Ray leaves all GPUs visible to an actor without one.
            os.environ["CUDA_VISIBLE_DEVICES"] = ""
        super().__init__(*arguments)


# Spaces take turns at each group of rows, so two models stay loaded from one group to the next.
_local_embedder = functools.lru_cache(maxsize=2)(EmbedderActor)


def is_few(space: Space, count: int, embedders: EmbeddingModels, ray: RayOptions) -> bool:
    """Return whether inputs are embedded in this process: few ones without a GPU, or at an endpoint."""
    if space.endpoint(embedders) is not None:
        return True
    gpus = space.entry(embedders).gpu_share
    if gpus and (ray.address or gpus != "auto"):
        return False
    return count <= (FEW_PICTURES if space.sees else FEW_TEXTS)


def embed(
    names: Sequence[str],
    contents: Mapping[str, EmbeddingInput],
    space: Space,
    embedders: EmbeddingModels,
    store_address: str,
    ray: RayOptions,
    usage: Usage,
) -> Iterator[list[Outcome[Vector]]]:
    """Yield the vectors of texts and stored pictures, a batch at a time; nothing if the corpus has no such space.

    ``usage`` collects what calls of an endpoint used, failed ones included. Raises ``ContractError`` if vectors differ
    from the model's card, and ``TransientError`` if a stored picture is damaged.
    """
    model, entry = space.model(embedders), space.entry(embedders)
    if model is None:
        return
    arguments = (space.embeds, model, entry.batch_size, store_address)
    batches = batched(((name, contents[name]) for name in names), entry.batch_size * BATCHES_A_CALL)
    if is_few(space, len(names), embedders, ray):
        actor = _local_embedder(*arguments)
        for batch in batches:
            usage_before = actor.usage
            try:
                outcomes = actor.run(batch)
            finally:
                usage.add(actor.usage.since(usage_before))
            yield outcomes
        return
    with connected(ray) as cpus:
        workers, gpus = actors(entry.gpu_share, entry.workers, cpus)
        yield from run_pool(_RemoteEmbedder, (gpus, *arguments), batches, workers=workers, num_gpus=gpus)
