"""All metrics, and scores of those that need no judge: one a question, None if a metric is undefined.

Precision, recall and F1 are of all that was retrieved, each computed for one question and then averaged, as OMG-QA does for
evidence (PER, RER, F1-ER) and documents (PDR, RDR, F1-DR); the F1 of averages is another number. Where rows were judged,
precision and F1 of evidence are those of the judged rows: nobody knows whether the others are relevant.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from evaluation.gold import FIGURES, PAGES, Gold, Level
from lab.judging import metrics as judging
from lab.outcomes import Outcome
from schemas.answers import AnswerResult, FigurePart, TextPart
from schemas.evidence import Hit
from schemas.geometry import BBox

Score = float | None
Better = Literal["more", "less"]


@dataclass(frozen=True)
class Metric:
    """A metric: ``better`` is None if neither more nor less is better; a ``headline`` is compared in tests and plots."""

    name: str
    title: str
    group: str
    better: Better | None = "more"
    headline: bool = False


_MEASURES = {
    "precision": ("SetP", "precision"),
    "recall": ("SetR", "recall"),
    "f1": ("SetF", "F1"),
    "success@1": ("Success@1", "first is right"),
    "success@10": ("Success@10", "one of ten is right"),
    "recall@10": ("R@10", "recall at 10"),
    "mrr@10": ("RR@10", "reciprocal rank at 10"),
    "ndcg@10": ("nDCG@10", "nDCG at 10"),
}
_OMG_QA = {
    "evidence_precision": "PER: evidence precision",
    "evidence_recall": "RER: evidence recall",
    "evidence_f1": "F1-ER: evidence F1",
    "document_precision": "PDR: document precision",
    "document_recall": "RDR: document recall",
    "document_f1": "F1-DR: document F1",
}
_HEADLINES = {
    *("document_recall", "page_success@1", "page_recall@10", "page_ndcg@10", "evidence_recall", "evidence_f1"),
    "figure_recall@10",
}


COVERED = 0.5
"""Minimum share of a gold region that a row's region covers; rows are often larger than what answers."""


def _relevant_evidence(gold: Gold) -> dict[str, int]:
    if gold.question.evidence:
        return {name: grade for name, grade in gold.question.evidence.items() if grade > 0}
    return {f"region {number}": 1 for number, _ in enumerate(gold.question.regions)}


def _evidence(gold: Gold, hit: Hit) -> list[str]:
    if gold.question.evidence:
        return [hit.evidence_id]
    hit_boxes = list(gold.boxes(hit))
    covered = [
        f"region {number}"
        for number, region in enumerate(gold.question.regions)
        if any(
            page == region.page
            and region.doc in (None, name)
            and (box & BBox(*region.bbox)).area >= COVERED * BBox(*region.bbox).area
            for name, page, box in hit_boxes
        )
    ]
    return covered or [hit.evidence_id]


LEVELS = (
    Level(
        "document",
        lambda gold: dict.fromkeys(
            (gold.question.evidence_documents or gold.question.documents) if gold.question.answerable else (), 1
        ),
        lambda gold, hit: [gold.document_of(hit)],
    ),
    PAGES,
    Level("evidence", _relevant_evidence, _evidence),
    FIGURES,
)
"""Documents, pages, evidence and figures."""


def relevance(
    measures: Sequence[str], relevant: Mapping[str, Mapping[str, int]], rankings: Mapping[str, Sequence[str]]
) -> dict[str, dict[str, float]]:
    """Return measures, as ``ir-measures`` spells them (``nDCG@10``), by measure and question.

    ``relevant`` has the grades of relevant units by question, at least one each; ``rankings`` the units, best first, each once.
    """
    import ir_measures

    parsed = {ir_measures.parse_measure(name): name for name in measures}
    runs = {name: {unit: float(-rank) for rank, unit in enumerate(rankings.get(name, ()))} for name in relevant}
    scores_by_measure: dict[str, dict[str, float]] = {name: dict.fromkeys(relevant, 0.0) for name in measures}
    for score in ir_measures.iter_calc(list(parsed), {name: dict(units) for name, units in relevant.items()}, runs):
        scores_by_measure[parsed[score.measure]][score.query_id] = float(score.value)
    return scores_by_measure


