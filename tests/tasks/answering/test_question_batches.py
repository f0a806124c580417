import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pytest

from backends.models.minilm import MiniLM
from schemas.errors import BadInputError, FailureCode
from schemas.ports import Vector
from tasks.answering.embedded_query import BATCH, EmbeddedQuery, batches_of
from tasks.answering.trace import Stopped
from tests.pipeline.records.test_spaces import Hashed

FIRST = "the first question"


class Scripted(Hashed):
    """A model that notes its batches; it holds the first question until it is released, and refuses the text "refused"."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.began, self.released = threading.Event(), threading.Event()

    def embed_query(self, text: str) -> Vector:
        self.batches.append([text])
        if text == FIRST:
            self.began.set()
            assert self.released.wait(60)
        if text == "refused":
            raise BadInputError("no", FailureCode.PAGE_UNREADABLE)
        return super().embed_query(text)

    def embed_queries(self, texts: Sequence[str]) -> Vector:
        self.batches.append([*texts])
        if "refused" in texts:
            raise BadInputError("no", FailureCode.PAGE_UNREADABLE)
        return np.stack([super(Scripted, self).embed_query(text) for text in texts])


Ask = Callable[..., "Future[Vector]"]


@pytest.fixture
def model() -> Scripted:
    return Scripted()


@pytest.fixture
def ask(model: Scripted) -> "Ask":
    """Ask in threads: the first question, and while the model is busy with it, more, one behind the other."""
    threads = ThreadPoolExecutor(64)

    def asked(text: str, stopped: Callable[[], bool] = lambda: False) -> "Future[Vector]":
        waiting = len(batches_of(model).waiting)
        future = threads.submit(EmbeddedQuery({"text": model}, text, stopped=stopped).vector, "text")
        while not (model.began.is_set() if text == FIRST else len(batches_of(model).waiting) > waiting):
            assert not future.done()
            time.sleep(0.001)
        return future

    return asked


def test_questions_that_come_while_the_model_is_busy_are_the_next_batch(model: Scripted, ask: Ask) -> None:
    futures = {text: ask(text) for text in (FIRST, "pump", "winch", "valve")}
    model.released.set()
    for text, future in futures.items():
        assert np.array_equal(future.result(60), Hashed().embed_query(text))
    assert [sorted(batch) for batch in model.batches] == [[FIRST], ["pump", "valve", "winch"]]
    EmbeddedQuery({"text": model}, "an idle model").vector("text")
    assert model.batches[-1] == ["an idle model"]


def test_a_question_is_embedded_once(model: Scripted) -> None:
    first, again = (EmbeddedQuery({"text": model}, "pump").vector("text") for _ in range(2))
    assert model.batches == [["pump"]]
    assert np.array_equal(first, again)


def test_a_batch_is_bounded(model: Scripted, ask: Ask) -> None:
    ask(FIRST)
    futures = [ask(f"question {number}") for number in range(BATCH + 3)]
    model.released.set()
    for future in futures:
        future.result(60)
    assert [len(batch) for batch in model.batches] == [1, BATCH, 3]


def test_a_question_that_nobody_waits_for_stays_out_of_the_batch(model: Scripted, ask: Ask) -> None:
    cancelled = threading.Event()
    futures = [ask(FIRST), ask("left", cancelled.is_set), ask("pump"), ask("left too", cancelled.is_set), ask("winch")]
    cancelled.set()
    model.released.set()
    for future in (futures[1], futures[3]):
        with pytest.raises(Stopped):
            future.result(60)
    for future in (futures[0], futures[2], futures[4]):
        future.result(60)
    assert [sorted(batch) for batch in model.batches] == [[FIRST], ["pump", "winch"]]


def test_a_refused_question_fails_alone(model: Scripted, ask: Ask) -> None:
    futures = {text: ask(text) for text in (FIRST, "pump", "refused", "winch")}
    model.released.set()
    with pytest.raises(BadInputError):
        futures.pop("refused").result(60)
    for text, future in futures.items():
        assert np.array_equal(future.result(60), Hashed().embed_query(text))


def test_vectors_of_the_packaged_model_do_not_depend_on_the_batch() -> None:
    model = MiniLM()
    words = "how does the winch of an old lifeboat hold when its brake is worn and wet".split()
    questions = [" ".join(words[: 1 + number % len(words)]) + f" {number}" for number in range(24)]
    alone = [model.embed_query(question) for question in questions]
    with ThreadPoolExecutor(len(questions)) as threads:
        together = list(threads.map(lambda text: EmbeddedQuery({"text": model}, text).vector("text"), questions))
    assert np.array_equal(together, alone)
