"""Models that answer questions, in a process that lives longer than an outage."""

from pipeline.corpus.models import QueryModels
from schemas.corpus.retrieval import RetrievalOptions
from schemas.errors import TransientError
from schemas.generation import Reply, Request
from tests.endpoint_server import EndpointServer, status

FAILURES = 25
"""More than those in a row after which a refresh sends no more."""


def test_a_model_is_asked_again_after_an_outage(endpoint: EndpointServer) -> None:
    model = {"kind": "llm", "model": "tiny", "revision": "1", "endpoint": {"url": endpoint.url, "retries": 0}}
    options = RetrievalOptions.model_validate({"models": {"llm": model}})

    def ask() -> object:
        *_, outcome = QueryModels(options, {})["llm"].stream(Request.of("it", "What is it?"))
        return outcome

    endpoint.script(*[status(500)] * FAILURES)
    assert all(isinstance(ask(), TransientError) for _ in range(FAILURES))
    assert isinstance(ask(), Reply)
