"""Actors that die: what it costs, and what it says about a row."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from backends.models.pictures import stumbling
from ray_jobs.cluster import connected
from ray_jobs.enrich import recognise
from ray_jobs.pools import cut_batches, run_pool
from ray_jobs.rows import Outcome
from schemas.corpus import CaptionOptions, RayOptions
from schemas.documents import RecognisedLine
from schemas.errors import BadInputError, FailureCode, TransientError
from schemas.ids import figure_file
from schemas.models import Model
from schemas.ports import Recogniser
from schemas.versions import ModelCard


class Unmade:
    """An actor whose constructor fails, as one does whose model isn't there."""

    def __init__(self) -> None:
        raise FileNotFoundError("there is no model here")

    def run(self, batch: Sequence[tuple[str, Any]]) -> list[Outcome[str]]:
        """Never comes so far."""
        return [Outcome(row_id, "never") for row_id, _ in batch]


class Mortal:
    """An actor that some rows kill."""

    def run(self, batch: Sequence[tuple[str, Any]]) -> list[Outcome[str]]:
        """Return each row's input, or die."""
        if any(row == "deadly" for _, row in batch):
            os._exit(1)
        return [Outcome(row_id, row) for row_id, row in batch]


@pytest.mark.slow
def test_an_actor_that_can_not_be_made_says_nothing_about_the_rows() -> None:
    with connected(RayOptions()), pytest.raises(TransientError, match=r"can't be started: .*there is no model here"):
        list(run_pool(Unmade, (), cut_batches([("a", 1), ("b", 2)], 1), workers=1))


@pytest.mark.slow
def test_a_row_that_kills_its_actor_fails_alone_and_is_no_result() -> None:
    rows = [("a", "fine"), ("b", "deadly"), ("c", "fine")]
    with connected(RayOptions()):
        made = [outcome for outcomes in run_pool(Mortal, (), cut_batches(rows, 3), workers=1) for outcome in outcomes]
    found = {outcome.row_id: outcome.failure.code if outcome.failure else outcome.value for outcome in made}
    assert found == {"a": "fine", "b": FailureCode.MODEL_CRASHED, "c": "fine"}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (MemoryError(), FailureCode.MODEL_CRASHED),
        (RuntimeError("[ONNXRuntimeError] : 6 : std::bad_alloc"), FailureCode.MODEL_CRASHED),
        (RuntimeError("OpenCV(4.10) error: Insufficient memory in function 'OutOfMemoryError'"), FailureCode.MODEL_CRASHED),
        (ValueError("too few points"), FailureCode.MODEL_FAILED),
    ],
)
def test_memory_that_ran_out_says_nothing_about_the_picture(error: Exception, code: FailureCode) -> None:
    with pytest.raises(BadInputError, match=r"RapidOCR failed on a picture: .+") as caught, stumbling("RapidOCR"):
        raise error
    assert caught.value.code is code


def test_only_a_failure_of_the_picture_is_a_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("broken", "starved", "fine"):
        picture = tmp_path / figure_file(name)
        picture.parent.mkdir(exist_ok=True)
        picture.write_bytes(name.encode())

    class Reader:
        name = revision = "reader"

        def recognise(self, picture: bytes) -> list[RecognisedLine]:
            codes = {b"broken": FailureCode.IMAGE_REJECTED, b"starved": FailureCode.MODEL_CRASHED}
            if picture in codes:
                raise BadInputError(f"it is {picture.decode()}", codes[picture])
            return []

    card = ModelCard(name="reader", revision="1")
    reader: Model[Recogniser] = Model(card=lambda: card, load=lambda _batch: Reader())
    monkeypatch.setattr("backends.models.rapidocr_recogniser.model", lambda _named: reader)
    unfinished: dict[str, str] = {}
    figures = ("broken", "starved", "fine")
    read = [one for batch in recognise(figures, CaptionOptions(), str(tmp_path), None, unfinished) for one in batch]
    assert {one.id: one.failure for one in read} == {"broken": "it is broken", "fine": None}
    assert unfinished == {"starved": "it is starved"}
