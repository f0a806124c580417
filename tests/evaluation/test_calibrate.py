"""How sure an answer must be."""

import pytest

from evaluation.calibrate import calibrate, foreign_questions, shuffled
from schemas.corpus import AnswerOptions
from schemas.versions import Manifest
from tasks.answering.confidence import DEFAULT_CALIBRATION, Evidence, confidence, default_calibration, thresholds

KINDS = list(DEFAULT_CALIBRATION.features)


def evidence(value: float) -> Evidence:
    return dict.fromkeys(KINDS, value)


def test_confidence_grows_with_each_kind_of_evidence() -> None:
    plain = confidence(evidence(0.4), DEFAULT_CALIBRATION)
    for kind in KINDS:
        assert confidence({**evidence(0.4), kind: 0.6}, DEFAULT_CALIBRATION) > plain
    assert 0 <= confidence(evidence(0.0), DEFAULT_CALIBRATION) < plain < confidence(evidence(1.0), DEFAULT_CALIBRATION) <= 1
    assert confidence({}, DEFAULT_CALIBRATION) == 0


def test_another_text_model_starts_without_evidence_on_its_scale() -> None:
    calibration = default_calibration("bge")
    assert calibration.text_model == "bge"
    assert set(calibration.features) == set(KINDS) - {"sentence", "nearness"}


def test_a_calibration_parts_the_questions_that_it_has_seen() -> None:
    positives = [evidence(0.62 + number / 1000) for number in range(60)]
    negatives = {"foreign": [evidence(0.38 + number / 1000) for number in range(30)], "golden": [evidence(0.39)] * 30}
    calibration = calibrate(positives, negatives, DEFAULT_CALIBRATION)
    abstain, sure = thresholds(AnswerOptions(), calibration)
    assert sum(confidence(sample, calibration) < abstain for sample in positives) / 60 <= 0.1
    assert sum(confidence(sample, calibration) < sure for group in negatives.values() for sample in group) / 60 >= 0.8
    assert calibration == calibrate(positives, negatives, DEFAULT_CALIBRATION)
    assert (calibration.answerable, calibration.unanswerable) == (60, {"foreign": 30, "golden": 30})


def test_few_questions_leave_it_near_the_default() -> None:
    calibration = calibrate([evidence(0.9)], {"foreign": [evidence(0.1)]}, DEFAULT_CALIBRATION)
    for kind in KINDS:
        assert calibration.features[kind].mean == pytest.approx(DEFAULT_CALIBRATION.features[kind].mean, abs=0.02)
    assert calibrate([], {"foreign": [evidence(0.1)]}, DEFAULT_CALIBRATION) == DEFAULT_CALIBRATION


def test_the_corpus_file_has_the_last_word() -> None:
    options = AnswerOptions(abstain_below=0.7)
    assert thresholds(options, DEFAULT_CALIBRATION) == (0.7, 0.7), "what answers is not less sure than what abstains"


def test_shuffled_questions_have_known_words_and_ask_nothing() -> None:
    questions = [
        "How is the oil filter of the water pump replaced?",
        "Which torque does the brake screw of the steel winch take?",
        "When must the drive belt of the saw table be tightened?",
    ]
    mixed = shuffled(questions)
    assert len(mixed) == 3
    assert {word for question in mixed for word in question.split()} <= set(" ".join(questions).replace("?", "").split())
    assert not set(mixed) & set(questions)
    assert shuffled(["What is a valve?"]) == []


def test_foreign_questions_are_packaged() -> None:
    assert len(set(foreign_questions())) >= 30


def test_manifests_of_before_have_no_calibration() -> None:
    assert Manifest.model_fields["calibration"].default is None
