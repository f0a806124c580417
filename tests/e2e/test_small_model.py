"""A real language model, which says what it likes: whatever that is, it comes as words and costs tokens."""

from collections.abc import Iterator

import pytest

from backends.models.endpoint import Endpoint
from schemas.corpus.models import EndpointOptions, ModelEntry
from schemas.models import Message, Reply, Request
from tests import small_model

pytestmark = pytest.mark.live

CHAT = (Message("system", "You are a helpful assistant."), Message("user", "What is a water pump? Answer in a few words."))


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with small_model.running() as address:
        yield address


@pytest.fixture
def model(url: str) -> Endpoint:
    settings = {"kind": "llm", "model": small_model.MODEL, "revision": "1", "max_tokens": 24}
    return Endpoint("models.llm", ModelEntry.model_validate({**settings, "endpoint": EndpointOptions(url=url)}))


def test_it_replies(model: Endpoint) -> None:
    ((_, reply),) = model.replies([Request("a", CHAT)])
    assert isinstance(reply, Reply)
    assert len(reply.text.split()) > 2
    assert 0 < reply.output_tokens <= 40
    assert reply.input_tokens > 20


def test_it_replies_word_by_word(model: Endpoint) -> None:
    *words, reply = model.stream(Request("a", CHAT))
    assert isinstance(reply, Reply)
    assert "".join(word for word in words if isinstance(word, str)) == reply.text
    assert len(words) > reply.output_tokens / 2, "it comes as it is written"
    assert (model.usage.calls, model.usage.output_tokens) == (1, reply.output_tokens)
    assert model.usage.input_tokens == reply.input_tokens > 20
    assert model.faults == {}


def test_a_reply_that_nobody_waits_for_makes_way_for_the_next(model: Endpoint) -> None:
    words = model.stream(Request.of("a", "Count to one hundred."))
    next(words)
    words.close()
    assert isinstance([*model.stream(Request("b", CHAT))][-1], Reply)
