"""Confidence that a version answers a question: evidence of several kinds, scaled by the version's calibration (decision 14)."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

from schemas.corpus.retrieval import AnswerOptions
from schemas.evidence import Filters, Hit
from schemas.models import MINILM
from schemas.ports import SearchIndex
from schemas.text import folded_words
from schemas.versions import Calibration, FeatureScale
from tasks.answering.embedded_query import EmbeddedQuery
from tasks.answering.highlight import content_words, sentences
from tasks.enriching.spaces import DEFAULT

NEARNESS = DEFAULT
"""The space in which sentences and passages are compared with a question."""

PASSAGES = 4
"""Number of passages examined."""

AGREED = 10
"""Rows of each retriever whose overlap is its agreement with the other."""

STEEPNESS = 2.0
"""Slope of the logistic curve: one standard deviation above the mean gives .88."""

Evidence = dict[str, float]
"""Kind of evidence to its value; larger speaks for an answer. Kinds that can't be measured are absent."""

DEFAULT_CALIBRATION = Calibration(
    text_model=MINILM,
    features={
        "words": FeatureScale(mean=0.440, scale=0.226),
        "coverage": FeatureScale(mean=0.470, scale=0.271),
        "pairs": FeatureScale(mean=0.301, scale=0.306),
        "sentence": FeatureScale(mean=0.513, scale=0.222),
        "nearness": FeatureScale(mean=0.455, scale=0.207),
        "agreement": FeatureScale(mean=0.312, scale=0.248),
    },
    abstain_below=0.2,
    sure_above=0.4,
    answerable=0,
    unanswerable={},
    how="packaged",
)
"""For versions without golden questions: measured on half of the questions of 50 documents (decision 14)."""

OF_VECTORS = ("sentence", "nearness")
"""Evidence on the scale of a text model."""


def gather(
    query: EmbeddedQuery,
    index: SearchIndex,
    hits: Sequence[Hit],
    filters: Filters,
    *,
    analyse: Callable[[str], Sequence[str]],
    sentence: float,
    judged: bool = False,
) -> Evidence:
    """Return the evidence that the best passages, best first, answer a query with words; {} if there are none.

    - words: BM25 score of the best passage, relative to the sum of the best scores of each word alone.
    - coverage: share of the question's words that one passage holds, weighted by rarity.
    - pairs: share of pairs of neighbouring words that one sentence holds, weighted alike.
    - sentence, nearness: cosine of the nearest sentence (``sentence``), and of the nearest passage.
    - agreement: share of the first rows that BM25 and vectors have in common.
    - reranker: the best passage's score by a scoring model, if one ranked the hits (``judged``).
    """
    best = hits[:PASSAGES]
    if not best:
        return {}
    vector = query.vector(NEARNESS.name)
    nearest = index.dense(vector, AGREED, filters, NEARNESS.name)
    lexical = index.bm25(query.words, AGREED, filters)
    texts = [[hit.text[start:end] for start, end in sentences(hit.text)] for hit in best]
    evidence = _word_evidence(query.words, index, filters, analyse, texts, lexical[0][1] if lexical else 0.0)
    evidence["sentence"] = sentence
    evidence["nearness"] = nearest[0][1] if nearest else 0.0
    evidence["agreement"] = len({row for row, _ in nearest} & {row for row, _ in lexical}) / AGREED
    if judged:
        evidence["reranker"] = hits[0].score
    return evidence


def _word_evidence(
    question: str,
    index: SearchIndex,
    filters: Filters,
    analyse: Callable[[str], Sequence[str]],
    texts: Sequence[Sequence[str]],
    best: float,
) -> Evidence:
    question_terms = [(word, terms) for word in _distinct_words(question) if (terms := frozenset(analyse(word)))]
    rankings = [index.bm25(word, 1, filters) for word, _ in question_terms]
    top_weights = [ranked[0][1] if ranked else None for ranked in rankings]
    rarest = max((weight for weight in top_weights if weight is not None), default=0.0)
    weights = [rarest if weight is None else weight for weight in top_weights]
    if not sum(weights):
        return {"words": 0.0, "coverage": 0.0, "pairs": 0.0}
    # Of each sentence of each passage: which words of the question it holds.
    presence = [
        [
            [not terms.isdisjoint(sentence_terms) for _, terms in question_terms]
            for sentence_terms in map(set, map(analyse, text))
        ]
        for text in texts
    ]
    passages = [list(map(any, zip(*text, strict=True))) for text in presence if text]
    pair_weights = [first + second for first, second in pairwise(weights)] or weights
    pair_presence = [[first and second for first, second in pairwise(row)] or row for text in presence for row in text]
    return {
        "words": best / sum(weights),
        "coverage": max((_share(row, weights) for row in passages), default=0.0),
        "pairs": _share(list(map(any, zip(*pair_presence, strict=True))), pair_weights) if pair_presence else 0.0,
    }


def _distinct_words(question: str) -> list[str]:
    return list(dict.fromkeys(folded_words(content_words(question))))


def _share(presence: Sequence[bool], weights: Sequence[float]) -> float:
    return math.fsum(weight for is_present, weight in zip(presence, weights, strict=True) if is_present) / math.fsum(
        weights
    )


def confidence(evidence: Evidence, calibration: Calibration) -> float:
    """Return the confidence that there is an answer, 0 to 1: a logistic function of the mean standardised evidence."""
    deviations = [
        (evidence[name] - feature.mean) / feature.scale
        for name, feature in calibration.features.items()
        if name in evidence
    ]
    return 1 / (1 + math.exp(-STEEPNESS * math.fsum(deviations) / len(deviations))) if deviations else 0.0


def thresholds(options: AnswerOptions, calibration: Calibration) -> tuple[float, float]:
    """Return the thresholds of abstention and of sureness; the corpus file's win over the calibration's."""
    abstain = calibration.abstain_below if options.abstain_below is None else options.abstain_below
    sure_above = calibration.sure_above if options.sure_above is None else options.sure_above
    return abstain, max(abstain, sure_above)


def default_calibration(text_model: str) -> Calibration:
    """Return the default calibration; for another text model without the evidence that depends on vectors."""
    if text_model == DEFAULT_CALIBRATION.text_model:
        return DEFAULT_CALIBRATION
    features = {name: feature for name, feature in DEFAULT_CALIBRATION.features.items() if name not in OF_VECTORS}
    return DEFAULT_CALIBRATION.model_copy(update={"text_model": text_model, "features": features})
