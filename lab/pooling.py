"""Pool what systems retrieve or answer, let people judge it, and make judgements of rows gold evidence (qrels).

Source:
    Pooling as at TREC, and in OMG-QA; the bias of a pool by leaving one system out: Zobel, SIGIR 1998.
"""

import glob
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field

from evaluation.questions import Question
from lab.judging.agreement import Agreement, agreement
from lab.judging.verdicts import verdict
from lab.metrics import relevance
from lab.outcomes import Outcome
from lab.statistics import Estimate, estimates
from schemas.answers import Part
from schemas.base import Frozen
from schemas.evidence import CitedRegion, Hit
from schemas.filters import Modality
from schemas.ids import key
from schemas.ports import StreamingModel

MEASURE = "nDCG@10"
"""What the bias of a pool is measured by."""


class _RowRecord(Frozen):
    """Something about a row for a question."""

    question_id: str
    evidence_id: str

    @property
    def row(self) -> tuple[str, str]:
        """The question, and the row."""
        return self.question_id, self.evidence_id


Asked = Literal["row", "answer", "figures"]
"""What a person judges: whether a row helps to answer, an answer is right, or it shows the right figures."""


class Candidate(_RowRecord):
    """A row that systems retrieved for a question, or an answer; ``ranks`` are from 1, by system.

    Of an answer, ``evidence_id`` digests its parts, ``text`` has its words, and ``asks`` says what of it is judged.
    """

    asks: Asked = "row"
    question: str
    answer: str | None = None
    version: str
    doc_id: str = ""
    source: str = ""
    modality: Modality | None = None
    section: str = ""
    text: str
    parts: list[Part] = Field([], description="Of an answer, as readers see it.")
    regions: list[CitedRegion] = Field([])
    ranks: dict[str, int]

    @property
    def pages(self) -> list[int]:
        """The pages that it stands on, in order."""
        return sorted({region.page for region in self.regions})


class Judgement(_RowRecord):
    """What one person, or a model, says of one candidate: 1 for evidence that helps to answer, 0 for other rows."""

    by: str
    is_model: bool = False
    grade: int = Field(ge=0, le=1)

    @property
    def judge(self) -> str:
        """Name of the judge; that of a model is marked."""
        return f"{self.by} (model)" if self.is_model else self.by


class AnswerShare(Frozen):
    """Share of a system's answers that people call right in one respect, over those that were judged."""

    system: str
    asks: Asked
    kind: str = Field(description="Type of document, or all.")
    estimate: Estimate
    unjudged: int


class Correction(Frozen):
    """What one person makes of a question and its expected answer."""

    question_id: str
    question: str = Field(min_length=1)
    answer: str | None = None
    by: str


class Bias(Frozen):
    """The mean score of a system by all judgements, and without those of rows that it alone retrieved."""

    system: str
    score: float
    left_out: float
    recall: float = Field(description="Share of the relevant rows of the pool that it retrieved.")
    own: int = Field(description="Relevant rows that no other system retrieved.")


class Reliability(Frozen):
    """How far judgements can be trusted."""

    unjudged: int
    disputed: list[str] = Field([], description="Rows that people grade differently; they count as not judged.")
    by_models: int = Field(0, description="Rows that models alone judged.")
    people: dict[str, Agreement] = Field({}, description="Agreement of two judges, by their names.")


class Settled(Reliability):
    """The grade of each row on which its judges agree."""

    grades: dict[tuple[str, str], int]


class Judged(Reliability):
    """Questions with judged evidence."""

    questions: list[Question]
    corrected: int = Field(0, description="Questions that people corrected, those that they disagree on left out.")
    bias: list[Bias] = Field([])


def pool(
    questions: Sequence[Question], outcomes: Mapping[str, Sequence[Outcome]], version: str, depth: int | None = None
) -> list[Candidate]:
    """Return the first ``depth`` rows of every system for every question, each row once, sorted by id; None: all rows."""
    questions_by_id = {question.id: question for question in questions}
    ranks: dict[tuple[str, str], dict[str, int]] = {}
    hits: dict[tuple[str, str], Hit] = {}
    for system, system_outcomes in sorted(outcomes.items()):
        for outcome in system_outcomes:
            for rank, hit in enumerate(outcome.hits[:depth] if outcome.question_id in questions_by_id else (), 1):
                row = outcome.question_id, hit.evidence_id
                rank_by_system = ranks.setdefault(row, {})
                rank_by_system[system] = min(rank, rank_by_system.get(system, rank))  # the best of its repetitions
                hits.setdefault(row, hit)
    return [_candidate(questions_by_id[row[0]], hits[row], version, ranks[row]) for row in sorted(ranks)]


