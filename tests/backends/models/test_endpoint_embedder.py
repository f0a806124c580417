"""Text embeddings from a server: what is sent, what is taken, and what becomes of errors."""

from typing import Any

import numpy as np
import pytest

from backends.models.endpoint_embedder import EndpointEmbedder
from backends.models.registry import TEXT_EMBEDDERS
from schemas.corpus.models import ModelEntry
from schemas.errors import TransientError, UserError
from schemas.models import ModelName
from schemas.ports import Vector
from tests.backends.models.test_endpoint import Clock
from tests.endpoint_server import EndpointServer, Reaction, by_words, cut, embeddings, hang, status, text, whole

KEY = "sk-a-key-that-nobody-may-see"
TEXTS = [f"text {number} of the winch" for number in range(9)]


def _made(server: EndpointServer, clock: Clock | None = None, *, batch: int = 4, **options: Any) -> EndpointEmbedder:
    prompts = {name: options.pop(name) for name in ("document_prompt", "query_prompt") if name in options}
    of_the_model = {name: options.pop(name) for name in ("dimension", "shorten") if name in options}
    embedder = EndpointEmbedder(_named({"url": server.url, **options}, **of_the_model, **prompts), batch)
    embedder._calls().clock = clock or Clock()
    return embedder


def _named(endpoint: dict[str, Any], **settings: Any) -> ModelName:
    entry = {
        "kind": "text_embedder",
        "model": "acme/embed",
        "revision": "1",
        "dimension": 16,
        "endpoint": endpoint,
        **settings,
    }
    return ModelEntry.model_validate(entry).text_model("models.acme")


def _unit(some: str) -> Vector:
    vector = np.array(by_words(some), np.float32)
    return np.asarray(vector / np.linalg.norm(vector), np.float32)


def test_a_text_gets_its_own_unit_vector_in_batches_of_a_size_whatever_comes_back_first(endpoint: EndpointServer) -> None:
    embedder = _made(endpoint, concurrency=2)
    vectors = embedder.embed_documents(TEXTS)
    assert vectors.dtype == np.float32
    assert vectors == pytest.approx(np.stack([_unit(document) for document in TEXTS]), abs=1e-6)
    assert sorted(len(call.texts) for call in endpoint.calls) == [1, 4, 4]
    assert endpoint.at_once <= 2
    assert embedder.embed_documents([]).shape == (0, 16)
    assert (embedder.usage.calls, embedder.usage.input_tokens) == (3, 90)


def test_what_is_sent_is_the_model_its_texts_and_their_prompts(
    endpoint: EndpointServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EMBED_KEY", KEY)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-somebody-else")
    embedder = _made(endpoint, api_key_env="EMBED_KEY", document_prompt="passage: ", query_prompt="query: ", shorten=True)
    embedder.embed_documents(["a"])
    assert embedder.embed_query("b") == pytest.approx(_unit("query: b"), abs=1e-6)
    sent = [call.json for call in endpoint.calls]
    of_all = {"model": "acme/embed", "encoding_format": "float", "dimensions": 16}
    assert sent == [of_all | {"input": ["passage: a"]}, of_all | {"input": ["query: b"]}]
    assert {call.headers["authorization"] for call in endpoint.calls} == {f"Bearer {KEY}"}
    _made(endpoint).embed_query("c")
    assert "dimensions" not in endpoint.calls[-1].json
    assert KEY not in str(endpoint.calls[-1].headers) + str(endpoint.calls[-1].json)


@pytest.mark.parametrize(
    "reaction",
    [
        status(429, headers={"Retry-After": "7"}),
        status(503),
        cut(),
        text("not JSON"),
        whole({"data": [{"index": 0, "embedding": ["a"]}]}),
        whole({"data": []}),
        embeddings([[1.0] * 16, [1.0] * 16], model="acme/embed"),
    ],
)
def test_what_may_succeed_later_is_tried_again(endpoint: EndpointServer, reaction: Reaction) -> None:
    clock = Clock()
    endpoint.script(reaction)
    assert _made(endpoint, clock).embed_query("a") == pytest.approx(_unit("a"), abs=1e-6)
    assert len(endpoint.calls) == 2
    assert clock.passed > 0


