"""A question as retrievers take it: its words, its picture, and their vectors."""

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

import numpy as np

from schemas.errors import RequestError
from schemas.ports import Embedder, TextEmbedder, Vector
from tasks.enriching.spaces import SPACES


class EmbeddedQuery:
    """A question, which is embedded once in each space that asks for it, also where several threads do.

    Args:
        embedders: The model of each space, by the space's name.
        words: What is looked for, in plain words; "" where there is a picture alone.
        picture: An encoded picture that goes with the words.
    """

    def __init__(self, embedders: Mapping[str, Embedder], words: str, picture: bytes | None = None) -> None:
        self.words = words
        self.picture = picture
        self.embedders = embedders
        self._vectors: dict[str, Vector] = {}
        self._embedding = threading.Lock()

    @property
    def has_no_words(self) -> bool:
        """Whether a picture is all there is."""
        return self.picture is not None and not self.words

    def can_embed(self, space: str) -> bool:
        """Return whether there is something of it that a space's model embeds."""
        return not self.has_no_words or SPACES[space].sees

    @classmethod
    def embed_all(
        cls, embedders: Mapping[str, Embedder], questions: Sequence[str], spaces: Iterable[str]
    ) -> "list[EmbeddedQuery]":
        """Return many questions, which the models of texts among some spaces embed embed_all: several at once are faster."""
        queries = [cls(embedders, words) for words in questions]
        for space in spaces:
            if queries and space in embedders and not SPACES[space].sees:
                embedder = cast("TextEmbedder", embedders[space])
                for one, vector in zip(queries, embedder.embed_queries(questions), strict=True):
                    one._vectors[space] = vector
        return queries

    def reworded(self, words: str) -> "EmbeddedQuery":
        """Return the same question in other words; itself where they are the same."""
        return self if words == self.words else EmbeddedQuery(self.embedders, words, self.picture)

    def vector(self, space: str) -> Vector:
        """Return its vector in a space, shape ``(dimension,)``; of late interaction its vectors, ``(n, dimension)``.

        Words and picture embed_all are the mean of both, of unit length; of late interaction the vectors of both.

        Raises:
            RequestError: There is nothing of it that the space's model could embed.
        """
        with self._embedding:
            if space not in self._vectors:
                self._vectors[space] = self._embedded(space)
            return self._vectors[space]

    def _embedded(self, space: str) -> Vector:
        embedder = self.embedders[space]
        if not self.can_embed(space):
            raise RequestError(f"vectors {space} are of words: ask in words, or by a preset that looks at pictures")
        if self.picture is None or not SPACES[space].sees:
            return embedder.embed_query(self.words)
        looked: Vector = embedder.embed_query_picture(self.picture)  # type: ignore[attr-defined]
        if not self.words:
            return looked
        both = [embedder.embed_query(self.words), looked]
        if SPACES[space].late:
            return np.concatenate(both)
        embed_all = np.asarray(sum(both), np.float32)
        length = float(np.linalg.norm(embed_all))
        return embed_all / np.float32(length) if length else both[0]