def _candidate(question: Question, hit: Hit, version: str, ranks: dict[str, int]) -> Candidate:
    return Candidate(
        question_id=question.id,
        evidence_id=hit.evidence_id,
        question=question.question,
        answer=question.answer,
        version=version,
        doc_id=hit.doc_id,
        source=hit.source,
        modality=hit.modality,
        section=" > ".join(hit.section_path),
        text=hit.text,
        regions=hit.regions,
        ranks=ranks,
    )


def pool_answers(questions: Sequence[Question], outcomes: Mapping[str, Sequence[Outcome]], version: str) -> list[Candidate]:
    """Return the answers of every system, each different one once, and once more for its figures if it shows any."""
    questions_by_id = {question.id: question for question in questions}
    candidates: dict[tuple[str, str], Candidate] = {}
    for system, system_outcomes in sorted(outcomes.items()):
        for outcome in system_outcomes:
            question = questions_by_id.get(outcome.question_id)
            if question is None or outcome.answer is None or not outcome.answer.parts:
                continue
            shown_parts = [part.model_copy(update={"citations": []}) for part in outcome.answer.parts]
            name = key(parts=[part.model_dump(mode="json") for part in shown_parts])
            aspects: list[Asked] = ["answer", "figures"] if outcome.figures else ["answer"]
            for asks in aspects:
                candidate = Candidate(
                    question_id=question.id,
                    evidence_id=f"{name} {asks}",
                    asks=asks,
                    question=question.question,
                    answer=question.answer,
                    version=version,
                    text=outcome.answer_text,
                    parts=shown_parts,
                    ranks={},
                )
                candidates.setdefault(candidate.row, candidate).ranks[system] = 1
    return [candidates[row] for row in sorted(candidates)]


def answer_shares(
    questions: Sequence[Question], candidates: Sequence[Candidate], judgements: Iterable[Judgement]
) -> tuple[list[AnswerShare], Settled]:
    """Return how often each system is right in each respect, in all and by type of document, and the judgements settled.

    Source:
        Table II of "Image Localization Tags" (2024): shares of right images by type of document, as experts judge them.
    """
    settled = settle(candidates, judgements)
    types = {question.id: ["all", *question.doc_types] for question in questions}
    grades: dict[tuple[str, Asked, str], list[float]] = {}
    for candidate in candidates:
        for system, kind in itertools.product(candidate.ranks, types.get(candidate.question_id, ["all"])):
            grade = settled.grades.get(candidate.row, math.nan)
            grades.setdefault((system, candidate.asks, kind), []).append(grade)
    shares = [
        AnswerShare(
            system=system,
            asks=asks,
            kind=kind,
            estimate=estimates(np.array(system_grades)[:, None])[0],
            unjudged=sum(map(math.isnan, system_grades)),
        )
        for (system, asks, kind), system_grades in sorted(grades.items())
    ]
    return shares, settled


def judged_questions(
    questions: Sequence[Question],
    candidates: Sequence[Candidate],
    judgements: Iterable[Judgement],
    corrections: Iterable[Correction] = (),
) -> Judged:
    """Return the questions with the grades of their rows as evidence, as in ``settle``, and corrected.

    Of a judge's corrections of a question the last counts; those that people correct differently stay as they are.
    """
    settled = settle(candidates, judgements)
    qrels: dict[str, dict[str, int]] = {}
    for (question_id, evidence_id), grade in settled.grades.items():
        qrels.setdefault(question_id, {})[evidence_id] = grade
    texts = _agreed_corrections(corrections)
    sources = {candidate.row: candidate.source.rpartition("/")[2] for candidate in candidates}
    return Judged(
        questions=[
            question.model_copy(
                update={
                    **texts.get(question.id, {}),
                    "evidence": (judged_evidence := qrels.get(question.id, {})),
                    "evidence_documents": sorted(
                        {sources[question.id, row] for row, grade in judged_evidence.items() if grade}
                    ),
                }
            )
            for question in questions
        ],
        corrected=sum(question.id in texts for question in questions),
        unjudged=settled.unjudged,
        disputed=settled.disputed,
        by_models=settled.by_models,
        people=settled.people,
        bias=_biases(candidates, qrels),
    )


def settle(candidates: Sequence[Candidate], judgements: Iterable[Judgement]) -> Settled:
    """Return the grades of rows on which judges agree by their last judgements; models count if no person judged."""
    by_judge: dict[str, dict[tuple[str, str], int]] = {}
    models, people = set[str](), set[tuple[str, str]]()
    for judgement in judgements:
        by_judge.setdefault(judgement.judge, {})[judgement.row] = judgement.grade
        if judgement.is_model:
            models.add(judgement.judge)
        else:
            people.add(judgement.row)
    grades_by_row = {
        candidate.row: {
            grades[candidate.row]
            for judge, grades in by_judge.items()
            if candidate.row in grades and not (judge in models and candidate.row in people)
        }
        for candidate in candidates
    }
    return Settled(
        grades={row: next(iter(grades)) for row, grades in grades_by_row.items() if len(grades) == 1},
        unjudged=sum(not grades for grades in grades_by_row.values()),
        disputed=[f"{question} {evidence}" for (question, evidence), grades in grades_by_row.items() if len(grades) > 1],
        by_models=sum(bool(grades) and row not in people for row, grades in grades_by_row.items()),
        people=_agreements(by_judge),
    )


