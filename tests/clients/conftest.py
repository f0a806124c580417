"""A service for clients."""

from collections.abc import Iterator

import pytest

from query_service.app import create_app
from tests.pipeline.conftest import refreshed_once
from tests.query_service.fake_corpus import FakeCorpus
from tests.query_service.live import serving

__all__ = ["refreshed_once"]


@pytest.fixture
def corpus() -> FakeCorpus:
    return FakeCorpus("pumps")


@pytest.fixture
def url(corpus: FakeCorpus) -> Iterator[str]:
    """The address of a service over that corpus."""
    with serving(create_app({"pumps": corpus})) as address:
        yield address
