"""Stage 8: search the built version and the live one for the corpus's golden questions."""

import functools
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from evaluation.calibrate import calibrate, foreign_questions, shuffled
from evaluation.golden import ModeReport, ask, retrieval_gates, with_answers
from evaluation.questions import Question
from pipeline.corpus.metric_gates import metric_gates
from pipeline.corpus.models import is_here
from pipeline.corpus.presets import default_preset
from pipeline.corpus.workspace import Workspace
from pipeline.published.gold import gold_evidence
from pipeline.published.pinned import UnresolvedError, pinned_result
from pipeline.published.question_evidence import QuestionEvidence
from pipeline.published.version import OpenVersion, open_version
from pipeline.records.collection import holds
from pipeline.records.differences import COMPLAINTS_ANSWERED, JUDGED
from pipeline.records.feedback import COMPLAINT, golden_questions
from pipeline.records.ledger import read_ledger
from pipeline.records.manifests import readable_manifest
from pipeline.records.notes import StageNote, read_plan, write_note
from schemas.answers import part_figures
from schemas.errors import TransientError
from schemas.evidence import Hit
from schemas.filters import NO_FILTERS
from schemas.gates import COMPLAINTS, EXAMPLES, NO_QUESTIONS, PINNED, RECALL_KEPT, GateResult
from schemas.ids import version_file
from schemas.printing import listed
from schemas.retrieval import Preset, Query
from schemas.stages import Report, Stage, silent
from schemas.versions import Calibration
from tasks.answering.confidence import NEARNESS, confidence, default_calibration, thresholds
from tasks.answering.embedded_query import EmbeddedQuery
from tasks.answering.presets import alone, steps_of
from tasks.answering.rewrite import with_synonyms
from tasks.answering.trace import Trace
from tasks.versions.check import quarantine_ceiling


def evaluate(workspace: Workspace, version: str, report: Report = silent) -> StageNote:
    """Answer the golden questions by the default preset and by each of its retrievers alone; compare with the live version.

    With the default preset, unanswerable questions should get no answer. Reports go to the version's ``evaluation/``. A
    corpus without golden questions gets a gate that says so. Gates on metrics run the corpus's experiment.
    """
    started = time.monotonic()
    calibration: Calibration | None = None
    plan = read_plan(workspace.store, version)
    preset = default_preset(workspace.corpus.retrieval)
    gates = [quarantine_ceiling(read_ledger(workspace.store, version), workspace.corpus.gates, workspace.corpus.name)]
    synonyms = workspace.corpus.retrieval.synonyms
    questions = [
        question.model_copy(update={"question": with_synonyms(question.question, synonyms)})
        for question in golden_questions(workspace)
    ]
    if workspace.corpus.questions is None and not questions:
        message = "the corpus has no golden questions; retrieval is not judged"
        gates.append(GateResult(gate=NO_QUESTIONS, passed=True, value=None, bound=None, message=message))
    else:
        opened, live_version = open_version(workspace, version), None
        judged, *parts = _reports(opened, questions, [preset, *alone(preset)], report)
        calibration, confidence_by_question = _calibration(opened, questions, preset)
        threshold, _ = thresholds(workspace.corpus.answer, calibration)
        judged = with_answers(judged, questions, lambda words: confidence_by_question[words] >= threshold)
        live = None
        if plan.parent and _is_searchable(workspace, plan.parent, preset):
            live_version = open_version(workspace, plan.parent)
            (live,) = _reports(live_version, questions, [preset], report)
        elif plan.parent:
            message = f"{plan.parent} can't be searched any more, so this version isn't compared with it"
            gates.append(GateResult(gate=RECALL_KEPT.name, passed=True, value=None, bound=None, message=message))
        gates += retrieval_gates(questions, judged, parts, live, workspace.corpus.gates)
        gates += _complaints(opened, live_version, questions, preset)
        reports = {JUDGED: judged} | {mode_report.mode: mode_report for mode_report in parts}
        for name, mode_report in (reports | ({"live": live} if live else {})).items():
            data = json.dumps(mode_report.model_dump(mode="json"), indent=1).encode()
            workspace.store.replace(version_file(version, f"evaluation/{name}.json"), data)
    gates += _pinned(workspace, version)
    if (of_metrics := metric_gates(workspace.corpus)) is not None:
        gates += of_metrics.judge(workspace, version, report)
    seconds = time.monotonic() - started
    note = StageNote(seconds=seconds, gates=gates, judged_by=steps_of(preset), calibration=calibration)
    return write_note(workspace.store, version, Stage.EVALUATE, note)


