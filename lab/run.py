"""Run an experiment: every system, every question; outcomes are kept, so that a killed run goes on."""

import hashlib
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from evaluation.gold import Gold
from evaluation.questions import Question, load_questions
from lab.ask import UNDEFINED, Prepared, ask, prepare
from lab.changes import SCORES, changes, evaluated_before, systems_of
from lab.experiment import Experiment, System
from lab.experiment_files import NamedExperiment
from lab.judge import Judges
from lab.judging.agreement import Comparison, Grades
from lab.judging.labels import load_labels
from lab.metrics import METRICS, mean_of_ten, score
from lab.outcomes import Outcome
from lab.replies import Replies
from lab.report import paper_tables, write_report
from lab.results import Results, ScoreTable, SystemResult, Tested, baseline_of, judgements, together, with_adjusted
from pipeline.corpus.workspace import Workspace
from pipeline.published.gold import gold_evidence
from pipeline.published.version import OpenVersion, open_version
from pipeline.records.cache import RecordCache
from pipeline.records.differences import COMPARED, REPORT, Compared, stored_name
from pipeline.records.manifests import read_manifest
from pipeline.records.publication import resolve_version
from schemas.base import batched
from schemas.errors import InsetError, UserError
from schemas.filters import Modality
from schemas.ids import key, version_file
from schemas.printing import line
from schemas.stages import Report, silent
from schemas.versions import Spent
from tasks.enriching.caption import WITHOUT_WORDS, as_one_line

WORKERS = 2
STORED = ("results.json", REPORT, SCORES)
_WRITTEN_TOGETHER = 32
"""Outcomes that are written together; a killed run makes as many again."""

_CODE = ("backends", "lab.papers", "pipeline.corpus", "pipeline.published", "schemas", "tasks")
"""Packages that outcomes depend on."""


@dataclass(frozen=True, slots=True)
class StoredOutcome:
    """An outcome as JSON; ``id`` digests system, question and repetition."""

    id: str
    outcome: str


def run_experiment(
    workspace: Workspace,
    named_experiment: NamedExperiment,
    out: Path,
    *,
    version: str | None = None,
    workers: int = WORKERS,
    report: Report = silent,
) -> Results:
    """Run an experiment, and write its results into a folder.

    These are ``results.json``, ``report.html``, ``paper_tables.md``, and ``scores``, ``outcomes`` and ``grades.parquet``.
    ``grades.parquet`` has a row for each outcome, judge and metric, with the reason. Results, report and scores are stored with
    the version too. Raises ``UserError`` if there are no questions, or files can't be read or written.
    """
    experiment = named_experiment.experiment
    if experiment.use_parameters is not None:
        models = experiment.parameters[experiment.use_parameters].of(workspace.corpus.models, experiment.judges)
        workspace = replace(workspace, corpus=workspace.corpus.model_copy(update={"models": models}))
    resolved_version = resolve_version(workspace.store, workspace.corpus.name, version or experiment.version)
    replies = Replies(workspace, experiment.budget)
    opened = replace(open_version(workspace, resolved_version), record=replies.record)
    golds = gold_evidence(opened, _with_document_types(_questions(workspace, named_experiment), opened))
    golds = [_with_words_of_figures(gold, opened) for gold in golds]
    labels = load_labels(named_experiment.folder / experiment.labels) if experiment.labels else []
    prepared, notes = _prepared(opened, experiment)
    run = _Run(workspace, opened, experiment, golds, prepared, replies)
    try:
        with ThreadPoolExecutor(workers) as pool:
            run.ask_all(pool, report)
            judges = Judges(opened, experiment, replies, pool, report)
            try:
                out.mkdir(parents=True, exist_ok=True)
                results = run.results(named_experiment.name, notes, judges, Comparison(labels), out, report)
                (out / "results.json").write_text(results.model_dump_json(indent=1), encoding="utf-8")
                write_report(results, out / REPORT)
                (out / "paper_tables.md").write_text(paper_tables(results), encoding="utf-8")
                for name in STORED:
                    workspace.store.replace(
                        stored_name(resolved_version, named_experiment.name, name), (out / name).read_bytes()
                    )
            except OSError as error:
                raise UserError(f"can't write {error.filename or out}: {error.strerror or error}") from error
    finally:
        replies.flush()
    return results


