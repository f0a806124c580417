"""Metrics without a judge, against examples computed by hand, and laws that hold for any ranking."""

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluation.gold import Gold, gold_for_question
from evaluation.questions import GoldPage, GoldRegion, Question
from lab.metrics import Score, mean_of_ten, score
from lab.outcomes import Outcome
from schemas.answers import AnswerResult, Citation, FigurePart, Part, TextPart
from schemas.evidence import CitedFigure, CitedRegion, Hit
from schemas.filters import Modality
from schemas.geometry import BBox
from schemas.versions import Spent

Box = tuple[float, float, float, float]
BOX: Box = (0.0, 0.0, 100.0, 100.0)


def hit(
    name: str, *, doc: str = "pump.pdf", pages: Sequence[int] = (1,), figures: Sequence[str] = (), box: Box = BOX
) -> Hit:
    return Hit(
        evidence_id=name,
        score=1.0,
        modality=Modality.TEXT,
        doc_id=f"id of {doc}",
        source=f"manuals/{doc}",
        page=pages[0],
        bbox=box,
        regions=[CitedRegion(page=page, bbox=box) for page in pages],
        section_path=[],
        text=name,
        tagged_text=name,
        figure_refs=list(figures),
        caption="",
    )


def citation(n: int, cited_hit: Hit) -> Citation:
    return Citation(
        n=n,
        evidence_id=cited_hit.evidence_id,
        source=cited_hit.source,
        page=cited_hit.page,
        bbox=cited_hit.bbox,
        doc_id=cited_hit.doc_id,
        section_path=[],
        regions=cited_hit.regions,
    )


def figure(name: str, *cited: int) -> FigurePart:
    return FigurePart(figure_id=name, tag="", caption="", page=1, bbox=BOX, citations=list(cited))


def text(words: str, *cited: int) -> TextPart:
    return TextPart(text=words, citations=list(cited))


def answered(parts: Sequence[Part], *cited: Hit) -> Outcome:
    citations = [citation(n, cited_hit) for n, cited_hit in enumerate(cited, 1)]
    answer = AnswerResult(version="v", abstained=not parts, parts=list(parts), citations=citations)
    return Outcome(question_id="q", hits=list(cited), answer=answer)


def question(**fields: object) -> Question:
    return Question.model_validate({"id": "q", "question": "?"} | fields)


def scores(gold: Gold, *hits: Hit) -> dict[str, Score]:
    return {name: values[0] for name, values in score([(gold, Outcome(question_id="q", hits=list(hits)))]).items()}


def of_answer(gold: Gold, outcome: Outcome) -> dict[str, Score]:
    return {name: values[0] for name, values in score([(gold, outcome)]).items()}


def test_f1_is_averaged_over_queries_and_not_made_of_averages() -> None:
    """Three queries: 2 of 4 retrieved are right of 2; 1 of 1 of 4; 0 of 2 of 1. Macro F1 is (2/3 + 2/5 + 0) / 3."""
    pairs = []
    for retrieved, relevant in ((["a", "x", "b", "y"], "ab"), (["a"], "abcd"), (["x", "y"], "a")):
        gold = Gold(question(evidence=dict.fromkeys(relevant, 1) | {"x": 0, "y": 0}))
        pairs.append((gold, Outcome(question_id="q", hits=[hit(name) for name in retrieved])))
    columns = score(pairs)
    assert columns["evidence_precision"] == [0.5, 1.0, 0.0]
    assert columns["evidence_recall"] == [1.0, 0.25, 0.0]
    f1 = [value or 0.0 for value in columns["evidence_f1"]]
    assert f1 == pytest.approx([2 / 3, 2 / 5, 0.0])
    precision, recall = 1.5 / 3, 1.25 / 3
    assert sum(f1) / 3 != pytest.approx(2 * precision * recall / (precision + recall))


