import pytest
from fastapi.testclient import TestClient

from query_service.app import create_app
from tests.query_service.stand_in import StandIn, client_of


@pytest.fixture
def corpus() -> StandIn:
    return StandIn("pumps")


@pytest.fixture
def client(corpus: StandIn) -> TestClient:
    return client_of(create_app(lambda _: corpus, lambda: ["pumps"]))
