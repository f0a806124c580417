"""Pools of what systems retrieve, and the judgements that people give."""

import math
from pathlib import Path

import pytest

from evaluation.questions import Question, read_records
from lab.outcomes import Outcome
from lab.pooling import Candidate, Correction, Judgement, answer_shares, judged_questions, pool, pool_answers
from lab.question_files import write_records
from schemas.answers import AnswerResult, FigurePart, TextPart
from schemas.errors import UserError
from schemas.evidence import CitedRegion, Hit
from schemas.filters import Modality

QUESTIONS = [Question(id="1", question="Which seal?", answer="Rubber."), Question(id="2", question="Which bolt?")]


def hit(name: str) -> Hit:
    box = (0.0, 0.0, 9.0, 9.0)
    return Hit(
        evidence_id=name,
        score=1.0,
        modality=Modality.TEXT,
        doc_id="d",
        source="a/pump.pdf",
        page=1,
        bbox=box,
        regions=[CitedRegion(page=1, bbox=box)],
        section_path=["Service"],
        text=name,
        tagged_text=name,
        figure_refs=[],
        caption="",
    )


def outcomes(**rankings: str) -> list[Outcome]:
    return [
        Outcome(question_id=name[1:], hits=[hit(evidence_id) for evidence_id in ranking])
        for name, ranking in rankings.items()
    ]


SYSTEMS = {"bm25": outcomes(q1="abc", q2="d"), "dense": outcomes(q1="ba", q2="e"), "other": outcomes(q1="ab", q2="f")}
"""``bm25`` alone retrieves c and d."""


def judged(by: str, **grades: int) -> list[Judgement]:
    question_ids = {"a": "1", "b": "1", "c": "1", "d": "2", "e": "2", "f": "2"}
    return [
        Judgement(question_id=question_ids[name], evidence_id=name, by=by, grade=grade) for name, grade in grades.items()
    ]


def test_a_pool_has_each_row_once_with_its_rank_in_each_system() -> None:
    pooled = pool(QUESTIONS, SYSTEMS, "v", 2)
    assert [(candidate.question_id, candidate.evidence_id) for candidate in pooled] == [
        ("1", "a"), ("1", "b"), ("2", "d"), ("2", "e"), ("2", "f"),
    ]  # fmt: skip
    assert pooled[0].ranks == {"bm25": 1, "dense": 2, "other": 1}
    assert (pooled[0].answer, pooled[0].section, pooled[0].pages) == ("Rubber.", "Service", [1])


def test_a_pool_is_as_deep_as_the_longest_ranking() -> None:
    deep = {"s": outcomes(q1="".join(map(chr, range(97, 123))))}
    assert len(pool(QUESTIONS, deep, "v")) == 26


def test_repetitions_of_a_system_count_by_their_best_rank() -> None:
    (candidate,) = (
        candidate
        for candidate in pool(QUESTIONS, {"s": outcomes(q1="ab") + outcomes(q1="ba")}, "v", 9)
        if candidate.evidence_id == "a"
    )
    assert candidate.ranks == {"s": 1}


def test_judged_rows_become_evidence_and_what_people_dispute_or_leave_is_named() -> None:
    pooled = pool(QUESTIONS, SYSTEMS, "v", 10)
    anna = judged("anna", a=0, b=0, c=1, d=1) + judged("anna", a=1)  # she corrects her first
    result = judged_questions(QUESTIONS, pooled, anna + judged("ben", a=1, b=1, c=1, d=1))
    assert [question.evidence for question in result.questions] == [{"a": 1, "c": 1}, {"d": 1}]
    assert [question.evidence_documents for question in result.questions] == [[pooled[0].source.rpartition("/")[2]]] * 2
    assert (result.disputed, result.unjudged) == (["1 b"], 2)
    assert (result.people["anna and ben"].share, result.people["anna and ben"].kappa) == (0.75, 0.0)


def test_corrections_count_where_people_agree() -> None:
    def correction(question_id: str, question: str, by: str) -> Correction:
        return Correction(question_id=question_id, question=question, answer="Steel.", by=by)

    corrections = [correction("1", "Whose seal?", "anna"), correction("1", "Which rubber seal?", "anna")]
    corrections += [correction("2", "Which bolt fits?", "anna"), correction("2", "What bolt?", "ben")]
    result = judged_questions(QUESTIONS, pool(QUESTIONS, SYSTEMS, "v", 2), [], corrections)
    assert [(corrected_question.question, corrected_question.answer) for corrected_question in result.questions] == [
        ("Which rubber seal?", "Steel."),
        ("Which bolt?", None),
    ]
    assert result.corrected == 1


