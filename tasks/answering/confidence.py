"""Confidence that a version answers a question: evidence of several kinds, scaled by the version's calibration (decision 14)."""

import math
import re
from collections.abc import Callable, Mapping, Sequence

from schemas.corpus import AnswerOptions
from schemas.evidence import Hit
from schemas.filters import Filters
from schemas.models import MINILM
from schemas.ports import ReadableIndex, Vector
from schemas.text import folded_words, mentions
from schemas.versions import Calibration, FeatureScale
from tasks.answering.embedded_query import EmbeddedQuery
from tasks.answering.highlight import content_words
from tasks.enriching.spaces import DEFAULT

NEARNESS = DEFAULT
"""The space in which sentences and passages are compared with a question."""

PASSAGES = 4
"""Number of passages among whose sentences the nearest is."""

STEEPNESS = 2.0
"""Slope of the logistic curve: one standard deviation above the mean gives .88."""

UNSCALED = 0.5
"""Confidence in a hit of whose cosine nothing is known: that of an average question's nearest passage."""

Evidence = dict[str, float]
"""Kind of evidence to its value; larger speaks for an answer. Kinds that can't be measured are absent."""

DEFAULT_CALIBRATION = Calibration(
    text_model=MINILM,
    features={
        "words": FeatureScale(mean=0.440, scale=0.226),
        "sentence": FeatureScale(mean=0.513, scale=0.222),
        "nearness": FeatureScale(mean=0.455, scale=0.207),
    },
    abstain_below=0.15,
    sure_above=0.4,
    answerable=0,
    unanswerable={},
    how="packaged",
)
"""For versions without golden questions: measured on half of the questions of 50 documents (decision 14)."""

WEIGHTS: Mapping[str, float] = {
    "absent_names": -4.0,
    "absent_numbers": -1.3,
    "absent_labels": -2.4,
    "pictured": 2.1,
}
"""Weights of what tells apart questions about the same document, added to the logit of the mean of the three other kinds.

Logistic regression over 458 answerable and 56 unanswerable questions in their documents, 400 over all documents, and 700 made
unanswerable: asked without their document, or with a name, figure or year that it lacks. Areas under the curve on documents that
were not fitted: 0.80 for the mean of the six, 0.85 with the four; without names 0.81, numbers 0.847, pictures 0.841; without
labels 0.849, but then half instead of four fifths of the questions about a figure that doesn't exist are doubted (decision 14).
Three of the six went since: without them the areas are larger.
"""

_NAME = re.compile(r"(?<=[a-z,] )[A-Z][\w-]+")
_NUMBER = re.compile(r"\d[\d.,]*\d|\d")
_GERMAN = re.compile(r"\b(?:der|die|das|den|dem|ein|eine|einen|wie|was|ist|sind|und|wird|welche[rns]?)\b", re.IGNORECASE)

OF_VECTORS = ("sentence", "nearness")
"""Evidence on the scale of a text model."""


def gather(
    query: EmbeddedQuery,
    index: ReadableIndex,
    hits: Sequence[Hit],
    filters: Filters,
    *,
    word_score: Callable[[str, Filters], float | None],
    sentence: float,
    pictured: float = 0.0,
    judged: bool = False,
) -> Evidence:
    """Return the evidence that the best passages, best first, answer a query with words; {} if there are none.

    - words: BM25 score of the best passage, relative to the sum of the best scores of each word alone.
    - sentence, nearness: cosine of the nearest sentence (``sentence``), and of the nearest passage.
    - absent_names, absent_numbers, absent_labels: share of the question's names that no row has, and of its numbers, figures and
      tables that no passage has.
    - pictured: probability of the best figure, if the question asks for a picture (``pictured``).
    - reranker: the best passage's score by a scoring model, if one ranked the hits (``judged``).
    """
    if not hits:
        return {}
    best_scores = {word: word_score(word, filters) for word in dict.fromkeys(folded_words(content_words(query.words)))}
    known_scores = [score for score in best_scores.values() if score is not None]
    # A word that is in no row has no score: it weighs as much as the rarest of the others.
    possible = sum(known_scores) + (len(best_scores) - len(known_scores)) * max(known_scores, default=0.0)
    lexical = index.bm25(query.words, 1, filters)
    nearest = index.dense(query.vector(NEARNESS.name), 1, filters, NEARNESS.name)
    evidence = _absences(query.words, best_scores, hits) | {
        "words": lexical[0][1] / possible if lexical and possible else 0.0,
        "sentence": sentence,
        "nearness": nearest[0][1] if nearest else 0.0,
        "pictured": pictured,
    }
    if judged:
        evidence["reranker"] = hits[0].score
    return evidence


