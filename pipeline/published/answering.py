"""Answer a question from one version, as an answer preset says."""

import functools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from backends.engines.index_rows import LABELS, PAGES, filtered
from backends.models.languages import is_in_dictionary
from pipeline.corpus.languages import question_language
from pipeline.corpus.models import QueryModels
from pipeline.published.question_evidence import QuestionEvidence
from pipeline.published.version import OpenVersion
from schemas.answers import (
    AnswerEvent,
    AnswerFinished,
    AnswerPreset,
    AnswerResult,
    AnswerStarted,
    Citation,
    Content,
    FigurePart,
    FollowUp,
    Part,
    PartFinished,
    Round,
    TextDelta,
    TextPart,
    part_figures,
)
from schemas.errors import RequestError, UserError
from schemas.evidence import Hit
from schemas.filters import NO_FILTERS, Filters, Modality
from schemas.retrieval import Preset, Turn
from schemas.tags import TagTemplate
from schemas.text import folded_words
from tasks.answering.ask_model import reply
from tasks.answering.asked_figures import MOST_FIGURES, SHOWN_FROM, speaks_of_pictures
from tasks.answering.cite import citation, figure_part
from tasks.answering.compose import AnswerPrompt, ModelInput, answer_prompts, compose, rows_to_send
from tasks.answering.confidence import NEARNESS, thresholds
from tasks.answering.embedded_query import EmbeddedQuery
from tasks.answering.generate import WrittenAnswer, figures_beside, with_support, write
from tasks.answering.highlight import content_words
from tasks.answering.narrow import NOTHING, names_of
from tasks.answering.presets import packaged
from tasks.answering.read_reply import with_uncited
from tasks.answering.retrieve import takes_pictures
from tasks.answering.retrievers import Search
from tasks.answering.rewrite import NEAREST, on_topic, refers_back, reworded_follow_up, spelt, with_subject
from tasks.answering.rounds import Sufficiency, read_sufficiency, retrieve_in_rounds
from tasks.answering.trace import Trace

ORDERED_BY = "hybrid"
"""Preset that ranks the evidence of several rounds: it needs no generative model."""

JUDGED_CHARS = 12_000
"""Characters of evidence that a judge of sufficiency reads, about 3,000 tokens."""


@dataclass(frozen=True)
class AnswerPlan:
    """How one question is answered.

    ``fallback`` is the retrieval preset of answers without the model, ``prompt`` None without a model; ``filters`` are
    unresolved, and ``history`` has the turns before a follow-up question, oldest first. ``follow_up`` and ``reading`` say how
    the question was understood.
    """

    question: EmbeddedQuery
    preset: AnswerPreset
    retrieval: Preset
    fallback: Preset
    prompt: AnswerPrompt | None
    filters: Filters
    history: Sequence[Turn] = ()
    is_traced: bool = False
    follow_up: FollowUp | None = None
    reading: str = ""


def answer_events(opened: OpenVersion, plan: AnswerPlan, trace: Trace | None = None) -> Iterator[AnswerEvent]:
    """Yield an answer as it is written; the last event is the whole answer, with the steps where the plan is traced.

    Where the model fails, the last event is the extractive answer with a note that gives the reason. Steps and calls of
    models end once nobody waits for the answer any more, which ``trace`` knows.

    Raises:
        RequestError: The version or the request lacks what the preset needs.
    """
    trace = trace or Trace()
    models = opened.models(trace.stopped)
    search = opened.searching(trace, models)
    if plan.history:
        plan = _standalone(opened, plan, models, trace)
    plan = _in_its_language(opened, _spelt(opened, plan, trace))
    if plan.preset.model is None or plan.prompt is None:
        result = QuestionEvidence(opened, search, plan.question, plan.retrieval, plan.filters).answer()
        steps = trace.steps if plan.is_traced else None
        update = {"preset": plan.preset.name, "follow_up": plan.follow_up, "note": plan.reading, "trace": steps}
        yield from streamed(result.model_copy(update=update))
        return
    yield from _WrittenAnswers(opened, plan, plan.prompt, search, models).events()


