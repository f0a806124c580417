"""Judged metrics, by a judge that reads what it is sent: good and bad outcomes, missing inputs, shares, admission."""

from collections.abc import Sequence

import pytest

from evaluation.questions import Question
from lab.judging.known_pairs import pairs, picture
from lab.judging.metrics import METRICS, judged_metrics
from lab.outcomes import Grade, Outcome
from schemas.answers import AnswerResult, Citation, TextPart
from schemas.errors import TransientError
from schemas.evidence import Hit
from schemas.filters import Modality
from tests.conftest import CheckGolden
from tests.lab.judging.scripted_judge import ScriptedJudge, grade, right

OF_PICTURES = {"image_faithfulness", "image_context_relevancy"}
BOX = (0.0, 0.0, 1.0, 1.0)
QUESTION = Question(id="q", question="How tight?", answer="25 Nm.")


def score(name: str, judge: ScriptedJudge, question: Question, outcome: Outcome) -> Grade:
    return judged_metrics([name], judge, picture)[0].score(question, outcome)


def outcome(*rows: str, says: str = "25 Nm.", cites: tuple[int, ...] = ()) -> Outcome:
    """An outcome whose context are ``rows``; ``cites`` are numbers of them, from 1."""
    hits = [
        Hit(
            evidence_id=text,
            score=1.0,
            modality=Modality.TEXT,
            doc_id="d",
            title="Handbook",
            source="d.pdf",
            page=1,
            bbox=BOX,
            regions=[],
            section_path=[],
            text=text,
            tagged_text=text,
            figure_refs=[],
            caption="",
        )
        for text in rows
    ]
    citations = [
        Citation(n=n, evidence_id=rows[n - 1], source="d.pdf", page=1, bbox=BOX, doc_id="d", section_path=[], regions=[])
        for n in cites
    ]
    answer = AnswerResult(
        version="v", abstained=False, parts=[TextPart(text=says, citations=list(cites))], citations=citations
    )
    return Outcome(question_id="q", hits=hits, context=hits, words=list(rows), answer=answer)


@pytest.mark.parametrize("name", METRICS)
def test_good_outcomes_get_one_and_bad_outcomes_nought(name: str) -> None:
    for pair in [pair for fault in METRICS[name].faults for pair in pairs(fault)]:
        assert score(name, ScriptedJudge(right), pair.question, pair.good).value == 1.0
        bad = score(name, ScriptedJudge(right), pair.question, pair.bad)
        assert (bad.value, bool(bad.reason)) == (0.0, True)


@pytest.mark.parametrize("name", METRICS)
def test_what_a_judge_is_asked(name: str, golden: CheckGolden) -> None:
    judge, pair = ScriptedJudge(right), next(pairs(METRICS[name].faults[0]))
    score(name, judge, pair.question, pair.good)
    transcript = [
        f"--- {message.role}, {len(message.pictures)} pictures\n{message.text}"
        for request in judge.requests
        for message in request.messages
    ]
    golden(f"prompts/judge-{name}.txt", "\n".join(transcript))


@pytest.mark.parametrize(
    ("without", "reason", "metrics"),
    [
        ("reference", "the question has no reference answer", {"answer_correctness"}),
        ("answer", "there is no answer", {name for name, metric in METRICS.items() if "answer" in metric.needs}),
        ("text", "no text was provided", {name for name, metric in METRICS.items() if "text" in metric.needs}),
        ("pictures", "no picture was provided", OF_PICTURES),
        (
            "citations",
            "the answer cites no evidence of its context",
            {"correct_usage_of_evidence", "relevance_of_used_evidence"},
        ),
    ],
)
def test_a_missing_input_is_null_with_its_reason_and_costs_no_call(without: str, reason: str, metrics: set[str]) -> None:
    question = QUESTION if without != "reference" else QUESTION.model_copy(update={"answer": None})
    judged_outcome = outcome(
        "The lid takes 25 Nm.", says="" if without == "answer" else "25 Nm.", cites=() if without == "citations" else (1,)
    )
    judged_outcome = judged_outcome.model_copy(update={"pictures": [] if without == "pictures" else ["0"]})
    if without == "text":
        judged_outcome = judged_outcome.model_copy(update={"words": []})
    judge = ScriptedJudge(lambda *_: grade(True))
    nulls = {name for name in METRICS if score(name, judge, question, judged_outcome).reason == reason}
    assert nulls == metrics
    judge.requests.clear()
    assert all(score(name, judge, question, judged_outcome).value is None for name in metrics)
    assert judge.requests == []


