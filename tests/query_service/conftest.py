from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from query_service.app import create_app
from tests.browser import Browser
from tests.query_service.fake_corpus import FakeCorpus, client_of


@pytest.fixture
def corpus() -> FakeCorpus:
    return FakeCorpus("pumps")


@pytest.fixture
def client(corpus: FakeCorpus) -> TestClient:
    return client_of(create_app({"pumps": corpus}))


@pytest.fixture(scope="session")
def one_browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("browser")) as made:
        yield made


@pytest.fixture
def browser(one_browser: Browser) -> Iterator[Browser]:
    """A browser of which no script may fail and no policy be violated; what the service refuses is no complaint."""
    one_browser.complaints.clear()
    yield one_browser
    assert [each for each in one_browser.complaints if not each.startswith("Failed to load resource")] == []
