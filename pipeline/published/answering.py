"""Answer a question from one version, as an answer preset says."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from pipeline.corpus.models import QueryModels
from pipeline.published.extractive import extractive_answer
from pipeline.published.version import OpenVersion
from schemas.answer_presets import AnswerPreset
from schemas.answers import (
    AnswerEvent,
    AnswerFinished,
    AnswerResult,
    AnswerStarted,
    Citation,
    FigurePart,
    PartFinished,
    Round,
    TextDelta,
)
from schemas.corpus.budget import Spend
from schemas.corpus.models import ModelConfig
from schemas.errors import RequestError, UserError
from schemas.evidence import Filters, Hit, Modality
from schemas.ids import figure_file
from schemas.retrieval import Preset
from schemas.versions import Spent
from tasks.answering.ask_model import reply
from tasks.answering.cite import citation
from tasks.answering.compose import AnswerPrompt, ModelInput, answer_prompt, compose
from tasks.answering.embedded_query import EmbeddedQuery
from tasks.answering.generate import WrittenAnswer, write
from tasks.answering.narrow import NOTHING
from tasks.answering.presets import packaged
from tasks.answering.retrievers import without_pages
from tasks.answering.rounds import Sufficiency, read_sufficiency, retrieve_in_rounds
from tasks.answering.trace import Trace
from tasks.enriching.spending import Budget, most_of

ORDERED_BY = "hybrid"
"""The retrieval preset that ranks the evidence of several rounds: by words and meaning, without a generative model."""

JUDGED_CHARS = 12_000
"""Characters of evidence that a judge of sufficiency reads: some 3,000 tokens."""


@dataclass(frozen=True)
class Question:
    """A question, and how it is answered.

    Attributes:
        asked: The question.
        preset: The answer preset.
        plan: How passages are retrieved.
        fallback: How they are retrieved where no model writes.
        prompt: What the model is asked; None where none writes.
        filters: What the answer is narrowed to, as the caller gives them.
    """

    asked: EmbeddedQuery
    preset: AnswerPreset
    plan: Preset
    fallback: Preset
    prompt: AnswerPrompt | None
    filters: Filters


def answer_events(
    opened: OpenVersion, question: Question, *, traced: bool = False, stopped: Callable[[], bool] = lambda: False
) -> Iterator[AnswerEvent]:
    """Yield an answer as it comes into being; the last event is the whole of it.

    Where the model fails, in the middle or from the start, the last event is the extractive answer with a note that says why.

    Args:
        opened: The version.
        question: What is asked, and how it is answered.
        traced: Whether the result has what each step did.
        stopped: Whether nobody waits any more: then calls of models end.

    Raises:
        RequestError: The version or the request lacks what the preset needs.
    """
    trace = Trace(time.perf_counter)
    if question.preset.model is None or question.prompt is None:
        result = extractive_answer(opened, question.asked, question.plan, filters=question.filters, trace=trace)
        result = result.model_copy(update={"preset": question.preset.name})
        yield AnswerStarted(version=opened.version, preset=question.preset.name, citations=result.citations)
        yield from (PartFinished(part=place, value=part) for place, part in enumerate(result.parts))
        yield AnswerFinished(result=result.model_copy(update={"trace": trace.steps if traced else None}))
        return
    yield from _Generated(opened, question, trace, traced, stopped).events()


class _Generated:
    """One answer by a model."""

    def __init__(
        self, opened: OpenVersion, question: Question, trace: Trace, traced: bool, stopped: Callable[[], bool]
    ) -> None:
        self._opened, self._question, self._trace = opened, question, trace
        self._traced, self._stopped = traced, stopped
        self._preset = question.preset
        self._corpus = opened.asked()
        self._models = QueryModels(self._corpus.retrieval, opened.embedders, stopped)
        self._model = self._preset.model or ""
        self._options = cast(ModelConfig, self._corpus.retrieval.models[self._model])

    def events(self) -> Iterator[AnswerEvent]:
        hits, rounds = self._evidence()
        sent = self._compose(hits)
        if not hits and self._preset.context != "none":
            yield AnswerStarted(version=self._opened.version, preset=self._preset.name, model=self._options.model)
            yield self._finished(WrittenAnswer(says_no_answer=True), sent, rounds)
            return
        cost = most_of(self._options, _characters(sent), sum(len(message.pictures) for message in sent.messages))
        written = WrittenAnswer(failure="the budget of one answer (answer.budget) is spent")
        if self._affords(cost):
            yield AnswerStarted(
                version=self._opened.version,
                preset=self._preset.name,
                model=self._options.model,
                citations=self._citations(sent),
            )
            with self._trace.step("answer", self._question.asked.words) as doing:
                before = self._models.spent
                readable = sent if self._preset.figures == "in_place" else sent.without_figures()
                for event in self._written(readable):
                    if isinstance(event, WrittenAnswer):
                        written = event
                    else:
                        yield event
                used = self._models.spent - before
                doing.input_tokens, doing.output_tokens = used.input_tokens, used.output_tokens
                doing.note = written.failure or written.note
        yield self._finished(written, sent, rounds)

    def _written(self, sent: ModelInput) -> Iterator[TextDelta | PartFinished | WrittenAnswer]:
        """Yield what the model writes; one that can't be used as the corpus file names it is a failure like any other."""
        try:
            yield from write(self._models[self._model], sent)
        except UserError as error:
            yield WrittenAnswer(failure=error.message)

    def _finished(self, written: WrittenAnswer, sent: ModelInput, rounds: Sequence[Round]) -> AnswerFinished:
        shared = {
            "preset": self._preset.name,
            "rounds": list(rounds),
            "counts": written.counts,
            "spent": self._models.spent,
        }
        if written.failure:
            result = extractive_answer(
                self._opened,
                self._question.asked,
                self._question.fallback,
                filters=self._question.filters,
                trace=self._trace,
            )
            result = result.model_copy(update=shared | {"note": f"answered without a model: {written.failure}"})
        else:
            parts = [] if written.says_no_answer else [*written.parts, *self._figures_after(sent)]
            cited = {n for part in parts for n in part.citations}
            result = AnswerResult(
                version=self._opened.version,
                abstained=written.says_no_answer,
                model=self._options.model,
                note=written.note,
                parts=parts,
                citations=[one for one in self._citations(sent) if one.n in cited],
                **shared,
            )
        return AnswerFinished(result=result.model_copy(update={"trace": self._trace.steps if self._traced else None}))

    def _citations(self, sent: ModelInput) -> list[Citation]:
        name, version = self._corpus.name, self._opened.version
        return [citation(hit, n, corpus=name, version=version) for n, hit in enumerate(sent.passages, 1)]

    def _figures_after(self, sent: ModelInput) -> list[FigurePart]:
        """Return the pictures of the rows that are figures, for answers that show them behind the text."""
        if self._preset.figures != "after":
            return []
        known = {part.figure_id: part for part in sent.figures.values()}
        rows = dict.fromkeys(hit.figure_id for hit in sent.passages if hit.modality is Modality.FIGURE)
        return [known[name] for name in rows if name in known]

    def _compose(self, hits: Sequence[Hit]) -> ModelInput:
        question = self._question
        assert question.prompt is not None
        return compose(
            question.asked.words,
            hits,
            question.prompt,
            self._opened.template,
            images=self._pictures(hits),
            context_chars=self._corpus.answer.context_chars,
            query_picture=question.asked.picture,
        )

    def _pictures(self, hits: Sequence[Hit]) -> list[tuple[str, bytes]]:
        """Return the pictures that the model sees: those of the best rows first, each once."""
        names = (name for hit in hits for name in ([hit.figure_id] if hit.figure_id else hit.figure_refs))
        wanted = list(dict.fromkeys(names))[: self._preset.max_images]
        return [(name, self._opened.workspace.store.get(figure_file(name))) for name in wanted]

    def _evidence(self) -> tuple[list[Hit], list[Round]]:
        match self._preset.context:
            case "none":
                return [], []
            case "given":
                return self._given(), []
            case _:
                return retrieve_in_rounds(
                    self._question.asked.words,
                    self._search,
                    self._judged,
                    self._ranked_again,
                    rounds=self._preset.rounds,
                    may_go_on=self._may_go_on,
                    used=lambda: self._models.spent,
                    clock=time.perf_counter,
                )

    def _given(self) -> list[Hit]:
        """Return the rows that the request's filters name, in reading order."""
        filters = self._question.filters
        if not (filters.evidence_ids or (filters.documents and (filters.pages or filters.page_ranges))):
            raise RequestError(
                f"answer preset {self._preset.name} takes its context from the request: give filters.evidence_ids, or "
                "filters.documents with filters.pages"
            )
        found = self._opened.named_rows(filters, self._preset.modalities)
        return self._opened.hits([(name, 1.0) for name in found[: self._preset.passages]])

    def _search(self, query: str) -> list[Hit]:
        asked = self._question.asked.reworded(query)
        return self._hits(asked, self._question.plan, self._preset.passages, self._narrowed)

    def _ranked_again(self, hits: Sequence[Hit]) -> list[Hit]:
        """Return all rows of several rounds, ranked against the original question."""
        known = {hit.evidence_id: hit for hit in hits}
        narrowed = Filters(evidence_ids=list(known))
        ranked = self._hits(self._question.asked, packaged()[ORDERED_BY], len(known), narrowed)
        return list(({hit.evidence_id: known[hit.evidence_id] for hit in ranked} | known).values())

    def _hits(self, asked: EmbeddedQuery, plan: Preset, k: int, narrowed: Filters) -> list[Hit]:
        opened = self._opened
        return opened.hits(opened.ranked(asked, plan, k, narrowed, self._trace, models=self._models))

    @property
    def _narrowed(self) -> Filters:
        """The request's filters; rows of whole pages repeat others, so they are left out unless the plan looks at them."""
        opened, plan = self._opened, self._question.plan
        narrowed = opened.resolved(self._question.filters)
        if opened.has_pages and not narrowed.modalities and not plan.looks_at_pages_alone and narrowed != NOTHING:
            return without_pages(narrowed)
        return narrowed

    def _judged(self, queries: Sequence[str], hits: Sequence[Hit]) -> Sufficiency | None:
        sent = compose(
            self._question.asked.words,
            hits,
            answer_prompt("sufficient"),
            self._opened.template,
            context_chars=JUDGED_CHARS,
            queries=queries,
        )
        with self._trace.step(f"sufficient? round {len(queries)}", queries[-1]) as doing:
            said = reply(self._models[self._model], sent.messages, doing)
            verdict = read_sufficiency(said)
            if verdict is None:
                doing.note = doing.note or "the judge gave no verdict; retrieval ends"
            elif not verdict.sufficient:
                doing.note = verdict.missing
        return verdict

    def _may_go_on(self) -> bool:
        """Return whether a judge may be asked and the answer still be written after it."""
        each = most_of(self._options, max(JUDGED_CHARS, self._corpus.answer.context_chars), self._preset.max_images)
        return not self._stopped() and self._affords(each.times(2))

    def _affords(self, cost: Spent) -> bool:
        return Budget(Spend(), self._corpus.answer.budget, self._models.spent).reserve(cost)


def _characters(sent: ModelInput) -> int:
    return sum(len(message.text) for message in sent.messages)