def evaluate_version(
    workspace: Workspace,
    named_experiment: NamedExperiment,
    version: str,
    report: Report = silent,
    *,
    is_rerun: bool = False,
) -> tuple[Results, Compared | None]:
    """Run an experiment on a version, store results, report and changes with it, and return results and what surely changed.

    It is compared with its last run on this version, and with that on the newest older one; with ``is_rerun`` with the first of
    them that there is; None for the first run. Raises ``UserError`` without questions, ``NotFoundError`` without the version.
    """
    store, resolved_version = workspace.store, resolve_version(workspace.store, workspace.corpus.name, version)
    earlier_scores = {}
    if store.exists(scores_name := stored_name(resolved_version, named_experiment.name, SCORES)):
        earlier_scores["its last report"] = store.get(scores_name)
    if not (is_rerun and earlier_scores) and (older := evaluated_before(store, resolved_version, named_experiment.name)):
        earlier_scores[older] = store.get(stored_name(older, named_experiment.name, SCORES))
    with TemporaryDirectory() as folder:
        results = run_experiment(workspace, named_experiment, Path(folder), version=resolved_version, report=report)
    if not earlier_scores:
        return results, None
    worse: list[str] = []
    better: list[str] = []
    for since, scores in earlier_scores.items():
        earlier_systems = systems_of(scores)
        lost_systems = [
            system_result
            for system_result in results.systems
            if system_result.note and system_result.system.id in earlier_systems
        ]
        worse += [
            line(f"since {since}: {system_result.system.id} doesn't run any more: {system_result.note}")
            for system_result in lost_systems
        ]
        for change in changes(scores, store.get(scores_name)):
            (worse if change.worse else better).append(f"since {since}: {change}")
    comparison = Compared(worse=worse, better=better)
    if worse or better or not is_rerun:  # a quiet night keeps what an earlier run found
        store.replace(stored_name(resolved_version, named_experiment.name, COMPARED), comparison.model_dump_json().encode())
    return results, comparison


def _questions(workspace: Workspace, named_experiment: NamedExperiment) -> list[Question]:
    question_path = named_experiment.questions_on(workspace.corpus)
    if question_path is None:
        raise UserError(
            f"experiment {named_experiment.name}: there are no questions; set 'questions' in it, or in {workspace.file}"
        )
    questions = sorted(load_questions(question_path), key=lambda question: question.id)
    if repeated_ids := [
        earlier_question.id
        for earlier_question, next_question in itertools.pairwise(questions)
        if earlier_question.id == next_question.id
    ]:
        raise UserError(f"{question_path}: two questions have the id {repeated_ids[0]}; give one another id")
    if not questions:
        raise UserError(f"{question_path}: there are no questions in it")
    return questions


def _with_document_types(questions: Sequence[Question], opened: OpenVersion) -> list[Question]:
    """Return questions with the types that the corpus file gives their documents, unless they name types themselves."""
    corpus, document_names = opened.settings(), {name for question in questions for name in question.documents}
    types_by_document: dict[str, set[str]] = {}
    for sources in opened.sources.values():
        names = document_names.intersection(source.rpartition("/")[2] for source in sources)
        if names and (kind := corpus.doc_type(sources)) is not None:
            for name in names:
                types_by_document.setdefault(name, set()).add(kind)
    return [
        question.model_copy(
            update={
                "doc_types": question.doc_types
                or sorted({kind for name in question.documents for kind in types_by_document.get(name, ())})
            }
        )
        for question in questions
    ]


def _with_words_of_figures(gold: Gold, opened: OpenVersion) -> Gold:
    """Return a gold question whose kinds of evidence say whether text recognition reads words in one of its figures."""
    figure_ids = frozenset[str]().union(*gold.figures)
    rows = [row for doc_id in gold.names or () for row in opened.rows_of(doc_id).to_pylist()] if figure_ids else []
    rows = [row for row in rows if row["figure_id"] in figure_ids and row["modality"] == Modality.FIGURE]
    if not rows:
        return gold
    kind = f"figure {'with' if any(map(_has_inner_text, rows)) else 'without'} words"
    types = [*gold.question.evidence_types, kind]
    return replace(gold, question=gold.question.model_copy(update={"evidence_types": types}))


