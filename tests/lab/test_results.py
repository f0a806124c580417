"""Scores of judges together."""

from evaluation.questions import Question
from lab.experiment import PaperRow, PaperTable, System
from lab.outcomes import Grade
from lab.report import paper_tables
from lab.results import Results, SystemResult, judgements, together
from lab.statistics import Estimate


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
    given = {"one": {"answer_relevancy": grades}}
    (found,) = judgements(questions, ["a", "b", "c"], given, given)
    assert found.admitted
    assert [one.admitted for one in judgements(questions, ["a", "b", "c"], given, {"one": {}})] == [False]
    assert (found.mean.mean, found.mean.n, found.nulls, found.reason) == (0.5, 2, 1, "Hm.")


def test_a_papers_table_has_ours_beside_each_figure_and_a_dash_for_what_is_undefined() -> None:
    rows = [PaperRow(system="bm25", values=[0.38, None]), PaperRow(system="GPT-4", setup="Web", values=[0.5, 0.1])]
    table = PaperTable(title="Table 3", columns=["evidence precision", "evidence recall"], rows=rows)
    ours = {"evidence_precision": Estimate(n=9, mean=0.4, low=0.3, high=0.5)}
    results = Results(
        name="x",
        label="",
        sentence="",
        source="",
        corpus="c",
        version="v",
        questions=9,
        repetitions=1,
        baseline="bm25",
        systems=[SystemResult(system=System(id="bm25", kind="search", preset="bm25"), means=ours)],
        hypotheses=[],
        papers=[table],
    )
    assert paper_tables(results).splitlines()[2:] == [
        "| system | setup | evidence precision | evidence recall |",
        "|---|---|---|---|",
        "| bm25 |  | 0.38; ours 0.40 (0.30 to 0.50, n 9) | –; ours – |",
        "| GPT-4 | Web | 0.50; ours – | 0.10; ours – |",
    ]
