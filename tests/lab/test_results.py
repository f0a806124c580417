"""Scores of judges together."""

from evaluation.questions import Question
from lab.experiment import PaperRow, PaperTable, System, packaged_experiments
from lab.outcomes import Grade
from lab.report import paper_rows, paper_tables
from lab.results import COMPARED, Judgement, Results, SystemResult, judgements, together
from lab.statistics import Estimate


def test_modalities_are_averaged_over_those_that_an_outcome_has() -> None:
    def grades(*values: float | None) -> list[Grade]:
        return [Grade(value=value) for value in values]

    judges = {
        "one": {"text_faithfulness": grades(1.0, 0.0, None), "image_faithfulness": grades(0.0, None, None)},
        "two": {"text_faithfulness": grades(0.0, 0.0, None)},
    }
    combined = together(judges)
    assert combined["text_faithfulness"] == [0.5, 0.0, None]
    assert combined["faithfulness"] == [0.25, 0.0, None]
    assert "context_relevancy" not in combined


def test_an_outcome_without_a_grade_is_no_grade_of_nought() -> None:
    questions = [Question(id=name, question="?") for name in "abc"]
    grades = [Grade(value=1.0), Grade(value=None, reason="Hm."), Grade(value=0.0)]
    grades_by_judge = {"one": {"answer_relevancy": grades}}
    (judgement,) = judgements(questions, ["a", "b", "c"], grades_by_judge, grades_by_judge)
    assert judgement.admitted
    assert [judged.admitted for judged in judgements(questions, ["a", "b", "c"], grades_by_judge, {"one": {}})] == [False]
    assert (judgement.mean.mean, judgement.mean.n, judgement.nulls, judgement.reason) == (0.5, 2, 1, "Hm.")


def results_of(systems: list[SystemResult], papers: list[PaperTable]) -> Results:
    return Results(
        name="x",
        label="",
        sentence="",
        source="",
        corpus="c",
        version="v",
        questions=9,
        repetitions=1,
        baseline="bm25",
        systems=systems,
        hypotheses=[],
        papers=papers,
    )


def test_a_papers_table_has_ours_beside_each_figure_and_a_dash_for_what_is_undefined() -> None:
    rows = [PaperRow(system="bm25", values=[0.38, None]), PaperRow(system="GPT-4", setup="Web", values=[0.5, 0.1])]
    table = PaperTable(title="Table 3", columns=["evidence precision", "evidence recall"], rows=rows)
    ours = {"evidence_precision": Estimate(n=9, mean=0.4, low=0.3, high=0.5)}
    results = results_of([SystemResult(system=System(id="bm25", kind="search", preset="bm25"), means=ours)], [table])
    assert paper_tables(results).splitlines()[2:] == [
        "| system | setup | evidence precision | evidence recall |",
        "|---|---|---|---|",
        "| bm25 |  | 0.38 | – |",
        "| bm25 | ours | 0.40 (0.30 to 0.50, n 9) | – |",
        "| GPT-4 | Web | 0.50 | 0.10 |",
    ]


def test_a_papers_table_has_a_row_of_ours_for_each_generator_and_judge() -> None:
    table = PaperTable(title="4", columns=["answer correctness"], rows=[PaperRow(system="answer bt-text", values=[0.39])])

    def judged(generator: str, *grades: float) -> SystemResult:
        system = System(id=f"answer bt-text by {generator}", kind="answer", preset="bt-text", settings={"model": generator})
        means = [Estimate(n=9, mean=grade, low=grade, high=grade) for grade in grades]
        judgements = [
            Judgement(metric="answer_correctness", judge=judge, mean=mean)
            for judge, mean in zip(("one", "two"), means, strict=True)
        ]
        return SystemResult(system=system, means={"answer_correctness": means[0]}, judged=judgements)

    results = results_of([judged("a", 0.1, 0.2), judged("b", 0.3, 0.4)], [table])
    assert [(setup, cells[0][:4]) for _, setup, cells in paper_rows(results, table)] == [
        ("", "0.39"),
        ("ours, a, judged by one", "0.10"),
        ("ours, a, judged by two", "0.20"),
        ("ours, b, judged by one", "0.30"),
        ("ours, b, judged by two", "0.40"),
    ]


def test_a_table_by_type_of_document_has_one_metric_of_each_type() -> None:
    table = PaperTable(
        title="Table II",
        metric="figure_recall_shown",
        columns=["manuals", "surveys"],
        rows=[PaperRow(system="ilt", values=[0.95, 0.95])],
    )
    kinds = {"documents: manuals": {"figure_recall_shown": Estimate(n=3, mean=0.5, low=0.25, high=0.75)}}
    means = {"figure_recall_shown": Estimate(n=3, mean=0.5, low=0.25, high=0.75)}
    ran = SystemResult(system=System(id="ilt", kind="answer", preset="ilt"), means=means, kinds=kinds)
    assert [cells for _, _, cells in paper_rows(results_of([ran], [table]), table)] == [
        ["0.95", "0.95"],
        ["0.50 (0.25 to 0.75, n 3)", "–"],
    ]


def test_metrics_of_papers_tables_are_compared_by_kind() -> None:
    tables = [table for experiment in packaged_experiments().values() for table in experiment.papers]
    assert {table.metric for table in tables} - {None} <= {*COMPARED}
