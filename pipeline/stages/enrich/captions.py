"""Step: have generative models describe figures, pages and texts, within the budget."""

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Generic, Self, TypeVar

from backends.models.endpoint_batches import BatchState
from pipeline.corpus.prompts import CaptionerInUse
from pipeline.corpus.workspace import Workspace
from pipeline.records.descriptions import (
    CaptionTarget,
    StructuredFiles,
    caption_targets,
    describable_by,
    drawn_cache,
    open_descriptions,
)
from pipeline.stages.enrich.batches import Batches, SentBatch
from ray_jobs.caption import Calls, CaptionRequest, caption, outcome_of
from ray_jobs.pools import Outcome
from schemas.base import batched
from schemas.corpus.models import ModelEntry, Price
from schemas.errors import Failure, FailureCode, TransientError
from schemas.models import Description, Reply
from schemas.stages import Report, Step
from schemas.versions import Spent
from tasks.enriching.spending import Budget, cost_of, maximum_cost, spent_on

Record = TypeVar("Record")

DOCUMENTS_AT_ONCE = 64
"""Documents that are looked up together."""

_WRITTEN_EVERY_S = 0.5
"""Answers of so long have to be paid for again after a kill."""


@dataclass
class Captioned:
    """Result of the step: counts for its note, cost by captioner, and failures of documents that lack descriptions.

    If any requests were ``sent`` in batches, the step has to be run again.
    """

    counts: Counter[str] = field(default_factory=Counter)
    spent: dict[str, Spent] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    sent: int = 0


def describe_targets(
    workspace: Workspace, documents: Sequence[str], sources: Mapping[str, str], run_id: str, budget: Budget, report: Report
) -> Captioned:
    """Have models write the missing descriptions of figures, pages and texts of structured documents.

    A picture or text is described once, at its first place. What the budget leaves out, or a model doesn't answer, becomes
    a failure of its document, and the next refresh tries again.
    """
    captioned = Captioned()
    for name, captioner in workspace.captioners.items():
        caption_work, calls = _Work(workspace, captioner, documents, budget), Calls()
        captioned.spent[name] = caption_work.describe(calls, report)
        captioned.sent += caption_work.sent
        captioned.counts.update({f"calls_with_{fault}": count for fault, count in calls.faults.items()})
        undescribed = caption_work.over_budget + len(caption_work.unanswered)
        captioned.counts.update(described=caption_work.answered, undescribed=undescribed)
        if undescribed:
            captioned.failures += caption_work.failures(sources, run_id)
    return captioned