def test_rows_that_nobody_judged_are_not_counted_as_irrelevant() -> None:
    """Of twelve rows, one is relevant and one isn't; ten were never judged, the last two among them."""
    gold = Gold(question(documents=["motor.pdf"], evidence={"a": 1, "b": 0, "c": 1}, evidence_documents=["pump.pdf"]))
    values = scores(gold, hit("a"), hit("b"), *(hit(f"x{n}") for n in range(10)))
    assert (values["evidence_precision"], values["evidence_recall"], values["evidence_f1"]) == (0.5, 0.5, 0.5)
    assert values["evidence_unjudged"] == pytest.approx(10 / 12)
    assert (values["document_precision"], values["document_recall"]) == (1.0, 1.0), (
        "documents are those of the judged evidence"
    )
    assert scores(gold, hit("x1"))["evidence_precision"] is None


def test_a_figure_that_a_row_only_mentions_is_not_retrieved() -> None:
    wanted = {"doc": "pump.pdf", "page": 1, "bbox": BOX}
    gold = Gold(question(figures=[wanted]), (frozenset({"f"}),))
    cited = CitedFigure(figure_id="f", number="00007", caption="", page=1, bbox=BOX)
    row = hit("a", figures=["f"]).model_copy(update={"figures": [cited]})
    assert scores(gold, row)["figure_recall"] == 0.0
    placed = row.model_copy(update={"tagged_text": "a [IMG-00007.png]"})
    assert scores(gold, placed)["figure_recall"] == 1.0


def test_metrics_of_retrieval_are_undefined_where_nothing_was_retrieved() -> None:
    gold = Gold(question(doc="pump.pdf", pages=[1], answer="21 bar"))
    outcome = answered([text("So.", 1)], hit("row")).model_copy(update={"retrieved": False})
    defined = {name for name, value in of_answer(gold, outcome).items() if value is not None}
    assert defined == {"answered", "rounds", "seconds", "calls", "input_tokens", "output_tokens", "money", "pictures_sent"}


def test_ndcg_at_10_reads_ten_rows() -> None:
    gold = Gold(question(doc="pump.pdf", pages=[7]))
    values = scores(gold, *(hit(str(n), pages=[n]) for n in range(1, 11)))
    assert values["page_ndcg@10"] == pytest.approx(1 / math.log2(8))
    assert values["page_mrr@10"] == pytest.approx(1 / 7)


def test_the_mean_of_omg_qa_needs_all_ten_metrics() -> None:
    ten = ["evidence_precision", "evidence_recall", "evidence_f1", "document_precision", "document_recall", "document_f1"]
    ten += ["effective_retrieval_usage", "relevance_of_used_evidence", "correct_usage_of_evidence", "citation_completeness"]
    columns: dict[str, list[Score]] = {name: [index / 10, 1.0] for index, name in enumerate(ten)}
    assert mean_of_ten(columns) == {"omgqa_mean": [pytest.approx(0.45), 1.0]}
    assert mean_of_ten(columns | {"evidence_f1": [None, 1.0]}) == {"omgqa_mean": [None, 1.0]}
    assert mean_of_ten({name: column for name, column in columns.items() if name != "evidence_f1"}) == {}


def test_documents_and_pages_are_ranked_by_their_first_row() -> None:
    """Documents: motor, pump, of which pump is right. Pages: motor 1, pump 7, pump 2, pump 3; right are pump 2 and 9."""
    gold = Gold(question(doc="pump.pdf", pages=[2, 9]))
    values = scores(gold, hit("a", doc="motor.pdf"), hit("b", pages=[7]), hit("c", pages=[2, 3]), hit("d", pages=[2]))
    assert (values["document_precision"], values["document_recall"], values["document_mrr@10"]) == (0.5, 1.0, 0.5)
    assert (values["page_precision"], values["page_recall"], values["page_success@1"]) == (0.25, 0.5, 0.0)
    assert values["page_mrr@10"] == pytest.approx(1 / 3)
    assert values["page_ndcg@10"] == pytest.approx((1 / math.log2(4)) / (1 + 1 / math.log2(3)))