def _absences(question: str, weight_by_word: Mapping[str, float | None], hits: Sequence[Hit]) -> Evidence:
    """Return the shares of a question's names, numbers and labels that are absent; the weight of an absent word is None."""
    # In German, nouns have capitals too, so these tell no names.
    names = [] if len(_GERMAN.findall(question)) > 1 else [name.lower() for name in _NAME.findall(question)]
    numbers, labels = set(_NUMBER.findall(question)), {label for label in mentions(question) if label.number}
    texts = " ".join(hit.text for hit in hits) if numbers else ""
    present = {label for hit in hits for label in mentions(f"{hit.text} {hit.caption}")} if labels else set()
    return {
        "absent_names": _mean([name in weight_by_word and weight_by_word[name] is None for name in names]),
        "absent_numbers": _mean([number not in texts for number in numbers]),
        "absent_labels": _mean([label not in present for label in labels]),
    }


def _mean(flags: Sequence[bool]) -> float:
    return sum(flags) / len(flags) if flags else 0.0


def confidence(evidence: Evidence, calibration: Calibration) -> float:
    """Return the confidence that there is an answer, 0 to 1: a logistic function of evidence.

    Its argument is the mean of what the calibration standardises, times ``STEEPNESS``, and the rest by its weight.
    """
    deviations = [
        (evidence[name] - feature.mean) / feature.scale
        for name, feature in calibration.features.items()
        if name in evidence
    ]
    if not deviations:
        return 0.0
    logit = STEEPNESS * math.fsum(deviations) / len(deviations)
    logit += math.fsum(weight * evidence.get(name, 0.0) for name, weight in WEIGHTS.items())
    return 1 / (1 + math.exp(-logit))


def calibrated_hits(index: ReadableIndex, hits: Sequence[Hit], question: Vector, calibration: Calibration) -> list[Hit]:
    """Return hits whose scores compare with those of other versions: confidence by their cosine to a question alone.

    It is ``UNSCALED`` where the calibration has no scale of cosines, and for hits without vectors.
    """
    vectors = index.vectors([hit.evidence_id for hit in hits], NEARNESS.name) if "nearness" in calibration.features else {}
    scores = {name: confidence({"nearness": float(vector @ question)}, calibration) for name, vector in vectors.items()}
    return [hit.model_copy(update={"score": scores.get(hit.evidence_id, UNSCALED)}) for hit in hits]


def thresholds(options: AnswerOptions, calibration: Calibration) -> tuple[float, float]:
    """Return the thresholds of abstention, that of the corpus file before the calibration's, and of sureness."""
    abstain = calibration.abstain_below if options.abstain_below is None else options.abstain_below
    return abstain, max(abstain, calibration.sure_above)


def default_calibration(text_model: str) -> Calibration:
    """Return the default calibration; for another text model without the evidence that depends on vectors."""
    if text_model == DEFAULT_CALIBRATION.text_model:
        return DEFAULT_CALIBRATION
    features = {name: feature for name, feature in DEFAULT_CALIBRATION.features.items() if name not in OF_VECTORS}
    return DEFAULT_CALIBRATION.model_copy(update={"text_model": text_model, "features": features})
