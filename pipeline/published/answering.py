"""Answer a question from one version, as an answer preset says."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from pipeline.published.extractive import evidence_for, extractive_answer
from pipeline.published.version import OpenVersion
from schemas.answer_presets import AnswerPreset, Content
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
from schemas.retrieval import Preset
from schemas.versions import Spent
from tasks.answering.ask_model import reply
from tasks.answering.cite import citation
from tasks.answering.compose import AnswerPrompt, ModelInput, answer_prompt, compose, rows_to_send
from tasks.answering.confidence import confidence, thresholds
from tasks.answering.embedded_query import EmbeddedQuery
from tasks.answering.generate import WrittenAnswer, write
from tasks.answering.presets import packaged
from tasks.answering.read_reply import with_uncited
from tasks.answering.retrieve import takes_pictures
from tasks.answering.rounds import Sufficiency, read_sufficiency, retrieve_in_rounds
from tasks.answering.support import with_support
from tasks.answering.trace import Trace
from tasks.enriching.spending import Budget, maximum_text_cost

ORDERED_BY = "hybrid"
"""Preset that ranks the evidence of several rounds: it needs no generative model."""

JUDGED_CHARS = 12_000
"""Characters of evidence that a judge of sufficiency reads, about 3,000 tokens."""


@dataclass(frozen=True)
class AnswerPlan:
    """How one question is answered.

    Attributes:
        question: The question.
        preset: The answer preset.
        retrieval: The retrieval preset.
        fallback: The retrieval preset where the model fails.
        prompt: The model's prompt; None without a model.
        filters: Unresolved filters.
    """

    question: EmbeddedQuery
    preset: AnswerPreset
    retrieval: Preset
    fallback: Preset
    prompt: AnswerPrompt | None
    filters: Filters


def answer_events(
    opened: OpenVersion, plan: AnswerPlan, *, traced: bool = False, stopped: Callable[[], bool] = lambda: False
) -> Iterator[AnswerEvent]:
    """Yield an answer as it is written; the last event is the whole answer.

    Where the model fails, the last event is the extractive answer with a note that gives the reason.

    Args:
        opened: The version.
        plan: The question and how it is answered.
        traced: Report what each step did.
        stopped: Returns true when nobody waits for the answer any more; steps and calls of models then end.

    Raises:
        RequestError: The version or the request lacks what the preset needs.
    """
    trace = Trace(time.perf_counter, stopped)
    if plan.preset.model is None or plan.prompt is None:
        result = extractive_answer(opened, plan.question, plan.retrieval, filters=plan.filters, trace=trace)
        result = result.model_copy(update={"preset": plan.preset.name})
        yield AnswerStarted(version=opened.version, preset=plan.preset.name, citations=result.citations)
        yield from (PartFinished(part=number, value=part) for number, part in enumerate(result.parts))
        yield AnswerFinished(result=result.model_copy(update={"trace": trace.steps if traced else None}))
        return
    yield from _Generated(opened, plan, plan.prompt, trace, traced, stopped).events()


class _Generated:
    """An answer that a model writes."""

    def __init__(
        self,
        opened: OpenVersion,
        plan: AnswerPlan,
        prompt: AnswerPrompt,
        trace: Trace,
        traced: bool,
        stopped: Callable[[], bool],
    ) -> None:
        self._opened, self._plan, self._prompt, self._trace = opened, plan, prompt, trace
        self._traced, self._stopped = traced, stopped
        self._preset = plan.preset
        self._corpus = opened.settings()
        self._models = opened.models(stopped)
        self._model = self._preset.model or ""
        self._options = cast(ModelConfig, self._corpus.retrieval.models[self._model])

    def events(self) -> Iterator[AnswerEvent]:
        hits, rounds = self._evidence()
        model_input = self._compose(hits)
        if not model_input.passages and self._preset.context != "none":
            yield AnswerStarted(version=self._opened.version, preset=self._preset.name, model=self._options.model)
            yield self._finish(WrittenAnswer(says_no_answer=True), model_input, rounds)
            return
        cost = maximum_text_cost(
            self._options, _characters(model_input), sum(len(message.pictures) for message in model_input.messages)
        )
        answer = WrittenAnswer(failure="the budget of one answer (answer.budget) is spent")
        if self._can_afford(cost):
            yield AnswerStarted(
                version=self._opened.version,
                preset=self._preset.name,
                model=self._options.model,
                citations=self._citations(model_input),
            )
            with self._trace.step("answer", self._plan.question.words) as record:
                spent_before = self._models.spent
                readable = model_input if self._preset.figures == "in_place" else model_input.without_figures()
                for event in self._write_events(readable):
                    if isinstance(event, WrittenAnswer):
                        answer = event
                    else:
                        yield event
                used = self._models.spent - spent_before
                record.input_tokens, record.output_tokens = used.input_tokens, used.output_tokens
                record.note = answer.failure or answer.note
        yield self._finish(answer, model_input, rounds)

    def _write_events(self, model_input: ModelInput) -> Iterator[TextDelta | PartFinished | WrittenAnswer]:
        """Yield what the model writes; a model that is misconfigured is a failure like any other."""
        try:
            yield from write(self._models[self._model], model_input)
        except UserError as error:
            yield WrittenAnswer(failure=error.message)

    def _finish(self, answer: WrittenAnswer, model_input: ModelInput, rounds: Sequence[Round]) -> AnswerFinished:
        common_fields = {
            "preset": self._preset.name,
            "rounds": list(rounds),
            "counts": answer.counts,
            "spent": self._models.spent,
        }
        if answer.failure:
            result = extractive_answer(
                self._opened,
                self._search_query(self._plan.question, self._plan.fallback),
                self._plan.fallback,
                filters=self._plan.filters,
                trace=self._trace,
            )
            result = result.model_copy(update=common_fields | {"note": f"answered without a model: {answer.failure}"})
        else:
            texts = [self._opened.template.without(hit.tagged_text) for hit in model_input.passages]
            supported, unsupported = with_support(answer.parts, texts, self._plan.question.words)
            parts = [] if answer.says_no_answer else [*supported, *self._figures_after(model_input)]
            common_fields["counts"] = with_uncited(answer.counts, supported).model_copy(update={"unsupported": unsupported})
            confidence = self._confidence()
            sure_above = thresholds(self._corpus.answer, self._opened.calibration)[1]
            cited = {n for part in parts for n in part.citations}
            result = AnswerResult(
                version=self._opened.version,
                abstained=answer.says_no_answer,
                unsure=bool(parts)
                and ((confidence is not None and confidence < sure_above) or (bool(texts) and not cited)),
                confidence=confidence,
                model=self._options.model,
                note=answer.note,
                parts=parts,
                citations=[citation for citation in self._citations(model_input) if citation.n in cited],
                **common_fields,
            )
        return AnswerFinished(result=result.model_copy(update={"trace": self._trace.steps if self._traced else None}))

    def _confidence(self) -> float | None:
        """Return the confidence that the version answers, as for an extractive answer; None where nothing is searched."""
        if self._preset.context != "retrieved" or not self._plan.question.words:
            return None
        question = self._plan.question
        if question.picture is not None:
            question = self._opened.question(question.words, stopped=self._stopped)
        _, evidence = evidence_for(
            self._opened,
            question,
            self._plan.fallback,
            filters=self._plan.filters,
            trace=Trace(time.perf_counter, self._stopped),
        )
        return confidence(evidence, self._opened.calibration)

    def _citations(self, model_input: ModelInput) -> list[Citation]:
        name, version = self._corpus.name, self._opened.version
        return [citation(hit, n, corpus=name, version=version) for n, hit in enumerate(model_input.passages, 1)]

    def _figures_after(self, model_input: ModelInput) -> list[FigurePart]:
        """Return the figures that an answer shows after its text."""
        if self._preset.figures != "after":
            return []
        figures_by_id = {part.figure_id: part for part in model_input.figures.values()}
        rows = dict.fromkeys(hit.figure_id for hit in model_input.passages if hit.modality is Modality.FIGURE)
        return [figures_by_id[name] for name in rows if name in figures_by_id]

    def _compose(self, hits: Sequence[Hit]) -> ModelInput:
        question = self._plan.question
        rows, pictures = rows_to_send(hits, self._preset)
        return compose(
            question.words,
            rows,
            self._prompt,
            self._opened.template,
            images=[(name, self._opened.picture(name)) for name in pictures],
            captions=Content.CAPTIONS in self._preset.sends,
            context_chars=self._corpus.answer.context_chars,
            query_picture=question.picture if self._model_sees else None,
        )

    @property
    def _model_sees(self) -> bool:
        return self._options.kind != "llm"

    def _search_query(self, question: EmbeddedQuery, plan: Preset) -> EmbeddedQuery:
        """Return what a plan searches for: the words alone where only the model looks at the question's picture."""
        if question.picture is None or takes_pictures(plan) or not (question.words and self._model_sees):
            return question
        return self._opened.question(question.words, stopped=self._stopped)

    def _evidence(self) -> tuple[list[Hit], list[Round]]:
        match self._preset.context:
            case "none":
                return [], []
            case "given":
                return self._named_hits(), []
            case _:
                return retrieve_in_rounds(
                    self._plan.question.words,
                    self._search,
                    self._judge,
                    self._rank_again,
                    rounds=self._preset.rounds,
                    may_go_on=self._may_go_on,
                    spent_so_far=lambda: self._models.spent,
                    clock=time.perf_counter,
                )

    def _named_hits(self) -> list[Hit]:
        """Return the rows that the request's filters name, in reading order."""
        filters = self._plan.filters
        if not (
            filters.evidence_ids or (filters.documents and (filters.pages or filters.page_ranges or filters.page_labels))
        ):
            raise RequestError(
                f"answer preset {self._preset.name} takes its context from the request: give filters.evidence_ids, or "
                "filters.documents with filters.pages or filters.page_labels"
            )
        return self._opened.hits([(name, 1.0) for name in self._opened.named_rows(filters, self._preset.sent_modalities)])

    def _search(self, query: str) -> list[Hit]:
        return self._hits(self._plan.question.reworded(query), self._plan.retrieval, self._preset.passages, self._filters)

    def _rank_again(self, hits: Sequence[Hit]) -> list[Hit]:
        """Return the rows of all rounds, ranked against the original question."""
        hits_by_id = {hit.evidence_id: hit for hit in hits}
        filters = Filters(evidence_ids=list(hits_by_id))
        ranked = self._hits(self._plan.question, packaged()[ORDERED_BY], len(hits_by_id), filters)
        return list(({hit.evidence_id: hits_by_id[hit.evidence_id] for hit in ranked} | hits_by_id).values())

    def _hits(self, question: EmbeddedQuery, plan: Preset, k: int, filters: Filters) -> list[Hit]:
        opened = self._opened
        query = self._search_query(question, plan)
        return opened.hits(opened.ranked(query, plan, k, filters, self._trace, models=self._models))

    @property
    def _filters(self) -> Filters:
        opened = self._opened
        resolve = opened.resolved if self._plan.retrieval.searches_only_pages else opened.resolved_without_pages
        return resolve(self._plan.filters)

    def _judge(self, queries: Sequence[str], hits: Sequence[Hit]) -> Sufficiency | None:
        model_input = compose(
            self._plan.question.words,
            hits,
            answer_prompt("sufficient"),
            self._opened.template,
            context_chars=JUDGED_CHARS,
            queries=queries,
        )
        with self._trace.step(f"sufficient? round {len(queries)}", queries[-1]) as record:
            verdict = read_sufficiency(reply(self._models[self._model], model_input.messages, record))
            if verdict is None:
                record.note = record.note or "the judge gave no verdict; retrieval ends"
            elif not verdict.sufficient:
                record.note = verdict.missing
        return verdict

    def _may_go_on(self) -> bool:
        """Return whether the budget covers another judgement and the answer after it."""
        round_cost = maximum_text_cost(
            self._options, max(JUDGED_CHARS, self._corpus.answer.context_chars), self._preset.max_images
        )
        return not self._stopped() and self._can_afford(round_cost.times(2))

    def _can_afford(self, cost: Spent) -> bool:
        return Budget(Spend(), self._corpus.answer.budget, self._models.spent).reserve(cost)


def _characters(model_input: ModelInput) -> int:
    return sum(len(message.text) for message in model_input.messages)