def test_a_server_that_stays_away_is_named_and_is_asked_again_later(endpoint: EndpointServer) -> None:
    endpoint.script(*[status(500)] * 25)
    embedder = _made(endpoint, retries=0)
    for _ in range(25):
        with pytest.raises(TransientError, match=r"^models\.acme: http://127.0.0.1:\d+: it answered 500: no$"):
            embedder.embed_query("a")
    assert embedder.embed_query("a") == pytest.approx(_unit("a"), abs=1e-6), "a service lives longer than an outage"


def test_a_server_that_hangs_is_left(endpoint: EndpointServer) -> None:
    endpoint.script(hang())
    with pytest.raises(TransientError, match=r"no answer within 0\.2 s"):
        _made(endpoint, retries=0, timeout_s=0.2).embed_query("a")


@pytest.mark.parametrize(
    ("reaction", "line"),
    [
        (status(401, "the key sk-a"), "models.acme.endpoint.api_key_env: .* wants an API key .401.; name the environment"),
        (status(404), "models.acme: .* knows no model 'acme/embed', or endpoint.url isn't its address"),
        (status(400, "too long"), "rejects the request .400.: too long; shorten chunks.tokens"),
        (
            embeddings([[1.0] * 8], model="acme/embed"),
            "models.acme.dimension: acme/embed at .* makes vectors of 8 numbers, not 16; write that",
        ),
    ],
)
def test_a_mistake_in_the_corpus_file_is_one_line_and_not_tried_again(
    endpoint: EndpointServer, reaction: Reaction, line: str
) -> None:
    endpoint.script(reaction)
    with pytest.raises(UserError, match=line) as caught:
        _made(endpoint).embed_query("a")
    assert "\n" not in caught.value.message
    assert len(endpoint.calls) == 1


def test_another_models_vectors_are_not_taken(endpoint: EndpointServer) -> None:
    endpoint.script(embeddings([[1.0] * 16], model="cheaper"))
    with pytest.raises(TransientError, match="was asked for 'acme/embed' and 'cheaper' answered"):
        _made(endpoint).embed_query("a")


@pytest.mark.parametrize("vector", [[0.0] * 16, [float("1e400")] * 16])
def test_a_vector_without_direction_is_not_taken(endpoint: EndpointServer, vector: list[float]) -> None:
    endpoint.script(embeddings([vector], model="acme/embed"))
    with pytest.raises(TransientError, match="returned a vector that is zero or not finite"):
        _made(endpoint, retries=0).embed_query("a")


def test_a_first_failure_ends_the_other_calls(endpoint: EndpointServer) -> None:
    endpoint.script(status(401))
    with pytest.raises(UserError, match="wants an API key"):
        _made(endpoint, batch=1, concurrency=1).embed_documents(TEXTS)
    assert len(endpoint.calls) == 1


def test_a_key_that_is_not_set_is_named(endpoint: EndpointServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EMBED_KEY", raising=False)
    with pytest.raises(
        UserError, match=r"models\.acme\.endpoint\.api_key_env: the environment variable EMBED_KEY is not set"
    ):
        _made(endpoint, api_key_env="EMBED_KEY")


def test_its_card_needs_no_server_and_its_tokens_are_those_of_the_packaged_model() -> None:
    model = TEXT_EMBEDDERS.find(_named({"url": "http://127.0.0.1:9/v1"}))
    card = model.card()
    assert (card.name, card.revision, card.dimension) == ("acme/embed", "1", 16)
    assert model.token_counter()(["hello world", "word " * 1000]) == [2, 1000]