def test_figures_are_found_where_they_stand() -> None:
    figure_question = question(doc="pump.pdf", pages=[1], figures=[{"page": 1, "bbox": BOX}, {"page": 2, "bbox": BOX}])
    placed = {
        "one": [("pump.pdf", 1, BBox(0, 0, 100, 90))],
        "two": [("pump.pdf", 2, BBox(*BOX))],
        "elsewhere": [("motor.pdf", 1, BBox(*BOX))],
        "small": [("pump.pdf", 1, BBox(0, 0, 40, 40))],
    }
    gold = gold_for_question(figure_question, {"id of pump.pdf": ["manuals/pump.pdf"]}, placed)
    assert gold.figures == (frozenset({"one"}), frozenset({"two"}))
    values = scores(gold, hit("a", figures=["small", "two"]), hit("b", figures=["elsewhere"]))
    assert values["figure_precision"] == pytest.approx(1 / 3)
    assert values["figure_recall"] == 0.5
    assert values["figure_mrr@10"] == 0.5


def test_the_iou_of_a_region_is_that_of_the_best_hit() -> None:
    region = GoldRegion(doc="pump.pdf", page=1, bbox=BOX)
    gold = Gold(Question(id="q", question="?", documents=["pump.pdf"], regions=[region]))
    values = scores(gold, hit("a", box=(0, 0, 100, 50)), hit("b", box=(0, 0, 100, 80)), hit("c", pages=[2]))
    assert values["region_iou"] == pytest.approx(0.8)
    assert (values["evidence_recall"], values["evidence_precision"]) == (1.0, 0.5), (
        "a covers half, c stands on another page"
    )


def test_an_answers_figures_are_counted_and_compared_in_order() -> None:
    gold = Gold(question(figures=[{"page": n, "bbox": BOX} for n in (1, 2, 3)]), tuple(frozenset({name}) for name in "abc"))
    source = hit("row")
    parts: list[Part] = [text("First.", 1), figure("a", 1), figure("c", 1), text("Then.", 1), figure("b", 1), figure("x")]
    values = of_answer(gold, answered(parts, source))
    assert (values["figure_precision_shown"], values["figure_recall_shown"], values["figures_shown"]) == (0.75, 1.0, 4.0)
    assert values["figure_order"] == pytest.approx(2 / 3), "a before c, a before b, but not b before c"
    assert values["figure_adjacency"] == pytest.approx(3 / 4), "x stands beside no text of its source"
    assert values["false_figure"] is None


def test_figures_that_a_question_does_not_need_are_false() -> None:
    gold = Gold(question(doc="pump.pdf", pages=[1]))
    assert of_answer(gold, answered([text("So.", 1), figure("a", 1)], hit("row")))["false_figure"] == 1.0
    assert of_answer(gold, answered([text("So.", 1)], hit("row")))["false_figure"] == 0.0


def test_citations_count_by_their_pages() -> None:
    gold = Gold(question(doc="pump.pdf", pages=[1, 4]))
    parts = [text("So.", 1), text("Also.", 2), text("And."), text("Thus.", 1, 2)]
    values = of_answer(gold, answered(parts, hit("a"), hit("b", doc="motor.pdf")))
    assert (values["citation_precision"], values["citation_recall"], values["cited_share"]) == (0.5, 0.5, 0.75)


def test_an_answer_that_cites_nothing_is_caught() -> None:
    gold = Gold(question(doc="pump.pdf", pages=[1]))
    values = of_answer(gold, answered([text("So."), text("Thus.")]))
    assert (values["cited_share"], values["citation_recall"], values["citation_precision"]) == (0.0, 0.0, None)


def test_an_empty_context_is_caught() -> None:
    gold = Gold(question(doc="pump.pdf", pages=[1], evidence={"a": 1}))
    values = scores(gold)
    assert (values["page_recall"], values["evidence_recall"], values["document_f1"]) == (0.0, 0.0, 0.0)
    assert (values["page_precision"], values["evidence_precision"]) == (None, None), "nothing was retrieved"