def _ranking(level: Level, gold: Gold, hits: Sequence[Hit]) -> list[str]:
    """Return the units of hits, best first, each once."""
    return list(dict.fromkeys(unit for hit in hits for unit in level.units(gold, hit)))


def _retrieval(gold_outcomes: Sequence[tuple[Gold, Outcome]]) -> dict[str, list[Score]]:
    scores_by_metric: dict[str, list[Score]] = {}
    for level in LEVELS:
        # The place of a question in the run, not its id: repetitions have the same.
        relevant_units = {
            str(index): units for index, (gold, _) in enumerate(gold_outcomes) if (units := level.relevant(gold))
        }
        ranked = {
            name: _ranking(level, gold_outcomes[int(name)][0], gold_outcomes[int(name)][1].hits) for name in relevant_units
        }
        measured = (
            relevance([measure for measure, _ in _MEASURES.values()], relevant_units, ranked) if relevant_units else {}
        )
        if level.name == "evidence" and relevant_units:
            for name, rows in ranked.items():
                if judged_evidence := gold_outcomes[int(name)][0].question.evidence:
                    ranked[name] = [row for row in rows if row in judged_evidence]
            measured |= relevance([_MEASURES[name][0] for name in ("precision", "f1")], relevant_units, ranked)
        for name, (measure, _) in _MEASURES.items():
            scores: list[Score] = [
                measured[measure][str(index)] if str(index) in relevant_units else None
                for index in range(len(gold_outcomes))
            ]
            if name == "precision":
                scores = [score if ranked.get(str(index)) else None for index, score in enumerate(scores)]
            scores_by_metric[f"{level.name}_{name}"] = scores
    return scores_by_metric


def region_iou(gold: Gold, outcome: Outcome) -> Score:
    """Return how well hits cover the gold boxes: the best IoU of each, averaged."""
    gold_regions = gold.question.regions or gold.question.figures
    hit_boxes = [box for hit in outcome.hits for box in gold.boxes(hit)]

    def best(region_page: int, doc: str | None, box: BBox) -> float:
        return max(
            (box.iou(hit_box) for name, page, hit_box in hit_boxes if page == region_page and doc in (None, name)),
            default=0.0,
        )

    return _mean(best(region.page, region.doc, BBox(*region.bbox)) for region in gold_regions)


def evidence_unjudged(gold: Gold, outcome: Outcome) -> Score:
    """Return the share of the rows that nobody judged; None for a question without judged rows."""
    judged_evidence = gold.question.evidence
    return _mean(float(hit.evidence_id not in judged_evidence) for hit in outcome.hits) if judged_evidence else None


def figure_precision(gold: Gold, outcome: Outcome) -> Score:
    """Return the share of the shown figures that the question wants; None if it wants none."""
    return _mean(float(gold.figure_at(name) is not None) for name in outcome.figures) if gold.figures else None


def figure_recall(gold: Gold, outcome: Outcome) -> Score:
    """Return the share of the wanted figures that the answer shows."""
    shown_numbers = {gold.figure_at(name) for name in outcome.figures}
    return _mean(float(number in shown_numbers) for number, _ in enumerate(gold.figures))


def figure_order(gold: Gold, outcome: Outcome) -> Score:
    """Return the share of pairs of wanted figures that are shown in the wanted order; None for fewer than two figures."""
    from scipy.stats import kendalltau

    numbers = [number for name in outcome.figures if (number := gold.figure_at(name)) is not None]
    if len(set(numbers)) < 2:
        return None
    numbers = list(dict.fromkeys(numbers))
    return float(kendalltau(range(len(numbers)), numbers).statistic + 1) / 2


def figure_adjacency(gold: Gold, outcome: Outcome) -> Score:
    """Return the share of the shown figures that stand beside a text of the same source."""
    parts = outcome.answer.parts if outcome.answer else []
    return _mean(
        float(
            any(
                isinstance(adjacent_part, TextPart) and set(adjacent_part.citations) & set(part.citations)
                for adjacent_part in (*parts[max(0, index - 1) : index], *parts[index + 1 : index + 2])
            )
        )
        for index, part in enumerate(parts)
        if isinstance(part, FigurePart)
    )


def false_figure(gold: Gold, outcome: Outcome) -> Score:
    """Return 1 if the answer shows a figure to a question that needs none."""
    return None if gold.question.figures else float(bool(outcome.figures))