class _Work:
    """The missing descriptions of one captioner; holds nothing but names."""

    def __init__(self, workspace: Workspace, captioner: CaptionerInUse, documents: Sequence[str], budget: Budget) -> None:
        self._documents, self._batches = documents, Batches(workspace, captioner)
        self.sent = 0
        self._requested_ids: set[str] = set()
        self.over_budget = self.answered = 0
        self.unanswered: dict[str, str] = {}
        self._workspace, self._captioner, self._budget = workspace, captioner, budget
        self._cache, self._lock = open_descriptions(workspace.store, captioner.captions.key), threading.Lock()
        self._drawn = drawn_cache(workspace)
        self._reserved: dict[str, Spent] = {}
        self._requested = self._documents_read = 0

    @property
    def total(self) -> int:
        """Estimated number of requests, from the documents read so far."""
        return round(self._requested * len(self._documents) / self._documents_read) if self._documents_read else 0

    def _requests(self, options: ModelEntry, only: Collection[str] | None = None) -> Iterator[CaptionRequest]:
        """Yield what is missing and not requested yet, of ``only`` those if given, and reserve its cost."""
        self._requested = self._documents_read = 0
        for group in batched(self._documents, DOCUMENTS_AT_ONCE):
            targets: dict[str, CaptionTarget] = {}
            for doc_id in group:
                # The right side wins: what several documents have is described at its place in the first of them.
                targets = self._targets(doc_id) | targets
            self._documents_read += len(group)
            with self._lock:  # a model may take requests from its own thread
                missing = self._cache.missing(targets if only is None else targets.keys() & only)
            for missed in missing:
                # Replies may not be stored yet when a later group of documents has the same target.
                if missed in self._requested_ids:
                    continue
                self._requested_ids.add(missed)
                target = targets[missed]
                request = CaptionRequest(missed, self._captioner.prompt.render(target.around()), target.picture)
                price = maximum_cost(options, request.prompt, self._captioner.subject)
                if self._budget.reserve(price):
                    self._requested += 1
                    self._reserved[missed] = price
                    yield request
                else:
                    self.over_budget += 1

    def _targets(self, doc_id: str) -> dict[str, CaptionTarget]:
        """Return what of a document the captioner can describe."""
        files, options = StructuredFiles(self._workspace, doc_id, self._drawn), self._captioner.options
        return describable_by(
            options.kind, caption_targets(self._captioner.subject, files, language=options.language or "")
        )

    def describe(self, calls: Calls, report: Report) -> Spent:
        """Request and store descriptions, and return the cost. The model is loaded only if there is a request.

        In batches, requests of an earlier batch without a reply are calls, each alone; without any, the first request is one: it
        shows what the server takes before a batch fails for it.
        """
        options, is_batch = self._captioner.options, self._captioner.options.mode == "batch"
        sent_batches = [*self._batches.sent()]
        total, unanswered = self._take_replies(sent_batches)
        if not is_batch:
            requests = self._requests(options)
        elif unanswered:
            requests = self._requests(options, unanswered)
        else:
            requests = islice(self._requests(options), 1)
        total += self._call(requests, calls, report)
        for batch, _ in sent_batches:
            self._batches.forget(batch)
        if is_batch:
            self.sent = self._batches.send(self._requests(options.in_batch))
        return total

    def _take_replies(self, sent_batches: Iterable[tuple[SentBatch, BatchState]]) -> tuple[Spent, set[str]]:
        """Store the replies of batches; return their cost, and the requests without one."""
        price, total, unanswered = self._captioner.options.in_batch.price, Spent(), set[str]()
        for batch, state in sent_batches:
            missing, descriptions = set(self._cache.missing(batch.requests)), list[Description]()
            for name, reply, usage in self._batches.model.outcomes(batch.name, state, batch.requests):
                total += cost_of(price, usage)
                if name in missing and not isinstance(reply, TransientError):
                    missing.remove(name)
                    descriptions += self._record(outcome_of(name, reply), price)
            self._write(descriptions)
            unanswered |= missing
        return total, unanswered

    def _call(self, requests: Iterator[CaptionRequest], calls: Calls, report: Report) -> Spent:
        """Request descriptions in calls, store them, and return the cost."""
        total = Spent()
        first = next(requests, None)
        if first is None:
            return total
        store, captioner = self._workspace.store, self._captioner
        with Writer(self._write, every_s=_WRITTEN_EVERY_S) as writer:
            for outcomes in caption(
                chain([first], requests),
                captioner.name,
                captioner.options,
                store.root,
                self._workspace.corpus.ray,
                calls,
                self._batches.model if captioner.options.mode == "batch" else None,
            ):
                price = captioner.options.price
                descriptions = [description for outcome in outcomes for description in self._record(outcome, price)]
                writer.add(descriptions)
                total += spent_on(descriptions)
                report(Step.CAPTION, self.answered, max(self.total, self.answered), _in_words(total))
        if calls.usage.calls > total.calls:  # failed calls cost money too
            total = cost_of(captioner.options.price, calls.usage)
        return total

    def _write(self, descriptions: Sequence[Description]) -> None:
        with self._lock:
            self._cache.append(descriptions)
            self._cache.compact()

    def _record(self, outcome: Outcome[Reply], price: Price) -> list[Description]:
        """Count an outcome, and return the description to store; none where the model couldn't be reached."""
        reply, failure, options = outcome.value, outcome.failure, self._captioner.options
        descriptions: list[Description] = []
        if reply is not None:
            money = cost_of(price, reply).money
            numbers = reply.calls, reply.input_tokens, reply.output_tokens
            descriptions.append(
                Description(outcome.row_id, reply.text, reply.model, *numbers, complete=reply.complete, money=money)
            )
        # An unreachable model says nothing about the input, so nothing is stored and the next refresh tries again; any
        # other failure is stored, since it would only cost money again.
        elif failure is not None and failure.code is FailureCode.MODEL_UNREACHABLE:
            self.unanswered[outcome.row_id] = failure.message
        else:
            message = failure.message if failure is not None else "the model returned nothing"
            descriptions.append(Description(outcome.row_id, "", options.model, 1, 0, 0, failure=message))
        reserved = self._reserved.pop(outcome.row_id, Spent())
        self._budget.settle(reserved, spent_on(descriptions))
        self.answered += len(descriptions)
        return descriptions

    def failures(self, sources: Mapping[str, str], run_id: str) -> Iterator[Failure]:
        """Yield a failure for each document that lacks descriptions, on the first such page."""
        subject = self._captioner.subject
        for doc_id in self._documents:
            targets = self._targets(doc_id)
            missing = set(self._cache.missing(targets))
            if not missing:
                continue
            unanswered = sorted(missing & self.unanswered.keys())
            reasons = ["the budget was spent"] if len(unanswered) < len(missing) else []
            reasons += [self.unanswered[name] for name in unanswered[:1]]
            count = f"{len(missing)} {subject}s have" if len(missing) > 1 else f"a {subject} has"
            yield Failure(
                source=sources[doc_id],
                doc_id=doc_id,
                page=min(target.page for name, target in targets.items() if name in missing),
                step=Step.CAPTION,
                code=FailureCode.MODEL_UNREACHABLE if unanswered else FailureCode.OVER_BUDGET,
                message=f"{count} no description yet: {'; '.join(reasons)}; the next refresh continues",
                run_id=run_id,
            )


def _in_words(spent: Spent) -> str:
    tokens = f"{spent.input_tokens + spent.output_tokens:,} tokens"
    return f"{tokens}, {spent.money:,.2f}" if spent.money else tokens


class Writer(Generic[Record]):
    """Writes records in a background thread, in intervals; a context manager that writes the rest at its end, even on an error.

    A failed write is tried once more at the end. ``write`` gets the records since its last call; calls don't overlap.
    """

    def __init__(self, write: Callable[[Sequence[Record]], None], *, every_s: float) -> None:
        self._write, self._every_s = write, every_s
        self._pending: list[Record] = []
        self._lock, self._ends = threading.Lock(), threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ends.set()
        self._thread.join()
        self._flush()

    def add(self, records: Iterable[Record]) -> None:
        """Queue records; raises what an earlier write raised."""
        if self._failure is not None:
            raise self._failure
        with self._lock:
            self._pending += records

    def _run(self) -> None:
        while not self._ends.wait(self._every_s):
            try:
                self._flush()
            except Exception as failure:  # noqa: BLE001  raised again by ``add``
                self._failure = failure
                return

    def _flush(self) -> None:
        # They leave the queue only when they are written, so a failed write keeps them; ``add`` may append meanwhile.
        if records := self._pending[:]:
            self._write(records)
            with self._lock:
                del self._pending[: len(records)]
