"""What every generative model must do, wherever it runs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.models.registry import LANGUAGE_MODELS, language_model
from schemas.corpus import AskedModel, EndpointOptions, ModelCaptioner
from schemas.errors import BadInputError, FailureCode
from schemas.generation import Reply, Request
from schemas.models import Model
from schemas.ports import LanguageModel
from tests.endpoint_server import EndpointServer
from tests.tiny_vlm import picture, requests


@pytest.fixture(params=[*LANGUAGE_MODELS])
def model(request: pytest.FixtureRequest, vlm_folder: Path, endpoint: EndpointServer) -> Model[LanguageModel]:
    kind = request.param
    name, options = (str(vlm_folder), None) if kind == "local" else ("tiny", EndpointOptions(url=endpoint.url))
    given = {"kind": kind, "model": name, "revision": "r1", "endpoint": options, "max_tokens": 8}
    captioner = AskedModel.model_validate(given) if kind == "llm" else ModelCaptioner.model_validate({**given, "batch": 4})
    return language_model("captions.models.shapes", captioner)


def test_it_is_what_its_card_says(model: Model[LanguageModel]) -> None:
    loaded, card = model.load(4), model.card()
    assert (loaded.name, loaded.revision) == (card.name, card.revision)
    assert card.revision == "r1"


def test_each_request_is_answered_once_and_by_its_own_id(model: Model[LanguageModel]) -> None:
    asked = requests(9)
    found = list(model.load(4).replies(asked))
    assert sorted(name for name, _ in found) == sorted(request.id for request in asked)
    alone = {request.id: dict(model.load(1).replies([request]))[request.id] for request in asked}
    assert dict(found) == alone
    assert all(isinstance(reply, Reply) for reply in alone.values())


def test_what_is_written_depends_on_what_is_seen_and_asked(model: Model[LanguageModel]) -> None:
    asked = [
        Request.of("a", "What is it?", picture(1)),
        Request.of("b", "What is it?", picture(2)),
        Request.of("c", "What is it not?"),
        Request.of("d", "What is that?"),
    ]
    texts = [reply.text for _, reply in model.load(4).replies(asked) if isinstance(reply, Reply)]
    assert len(set(texts)) == 4


def test_a_picture_that_cannot_be_decoded_is_its_own_failure(model: Model[LanguageModel]) -> None:
    asked = [Request.of("a", "It?", picture(1)), Request.of("b", "It?", b"no picture"), Request.of("c", "It?", picture(2))]
    found = dict(model.load(4).replies(asked))
    assert isinstance(found["b"], BadInputError)
    assert found["b"].code is FailureCode.IMAGE_REJECTED
    assert isinstance(found["a"], Reply)
    assert isinstance(found["c"], Reply)


def test_usage_is_the_sum_of_its_replies(model: Model[LanguageModel]) -> None:
    loaded = model.load(4)
    replies = [reply for _, reply in loaded.replies(requests(5)) if isinstance(reply, Reply)]
    assert len(replies) == loaded.usage.calls == 5
    assert loaded.usage.input_tokens == sum(reply.input_tokens for reply in replies) > 0
    assert loaded.usage.output_tokens == sum(reply.output_tokens for reply in replies) > 0
    assert loaded.faults == {}


def test_requests_are_taken_as_there_is_room_for_them(model: Model[LanguageModel]) -> None:
    taken = 0

    def asked() -> Iterator[Request]:
        nonlocal taken
        for request in requests(20):
            taken += 1
            yield request

    for done, _ in enumerate(model.load(2).replies(asked()), start=1):
        assert taken <= done + 8
    assert taken == 20


def test_nothing_asked_is_nothing_answered(model: Model[LanguageModel]) -> None:
    assert list(model.load(4).replies([])) == []
