"""Cores and devices of models, batches that fit their memory, work done ahead, and replies streamed from a thread."""

import os
import re
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from queue import Empty, Queue, SimpleQueue
from typing import TypeVar

from schemas.errors import BadInputError, TransientError
from schemas.models import Reply

STARVED = re.compile(
    r"bad[ _]?alloc|out of memory|insufficient memory|(failed|can't|unable) to allocate|alloc_failed", re.I
)
"""Messages of exhausted memory: few engines have an error for it."""

GROWS_AFTER = 16
"""Batches that fit before a halved size is doubled: a try that fails costs as much as a batch, so 6 % at most."""

Item = TypeVar("Item")
Prepared = TypeVar("Prepared")


class BatchSize:
    """A batch size, at least 1, that is halved where memory runs out, and doubled after ``GROWS_AFTER`` batches that fitted."""

    def __init__(self, size: int) -> None:
        self.size = self._largest = size
        self._fitted = 0

    def fitted(self) -> None:
        """Note that a batch had enough memory."""
        self._fitted += 1
        if self._fitted >= GROWS_AFTER:
            self.size, self._fitted = min(self._largest, 2 * self.size), 0

    def starved(self, tried: int) -> None:
        """Note that a batch of ``tried`` had too little memory."""
        self.size, self._fitted = max(1, tried // 2), 0


def ahead(items: Iterable[Item], prepare: Callable[[Item], Prepared]) -> Iterator[Prepared]:
    """Yield what ``prepare`` makes of each item; a thread reads and prepares the next one meanwhile."""
    waiting, end = iter(items), object()

    def step() -> Prepared | object:
        item = next(waiting, end)
        return end if item is end else prepare(item)  # type: ignore[arg-type]

    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(step)
        while (prepared := coming.result()) is not end:
            coming = thread.submit(step)
            yield prepared  # type: ignore[misc]


def cores() -> int:
    """Return the cores of this process; Ray sets the variable to an actor's."""
    allowed = os.environ.get("OMP_NUM_THREADS", "")
    return int(allowed) if allowed.isdecimal() and int(allowed) else os.cpu_count() or 1


def best_device() -> str:
    """Return a GPU if this process may use one (``CUDA_VISIBLE_DEVICES``), else the CPU."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


@contextmanager
def raising_memory_errors(model: str) -> Iterator[None]:
    """Turn an engine's errors of exhausted memory into ``MemoryError``, so that the caller may try a smaller batch."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:  # torch.OutOfMemoryError is a RuntimeError
        if isinstance(error, MemoryError) or STARVED.search(str(error)):
            raise MemoryError(f"the batch doesn't fit into memory: {model}") from error
        raise


Outcome = Reply | BadInputError | TransientError

LOOK_S = 0.1
"""Seconds between two checks whether the caller stopped."""


def words_of(
    call: Future[Outcome], pieces: "Queue[str | None] | SimpleQueue[str | None]", stopped: Callable[[], bool]
) -> Generator[str | Outcome]:
    """Yield the pieces of a reply, then its outcome: the contract of ``LanguageModel.stream``.

    White space around the whole reply is dropped. ``call`` runs in another thread and puts its pieces into the queue, None
    at the end.
    """
    # A call that fails puts no end into the queue itself.
    call.add_done_callback(lambda _: pieces.put(None))
    reply_text, trailing_blanks = "", ""
    while not stopped():
        try:
            piece = pieces.get(timeout=LOOK_S)
        except Empty:
            continue
        if piece is None:
            outcome = call.result()
            yield replace(outcome, text=reply_text) if isinstance(outcome, Reply) else outcome
            return
        pending_text = (trailing_blanks + piece) if reply_text else piece.lstrip()
        visible_text = pending_text.rstrip()
        trailing_blanks = pending_text[len(visible_text) :]
        if visible_text:
            reply_text += visible_text
            yield visible_text
    yield TransientError("the caller no longer waits for the reply")
