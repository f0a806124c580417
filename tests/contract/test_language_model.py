"""What every generative model must do, wherever it runs."""

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from backends.models.registry import LANGUAGE_MODELS, language_model
from schemas.corpus.models import EndpointOptions, ModelEntry
from schemas.errors import BadInputError, FailureCode, TransientError
from schemas.models import Message, Model, Reply, Request, Usage
from schemas.ports import LanguageModel
from tests.endpoint_server import EndpointServer
from tests.tiny_vlm import picture, requests


def _model(kind: str, folder: Path, endpoint: EndpointServer) -> Model[LanguageModel]:
    is_local = kind == "local"
    name, options = (str(folder), None) if is_local else ("tiny", EndpointOptions(url=endpoint.url))
    entry = {"kind": kind, "model": name, "revision": "r1", "endpoint": options, "max_tokens": 8}
    batch = {"batch": 4} if kind == "local" else {}
    return language_model("models.shapes", ModelEntry.model_validate({**entry, **batch}))


@pytest.fixture(params=[*LANGUAGE_MODELS])
def model(request: pytest.FixtureRequest, vlm_folder: Path, endpoint: EndpointServer) -> Model[LanguageModel]:
    """Every kind of model that sees."""
    return _model(request.param, vlm_folder, endpoint)


@pytest.fixture(params=[*LANGUAGE_MODELS, "causal"])
def reader(
    request: pytest.FixtureRequest, vlm_folder: Path, causal_folder: Path, endpoint: EndpointServer
) -> Model[LanguageModel]:
    """Every kind of model, those that read text alone included."""
    if request.param == "causal":
        return _model("local", causal_folder, endpoint)
    return _model(request.param, vlm_folder, endpoint)


def test_it_is_what_its_card_says(model: Model[LanguageModel]) -> None:
    loaded, card = model.load(4), model.card()
    assert loaded.name == card.name
    assert card.revision == "r1"


def test_each_request_is_answered_once_and_by_its_own_id(model: Model[LanguageModel]) -> None:
    sent_requests = requests(9)
    replies = list(model.load(4).replies(sent_requests))
    assert sorted(name for name, _ in replies) == sorted(request.id for request in sent_requests)
    alone = {request.id: dict(model.load(1).replies([request]))[request.id] for request in sent_requests}
    assert dict(replies) == alone
    assert all(isinstance(reply, Reply) for reply in alone.values())


def test_what_is_written_depends_on_what_is_seen_and_asked(model: Model[LanguageModel]) -> None:
    sent_requests = [
        Request.of("a", "What is it?", picture(1)),
        Request.of("b", "What is it?", picture(2)),
        Request.of("c", "What is it not?"),
        Request.of("d", "What is that?"),
    ]
    texts = [reply.text for _, reply in model.load(4).replies(sent_requests) if isinstance(reply, Reply)]
    assert len(set(texts)) == 4


def test_a_picture_that_cannot_be_decoded_is_its_own_failure(model: Model[LanguageModel]) -> None:
    sent_requests = [
        Request.of("a", "It?", picture(1)),
        Request.of("b", "It?", b"no picture"),
        Request.of("c", "It?", picture(2)),
    ]
    outcomes = dict(model.load(4).replies(sent_requests))
    assert isinstance(outcomes["b"], BadInputError)
    assert outcomes["b"].code is FailureCode.IMAGE_REJECTED
    assert isinstance(outcomes["a"], Reply)
    assert isinstance(outcomes["c"], Reply)


def test_usage_is_the_sum_of_its_replies(model: Model[LanguageModel]) -> None:
    loaded = model.load(4)
    replies = [reply for _, reply in loaded.replies(requests(5)) if isinstance(reply, Reply)]
    assert len(replies) == loaded.usage.calls == 5
    assert loaded.usage.input_tokens == sum(reply.input_tokens for reply in replies) > 0
    assert loaded.usage.output_tokens == sum(reply.output_tokens for reply in replies) > 0
    assert loaded.faults == {}


def test_requests_are_taken_as_there_is_room_for_them(model: Model[LanguageModel]) -> None:
    consumed = 0

    def asked() -> Iterator[Request]:
        nonlocal consumed
        for request in requests(20):
            consumed += 1
            yield request

    for number, _ in enumerate(model.load(2).replies(asked()), start=1):
        assert consumed <= number + 8
    assert consumed == 20


def test_nothing_asked_is_nothing_answered(model: Model[LanguageModel]) -> None:
    assert list(model.load(4).replies([])) == []


CHAT = (Message("system", "Answer."), Message("user", "Where?"), Message("assistant", "There."), Message("user", "And?"))


def test_the_words_of_a_stream_are_the_text_of_its_reply(reader: Model[LanguageModel]) -> None:
    loaded = reader.load(1)
    for request in (*(Request.of(name, f"What is {name}?") for name in "abc"), Request("chat", CHAT)):
        ((_, full_reply),) = loaded.replies([request])
        *words, reply = loaded.stream(request)
        assert isinstance(reply, Reply)
        assert "".join(word for word in words if isinstance(word, str)) == reply.text
        assert all(words)
        assert reply == full_reply


def test_a_stream_counts_what_it_costs(reader: Model[LanguageModel]) -> None:
    loaded = reader.load(1)
    *_, reply = loaded.stream(Request.of("a", "What is it?"))
    assert isinstance(reply, Reply)
    assert loaded.usage == Usage(reply.calls, reply.input_tokens, reply.output_tokens)
    assert (loaded.usage.calls, loaded.faults) == (1, {})
    assert loaded.usage.output_tokens > 0


def test_every_message_of_a_chat_is_read(reader: Model[LanguageModel]) -> None:
    loaded = reader.load(1)
    chats = [CHAT, *((*CHAT[:number], replace(CHAT[number], text="Other."), *CHAT[number + 1 :]) for number in range(4))]
    texts = [[*loaded.stream(Request("a", chat))][-1] for chat in chats]
    assert len({reply.text for reply in texts if isinstance(reply, Reply)}) == len(chats)


def test_every_picture_of_a_message_is_seen_in_order(model: Model[LanguageModel], endpoint: EndpointServer) -> None:
    endpoint.replies = lambda call: " ".join(hashlib.sha256(image).hexdigest() for image in call.pictures)
    loaded = model.load(1)
    orders = [(1, 2), (2, 1), (1, 3), (1,)]
    chats = [(Message("user", "Which?", tuple(map(picture, order))),) for order in orders]
    texts = [[*loaded.stream(Request("a", chat))][-1] for chat in chats]
    assert len({reply.text for reply in texts if isinstance(reply, Reply)}) == len(orders)


def test_a_picture_that_cannot_be_decoded_ends_a_stream(model: Model[LanguageModel]) -> None:
    (outcome,) = model.load(1).stream(Request.of("a", "It?", b"no picture"))
    assert isinstance(outcome, BadInputError)
    assert outcome.code is FailureCode.IMAGE_REJECTED


def test_a_stream_that_nobody_waits_for_ends_and_the_next_one_is_answered(reader: Model[LanguageModel]) -> None:
    loaded = reader.load(1)
    *_, outcome = loaded.stream(Request.of("a", "What is it?"), stopped=lambda: True)
    assert isinstance(outcome, TransientError)
    words = loaded.stream(Request.of("a", "What is it?"))
    next(words)
    words.close()
    assert isinstance([*loaded.stream(Request.of("a", "What is it?"))][-1], Reply)