def streamed(result: AnswerResult) -> Iterator[AnswerEvent]:
    """Yield an answer that no model writes as a stream."""
    yield AnswerStarted(version=result.version, preset=result.preset, citations=result.citations)
    yield from (PartFinished(part=number, value=part) for number, part in enumerate(result.parts))
    yield AnswerFinished(result=result)


def _spelt(opened: OpenVersion, plan: AnswerPlan, trace: Trace) -> AnswerPlan:
    """Return the plan for the question with misspelt words corrected."""
    question, index = plan.question, opened.index
    filters = opened.resolved_without_pages(plan.filters)
    if not (plan.preset.corrects_spelling and question.words) or plan.preset.context != "retrieved" or filters == NOTHING:
        return plan

    def nearest_texts() -> list[str]:
        nearest = index.dense(question.vector(NEARNESS.name), NEAREST, filters, NEARNESS.name)
        return [str(row["text"]) for row in index.fetch([evidence_id for evidence_id, _ in nearest])]

    with trace.step("spelling", question.words) as record:
        text = spelt(
            question.words,
            lambda word: opened.word_score(word, filters) is not None,
            functools.partial(is_in_dictionary, question=question.words),
            nearest_texts,
        )
        if text == question.words:
            return plan
        record.note = f"read as: {text}"
    return replace(plan, question=opened.question(text, question.picture, trace.stopped), reading=record.note)


def _in_its_language(opened: OpenVersion, plan: AnswerPlan) -> AnswerPlan:
    """Return the plan with a note if the question is in a language that neither the text model knows nor a document has.

    Where rows have all its words it isn't looked at, since the detector takes 0.8 s and 100 MB once.
    """
    words, filters = plan.question.words, opened.resolved_without_pages(plan.filters)
    if all(opened.word_score(word, filters) is not None for word in folded_words(content_words(words))):
        return plan
    language = question_language(words, opened.settings().embedding_models.text_model)
    if language is None or language in (languages := opened.shown_counts.documents_by_language) or not languages:
        return plan
    document_languages = " or ".join(languages)
    return replace(
        plan,
        reading=f"the question seems to be in {language}, and the documents are in {document_languages}: "
        f"ask in {document_languages}",
    )


def _standalone(opened: OpenVersion, plan: AnswerPlan, models: QueryModels, trace: Trace) -> AnswerPlan:
    """Return the plan for a question that stands alone; unchanged if it refers to no turn before."""
    question, filters = plan.question.words, plan.filters
    history = on_topic(question, plan.history)
    if not question or not refers_back(question):
        return plan
    with trace.step("follow-up", question) as record:
        text = ""
        if plan.preset.model is not None:
            try:
                text = reworded_follow_up(question, history, models[plan.preset.model], record)
            except UserError as error:
                record.note = error.message
        text = text or with_subject(question, history)
        record.note = record.note or text
        source = ""
        cited_rows = opened.hits([(evidence_id, 0.0) for evidence_id in history[-1].evidence_ids[:1]])
        # A follow-up is asked of the document that the turn before cited first, unless the reader has chosen documents.
        if cited_rows and filters == NO_FILTERS:
            source = cited_rows[0].source
            filters = Filters(documents=[cited_rows[0].doc_id])
    follow_up = FollowUp(question=text, source=source)
    embedded = opened.question(text, plan.question.picture, trace.stopped)
    return replace(plan, question=embedded, filters=filters, follow_up=follow_up)


_UNSEEN_PICTURE = "the model that answers sees no pictures, so it was sent the question's words alone"


