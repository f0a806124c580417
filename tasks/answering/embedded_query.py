"""A query as retrievers use it: its words, its picture, and their vectors."""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import cast

import numpy as np

from schemas.errors import RequestError
from schemas.ports import Embedder, TextEmbedder, Vector
from schemas.traces import span
from tasks.answering.question_batches import batches_of
from tasks.enriching.spaces import SPACES


class EmbeddedQuery:
    """A query that is embedded once in each space that needs it. Thread-safe.

    Args:
        embedders: The model of each space, by the space's name.
        words: The question in plain words; "" for a picture alone.
        picture: An encoded picture.
        stopped: Returns true when nobody waits for the vectors any more.
    """

    def __init__(
        self,
        embedders: Mapping[str, Embedder],
        words: str,
        picture: bytes | None = None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        self.words = words
        self.picture = picture
        self.embedders = embedders
        self._stopped = stopped
        self._vectors: dict[str, Vector] = {}
        self._embed_lock = threading.Lock()

    @property
    def has_no_words(self) -> bool:
        """Whether it is a picture alone."""
        return self.picture is not None and not self.words

    def can_embed(self, space: str) -> bool:
        """Return whether a space's model can embed it."""
        return not self.has_no_words or SPACES[space].sees

    @classmethod
    def embed_all(
        cls, embedders: Mapping[str, Embedder], questions: Sequence[str], spaces: Iterable[str]
    ) -> "list[EmbeddedQuery]":
        """Return many queries, embedded as one batch by the text models among some spaces."""
        queries = [cls(embedders, words) for words in questions]
        for space in spaces:
            if queries and space in embedders and not SPACES[space].sees:
                embedder = cast("TextEmbedder", embedders[space])
                for query, vector in zip(queries, embedder.embed_queries(questions), strict=True):
                    query._vectors[space] = vector
        return queries

    def reworded(self, words: str) -> "EmbeddedQuery":
        """Return the query with other words; itself if they are the same."""
        return self if words == self.words else EmbeddedQuery(self.embedders, words, self.picture, self._stopped)

    def vector(self, space: str) -> Vector:
        """Return its vector in a space, shape ``(dimension,)``; for late interaction, ``(n, dimension)``.

        Words and picture are combined as the normalised mean; for late interaction all vectors of both are kept.

        Raises:
            RequestError: The space's model can embed nothing of it.
            Stopped: Nobody waits for it any more.
        """
        with self._embed_lock:
            if space not in self._vectors:
                with span(f"embed: {space}"):
                    self._vectors[space] = self._embed(space)
            return self._vectors[space]

    def _embed(self, space: str) -> Vector:
        embedder = self.embedders[space]
        if not self.can_embed(space):
            raise RequestError(f"vectors {space} are of words: ask in words, or by a preset that looks at pictures")
        if not SPACES[space].sees:
            return batches_of(cast("TextEmbedder", embedder)).vector(self.words, self._stopped)
        if self.picture is None:
            return embedder.embed_query(self.words)
        picture_vector: Vector = embedder.embed_query_picture(self.picture)  # type: ignore[attr-defined]
        if not self.words:
            return picture_vector
        vectors = [embedder.embed_query(self.words), picture_vector]
        if SPACES[space].late:
            return np.concatenate(vectors)
        embed_all = np.asarray(sum(vectors), np.float32)
        length = float(np.linalg.norm(embed_all))
        return embed_all / np.float32(length) if length else vectors[0]
