"""Hand the words of a reply from the thread that gets them to the caller, and look meanwhile whether anybody still waits."""

from collections.abc import Callable, Generator
from concurrent.futures import Future
from dataclasses import replace
from queue import Empty, Queue, SimpleQueue

from schemas.errors import BadInputError, TransientError
from schemas.generation import Reply

Outcome = Reply | BadInputError | TransientError

LOOK_S = 0.1
"""Seconds between two looks at whether anybody still waits. A word that comes meanwhile is not held back."""


def words_of(
    call: Future[Outcome], pieces: "Queue[str | None] | SimpleQueue[str | None]", stopped: Callable[[], bool]
) -> Generator[str | Outcome]:
    """Yield the pieces of a reply, then its outcome: the contract of ``LanguageModel.stream``.

    White space around the whole reply is left out, so the pieces together are the text of the reply.

    Args:
        call: The call, which runs in another thread and puts its pieces into the queue; None ends them.
        pieces: The queue. It holds no more than the call makes, which has a limit of its own.
        stopped: As for ``LanguageModel.stream``. The caller ends the call.
    """
    call.add_done_callback(lambda _: pieces.put(None))
    said, held = "", ""
    while not stopped():
        try:
            piece = pieces.get(timeout=LOOK_S)
        except Empty:
            continue
        if piece is None:
            outcome = call.result()
            yield replace(outcome, text=said) if isinstance(outcome, Reply) else outcome
            return
        whole = (held + piece) if said else piece.lstrip()
        new = whole.rstrip()
        held = whole[len(new) :]
        if new:
            said += new
            yield new
    yield TransientError("nobody waits for the reply any more")