class _WrittenAnswers:
    """An answer that a model writes."""

    def __init__(
        self, opened: OpenVersion, plan: AnswerPlan, prompt: AnswerPrompt, search: Search, models: QueryModels
    ) -> None:
        self._opened, self._plan, self._prompt, self._search, self._models = opened, plan, prompt, search, models
        self._trace, self._preset = search.trace, plan.preset
        self._corpus = opened.settings()
        self._model = self._preset.model or ""
        self._options = self._corpus.models[self._model]

    def events(self) -> Iterator[AnswerEvent]:
        hits, rounds = self._context()
        model_input = self._compose(hits)
        # Below the threshold nothing is sent: a small model writes something of any passages.
        is_grounded = self._preset.grounded and self._is_searched
        is_hopeless = is_grounded and self._passages.confidence < self._thresholds[0]
        sends_nothing = is_hopeless or (not model_input.passages and self._preset.context != "none")
        yield AnswerStarted(
            version=self._opened.version,
            preset=self._preset.name,
            model=self._options.model,
            citations=[] if sends_nothing else self._citations(model_input),
            meanwhile=self._passages.answer() if is_grounded and not sends_nothing else None,
        )
        if sends_nothing:
            yield self._finish(WrittenAnswer(says_no_answer=True), model_input, rounds)
            return
        with self._trace.step("answer", self._plan.question.words) as record:
            spent_before, answer = self._models.spent, WrittenAnswer()
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
            yield from write(self._models[self._model], model_input, may_ask_again=self._preset.checks_answers)
        except UserError as error:
            yield WrittenAnswer(failure=error.message)

    def _finish(self, answer: WrittenAnswer, model_input: ModelInput, rounds: Sequence[Round]) -> AnswerFinished:
        common_fields: dict[str, object] = {
            "preset": self._preset.name,
            "follow_up": self._plan.follow_up,
            "rounds": list(rounds),
            "counts": answer.counts,
            "spent": self._models.spent,
        }
        if answer.failure:
            result = self._passages.answer().model_copy(update={"note": f"answered without a model: {answer.failure}"})
        else:
            result = self._checked(answer, model_input)
            common_fields["counts"] = result.counts
        unseen = "" if self._plan.question.picture is None or self._model_sees else _UNSEEN_PICTURE
        common_fields["note"] = result.note or unseen or self._plan.reading
        common_fields["trace"] = self._trace.steps if self._plan.is_traced else None
        return AnswerFinished(result=result.model_copy(update=common_fields))

    @functools.cached_property
    def _retrieved(self) -> QuestionEvidence:
        """The evidence by the plan of the answer."""
        plan = self._plan
        question = self._search_query(plan.question, plan.retrieval)
        return QuestionEvidence(self._opened, self._search, question, plan.retrieval, plan.filters, self._preset.passages)

    @functools.cached_property
    def _passages(self) -> QuestionEvidence:
        """The evidence of words, by which the model's answer is checked and replaced: of the same search if it may be."""
        plan, question = self._plan, self._plan.question
        if plan.fallback == plan.retrieval and question.picture is None:
            return self._retrieved
        if question.picture is not None and question.words:  # passages are compared by words
            question = self._opened.question(question.words, stopped=self._trace.stopped)
        return QuestionEvidence(self._opened, self._search, question, plan.fallback, plan.filters)

    def _checked(self, answer: WrittenAnswer, model_input: ModelInput) -> AnswerResult:
        """Return what a model wrote with the citations that passages support; a grounded preset replaces what none supports.

        A preset that checks no answers gives what was written, with its figures even if it is no answer.
        """
        texts = [self._opened.template.without(hit.tagged_text) for hit in model_input.passages]
        checks = self._preset.checks_answers
        supported, unsupported = (
            with_support(answer.parts, texts, self._plan.question.words) if checks else (answer.parts, 0)
        )
        counts = with_uncited(answer.counts, supported).model_copy(update={"unsupported": unsupported})
        confidence = self._passages.confidence if self._is_searched else None
        sure_above = self._thresholds[1]
        is_cited = any(part.citations for part in supported if not isinstance(part, FigurePart))
        if self._preset.grounded and texts:
            replaced_because = ""
            # Small models often say wrongly that nothing answers, so a sure search overrules them.
            if answer.says_no_answer and confidence is not None and confidence >= sure_above:
                replaced_because = "the model says that the passages don't answer; these are the nearest ones"
            elif not answer.says_no_answer and not is_cited:
                replaced_because = "no passage supports what the model wrote, so these are the passages themselves"
            if replaced_because:
                result = self._passages.answer()
                return result.model_copy(
                    update={"note": replaced_because, "counts": counts, "unsure": not result.abstained}
                )
        parts: list[Part] = [] if answer.says_no_answer else [*supported]
        if parts or not checks:
            parts += self._figures_after(model_input)
        citations = self._citations(model_input)
        if parts and self._preset.grounded and self._preset.figures != "after":
            figures = self._passages.material.figures if self._is_searched else ()
            parts, citations = self._with_figures(parts, citations, model_input, figures)
        cited = {n for part in parts for n in part.citations}
        return AnswerResult(
            version=self._opened.version,
            abstained=answer.says_no_answer,
            unsure=bool(parts) and ((confidence is not None and confidence < sure_above) or (bool(texts) and not cited)),
            confidence=confidence,
            model=self._options.model,
            note=answer.note,
            parts=parts,
            citations=[citation for citation in citations if citation.n in cited],
            counts=counts,
        )

    def _with_figures(
        self,
        parts: Sequence[Part],
        citations: list[Citation],
        model_input: ModelInput,
        figures: Sequence[tuple[Hit, float]],
    ) -> tuple[list[Part], list[Citation]]:
        """Return the parts with the figures that stand beside the sentences they rest on, or else the one asked for."""
        sendable = {part.figure_id: part for part in model_input.figures.values()}
        shown_ids = {figure.figure_id for part in parts for figure in part_figures(part)}
        added: list[Part] = []
        figures_left = MOST_FIGURES - len(shown_ids)
        for index, part in enumerate(parts):
            added.append(part)
            has_figure = index + 1 < len(parts) and isinstance(parts[index + 1], FigurePart)
            if not isinstance(part, TextPart) or part.style not in ("prose", "item") or has_figure:
                continue
            for n in part.citations:
                for figure in figures_beside(part.text, model_input.passages[n - 1], self._opened.template):
                    # Each step of a procedure keeps its figure, however many are shown.
                    if figure.figure_id in shown_ids or not (figures_left > 0 or part.style == "item"):
                        continue
                    shown_ids.add(figure.figure_id)
                    figures_left -= 1
                    added.append(sendable[figure.figure_id].model_copy(update={"citations": [n], "added": True}))
        if not shown_ids and figures and speaks_of_pictures(self._plan.question.words):
            hit, probability = figures[0]
            if probability >= SHOWN_FROM:
                cited = next((c for c in citations if c.evidence_id == hit.evidence_id), None) or citation(
                    hit, len(citations) + 1, corpus=self._corpus.name, version=self._opened.version
                )
                citations = [*citations, *([] if cited in citations else [cited])]
                wanted_figure = next(figure for figure in hit.figures if figure.figure_id == hit.figure_id)
                added.append(figure_part(wanted_figure, TagTemplate().write(wanted_figure.number), [cited.n], added=True))
        return added, citations

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
            figure_names=self._preset.figures == "in_place",
            context_chars=self._corpus.answer.context_chars,
            query_picture=question.picture if self._model_sees else None,
        )

    @property
    def _is_searched(self) -> bool:
        return self._preset.context == "retrieved" and bool(self._plan.question.words)

    @property
    def _thresholds(self) -> tuple[float, float]:
        """The confidence below which nothing answers, and above which an answer is sure."""
        return thresholds(self._corpus.answer, self._opened.calibration)

    @property
    def _model_sees(self) -> bool:
        return self._options.kind.sees

    def _search_query(self, question: EmbeddedQuery, plan: Preset) -> EmbeddedQuery:
        """Return what a plan searches for: the words alone where only the model looks at the question's picture."""
        if question.picture is None or takes_pictures(plan) or not (question.words and self._model_sees):
            return question
        return self._opened.question(question.words, stopped=self._trace.stopped)

    def _context(self) -> tuple[list[Hit], list[Round]]:
        match self._preset.context:
            case "none":
                return [], []
            case "given":
                return self._named_hits(), []
            case _:
                return retrieve_in_rounds(
                    self._plan.question.words,
                    self._found,
                    self._judge,
                    self._rank_again,
                    rounds=self._preset.rounds,
                    may_go_on=lambda: not self._trace.stopped(),
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
        return self._opened.hits([(name, 1.0) for name in named_rows(self._opened, filters, self._preset.sent_modalities)])

    def _found(self, query: str) -> list[Hit]:
        plan, passages = self._plan, self._preset.passages
        if query == plan.question.words and not plan.retrieval.searches_only_pages:
            is_read = self._preset.grounded and plan.question.picture is None
            return ((is_read and self._retrieved.rows_that_answer()) or self._retrieved.hits)[:passages]
        resolve = self._opened.resolved if plan.retrieval.searches_only_pages else self._opened.resolved_without_pages
        return self._hits(plan.question.reworded(query), plan.retrieval, passages, resolve(plan.filters))

    def _rank_again(self, hits: Sequence[Hit]) -> list[Hit]:
        """Return the rows of all rounds, ranked against the original question."""
        hits_by_id = {hit.evidence_id: hit for hit in hits}
        filters = Filters(evidence_ids=list(hits_by_id))
        ranked = self._hits(self._plan.question, packaged()[ORDERED_BY], len(hits_by_id), filters)
        # Rows that this ranking lacks stay behind the others, in the order in which they were found.
        return list(({hit.evidence_id: hits_by_id[hit.evidence_id] for hit in ranked} | hits_by_id).values())

    def _hits(self, question: EmbeddedQuery, plan: Preset, k: int, filters: Filters) -> list[Hit]:
        query = self._search_query(question, plan)
        return self._opened.hits(self._opened.ranked(self._search, query, plan, k, filters))

    def _judge(self, queries: Sequence[str], hits: Sequence[Hit]) -> Sufficiency | None:
        model_input = compose(
            self._plan.question.words,
            hits,
            answer_prompts()["sufficient"],
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


def named_rows(opened: OpenVersion, filters: Filters, modalities: Sequence[Modality]) -> list[str]:
    """Return the rows that filters name by id, or by document and page, in reading order, whole pages last.

    ``modalities`` selects rows; [] means all but whole pages.
    """
    resolved_filters = opened.resolved(filters)
    if filters.evidence_ids:
        rows: Sequence[Mapping[str, Any]] = opened.index.fetch(resolved_filters.evidence_ids)
    else:
        doc_ids_by_name = {name: doc_id for doc_id, sources in opened.sources.items() for name in names_of(doc_id, sources)}
        doc_ids = dict.fromkeys(doc_ids_by_name[name] for name in resolved_filters.documents if name in doc_ids_by_name)
        rows = [row for doc_id in doc_ids for row in opened.rows_of(doc_id).to_pylist()]
        # Rows are compared in the columns by which engines filter, so that both choose the same ones.
        pages, labels = set(resolved_filters.pages), set(resolved_filters.page_labels)
        rows = [
            row
            for row, fields in ((row, filtered(row)) for row in rows)
            if (not pages or pages.intersection(fields[PAGES])) and (not labels or labels.intersection(fields[LABELS]))
        ]
    selected_modalities = modalities or [modality for modality in Modality if modality is not Modality.PAGE]
    return [str(row["evidence_id"]) for row in rows if Modality(row["modality"]) in selected_modalities]
