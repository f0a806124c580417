"""The small corpus of the pipeline's tests."""

from tests.pipeline.conftest import corpus_file, model, published, refreshed_once

__all__ = ["corpus_file", "model", "published", "refreshed_once"]
