"""Pass the text of a reply from its thread to the caller, and notice when the caller stops."""

from collections.abc import Callable, Generator
from concurrent.futures import Future
from dataclasses import replace
from queue import Empty, Queue, SimpleQueue

from schemas.errors import BadInputError, TransientError
from schemas.models import Reply

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
    yield TransientError("nobody waits for the reply any more")
