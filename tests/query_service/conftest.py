import pytest
from fastapi.testclient import TestClient

from query_service.app import create_app
from tests.query_service.fake_corpus import FakeCorpus, client_of


@pytest.fixture
def corpus() -> FakeCorpus:
    return FakeCorpus("pumps")


@pytest.fixture
def client(corpus: FakeCorpus) -> TestClient:
    return client_of(create_app({"pumps": corpus}))
