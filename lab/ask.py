"""Ask one question of one system of an experiment."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from evaluation.gold import Gold
from lab.experiment import Experiment, System, paper_prompts, presets_of
from lab.outcomes import Outcome
from lab.replies import Replies
from pipeline.corpus.answers import answer_preset_of, lacking_for_answer
from pipeline.corpus.presets import default_preset, preset_of
from pipeline.corpus.prompts import find_answer_prompt
from pipeline.published.answering import AnswerPlan, answer_events, named_rows
from pipeline.published.version import OpenVersion
from schemas.answers import AnswerFinished, AnswerPreset, AnswerResult, AnswerStarted, Citation, Content
from schemas.corpus import Corpus
from schemas.errors import BadInputError, RequestError, TransientError, UserError
from schemas.filters import NO_FILTERS, Filters
from schemas.retrieval import Preset, Query
from tasks.answering.answer_presets import with_settings
from tasks.answering.compose import AnswerPrompt, rows_to_send
from tasks.answering.embedded_query import EmbeddedQuery
from tasks.answering.generate import with_support

NO_GOLD = "the question has no gold pages"
UNDEFINED = {NO_GOLD}
"""Failures that another try doesn't change."""


@dataclass(frozen=True)
class Prepared:
    """A system that can run; ``answer`` and ``prompt`` are None for a search, ``prompt`` without a model."""

    system: System
    retrieval: Preset
    answer: AnswerPreset | None = None
    prompt: AnswerPrompt | None = None


def prepare(opened: OpenVersion, experiment: Experiment, system: System) -> Prepared:
    """Return a system with its presets, of experiment, papers or corpus; raises ``UserError`` if something for it is missing."""
    corpus, paper_presets = opened.settings(), presets_of(experiment)

    def plan_of(name: str) -> Preset:
        return paper_presets.retrieval.get(name) or preset_of(corpus.retrieval, name)

    if system.kind == "search":
        plan = plan_of(system.preset)
        _require(opened.lacks(plan))
        return Prepared(system, plan)
    paper_preset = paper_presets.answers.get(system.preset)
    preset = with_settings(paper_preset or answer_preset_of(corpus, system.preset), system.settings)
    plan = plan_of(preset.retrieval) if preset.retrieval else default_preset(corpus.retrieval)
    missing = [f"{need} (set {setting})" for need, setting in lacking_for_answer(preset, corpus).items()]
    if paper_preset is not None and paper_preset.captioner is not None and paper_preset.captioner != _captioner(corpus):
        missing.append(f"descriptions of figures by a captioner of kind {paper_preset.captioner} (set captions.captioner)")
    if paper_preset is not None and paper_preset.own_descriptions and not _described_by(preset.model, corpus):
        missing.append(f"descriptions of figures by the model that answers, {preset.model} (set captions.captioner)")
    prompts = paper_preset.caption_prompts if paper_preset is not None else []
    captioner = opened.workspace.captioners.get(corpus.captions.captioner)
    if prompts and captioner is not None and captioner.prompt.name not in prompts:
        name = corpus.captions.captioner
        missing.append(f"descriptions of figures by the prompt {' or '.join(prompts)} (set models.{name}.prompt)")
    _require([*(opened.lacks(plan) if preset.context == "retrieved" else []), *missing])
    return Prepared(system, plan, preset, _prompt(opened, preset.prompt) if preset.model else None)


def _captioner(corpus: Corpus) -> str | None:
    """Return what kind describes figures: ``llm``, or ``vlm`` for any that sees the picture; None without a model."""
    model = corpus.models.get(corpus.captions.captioner)
    return None if model is None else "vlm" if model.kind.sees else "llm"


def _described_by(name: str | None, corpus: Corpus) -> bool:
    """Return whether the captioner of figures is the model of this name; true if there is no such model to compare."""
    answers, describes = corpus.models.get(name or ""), corpus.models.get(corpus.captions.captioner)
    if answers is None or describes is None:
        return answers is None
    return (answers.model, answers.revision) == (describes.model, describes.revision)


def _prompt(opened: OpenVersion, name: str) -> AnswerPrompt:
    """Return a prompt of the papers, a packaged one, or one of a file beside the corpus file."""
    if name in paper_prompts():
        return paper_prompts()[name]
    file = opened.workspace.file
    return find_answer_prompt(name, file.parent, f"{file}: answer.prompt")