def _has_inner_text(row: Mapping[str, Any]) -> bool:
    """Return whether the row of a figure ends in words inside it, which ``compose`` puts last."""
    labels = (str(row["caption"]).strip(), as_one_line(row["description"] or ""), *row["section_path"][-1:], WITHOUT_WORDS)
    return not any(label and str(row["text"]).endswith(label) for label in labels)


def _setup(opened: OpenVersion, experiment: Experiment, prepared: Sequence[Prepared]) -> Iterator[str]:
    """Yield how each model is called that writes answers, grades, or describes for the version."""
    models = opened.settings().models
    names = {one.answer.model for one in prepared if one.answer is not None} | {*experiment.judges}
    for name in sorted(name for name in names if name is not None and name in models):
        entry = models[name]
        yield f"{name}: {entry.model}, temperature {entry.temperature:g}, top_p {entry.top_p:g}, {entry.max_tokens} tokens"
    for captioner in opened.workspace.captioners.values():
        yield f"each {captioner.subject} described by {captioner.options.model}, prompt {captioner.prompt.name}"


def _prepared(opened: OpenVersion, experiment: Experiment) -> tuple[list[Prepared], dict[str, str]]:
    """Return the systems that can run, and why others can't."""
    prepared, notes = [], {}
    for system in experiment.systems:
        try:
            prepared.append(prepare(opened, experiment, system))
        except InsetError as error:
            notes[system.id] = error.message
    return prepared, notes


