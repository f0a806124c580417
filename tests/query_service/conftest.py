import pytest
from fastapi.testclient import TestClient

from query_service.app import create_app
from tests.query_service.stand_in import StandIn


@pytest.fixture
def corpus() -> StandIn:
    return StandIn("pumps")


@pytest.fixture
def client(corpus: StandIn) -> TestClient:
    return TestClient(create_app(lambda _: corpus, lambda: ["pumps"]))