def _require(missing: list[str]) -> None:
    if missing:
        raise UserError(f"needs {', '.join(missing)}")


def ask(
    opened: OpenVersion,
    experiment: Experiment,
    prepared: Prepared,
    gold: Gold,
    question: EmbeddedQuery,
    repetition: int,
    replies: Replies,
) -> Outcome:
    """Return the outcome; a failure is an outcome too."""
    replies.begin(repetition)
    started = time.perf_counter()
    gold_question = gold.question
    outcome = Outcome(question_id=gold_question.id)
    in_documents = experiment.scope == "document" and gold_question.documents
    filters = Filters(documents=gold_question.documents) if in_documents else NO_FILTERS
    try:
        if prepared.answer is None:
            query = Query(gold_question.question, k=experiment.k, filters=filters, highlight=False)
            outcome = outcome.model_copy(update={"hits": opened.search(query, prepared.retrieval, question).hits})
        else:
            preset = prepared.answer
            if preset.context == "given" and (filters := _gold_filters(opened, preset, gold)) == NO_FILTERS:
                preset = preset.model_copy(update={"context": "none"})
            outcome = _answer(opened, prepared, preset, question, filters, outcome)
            if preset.model is not None and not preset.checks_answers:
                outcome = outcome.model_copy(update={"reply": replies.last_reply})
    except (RequestError, TransientError, BadInputError, UserError) as error:
        outcome = outcome.model_copy(update={"failure": error.message})
    return outcome.model_copy(
        update={
            "seconds": time.perf_counter() - started + replies.saved_s,
            "spent": replies.spent,
            "failure": outcome.failure or replies.failure,
        }
    )


def _answer(
    opened: OpenVersion,
    prepared: Prepared,
    preset: AnswerPreset,
    question: EmbeddedQuery,
    filters: Filters,
    outcome: Outcome,
) -> Outcome:
    plan = AnswerPlan(
        question=question,
        preset=preset,
        retrieval=prepared.retrieval,
        fallback=prepared.retrieval,
        prompt=prepared.prompt,
        filters=filters,
    )
    citations: list[Citation] = []
    for event in answer_events(opened, plan):
        if isinstance(event, AnswerStarted):
            citations = event.citations
        elif isinstance(event, AnswerFinished):
            fell_back = preset.model is not None and event.result.model is None
            outcome = outcome.model_copy(update={"answer": event.result, "failure": event.result.note if fell_back else ""})
    ranked = [(name, 1.0) for name in dict.fromkeys(citation.evidence_id for citation in citations)]
    hits = opened.hits(ranked) if ranked else []
    pictures = rows_to_send(hits, preset)[1] if preset.model else []
    has_words = preset.model is None or Content.CAPTIONS in preset.sends
    words = [hit.evidence_id for hit in hits if has_words or hit.figure_id is None]
    rows = {"hits": hits, "context": hits, "words": words, "pictures": pictures}
    checked = None
    if outcome.answer is not None and preset.model is not None and not preset.checks_answers:
        checked = _checked(
            outcome.answer, citations, [opened.template.without(hit.tagged_text) for hit in hits], question.words
        )
    return outcome.model_copy(update=rows | {"retrieved": preset.context == "retrieved", "checked": checked})


def _checked(answer: AnswerResult, citations: Sequence[Citation], passages: Sequence[str], question: str) -> AnswerResult:
    """Return what Inset makes of an answer as it was written: citations that the passages support."""
    parts, _ = with_support(answer.parts, passages, question)
    cited = {number for part in parts for number in part.citations}
    return answer.model_copy(update={"parts": parts, "citations": [one for one in citations if one.n in cited]})


def _gold_filters(opened: OpenVersion, preset: AnswerPreset, gold: Gold) -> Filters:
    """Return filters that name the rows on the gold pages; none where these hold nothing of the kinds that are sent."""
    evidence_ids: list[str] = []
    for page in gold.question.pages:
        if page.doc is not None:
            evidence_ids += named_rows(opened, Filters(documents=[page.doc], pages=[page.page]), preset.sent_modalities)
    if not gold.question.pages:
        raise RequestError(NO_GOLD)
    return Filters(evidence_ids=list(dict.fromkeys(evidence_ids)))
