"""Calibrate the confidence of answers on golden questions, and on questions that a version can't answer (decision 14)."""

import re
from collections.abc import Mapping, Sequence
from importlib.resources import files

import numpy as np

from schemas.versions import Calibration, FeatureScale
from tasks.answering.confidence import WEIGHTS, Evidence, confidence
from tasks.answering.highlight import content_words

PRIOR = 30
"""Weight of the packaged default, in questions."""

REFUSED = 0.04
"""Maximum share of answerable questions without an answer: a wrong abstention costs more than an answer marked as not sure."""

DOUBTED = 0.8
"""Minimum share of unanswerable questions that are not sure."""

MOST_DOUBT = 0.6
"""Maximum threshold of sureness."""

MOST_NEGATIVES = 40
"""Maximum number of questions of each kind of negatives."""


def foreign_questions() -> list[str]:
    """Return packaged questions of other fields."""
    text = files("evaluation").joinpath("foreign_questions.txt").read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line.strip()][:MOST_NEGATIVES]


def shuffled(questions: Sequence[str]) -> list[str]:
    """Return nonsense questions, made of the words of two questions each."""
    content = [re.findall(r"\w+", content_words(question)) for question in questions]
    mixed_questions = []
    for number, question_words in enumerate(content):
        partner_words = content[(number + len(content) // 2) % len(content)]
        mixed = [word for pair in zip(question_words[::2], partner_words[1::2], strict=False) for word in pair]
        if len(mixed) > 2 and question_words != partner_words:
            mixed_questions.append(" ".join(mixed))
    return mixed_questions[:MOST_NEGATIVES]


def calibrate(
    answerable: Sequence[Evidence], unanswerable: Mapping[str, Sequence[Evidence]], default: Calibration
) -> Calibration:
    """Return a version's calibration; few questions leave it near ``default``, the packaged one for its text model.

    ``answerable`` is the evidence of golden questions with an answer, ``unanswerable`` of others by their origin.
    """
    negatives = [evidence for evidence_of_kind in unanswerable.values() for evidence in evidence_of_kind if evidence]
    positives = [evidence for evidence in answerable if evidence]
    number = min(len(positives), len(negatives))
    if not number:
        return default
    share = number / (number + PRIOR)
    # Only evidence that every question has can be standardised; that of ``WEIGHTS`` has fixed weights.
    kinds = set.intersection(*(set(evidence) for evidence in (*positives, *negatives))) - WEIGHTS.keys()
    features = {name: _scale(name, positives, negatives, default, share) for name in sorted(kinds)}
    calibration = default.model_copy(update={"features": features})
    sure = [confidence(evidence, calibration) for evidence in positives]
    doubtful = [confidence(evidence, calibration) for evidence in negatives]
    abstain = _between(default.abstain_below, float(np.quantile(sure, REFUSED)), share)
    above = _between(default.sure_above, min(MOST_DOUBT, float(np.quantile(doubtful, DOUBTED))), share)
    return calibration.model_copy(
        update={
            "abstain_below": abstain,
            "sure_above": max(abstain, above),
            "answerable": len(positives),
            "unanswerable": {name: len(evidence_of_kind) for name, evidence_of_kind in unanswerable.items()},
            "how": f"{share:.0%} of these questions, the rest of the packaged default; at most {REFUSED:.0%} of the answerable "
            f"ones get no answer, {DOUBTED:.0%} of the others are not sure",
        }
    )


def _scale(
    name: str, positives: Sequence[Evidence], negatives: Sequence[Evidence], default: Calibration, share: float
) -> FeatureScale:
    """Return mean and deviation of one kind of evidence, with positives and negatives weighted equally."""
    groups = [np.array([evidence[name] for evidence in group]) for group in (positives, negatives)]
    mean = float(np.mean([group.mean() for group in groups]))
    scale = float(np.sqrt(np.mean([((group - mean) ** 2).mean() for group in groups])))
    default_scale = default.features.get(name)
    if default_scale is None:
        return FeatureScale(mean=mean, scale=max(scale, 1e-3))
    return FeatureScale(
        mean=_between(default_scale.mean, mean, share), scale=max(_between(default_scale.scale, scale, share), 1e-3)
    )


def _between(default: float, measured: float, share: float) -> float:
    return (1 - share) * default + share * measured