def cited_share(gold: Gold, outcome: Outcome) -> Score:
    """Return the share of the texts of an answer that cite a source."""
    texts = [part for part in _answer_of(outcome).parts if isinstance(part, TextPart) and part.style != "heading"]
    return _mean(float(bool(part.citations)) for part in texts)


def citation_precision(gold: Gold, outcome: Outcome) -> Score:
    """Return the share of the citations on gold pages; None without citations or gold pages."""
    if not gold.question.pages:
        return None
    return _mean(float(not pages.isdisjoint(_gold_pages(gold))) for pages in _cited_pages(gold, outcome))


def citation_recall(gold: Gold, outcome: Outcome) -> Score:
    """Return the share of the gold pages that the answer cites."""
    cited = {page for pages in _cited_pages(gold, outcome) for page in pages}
    return _mean(float(page in cited) for page in _gold_pages(gold))


def _gold_pages(gold: Gold) -> set[tuple[str | None, int]]:
    return {(gold_page.doc, gold_page.page) for gold_page in gold.question.pages}


def _cited_pages(gold: Gold, outcome: Outcome) -> list[set[tuple[str | None, int]]]:
    cited_pages = []
    for citation in _answer_of(outcome).citations:
        name = (gold.names or {}).get(citation.doc_id) or citation.source.rpartition("/")[2]
        pages = {citation.page, *(region.page for region in citation.regions)}
        cited_pages.append({(doc, page) for page in pages for doc in (name, None)})
    return cited_pages


def _answer_of(outcome: Outcome) -> AnswerResult:
    assert outcome.answer is not None
    return outcome.answer


def _answered(gold: Gold, outcome: Outcome) -> Score:
    return float(not _answer_of(outcome).abstained) if gold.question.answerable else None


def _abstained(gold: Gold, outcome: Outcome) -> Score:
    return None if gold.question.answerable else float(_answer_of(outcome).abstained)


Scorer = Callable[[Gold, Outcome], Score]


def _checked(scorer: Scorer) -> Scorer:
    """Return a scorer of what Inset makes of the answer; None of one that it checked already."""

    def score_checked(gold: Gold, outcome: Outcome) -> Score:
        return scorer(gold, outcome.model_copy(update={"answer": outcome.checked})) if outcome.checked else None

    return score_checked


_OF_ANSWERS: Sequence[tuple[Metric, Scorer]] = (
    (
        Metric("figure_precision_shown", "shown figures that are wanted", "figures in answers", headline=True),
        figure_precision,
    ),
    (Metric("figure_recall_shown", "wanted figures that are shown", "figures in answers", headline=True), figure_recall),
    (Metric("figure_order", "pairs of figures in order", "figures in answers"), figure_order),
    (Metric("figure_adjacency", "figures beside text of their source", "figures in answers"), figure_adjacency),
    (Metric("false_figure", "figures where none is needed", "figures in answers", "less", headline=True), false_figure),
    (Metric("figures_shown", "images a query", "figures in answers", None), lambda _, outcome: float(len(outcome.figures))),
    (Metric("pictures_sent", "pictures sent to the model", "cost", None), lambda _, outcome: float(len(outcome.pictures))),
    (
        Metric("unknown_tags", "invented figures", "figures in answers", "less"),
        lambda _, outcome: float(_answer_of(outcome).counts.unknown_tags),
    ),
    (Metric("cited_share", "texts that cite", "citations", headline=True), cited_share),
    (Metric("citation_precision", "citations on right pages", "citations", headline=True), citation_precision),
    (Metric("citation_recall", "right pages that are cited", "citations"), citation_recall),
    (Metric("cited_share_checked", "texts that cite, checked by Inset", "citations"), _checked(cited_share)),
    (
        Metric("citation_precision_checked", "citations on right pages, checked by Inset", "citations"),
        _checked(citation_precision),
    ),
    (
        Metric("unknown_citations", "invented citations", "citations", "less"),
        lambda _, outcome: float(_answer_of(outcome).counts.unknown_citations),
    ),
    (Metric("answered", "answerable questions answered", "answers", headline=True), _answered),
    (Metric("abstained", "unanswerable questions refused", "answers", headline=True), _abstained),
    (
        Metric("rounds", "rounds of retrieval", "cost", None),
        lambda _, outcome: float(max(1, len(_answer_of(outcome).rounds))),
    ),
)

