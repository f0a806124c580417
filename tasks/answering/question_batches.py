"""Embed the questions of several threads together: those that come while the model is busy make its next batch."""

import functools
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from schemas.ports import TextEmbedder, Vector
from tasks.answering.trace import Stopped

BATCH = 32
"""Most questions of a batch."""


@dataclass(frozen=True, eq=False)
class _Question:
    text: str
    stopped: Callable[[], bool]
    then: "Future[Callable[[], Vector]]" = field(default_factory=Future)
    """What the waiting thread does next."""


class QuestionBatches:
    """Batches of questions to one model. Thread-safe.

    A question that finds the model idle is embedded at once. A thread embeds one batch, its own question first, then leaves the
    next batch to the first thread that waits.
    """

    def __init__(self, embedder: TextEmbedder) -> None:
        self._embedder = embedder
        self._lock = threading.Lock()
        self._is_busy = False
        self._waiting: list[_Question] = []

    @property
    def waiting(self) -> int:
        """Questions that wait for the next batch."""
        return len(self._waiting)

    def vector(self, text: str, stopped: Callable[[], bool] = lambda: False) -> Vector:
        """Return the vector of a question, shape ``(dimension,)``.

        Args:
            text: The question.
            stopped: Returns true when nobody waits for the vector any more; the question then joins no batch.

        Raises:
            Stopped: Nobody waited when its batch began.
        """
        question = _Question(text, stopped)
        with self._lock:
            is_first, self._is_busy = not self._is_busy, True
            if not is_first:
                self._waiting.append(question)
        return self._next_batch(question) if is_first else question.then.result()()

    def _next_batch(self, own_question: _Question) -> Vector:
        try:
            if own_question.stopped():
                raise Stopped
            with self._lock:
                batch, self._waiting = self._waiting[: BATCH - 1], self._waiting[BATCH - 1 :]
            other_questions = []
            for question in batch:
                if question.stopped():
                    question.then.set_exception(Stopped())
                else:
                    other_questions.append(question)
            return self._embed_batch(own_question, other_questions)
        finally:
            with self._lock:
                following = self._waiting.pop(0) if self._waiting else None
                self._is_busy = following is not None
            if following is not None:
                following.then.set_result(functools.partial(self._next_batch, following))

    def _embed_batch(self, own_question: _Question, other_questions: list[_Question]) -> Vector:
        embed_alone = self._embedder.embed_query
        if not other_questions:
            return embed_alone(own_question.text)
        try:
            vectors = self._embedder.embed_queries([own_question.text, *(question.text for question in other_questions)])
        except Exception:  # noqa: BLE001 - a server may refuse one of the texts: each thread tries its own
            for question in other_questions:
                question.then.set_result(functools.partial(embed_alone, question.text))
            return embed_alone(own_question.text)
        for question, vector in zip(other_questions, vectors[1:], strict=True):
            question.then.set_result(functools.partial(_identity, vector))
        first: Vector = vectors[0]
        return first


def _identity(vector: Vector) -> Vector:
    return vector


_MODELS = 8
_lock = threading.Lock()
_of_models: OrderedDict[int, QuestionBatches] = OrderedDict()
"""By identity, since a model may not be hashable; the least recently used are dropped."""


def batches_of(embedder: TextEmbedder) -> QuestionBatches:
    """Return the batches of a model, which all its callers in this process share."""
    with _lock:
        batches = _of_models.setdefault(id(embedder), QuestionBatches(embedder))
        _of_models.move_to_end(id(embedder))
        while len(_of_models) > _MODELS:
            _of_models.popitem(last=False)
        return batches
