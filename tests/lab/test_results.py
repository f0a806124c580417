"""Scores of judges together."""

from evaluation.questions import Question
from lab.outcomes import Grade
from lab.results import judgements, together


def test_modalities_are_averaged_over_those_that_an_outcome_has() -> None:
    def grades(*values: float | None) -> list[Grade]:
        return [Grade(value=value) for value in values]

    judges = {
        "one": {"text_faithfulness": grades(1.0, 0.0, None), "image_faithfulness": grades(0.0, None, None)},
        "two": {"text_faithfulness": grades(0.0, 0.0, None)},
    }
    found = together(judges)
    assert found["text_faithfulness"] == [0.5, 0.0, None]
    assert found["faithfulness"] == [0.25, 0.0, None]
    assert "context_relevancy" not in found


def test_an_outcome_without_a_grade_is_no_grade_of_nought() -> None:
    questions = [Question(id=name, question="?") for name in "abc"]
    grades = [Grade(value=1.0), Grade(value=None, reason="Hm."), Grade(value=0.0)]
    (found,) = judgements(questions, ["a", "b", "c"], {"one": {"answer_relevancy": grades}})
    assert (found.mean.mean, found.mean.n, found.nulls, found.reason) == (0.5, 2, 1, "Hm.")