class _Run:
    """One run of an experiment."""

    def __init__(
        self,
        workspace: Workspace,
        opened: OpenVersion,
        experiment: Experiment,
        golds: Sequence[Gold],
        prepared: Sequence[Prepared],
        replies: Replies,
    ) -> None:
        self._workspace, self._opened, self._experiment, self._replies = workspace, opened, experiment, replies
        self._golds, self._prepared = golds, prepared
        corpus = workspace.corpus
        depends = key(
            code=_code_digest(),
            retrieval=corpus.retrieval.model_dump(mode="json", exclude={"presets"}),
            answer=corpus.answer.model_dump(mode="json"),
        )
        folder = version_file(opened.version, f"evaluation/outcomes/{depends}")
        self._cache = RecordCache(workspace.store, folder, StoredOutcome)
        self._failed_outcomes: dict[str, Outcome] = {}

    def ask_all(self, pool: Executor, report: Report) -> None:
        """Ask what has no outcome yet."""
        requests_by_name = {
            self._name(prepared, gold, repetition): (prepared, gold, repetition)
            for prepared in self._prepared
            for gold in self._golds
            for repetition in range(self._repetitions(prepared))
        }
        missing = self._cache.missing(requests_by_name)
        embedded_questions = {gold.question.id: self._opened.question(gold.question.question) for gold in self._golds}
        asked_count = len(requests_by_name) - len(missing)
        report("ask", asked_count, len(requests_by_name))

        def run(name: str) -> tuple[str, Outcome]:
            prepared, gold, repetition = requests_by_name[name]
            question = embedded_questions[gold.question.id]
            return name, ask(self._opened, self._experiment, prepared, gold, question, repetition, self._replies)

        for names in batched(missing, _WRITTEN_TOGETHER):
            new_outcomes = []
            for name, outcome in pool.map(run, names):
                asked_count += 1
                report("ask", asked_count, len(requests_by_name))
                if outcome.failure and outcome.failure not in UNDEFINED:
                    self._failed_outcomes[name] = outcome  # the next run tries again
                else:
                    new_outcomes.append(StoredOutcome(name, outcome.model_dump_json()))
            self._replies.flush()
            self._cache.append(new_outcomes)
        self._cache.compact()

    def results(
        self, name: str, notes: Mapping[str, str], judges: Judges, comparison: Comparison, out: Path, report: Report
    ) -> Results:
        """Score and judge all outcomes, a system at a time, and write them."""
        experiment, questions = self._experiment, [gold.question for gold in self._golds]
        baseline = baseline_of(experiment, [prepared.system.id for prepared in self._prepared])
        results_by_id, tables = self._score(baseline, notes, judges, comparison, out, report)
        return Results(
            name=name,
            label=experiment.label,
            sentence=experiment.sentence,
            source=experiment.source,
            corpus=self._workspace.corpus.name,
            version=self._opened.version,
            questions=len(questions),
            repetitions=experiment.repetitions,
            baseline=baseline,
            setup=[*_setup(self._opened, experiment, self._prepared)],
            ranked_by=experiment.ranked_by,
            systems=with_adjusted(list(results_by_id.values())),
            hypotheses=[
                Tested(
                    hypothesis=hypothesis,
                    difference=tables[hypothesis.better].difference(tables[hypothesis.worse], hypothesis.metric)
                    if {hypothesis.better, hypothesis.worse} <= tables.keys()
                    else None,
                )
                for hypothesis in experiment.hypotheses
            ],
            papers=experiment.papers,
            judges=[result.model_copy(update={"people": comparison.with_people(result.judge)}) for result in judges.tested],
            agreement=comparison.of_judges(),
            index=_index_cost(self._workspace, self._opened),
            warnings=[*_unknown_documents(questions, self._opened), *_unused_labels(comparison.unused)],
        )

    def _score(
        self, baseline: str, notes: Mapping[str, str], judges: Judges, comparison: Comparison, out: Path, report: Report
    ) -> tuple[dict[str, SystemResult], dict[str, ScoreTable]]:
        """Return the results by system, the baseline's first, and the scores that hypotheses compare."""
        experiment, questions = self._experiment, [gold.question for gold in self._golds]
        compared_ids = {
            baseline,
            *(side for hypothesis in experiment.hypotheses for side in (hypothesis.better, hypothesis.worse)),
        }
        tables: dict[str, ScoreTable] = {}
        results_by_id: dict[str, SystemResult] = {
            system.id: SystemResult(system=system, note=notes.get(system.id, "")) for system in experiment.systems
        }
        first = sorted(self._prepared, key=lambda prepared: prepared.system.id != baseline)
        answers = sum(len(self._golds) * self._repetitions(prepared) for prepared in first if prepared.answer is not None)
        with (
            pq.ParquetWriter(out / "outcomes.parquet", _OUTCOMES, compression="zstd") as outcomes_file,
            pq.ParquetWriter(out / SCORES, _SCORES, compression="zstd") as scores_file,
            pq.ParquetWriter(out / "grades.parquet", _GRADES, compression="zstd") as grades_file,
        ):
            for number, prepared in enumerate(first, 1):
                gold_outcomes = list(self._outcomes(prepared))
                grades = judges.grade(gold_outcomes, answers) if prepared.answer is not None else {}
                counted_grades = judges.counted(grades)
                scores = score(gold_outcomes) | together(counted_grades)
                scores |= mean_of_ten(scores)
                ids = [outcome.question_id for _, outcome in gold_outcomes]
                comparison.add(prepared.system.id, [outcome for _, outcome in gold_outcomes], counted_grades)
                grades_file.write_table(_grade_table(prepared.system, ids, grades))
                outcomes_file.write_table(_outcome_table(prepared.system, [outcome for _, outcome in gold_outcomes]))
                scores_file.write_table(_score_table(prepared.system, ids, scores))
                table = ScoreTable(questions, ids, scores)
                if prepared.system.id in compared_ids:
                    tables[prepared.system.id] = table
                failed = Counter(outcome.failure for _, outcome in gold_outcomes if outcome.failure)
                results_by_id[prepared.system.id] = SystemResult(
                    system=prepared.system,
                    failed=dict(failed),
                    means=table.means(),
                    kinds=table.kinds(),
                    against={} if prepared.system.id == baseline else table.against(tables[baseline]),
                    judged=judgements(questions, ids, grades, counted_grades),
                )
                report("score", number, len(first))
        return results_by_id, tables

    def _outcomes(self, prepared: Prepared) -> Iterator[tuple[Gold, Outcome]]:
        named_golds = [
            (gold, self._name(prepared, gold, repetition))
            for repetition in range(self._repetitions(prepared))
            for gold in self._golds
        ]
        rows = self._cache.read([name for _, name in named_golds])
        outcomes_by_name = {row.id: Outcome.model_validate_json(row.outcome) for row in rows} | self._failed_outcomes
        yield from (
            (gold, outcomes_by_name[name].model_copy(update={"question_id": gold.question.id}))
            for gold, name in named_golds
        )

    def _repetitions(self, prepared: Prepared) -> int:
        return self._experiment.repetitions if prepared.answer is not None and prepared.answer.model is not None else 1

    def _name(self, prepared: Prepared, gold: Gold, repetition: int) -> str:
        question, preset = gold.question, prepared.answer
        given_pages = (
            [page.model_dump() for page in question.pages] if preset is not None and preset.context == "given" else None
        )
        return key(
            retrieval=prepared.retrieval.model_dump(mode="json"),
            answer=None if preset is None else preset.model_dump(mode="json"),
            prompt=None if prepared.prompt is None else [prepared.prompt.system, prepared.prompt.user],
            k=self._experiment.k if preset is None else None,
            question=question.question,
            documents=question.documents if self._experiment.scope == "document" else None,
            given=given_pages,
            repetition=repetition,
        )


