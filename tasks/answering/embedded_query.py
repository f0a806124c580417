"""A query as retrievers use it: its words, its picture, and their vectors; vectors of sentences compared with it.

Questions of several threads are embedded together: those that come while the model is busy make its next batch.
"""

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from schemas.errors import RequestError
from schemas.ports import Embedder, TextEmbedder, Vector
from tasks.answering.trace import Stopped, span
from tasks.enriching.spaces import SPACES

BATCH = 32
"""Most questions of a batch."""

QUESTIONS_KEPT = 1_000
"""Questions of a model whose vectors are kept, some 2 KB each: the search page searches and answers by the same one."""


@dataclass(eq=False)
class _Question:
    text: str
    stopped: Callable[[], bool]
    is_tried: bool = False
    """Whether it was part of a batch, or left out since nobody waits for it."""
    vector: Vector | None = None


class QuestionBatches:
    """Batches of questions to one model. Thread-safe.

    A question that finds the model idle is embedded at once. When the model is idle again, one of the threads that wait embeds
    the questions of all.
    """

    def __init__(self, embedder: TextEmbedder) -> None:
        self._embedder = embedder
        self._changed = threading.Condition()
        self._is_busy = False
        self._kept: OrderedDict[str, Vector] = OrderedDict()
        self.waiting: list[_Question] = []
        """Questions that wait for the next batch."""

    def vector(self, text: str, stopped: Callable[[], bool] = lambda: False) -> Vector:
        """Return the vector of a question, shape ``(dimension,)``; raises ``Stopped`` if nobody waits when its batch begins."""
        question, others = _Question(text, stopped), list[_Question]()
        with self._changed:
            if text in self._kept:
                self._kept.move_to_end(text)
                return self._kept[text]
            self.waiting.append(question)
            self._changed.wait_for(lambda: question.is_tried or not self._is_busy)
            if leads := not question.is_tried:
                self._is_busy = True
                self.waiting.remove(question)
                others, self.waiting = self.waiting[: BATCH - 1], self.waiting[BATCH - 1 :]
        try:
            if leads:
                self._embed_together([question, *others])
            if (vector := question.vector) is None:
                if stopped():
                    raise Stopped
                vector = self._embedder.embed_query(text)
        finally:
            if leads:
                with self._changed:
                    self._is_busy = False
                    self._changed.notify_all()
        with self._changed:
            self._kept[text] = vector
            while len(self._kept) > QUESTIONS_KEPT:
                self._kept.popitem(last=False)
        return vector

    def _embed_together(self, batch: Sequence[_Question]) -> None:
        """Embed a batch of several questions; those without a vector then are left to their threads."""
        questions = [question for question in batch if not question.stopped()]
        if len(questions) > 1:
            # A server may refuse one of the texts: each thread tries its own then.
            with contextlib.suppress(Exception):
                vectors = self._embedder.embed_queries([question.text for question in questions])
                for question, vector in zip(questions, vectors, strict=True):
                    question.vector = vector
        for question in batch:
            question.is_tried = True


_MODELS = 8
_lock = threading.Lock()
_of_models: OrderedDict[int, QuestionBatches] = OrderedDict()
"""By identity, since a model may not be hashable; the least recently used are dropped."""


def batches_of(embedder: TextEmbedder) -> QuestionBatches:
    """Return the batches of a model, which all its callers in this process share."""
    with _lock:
        # The batches hold their model, so its id can't become that of another while it is in the map.
        batches = _of_models.setdefault(id(embedder), QuestionBatches(embedder))
        _of_models.move_to_end(id(embedder))
        while len(_of_models) > _MODELS:
            _of_models.popitem(last=False)
        return batches


class EmbeddedQuery:
    """A query that is embedded once in each space that needs it, by ``embedders`` of spaces. Thread-safe.

    ``words`` is "" for a picture alone; ``stopped`` returns true when nobody waits for the vectors any more.
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

        Words and picture are combined as the normalised mean; for late interaction all vectors of both are kept. Raises
        ``RequestError`` if the space's model can embed nothing of it, and ``Stopped`` if nobody waits for it any more.
        """
        with self._embed_lock:
            # The lock is held meanwhile, so that parallel retrievers of a space embed the query once.
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
        # Opposite vectors have no mean direction: the words alone count then.
        length = float(np.linalg.norm(embed_all))
        return embed_all / np.float32(length) if length else vectors[0]


SENTENCES_KEPT = 10_000
"""Sentences whose vectors are kept, some 10 MB for vectors of 384 numbers."""


class SentenceVectors:
    """Unit vectors of sentences by ``embed``, shape ``(texts, dimension)``; those used last are kept, in 16 bits. Thread-safe."""

    def __init__(self, embed: Callable[[Sequence[str]], Vector], max_sentences: int = SENTENCES_KEPT) -> None:
        self._embed, self._max_sentences = embed, max_sentences
        self._lock = threading.Lock()
        self._cached: OrderedDict[str, Vector] = OrderedDict()

    def __call__(self, texts: Sequence[str]) -> Vector:
        """Return one vector a text, the same whether it was kept or not; distinct new texts are embedded in one call."""
        with self._lock:
            vectors_by_text = {text: self._cached[text] for text in texts if text in self._cached}
        # The model runs outside the lock, so that others don't wait for it; two threads may embed the same sentence.
        absent = [text for text in dict.fromkeys(texts) if text not in vectors_by_text]
        if absent:
            vectors_by_text |= zip(absent, self._embed(absent).astype(np.float16), strict=True)
        with self._lock:
            self._cached |= vectors_by_text
            for text in vectors_by_text:
                self._cached.move_to_end(text)
            while len(self._cached) > self._max_sentences:
                self._cached.popitem(last=False)
        return np.stack([vectors_by_text[text] for text in texts]).astype(np.float32)