def _complaints(
    opened: OpenVersion, live: OpenVersion | None, questions: Sequence[Question], preset: Preset
) -> list[GateResult]:
    """Judge the golden questions that were made of feedback, and store which are answered; [] for none.

    One is answered if an extractive answer cites its page and shows its figure, where it names one.
    """
    complaints = [question for question in questions if question.id.startswith(COMPLAINT)]
    if not complaints:
        return []

    def answered(opened: OpenVersion) -> dict[str, bool]:
        outcomes = {}
        for gold in gold_evidence(opened, complaints):
            question = opened.question(gold.question.question)
            answer = QuestionEvidence(opened, opened.searching(Trace()), question, preset, NO_FILTERS).answer()
            pages = {
                (source.rpartition("/")[2], region.page)
                for citation in answer.citations
                for region in citation.regions
                for source in opened.sources[citation.doc_id]
            }
            shown_figures = {figure.figure_id for part in answer.parts for figure in part_figures(part)}
            is_cited = any((page.doc, page.page) in pages for page in gold.question.pages)
            outcomes[gold.question.id] = is_cited and all(
                not shown_figures.isdisjoint(figure_ids) for figure_ids in gold.figures
            )
        return outcomes

    now, before = answered(opened), answered(live) if live else {}
    workspace = opened.workspace
    workspace.store.replace(version_file(opened.version, COMPLAINTS_ANSWERED), json.dumps(now, indent=1).encode())
    missed = [question.question for question in complaints if not now[question.id]]
    lost = [name for name, was_answered in before.items() if was_answered and not now[name]]
    finding = f"{sum(now.values())} of {len(now)} complaints answered" + (f", {len(lost)} fewer of them" if lost else "")
    share, bounds = sum(now.values()) / len(now), workspace.corpus.gates
    passed = COMPLAINTS.holds(share, bounds) and not lost
    return [COMPLAINTS.judge(share, bounds, finding, passed=passed, questions=listed(missed, EXAMPLES))]


def _pinned(workspace: Workspace, version: str) -> list[GateResult]:
    """Judge whether the citations and figures of pinned answers resolve; [] for none."""
    answers, unresolved = workspace.corpus.answers, list[str]()
    if not answers:
        return []
    opened = open_version(workspace, version)
    for pinned in answers:
        try:
            pinned_result(opened, pinned.answer, "")
        except UnresolvedError as error:
            unresolved.append(f"{pinned.questions[0]!r}: {error}")
    finding = f"{len(answers) - len(unresolved)} of {len(answers)} pinned answers resolve"
    message = f"{finding}; correct 'answers' in {workspace.file}: {listed(unresolved, EXAMPLES)}" if unresolved else finding
    return [GateResult(gate=PINNED, passed=not unresolved, value=float(len(unresolved)), bound=0.0, message=message)]


def _is_searchable(workspace: Workspace, version: str, preset: Preset) -> bool:
    manifest, options = readable_manifest(workspace.store, version), workspace.corpus.embedding_models
    try:
        return (
            manifest is not None
            and holds(workspace, manifest)
            and all(
                name in manifest.spaces and is_here(name, manifest.spaces[name], options)
                for name in {*preset.spaces, NEARNESS.name}
            )
        )
    except TransientError:
        return False


def _prepared(opened: OpenVersion, questions: Iterable[str], preset: Preset) -> dict[str, EmbeddedQuery]:
    """Return questions by their words, embedded in one batch."""
    words = list(dict.fromkeys(questions))
    return dict(zip(words, opened.questions(words, preset), strict=True))


def _reports(
    opened: OpenVersion, questions: Sequence[Question], presets: Sequence[Preset], report: Report
) -> list[ModeReport]:
    gold = gold_evidence(opened, questions)
    # The other presets are retrievers of the first one alone, so what it embeds of a question serves all.
    prepared = _prepared(opened, (question.question for question in questions), presets[0])
    reports = []
    for judged_count, preset in enumerate(presets, 1):
        reports.append(ask(gold, functools.partial(_hits, opened, prepared, preset), preset.name))
        report(Stage.EVALUATE, judged_count, len(presets))
    return reports


def _hits(opened: OpenVersion, prepared: Mapping[str, EmbeddedQuery], preset: Preset, query: str, k: int) -> Sequence[Hit]:
    return opened.search(Query(query, k=k), preset, prepared[query]).hits


def _calibration(
    opened: OpenVersion, questions: Sequence[Question], preset: Preset
) -> tuple[Calibration, dict[str, float]]:
    """Return the calibration of confidence, and the confidence in the answer to each golden question."""
    golden = [question.question for question in questions]
    negatives = {"foreign": foreign_questions(), "shuffled": shuffled(golden)}
    prepared = _prepared(opened, chain(golden, *negatives.values()), preset)
    evidence = {
        question_text: QuestionEvidence(opened, opened.searching(Trace()), question, preset, NO_FILTERS).features
        for question_text, question in prepared.items()
    }
    unanswerable = {
        name: [evidence[question_text] for question_text in negative_questions]
        for name, negative_questions in negatives.items()
    }
    unanswerable["golden"] = [evidence[question.question] for question in questions if not question.answerable]
    answerable = [evidence[question.question] for question in questions if question.answerable]
    default = default_calibration(opened.calibration.text_model)
    calibration = calibrate(answerable, unanswerable, default)
    return calibration, {question_text: confidence(evidence[question_text], calibration) for question_text in golden}