def test_a_system_is_scored_with_and_without_the_rows_that_it_alone_found() -> None:
    result = judged_questions(QUESTIONS, pool(QUESTIONS, SYSTEMS, "v", 10), judged("anna", a=1, b=0, c=0, d=1, e=0, f=0))
    bias = {system_bias.system: system_bias for system_bias in result.bias}
    assert (bias["bm25"].score, bias["bm25"].left_out, bias["bm25"].own) == (1.0, 1.0, 1)
    assert bias["other"].score == pytest.approx(0.5)  # it misses d
    assert bias["other"].own == 0
    assert (bias["bm25"].recall, bias["other"].recall) == (1.0, 0.5)
    alone = judged_questions(QUESTIONS, pool(QUESTIONS, SYSTEMS, "v", 10), judged("anna", a=0, c=1, d=1, e=0))
    bm25 = alone.bias[0]
    assert (bm25.own, bm25.left_out) == (2, 0.0)
    assert bm25.score == pytest.approx((1 + 0.5) / 2)


def test_scores_of_a_pool_read_ten_rows() -> None:
    """The only relevant row is the seventh."""
    result = judged_questions(
        QUESTIONS,
        pool(QUESTIONS, {"bm25": outcomes(q1="abcdefghij")}, "v"),
        [Judgement(question_id="1", evidence_id="g", by="anna", grade=1)],
    )
    assert result.bias[0].score == pytest.approx(1 / math.log2(8))


def test_a_model_counts_where_no_person_judged_and_is_named_as_a_model() -> None:
    candidates = pool(QUESTIONS, SYSTEMS, "v", 10)
    by_model = [Judgement(question_id="1", evidence_id=name, by="grader", is_model=True, grade=1) for name in "ab"]
    result = judged_questions(QUESTIONS, candidates, [*judged("anna", a=0), *by_model])
    assert result.questions[0].evidence == {"a": 0, "b": 1}
    assert (result.disputed, result.by_models) == ([], 1)
    assert list(result.people) == ["anna and grader (model)"]


def answer(text: str, *figures: str) -> AnswerResult:
    box = (0.0, 0.0, 9.0, 9.0)
    figure_parts = [FigurePart(figure_id=name, tag=name, caption="", page=1, bbox=box, citations=[1]) for name in figures]
    return AnswerResult(
        version="v", abstained=False, parts=[TextPart(text=text, citations=[1]), *figure_parts], citations=[]
    )


def test_answers_are_judged_in_words_and_figures_by_type_of_document() -> None:
    questions = [QUESTIONS[0].model_copy(update={"doc_types": ["manual"]}), QUESTIONS[1]]
    answered = {
        "ilt": [Outcome(question_id="1", answer=answer("Rubber.", "f")), Outcome(question_id="2", answer=answer("M8."))],
        "captions": [
            Outcome(question_id="1", answer=answer("Rubber.", "g")),
            Outcome(question_id="2", answer=answer("M8.")),
        ],
        "silent": [Outcome(question_id="1", answer=None)],
    }
    candidates = pool_answers(questions, answered, "v")
    assert [(entry.question_id, entry.asks, sorted(entry.ranks)) for entry in candidates if entry.question_id == "2"] == [
        ("2", "answer", ["captions", "ilt"])
    ], "an answer that two systems give is judged once"
    assert sorted((entry.asks, *entry.ranks) for entry in candidates if entry.question_id == "1") == [
        ("answer", "captions"), ("answer", "ilt"), ("figures", "captions"), ("figures", "ilt"),
    ]  # fmt: skip
    judgements = [
        Judgement(
            question_id=entry.question_id,
            evidence_id=entry.evidence_id,
            by="anna",
            grade=int("captions" not in entry.ranks),
        )
        for entry in candidates
        if entry.question_id == "1"
    ]
    shares, settled = answer_shares(questions, candidates, judgements)
    estimates = {
        (entry.system, entry.asks, entry.kind): (entry.estimate.mean, entry.estimate.n, entry.unjudged) for entry in shares
    }
    assert estimates["ilt", "figures", "all"] == estimates["ilt", "figures", "manual"] == (1.0, 1, 0)
    assert estimates["captions", "figures", "manual"] == (0.0, 1, 0)
    assert estimates["ilt", "answer", "all"] == (1.0, 1, 1), "what nobody judged isn't a wrong answer"
    assert settled.unjudged == 1


def test_a_file_that_is_no_pool_is_refused_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "pool.jsonl"
    write_records(pool(QUESTIONS, SYSTEMS, "v", 2), file)
    assert len(read_records(file, Candidate, "rows")) == 5
    file.write_text(file.read_text() + "{}\n")
    with pytest.raises(UserError, match=r"pool\.jsonl: line 6: question_id: "):
        read_records(file, Candidate, "rows")
