"""Replies of generative models in experiments: each request is paid for once, within a budget."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace

from backends.models.registry import language_model_card
from pipeline.corpus.workspace import Workspace
from pipeline.records.cache import RecordCache
from schemas.corpus.models import ModelEntry
from schemas.corpus.operations import Spend
from schemas.errors import BadInputError, TransientError
from schemas.ids import key, sha256
from schemas.models import Reply, Request, Usage
from schemas.ports import LanguageModel, ObjectStore
from schemas.versions import Spent
from tasks.enriching.spending import Budget, cost_of, maximum_text_cost

_WRITTEN_EVERY_S = 0.5
"""Replies of so long have to be paid for again after a kill."""


_REPLY_OPTIONS = {"kind", "temperature", "top_p", "max_tokens", "max_side_px"}
"""Options that a reply depends on; connection and price don't count."""


@dataclass(frozen=True, slots=True)
class StoredReply:
    """A reply as it was given; ``id`` digests the request."""

    id: str
    text: str
    model: str
    calls: int
    input_tokens: int
    output_tokens: int
    complete: bool
    money: float
    seconds: float

    @property
    def spent(self) -> Spent:
        """What it cost when it was given."""
        return Spent(calls=self.calls, input_tokens=self.input_tokens, output_tokens=self.output_tokens, money=self.money)


def _open_replies(store: ObjectStore, options: ModelEntry) -> RecordCache[StoredReply]:
    """Open the replies of one model."""
    name = key(model=language_model_card(options).model_dump(), asked=options.model_dump(include=_REPLY_OPTIONS))
    return RecordCache(store, f"replies/{name}", StoredReply)


class Replies:
    """Keeps the replies of an experiment, which may spend ``spend``. Thread-safe: a thread asks one question at a time."""

    def __init__(self, workspace: Workspace, spend: Spend) -> None:
        self._store = workspace.store
        models = workspace.corpus.models.values()
        self._caches = {
            model_config.model_dump_json(): _open_replies(self._store, model_config)
            for model_config in models
            if model_config.kind.writes
        }
        self._budget = Budget(spend)
        self._lock = threading.Lock()
        self._new_replies: dict[str, dict[str, StoredReply]] = {name: {} for name in self._caches}
        self._flushed_at = time.monotonic()
        self._thread_state = threading.local()

    def begin(self, repetition: int) -> None:
        """Begin a question on this thread."""
        self._thread_state.repetition = repetition
        self._thread_state.spent, self._thread_state.saved, self._thread_state.failure = Spent(), 0.0, ""
        self._thread_state.last_reply = ""

    @property
    def spent(self) -> Spent:
        """Cost of this thread's question, as if nothing had been in the cache."""
        thread_spent: Spent = self._thread_state.spent
        return thread_spent

    @property
    def saved_s(self) -> float:
        """Seconds that the cache saved this thread's question."""
        return float(self._thread_state.saved)

    @property
    def last_reply(self) -> str:
        """The last reply to this thread's question, as the model wrote it."""
        return str(self._thread_state.last_reply)

    @property
    def failure(self) -> str:
        """Why a call of this thread's question failed; "" if none did."""
        return str(self._thread_state.failure)

    def record(self, model: LanguageModel, options: ModelEntry) -> LanguageModel:
        """Return a model whose replies are kept."""
        return _RecordedModel(self, model, options)

    def find(self, options: ModelEntry, name: str) -> StoredReply | None:
        """Return a stored reply."""
        cache_name = options.model_dump_json()
        with self._lock:
            if name in self._new_replies[cache_name]:
                return self._new_replies[cache_name][name]
            rows = self._caches[cache_name].read([name])
        return rows[0] if rows else None

    def keep(self, options: ModelEntry, reply: StoredReply) -> None:
        """Store a reply, at the latest with ``flush``."""
        with self._lock:
            self._new_replies[options.model_dump_json()][reply.id] = reply
        if time.monotonic() - self._flushed_at > _WRITTEN_EVERY_S:
            self.flush()

    def flush(self) -> None:
        """Write new replies."""
        with self._lock:
            for cache_name, new_replies in self._new_replies.items():
                if new_replies:
                    self._caches[cache_name].append([*new_replies.values()])
                    self._caches[cache_name].compact()
                    new_replies.clear()
            self._flushed_at = time.monotonic()

    def name(self, request: Request) -> str:
        """Return the id of a request's reply in this repetition."""
        messages = [
            [message.role, message.text, [sha256(picture) for picture in message.pictures]] for message in request.messages
        ]
        return key(messages=messages, repetition=self._thread_state.repetition)

    def count(self, reply: StoredReply, *, saved_s: float = 0.0) -> None:
        """Count a reply to this thread's question."""
        self._thread_state.spent += reply.spent
        self._thread_state.last_reply = reply.text
        self._thread_state.saved += saved_s

    def fail(self, message: str) -> None:
        """Note that a call of this thread's question failed."""
        self._thread_state.failure = message

    def reserve(self, cost: Spent) -> bool:
        """Reserve the most that a call can cost; False if the budget is spent."""
        return self._budget.reserve(cost)

    def settle(self, reserved: Spent, spent: Spent) -> None:
        """Replace a reservation by the actual cost."""
        self._budget.settle(reserved, spent)


class _RecordedModel:
    """A generative model whose replies are kept, and given again to the same request."""

    def __init__(self, replies: Replies, model: LanguageModel, options: ModelEntry) -> None:
        self._replies, self._model, self._options = replies, model, options
        self.name, self.usage, self.faults = model.name, Usage(), Counter[str]()

    def replies(self, requests: Iterable[Request]) -> Iterator[tuple[str, Reply | BadInputError | TransientError]]:
        for request in requests:
            *_, last = self.stream(request)
            if not isinstance(last, str):
                yield request.id, last

    def stream(
        self, request: Request, *, stopped: Callable[[], bool] = lambda: False
    ) -> Generator[str | Reply | BadInputError | TransientError, None, None]:
        name = self._replies.name(request)
        stored_reply = self._replies.find(self._options, name)
        if stored_reply is not None:
            self.usage.add(Usage(stored_reply.calls, stored_reply.input_tokens, stored_reply.output_tokens))
            self._replies.count(stored_reply, saved_s=stored_reply.seconds)
            yield stored_reply.text
            yield Reply(
                stored_reply.text,
                stored_reply.model,
                stored_reply.calls,
                stored_reply.input_tokens,
                stored_reply.output_tokens,
                stored_reply.complete,
            )
            return
        characters = sum(len(message.text) for message in request.messages)
        reserved = maximum_text_cost(self._options, characters, sum(len(message.pictures) for message in request.messages))
        if not self._replies.reserve(reserved):
            self._replies.fail("the budget is spent")
            yield TransientError("the budget of the experiment is spent")
            return
        started, usage_before = time.monotonic(), replace(self._model.usage)
        try:
            with closing(self._model.stream(request, stopped=stopped)) as items:
                for item in items:
                    if isinstance(item, Reply):
                        new_reply = StoredReply(
                            id=name,
                            text=item.text,
                            model=item.model,
                            calls=item.calls,
                            input_tokens=item.input_tokens,
                            output_tokens=item.output_tokens,
                            complete=item.complete,
                            money=cost_of(self._options.price, item).money,
                            seconds=time.monotonic() - started,
                        )
                        self._replies.keep(self._options, new_reply)
                        self._replies.count(new_reply)
                    elif not isinstance(item, str):
                        self._replies.fail(item.message)
                    yield item
        finally:
            used = self._model.usage.since(usage_before)
            self.usage.add(used)
            self._replies.settle(reserved, cost_of(self._options.price, used))
