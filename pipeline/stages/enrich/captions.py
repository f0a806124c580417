"""Step: generative models describe the figures of documents, as far as the budget goes."""

import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice

from pipeline.corpus.workspace import CaptionerInUse, Report, Workspace
from pipeline.records.descriptions import add_spent, captioner_of, figures_to_ask_about, open_descriptions, read_spent
from pipeline.records.likenesses import Likenesses
from ray_jobs.caption import Asked, Calls, caption
from ray_jobs.documents import read_chunks, read_figures, read_head, structured_folder
from ray_jobs.rows import Outcome
from schemas.documents import PlacedFigure
from schemas.errors import Failure, FailureCode
from schemas.generation import Description, Reply, Usage
from schemas.parquet import table_of
from schemas.stages import Step
from schemas.versions import Spent
from tasks.enriching.spending import Budget, cost, most, spent_on
from tasks.enriching.surroundings import surroundings

DOCUMENTS_AT_ONCE = 64
"""Documents whose figures are looked up together: the names of a cache's records are gone through once for so many."""

_SHARD_RECORDS, _SHARD_SECONDS = 32, 2.0
"""What a killed job may have to ask, and to pay, for again."""


@dataclass
class Captioned:
    """What came of the step: counts for its note, what was spent by captioner, and the figures that have no answer yet."""

    counts: Counter[str] = field(default_factory=Counter)
    spent: dict[str, Spent] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)


def caption_figures(
    workspace: Workspace, documents: Sequence[str], sources: Mapping[str, str], run_id: str, report: Report
) -> Captioned:
    """Have models describe the figures of structured documents that they haven't described yet.

    A picture is described once, as it stands where it comes first. What a budget leaves out, and what a model doesn't answer,
    is described by its context, and is a failure of its document, so that the next refresh goes on with it.

    Args:
        workspace: The corpus.
        documents: Their ids.
        sources: Their sources, which choose the captioner.
        run_id: Who refreshes.
        report: Called with figures described.
    """
    done = Captioned()
    if not workspace.captioners:
        return done
    budget = Budget(workspace.corpus.budget, workspace.corpus.budget.corpus, read_spent(workspace.store))
    for name, used in workspace.captioners.items():
        its = [doc_id for doc_id in documents if captioner_of(workspace, sources[doc_id]) == name]
        work = _Work(workspace, used, its, budget)
        work.compare()
        calls = Calls()
        done.spent[name] = _describe(workspace, name, used, work, calls, report)
        done.counts.update({f"calls_with_{fault}": count for fault, count in calls.faults.items()})
        done.counts.update(described=work.answered, undescribed=work.over_budget + len(work.unanswered))
        if work.over_budget or work.unanswered:
            done.failures += _undescribed(workspace, used, work, sources, run_id)
    return done


class _Work:
    """The figures that a captioner has to describe, taken as there is room for them; nothing of them is held but names."""

    def __init__(self, workspace: Workspace, used: CaptionerInUse, documents: Sequence[str], budget: Budget) -> None:
        self.documents = documents
        self.over_budget = self.answered = 0
        self.unanswered: dict[str, str] = {}
        self._workspace, self._used, self._budget = workspace, used, budget
        self._cache, self._lock = open_descriptions(workspace.store, used.captions.key), threading.Lock()
        self._likenesses = Likenesses(workspace, used)
        self._reserved: dict[str, Spent] = {}
        self._found = self._looked = 0

    @property
    def total(self) -> int:
        """How many there are, as far as those documents say that were looked at."""
        return round(self._found * len(self.documents) / self._looked) if self._looked else 0

    def __iter__(self) -> Iterator[Asked]:
        seen: set[bytes] = set()
        for found, missing in self.missing():
            for figure_id in missing:
                name = bytes.fromhex(figure_id)[:16]
                if name in seen:
                    continue
                seen.add(name)
                doc_id, figure = found[figure_id]
                asked = Asked(figure_id, str(figure.placement.figure_id), self._prompt(doc_id, figure))
                price = most(self._used.options, asked.prompt)
                if self._budget.reserve(price):
                    self._found += 1
                    self._reserved[figure_id] = price
                    yield asked
                else:
                    self.over_budget += 1

    def compare(self) -> None:
        """Find figures that look nearly the same, where the corpus file asks for it."""
        if self._workspace.corpus.captions.near_duplicates is not None:
            self._likenesses.compare(figure_id for doc_id in self.documents for figure_id in self.figures(doc_id))

    def missing(self) -> Iterator[tuple[dict[str, tuple[str, PlacedFigure]], list[str]]]:
        """Yield figures of some documents, where each comes first, and which of them have no answer yet.

        One that looks nearly like another goes by the name of that one.
        """
        coming = iter(self.documents)
        while group := list(islice(coming, DOCUMENTS_AT_ONCE)):
            found: dict[str, tuple[str, PlacedFigure]] = {}
            for doc_id in group:
                figures = self.figures(doc_id)
                for figure_id, stand_in in self._likenesses.of(figures.keys()).items():
                    found.setdefault(stand_in, (doc_id, figures[figure_id]))
            self._looked += len(group)
            with self._lock:  # a model may ask for work from a thread of its own
                missing = self._cache.missing(found)
            yield found, missing

    def keep(self, made: Sequence[Description]) -> None:
        """Write answers, so that they are found by whoever goes on after this process."""
        with self._lock:
            self._cache.append(table_of(Description, made))
            self._cache.compact()

    def figures(self, doc_id: str) -> dict[str, PlacedFigure]:
        """Return the figures of a document that the captioner can say something of, each where it stands first."""
        return figures_to_ask_about(read_figures(self._workspace.store, self._folder(doc_id)), self._used.options.kind)

    def _prompt(self, doc_id: str, figure: PlacedFigure) -> str:
        store, folder = self._workspace.store, self._folder(doc_id)
        title, chunks = read_head(store, folder).title, read_chunks(store, folder)
        return self._used.prompt.render(surroundings(title, figure, chunks, language=self._used.options.language or ""))

    def _folder(self, doc_id: str) -> str:
        return structured_folder(doc_id, self._workspace.keys.structured)

    def settle(self, outcome: Outcome[Reply]) -> Description | None:
        """Return what is kept of an answer, and count what it cost; None where the same question may be answered later."""
        reserved = self._reserved.pop(outcome.row_id, Spent())
        made = _kept(outcome, self._used)
        self._budget.settle(reserved, spent_on([made] if made else []))
        if made is None and outcome.failure is not None:
            self.unanswered[outcome.row_id] = outcome.failure.message
        self.answered += made is not None
        return made