def test_shares_of_evidence_are_those_computed_by_hand() -> None:
    """Four rows: 1 relevant and used, 2 relevant and misused, 3 irrelevant and cited, 4 relevant and not cited."""

    def says(prompt: str, _pictures: object) -> str:
        if "Does the answer use the evidence correctly?" in prompt:
            return grade("misused" not in prompt)
        return grade("irrelevant" not in prompt)

    judged_outcome = outcome("used", "misused", "irrelevant", "idle", cites=(1, 2, 3))
    values = {name: score(name, ScriptedJudge(says), QUESTION, judged_outcome).value for name in METRICS}
    assert values["evidence_relevancy"] == 3 / 4
    assert values["effective_retrieval_usage"] == 1 / 4
    assert values["relevance_of_used_evidence"] == 2 / 3
    assert values["correct_usage_of_evidence"] == 0.0, "one misused row among them is enough"


def test_a_share_is_null_if_one_of_its_verdicts_is() -> None:
    judge = ScriptedJudge(lambda prompt, _: "Hm." if "second" in prompt else grade(True))
    result = score("evidence_relevancy", judge, QUESTION, outcome("first", "second"))
    assert (result.value, result.reason) == (None, "the judge's reply has no grade: Hm.")


def test_a_judge_that_is_right_is_admitted_to_every_metric() -> None:
    for metric in judged_metrics(list(METRICS), ScriptedJudge(right), picture):
        admission = metric.admission()
        assert (admission.metric, admission.admitted, admission.auc, admission.reason) == (metric.name, True, 1.0, "")


@pytest.mark.parametrize("reply", [grade(True), grade(False), "I like it.", ""])
def test_a_judge_that_always_says_the_same_is_admitted_to_no_metric(reply: str) -> None:
    for metric in judged_metrics(list(METRICS), ScriptedJudge(lambda *_: reply), picture):
        admission = metric.admission()
        assert (admission.admitted, admission.auc) == (False, 0.5)
        assert admission.reason.startswith("AUC 0.50 on ")
        assert ("not graded" in admission.reason) == ("grade" not in reply)


def test_a_judge_of_usage_is_tested_with_answers_that_contradict_their_evidence() -> None:
    """It knows what is relevant, and calls every usage correct."""

    def lenient(prompt: str, pictures: Sequence[bytes]) -> str:
        return grade(True) if "Does the answer use the evidence correctly?" in prompt else right(prompt, pictures)

    (metric,) = judged_metrics(["effective_retrieval_usage"], ScriptedJudge(lenient), picture)
    admission = metric.admission()
    assert (admission.admitted, admission.auc) == (False, 0.5)


def test_a_judge_that_calls_all_pictures_irrelevant_still_judges_texts() -> None:
    """As the second judge of "Beyond Text" does."""
    judge = ScriptedJudge(lambda prompt, pictures: grade(False) if pictures else right(prompt, pictures))
    admitted = {metric.name for metric in judged_metrics(list(METRICS), judge, picture) if metric.admission().admitted}
    assert admitted == METRICS.keys() - OF_PICTURES


def test_a_judge_that_fails_is_not_admitted_and_the_reason_is_told() -> None:
    admission = judged_metrics(["answer_relevancy"], ScriptedJudge(lambda *_: TransientError("no connection")), picture)[
        0
    ].admission()
    assert not admission.admitted
    assert admission.reason.endswith("24 of 24 not graded: no connection")


def test_a_judge_that_sees_no_pictures_is_not_asked_about_them() -> None:
    judge = ScriptedJudge(right)
    for metric in judged_metrics(sorted(OF_PICTURES), judge, None):
        admission = metric.admission()
        assert not admission.admitted
        assert "the judge sees no pictures" in admission.reason
    assert judge.requests == []


def test_a_missing_grade_is_half_right_and_not_no() -> None:
    """It finds what is wrong with bad outcomes, and says nothing of good ones."""

    def silent(prompt: str, pictures: Sequence[bytes]) -> str:
        reply = right(prompt, pictures)
        return "" if reply == grade(True, "") else reply

    (metric,) = judged_metrics(["answer_relevancy"], ScriptedJudge(silent), picture)
    admission = metric.admission()
    assert admission.auc == 1.0
    assert admission.reason.startswith("12 of 24 not graded")