_OUTCOMES = pa.schema(
    [pa.field(name, pa.string()) for name in ("system", "question_id", "outcome", "answer")]
    + [pa.field("contexts", pa.list_(pa.string()))]
)
"""``answer`` and ``contexts`` are the words that ``outcome`` holds as JSON, for other tools."""
_SCORES = pa.schema(
    [pa.field(name, pa.string()) for name in ("system", "question_id")] + [pa.field(name, pa.float64()) for name in METRICS]
)

_GRADES = pa.schema(
    [pa.field(name, pa.string()) for name in ("system", "question_id", "metric", "judge")]
    + [pa.field("grade", pa.float64()), pa.field("reason", pa.string())]
)


def _outcome_table(system: System, outcomes: Sequence[Outcome]) -> pa.Table:
    rows = [
        {
            "system": system.id,
            "question_id": outcome.question_id,
            "outcome": outcome.model_dump_json(),
            "answer": outcome.answer_text or None,
            "contexts": [hit.text for hit in outcome.context],
        }
        for outcome in outcomes
    ]
    return pa.Table.from_pylist(rows, schema=_OUTCOMES)


def _score_table(system: System, ids: Sequence[str], scores: Mapping[str, Sequence[float | None]]) -> pa.Table:
    undefined = [None] * len(ids)
    return pa.table([[system.id] * len(ids), ids, *(scores.get(name, undefined) for name in METRICS)], schema=_SCORES)


def _grade_table(system: System, ids: Sequence[str], grades: Grades) -> pa.Table:
    rows = [
        {
            "system": system.id,
            "question_id": question_id,
            "metric": metric,
            "judge": judge,
            "grade": grade.value,
            "reason": grade.reason,
        }
        for judge, by_metric in grades.items()
        for metric, metric_grades in by_metric.items()
        for question_id, grade in zip(ids, metric_grades, strict=True)
    ]
    return pa.Table.from_pylist(rows, schema=_GRADES)


def _index_cost(workspace: Workspace, opened: OpenVersion) -> dict[str, float]:
    """Return what a document's descriptions cost, on average, in the version's refresh."""
    manifest = read_manifest(workspace.store, opened.version)
    if manifest is None or not manifest.counts.documents:
        return {}
    spent = sum(manifest.spent.values(), Spent())
    return {name: value / manifest.counts.documents for name, value in spent}


def _unknown_documents(questions: Iterable[Question], opened: OpenVersion) -> list[str]:
    document_names = {source.rpartition("/")[2] for sources in opened.sources.values() for source in sources}
    lacking = sorted({name for question in questions for name in question.documents} - document_names)
    return [f"the version has no document {name}, which questions ask for" for name in lacking]


def _unused_labels(unused: int) -> list[str]:
    return [f"{unused} labels are of no outcome here: another system or question, or another answer"] if unused else []


def _code_digest() -> str:
    """Digest the code that outcomes depend on, so that another release asks again."""
    digest = hashlib.sha256()
    for package in _CODE:
        root = Path(str(files(package)))
        for file in sorted(root.rglob("*")):
            if file.suffix in {".py", ".md", ".yaml"} and "__pycache__" not in file.parts:
                digest.update(str(file.relative_to(root)).encode() + file.read_bytes())
    return digest.hexdigest()[:16]