def _kept(outcome: Outcome[Reply], used: CaptionerInUse) -> Description | None:
    reply, failure = outcome.value, outcome.failure
    if reply is not None:
        money = cost(used.options.price, reply.calls, reply.input_tokens, reply.output_tokens)
        numbers = reply.calls, reply.input_tokens, reply.output_tokens
        return Description(outcome.row_id, reply.text, reply.model, *numbers, complete=reply.complete, money=money)
    if failure is not None and failure.code is FailureCode.MODEL_UNREACHABLE:
        return None
    message = failure.message if failure is not None else "the model said nothing"
    return Description(outcome.row_id, "", used.options.model, 1, 0, 0, failure=message)


def _describe(workspace: Workspace, name: str, used: CaptionerInUse, work: _Work, calls: Calls, report: Report) -> Spent:
    """Ask, and keep every answer within seconds; return what was spent. Nothing is loaded where there is nothing to ask."""
    coming = iter(work)
    first = next(coming, None)
    if first is None:
        return Spent()
    held: list[Description] = []
    total, since = Spent(), time.monotonic()

    def flush() -> None:
        nonlocal total, since
        if held:
            work.keep(held)
            total += _counted(workspace, spent_on(held))
            held.clear()
        since = time.monotonic()

    try:
        for outcomes in caption(
            chain([first], coming), name, used.options, workspace.store.root, workspace.corpus.ray, calls
        ):
            held += [made for outcome in outcomes if (made := work.settle(outcome)) is not None]
            report(Step.CAPTION, work.answered, max(work.total, work.answered), _in_words(total + spent_on(held)))
            if len(held) >= _SHARD_RECORDS or time.monotonic() - since > _SHARD_SECONDS:
                flush()
    finally:
        flush()
    if calls.usage.calls > total.calls:  # some were paid for and came to nothing
        total += _counted(workspace, _cost(used, calls.usage) - total)
    return total


def _in_words(spent: Spent) -> str:
    tokens = f"{spent.input_tokens + spent.output_tokens:,} tokens"
    return f"{tokens}, {spent.money:,.2f}" if spent.money else tokens


def _counted(workspace: Workspace, spent: Spent) -> Spent:
    add_spent(workspace.store, spent)
    return spent


def _cost(used: CaptionerInUse, usage: Usage) -> Spent:
    numbers = usage.calls, usage.input_tokens, usage.output_tokens
    money = cost(used.options.price, *numbers)
    return Spent(calls=numbers[0], input_tokens=numbers[1], output_tokens=numbers[2], money=money)


def _undescribed(
    workspace: Workspace, used: CaptionerInUse, work: _Work, sources: Mapping[str, str], run_id: str
) -> Iterator[Failure]:
    """Yield a failure for each document with figures that have no answer yet, on the page of the first of them."""
    cache, likenesses = open_descriptions(workspace.store, used.captions.key), Likenesses(workspace, used)
    for doc_id in work.documents:
        figures = work.figures(doc_id)
        stand_ins = likenesses.of(figures.keys())
        missing = set(cache.missing(stand_ins.values()))
        if not missing:
            continue
        page = min(figure.placement.page for name, figure in figures.items() if stand_ins[name] in missing)
        unanswered = sorted(missing & work.unanswered.keys())
        reasons = ["the budget was spent"] if len(unanswered) < len(missing) else []
        reasons += [work.unanswered[name] for name in unanswered[:1]]
        count = f"{len(missing)} figures have" if len(missing) > 1 else "a figure has"
        yield Failure(
            source=sources[doc_id],
            doc_id=doc_id,
            page=page,
            step=Step.CAPTION,
            code=FailureCode.MODEL_UNREACHABLE if unanswered else FailureCode.OVER_BUDGET,
            message=f"{count} no description yet: {'; '.join(reasons)}; the next refresh goes on",
            run_id=run_id,
        )
