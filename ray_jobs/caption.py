"""Generative models that describe figures, pages and texts, at an endpoint or as Ray actors."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from backends.models.registry import language_model
from backends.stores.object_store import open_store
from ray_jobs.cluster import actors, connected
from ray_jobs.pools import Outcome, RowFailure, run_pool
from schemas.base import batched
from schemas.corpus.models import ModelEntry
from schemas.corpus.operations import RayOptions
from schemas.errors import BadInputError, FailureCode, TransientError
from schemas.ids import figure_file
from schemas.models import Message, Reply, Request, Usage
from schemas.ports import LanguageModel, ObjectStore

BATCHES_A_CALL = 4
"""Batches that an actor gets at once, so that it never waits for its next one."""


@dataclass(frozen=True, slots=True)
class CaptionRequest:
    """A figure, page or text to describe: id of its description, prompt, and picture if any."""

    id: str
    prompt: str
    picture: str | None


class CaptionerActor:
    """Describes stored pictures and texts with a model."""

    def __init__(self, name: str, options: ModelEntry, store_address: str) -> None:
        self._model = language_model(f"models.{name}", options).load(options.batch_size)
        self._options, self._store = options, open_store(store_address)

    def run(self, batch: Sequence[tuple[str, CaptionRequest]]) -> list[Outcome[Reply]]:
        """Return the reply to each request."""
        requests = (request_of(item, self._options, self._store) for _, item in batch)
        return [outcome_of(*reply) for reply in self._model.replies(requests)]


@dataclass
class Calls:
    """Total usage of calls, failed ones included, and the number of faults by name."""

    usage: Usage = field(default_factory=Usage)
    faults: Counter[str] = field(default_factory=Counter)


def caption(
    requests: Iterable[CaptionRequest],
    name: str,
    options: ModelEntry,
    store_address: str,
    ray: RayOptions,
    calls: Calls,
    loaded: LanguageModel | None = None,
) -> Iterator[list[Outcome[Reply]]]:
    """Yield descriptions in groups as they come; requests are taken as there is capacity.

    An endpoint is called from this process, by the ``loaded`` model if there is one, and ``calls`` collects its usage; any
    other model runs as Ray actors.
    """
    if not options.kind.is_at_endpoint:
        batches = batched(((item.id, item) for item in requests), options.batch_size * BATCHES_A_CALL)
        with connected(ray):
            workers, gpus = actors(options.gpu_share, options.workers, 1)
            yield from run_pool(CaptionerActor, (name, options, store_address), batches, workers=workers, num_gpus=gpus)
        return
    store = open_store(store_address)
    model = loaded or language_model(f"models.{name}", options).load(options.batch_size)
    try:
        for reply in model.replies(request_of(item, options, store) for item in requests):
            yield [outcome_of(*reply)]
    finally:
        calls.usage.add(model.usage)
        calls.faults.update(model.faults)


def request_of(item: CaptionRequest, options: ModelEntry, store: ObjectStore) -> Request:
    """Return a request with its picture, for a model that sees."""
    pictures = (store.get(figure_file(item.picture)),) if item.picture and options.kind.sees else ()
    return Request(item.id, (Message("user", item.prompt, pictures),))


def outcome_of(name: str, reply: Reply | BadInputError | TransientError) -> Outcome[Reply]:
    """Return the outcome of a request."""
    match reply:
        case Reply():
            return Outcome(name, reply)
        case BadInputError():
            return Outcome(name, None, RowFailure(reply.code, reply.message))
        case _:
            return Outcome(name, None, RowFailure(FailureCode.MODEL_UNREACHABLE, reply.message))
