"""Generative models at work on figures, pages and texts, behind an endpoint or as actors."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from backends.models.registry import language_model
from backends.stores.object_store import open_store
from ray_jobs.cluster import actors, connected
from ray_jobs.outcomes import Outcome, RowFailure
from ray_jobs.pools import run_pool
from schemas.corpus.captions import ModelCaptioner
from schemas.corpus.cluster import RayOptions
from schemas.errors import BadInputError, FailureCode, TransientError
from schemas.generation import Reply, Request, Usage
from schemas.ids import figure_file
from schemas.ports import ObjectStore

BATCHES_A_CALL = 4
"""Batches of the model that an actor gets at once, so that it never waits for its next one."""


@dataclass(frozen=True, slots=True)
class CaptionRequest:
    """A figure, page or text to describe: the name of its description, the prompt for it, and its picture where it has one."""

    id: str
    prompt: str
    picture: str | None


class CaptionerActor:
    """Describes stored pictures, and texts, by a model that it holds."""

    def __init__(self, name: str, options: ModelCaptioner, store_address: str) -> None:
        self._model = language_model(f"captions.models.{name}", options).load(options.batch)
        self._options, self._store = options, open_store(store_address)

    def run(self, batch: Sequence[tuple[str, CaptionRequest]]) -> list[Outcome[Reply]]:
        """Return the reply to each."""
        requests = (_request(asked, self._options, self._store) for _, asked in batch)
        return [_outcome(*made) for made in self._model.replies(requests)]


@dataclass
class Calls:
    """What calls came to beside their answers: what all of them cost, and what went wrong meanwhile, by what it is called."""

    usage: Usage = field(default_factory=Usage)
    faults: Counter[str] = field(default_factory=Counter)


def caption(
    work: Iterable[CaptionRequest], name: str, options: ModelCaptioner, store_address: str, ray: RayOptions, calls: Calls
) -> Iterator[list[Outcome[Reply]]]:
    """Yield what a model makes of figures, pages and texts, some at a time, as it comes; work is taken as there is room for it.

    An endpoint is called from this process, which only waits; any other model works as actors of Ray.

    Args:
        work: What to describe.
        name: The captioner's, as the corpus file has it.
        options: What the corpus file says of it.
        store_address: Where the pictures are.
        ray: Where actors work.
        calls: Gets what the calls of an endpoint came to.

    Raises:
        UserError: The model can't be had as the corpus file names it.
    """
    if not options.kind.is_at_endpoint:
        batches = _batches(work, options.batch * BATCHES_A_CALL)
        with connected(ray):
            workers, gpus = actors(options.gpus, options.workers, 1)
            yield from run_pool(CaptionerActor, (name, options, store_address), batches, workers=workers, num_gpus=gpus)
        return
    store = open_store(store_address)
    model = language_model(f"captions.models.{name}", options).load(options.batch)
    try:
        for made in model.replies(_request(asked, options, store) for asked in work):
            yield [_outcome(*made)]
    finally:
        calls.usage.add(model.usage)
        calls.faults.update(model.faults)


def _batches(work: Iterable[CaptionRequest], size: int) -> Iterator[list[tuple[str, CaptionRequest]]]:
    coming = iter(work)
    while batch := [(asked.id, asked) for asked in islice(coming, size)]:
        yield batch


def _request(asked: CaptionRequest, options: ModelCaptioner, store: ObjectStore) -> Request:
    picture = store.get(figure_file(asked.picture)) if asked.picture and options.kind.sees else None
    return Request.of(asked.id, asked.prompt, picture)


def _outcome(name: str, made: Reply | BadInputError | TransientError) -> Outcome[Reply]:
    match made:
        case Reply():
            return Outcome(name, made)
        case BadInputError():
            return Outcome(name, None, RowFailure(name, made.code, made.message))
        case _:
            return Outcome(name, None, RowFailure(name, FailureCode.MODEL_UNREACHABLE, made.message))