def _agreed_corrections(corrections: Iterable[Correction]) -> dict[str, dict[str, str | None]]:
    """Return question and answer by question id, if all who corrected a question agree."""
    last = {(correction.question_id, correction.by): (correction.question, correction.answer) for correction in corrections}
    texts_by_question: dict[str, set[tuple[str, str | None]]] = {}
    for (question_id, _), texts in last.items():
        texts_by_question.setdefault(question_id, set()).add(texts)
    return {
        name: dict(zip(("question", "answer"), *texts, strict=True))
        for name, texts in texts_by_question.items()
        if len(texts) == 1
    }


def judge_rows(candidates: Sequence[Candidate], judge: StreamingModel, name: str) -> Iterator[Judgement]:
    """Yield a model's judgement of each row, by its words; rows of which its reply has no grade are left out."""
    for candidate in candidates:
        title = " > ".join([candidate.source, *filter(None, [candidate.section])])
        grade = verdict(
            judge, "evidence_relevancy", question=candidate.question, title=title, texts=candidate.text, answer=""
        )
        if grade.value is not None:
            question_id, evidence_id = candidate.row
            yield Judgement(
                question_id=question_id, evidence_id=evidence_id, by=name, is_model=True, grade=int(grade.value)
            )


def _agreements(by_judge: Mapping[str, Mapping[tuple[str, str], int]]) -> dict[str, Agreement]:
    agreements = {}
    for (first, first_grades), (second, second_grades) in itertools.combinations(sorted(by_judge.items()), 2):
        if common_rows := sorted(first_grades.keys() & second_grades.keys()):
            agreements[f"{first} and {second}"] = agreement(
                [first_grades[name] for name in common_rows], [second_grades[name] for name in common_rows]
            )
    return agreements


def _biases(candidates: Sequence[Candidate], qrels: Mapping[str, Mapping[str, int]]) -> list[Bias]:
    systems = sorted({system for candidate in candidates for system in candidate.ranks})
    finders = {candidate.row: candidate.ranks.keys() for candidate in candidates}
    biases = []
    for system in systems:
        ranked: dict[str, list[str]] = {}
        for candidate in sorted(
            (candidate for candidate in candidates if system in candidate.ranks),
            key=lambda candidate: candidate.ranks[system],
        ):
            ranked.setdefault(candidate.question_id, []).append(candidate.evidence_id)
        sole_finds = {
            (question_id, evidence_id)
            for question_id, grades in qrels.items()
            for evidence_id, grade in grades.items()
            if grade and finders[question_id, evidence_id] == {system}
        }
        other_qrels = {
            question_id: {name: grade for name, grade in grades.items() if (question_id, name) not in sole_finds}
            for question_id, grades in qrels.items()
        }
        biases.append(
            Bias(
                system=system,
                score=_score(MEASURE, qrels, ranked),
                left_out=_score(MEASURE, other_qrels, ranked),
                recall=_score("SetR", qrels, ranked),
                own=len(sole_finds),
            )
        )
    return biases


def _score(measure: str, qrels: Mapping[str, Mapping[str, int]], ranked: Mapping[str, Sequence[str]]) -> float:
    """Return the mean of a measure over the questions that have a relevant row."""
    relevant_qrels = {question_id: grades for question_id, grades in qrels.items() if any(grades.values())}
    scores = relevance([measure], relevant_qrels, ranked)[measure].values() if relevant_qrels else []
    return sum(scores) / len(scores) if scores else 0.0


def judgements_files(pooled: Path) -> list[Path]:
    """Return the files of all persons' judgements of a pool."""
    return sorted(pooled.parent.glob(f"{glob.escape(pooled.stem)}.*.jsonl"))


def corrections_file(pooled: Path, person: str) -> Path:
    """Return the file of a person's corrections, beside the pool."""
    return pooled.with_name(f"{pooled.stem}-corrections.{person}.jsonl")


def corrections_files(pooled: Path) -> list[Path]:
    """Return the files of all persons' corrections of a pool's questions."""
    return sorted(pooled.parent.glob(f"{glob.escape(pooled.stem)}-corrections.*.jsonl"))


def judgements_file(pooled: Path, person: str) -> Path:
    """Return the file of a person's judgements, beside the pool."""
    return pooled.with_name(f"{pooled.stem}.{person}.jsonl")