def test_abstention_counts_only_where_nothing_answers() -> None:
    nothing = answered([])
    assert of_answer(Gold(question(answerable=False)), nothing)["abstained"] == 1.0
    values = of_answer(Gold(question(doc="pump.pdf", pages=[1])), nothing)
    assert (values["answered"], values["abstained"]) == (0.0, None)


def test_costs_are_those_of_the_outcome_and_a_failure_has_no_scores() -> None:
    spent = Spent(calls=2, input_tokens=30, output_tokens=4, money=0.5)
    gold = Gold(question(doc="pump.pdf", pages=[1]))
    succeeded = Outcome(question_id="q", spent=spent, seconds=1.5)
    failed = succeeded.model_copy(update={"failure": "the endpoint is away"})
    columns = score([(gold, succeeded), (gold, failed)])
    assert [columns[name] for name in ("calls", "input_tokens", "output_tokens", "money", "seconds")] == [
        [2.0, None],
        [30.0, None],
        [4.0, None],
        [0.5, None],
        [1.5, None],
    ]
    assert {scores[1] for scores in columns.values()} == {None}


pages = st.lists(st.integers(1, 30), min_size=1, max_size=8, unique=True)


@given(pages, st.lists(st.integers(31, 60), max_size=5, unique=True))
def test_an_ideal_ranking_scores_one(right: list[int], wrong: list[int]) -> None:
    gold = Gold(question(doc="pump.pdf", pages=right))
    values = scores(gold, *(hit(str(page), pages=[page]) for page in (*right, *wrong)))
    ideal = ("page_success@1", "page_recall", "page_recall@10", "page_mrr@10", "page_ndcg@10", "document_recall")
    assert [values[name] for name in ideal] == [pytest.approx(1.0)] * len(ideal)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 5)), min_size=1, max_size=12), st.permutations("abc"))
def test_renaming_documents_changes_no_score(found: list[tuple[str, int]], names: list[str]) -> None:
    renamed = dict(zip("abc", names, strict=True))

    def scored(name: dict[str, str]) -> dict[str, Score]:
        gold_pages = [GoldPage(doc=f"{name['a']}.pdf", page=2), GoldPage(doc=f"{name['b']}.pdf", page=1)]
        documents = [page.doc for page in gold_pages if page.doc]
        gold = Gold(Question(id="q", question="?", documents=documents, pages=gold_pages))
        return scores(
            gold, *(hit(f"{index}", doc=f"{name[doc]}.pdf", pages=[page]) for index, (doc, page) in enumerate(found))
        )

    assert scored({letter: letter for letter in "abc"}) == scored(renamed)


@given(st.permutations(range(6)))
def test_reordering_questions_changes_no_score(order: list[int]) -> None:
    pairs = [
        (
            Gold(question(id=str(index), doc="pump.pdf", pages=[index + 1])),
            Outcome(question_id=str(index), hits=[hit(f"{page}", pages=[page]) for page in range(3, 9)]),
        )
        for index in range(6)
    ]
    straight, turned = score(pairs), score([pairs[index] for index in order])
    assert all(turned[name] == [straight[name][index] for index in order] for name in straight)


@given(st.integers(2, 6))
def test_captions_shifted_by_one_figure_are_caught(count: int) -> None:
    """Rows are found by their captions; each should show the figure of its caption."""
    rows = [hit(f"caption {index}", figures=[f"f{index}"]) for index in range(count)]
    shifted = [row.model_copy(update={"figure_refs": rows[index - 1].figure_refs}) for index, row in enumerate(rows)]
    for index in range(count):
        gold = Gold(question(figures=[{"page": 1, "bbox": BOX}]), (frozenset({f"f{index}"}),))
        assert scores(gold, rows[index])["figure_recall@10"] == 1.0
        assert scores(gold, shifted[index])["figure_recall@10"] == 0.0