_OF_ALL: Sequence[tuple[Metric, Scorer]] = (
    (Metric("region_iou", "IoU with gold boxes", "evidence"), region_iou),
    (Metric("evidence_unjudged", "rows that nobody judged", "evidence", "less"), evidence_unjudged),
    (Metric("seconds", "seconds a query", "cost", "less"), lambda _, outcome: outcome.seconds),
    (Metric("calls", "calls a query", "cost", "less"), lambda _, outcome: float(outcome.spent.calls)),
    (Metric("input_tokens", "tokens read a query", "cost", "less"), lambda _, outcome: float(outcome.spent.input_tokens)),
    (
        Metric("output_tokens", "tokens written a query", "cost", "less"),
        lambda _, outcome: float(outcome.spent.output_tokens),
    ),
    (Metric("money", "money a query", "cost", "less"), lambda _, outcome: outcome.spent.money),
)


_OF_RETRIEVAL = {"evidence", "citations", "figures in answers"}
"""Groups of metrics that are undefined if nothing was retrieved: no context, or the right one, decides them."""


def _level_metric(level: str, measure: str, title: str) -> Metric:
    name = f"{level}_{measure}"
    group = level if level == "evidence" else f"{level}s"
    return Metric(name, _OMG_QA.get(name, f"{level}: {title}"), group, headline=name in _HEADLINES)


_WITHOUT_JUDGE = [
    *(_level_metric(level.name, name, title) for level in LEVELS for name, (_, title) in _MEASURES.items()),
    *(metric for metric, _ in (*_OF_ANSWERS, *_OF_ALL)),
]

OMG_QA_MEAN = "omgqa_mean"
_TEN = (
    *_OMG_QA,
    *("effective_retrieval_usage", "relevance_of_used_evidence", "correct_usage_of_evidence", "citation_completeness"),
)
"""The ten metrics that OMG-QA averages."""

METRICS: Mapping[str, Metric] = (
    {metric.name: metric for metric in _WITHOUT_JUDGE}
    | {name: Metric(name, judged.title, "judged", headline=True) for name, judged in judging.METRICS.items()}
    | {name: Metric(name, title, "judged") for name, (title, _) in judging.MODALITIES_TOGETHER.items()}
    | {OMG_QA_MEAN: Metric(OMG_QA_MEAN, "mean of the ten metrics of OMG-QA", "judged")}
)
"""Every metric by name; those that a generative model grades come last."""


def score(gold_outcomes: Sequence[tuple[Gold, Outcome]]) -> dict[str, list[Score]]:
    """Return the scores of outcomes by metric without a judge, in their order; an outcome that failed has none."""
    retrieved = {
        name: iter(scores)
        for name, scores in _retrieval([pair for pair in gold_outcomes if _is_retrieved(pair[1])]).items()
    }
    scores_by_metric: dict[str, list[Score]] = {metric.name: [] for metric in _WITHOUT_JUDGE}
    for gold, outcome in gold_outcomes:
        for name, scores in retrieved.items():
            scores_by_metric[name].append(next(scores) if _is_retrieved(outcome) else None)
        for metric, scorer in (*_OF_ALL, *_OF_ANSWERS):
            is_defined = not outcome.failure and (outcome.retrieved or metric.group not in _OF_RETRIEVAL)
            if (metric, scorer) in _OF_ANSWERS:
                is_defined = is_defined and outcome.answer is not None
            scores_by_metric[metric.name].append(scorer(gold, outcome) if is_defined else None)
    return scores_by_metric


def mean_of_ten(scores: Mapping[str, Sequence[Score]]) -> dict[str, list[Score]]:
    """Return the mean of OMG-QA's ten metrics by outcome, None if one of them is undefined; {} if one wasn't scored."""
    if not {*_TEN} <= scores.keys():
        return {}
    rows = zip(*(scores[name] for name in _TEN), strict=True)
    return {
        OMG_QA_MEAN: [
            None if None in row else _mean(metric_score for metric_score in row if metric_score is not None) for row in rows
        ]
    }


def _is_retrieved(outcome: Outcome) -> bool:
    return outcome.retrieved and not outcome.failure


def _mean(values: Iterable[float]) -> Score:
    scores = list(values)
    return sum(scores) / len(scores) if scores else None
