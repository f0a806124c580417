"""A small corpus, and an Airflow home that nobody else uses."""

import os
import tempfile

from tests.pipeline.conftest import corpus_file

# Airflow writes its settings there as soon as it is imported.
os.environ.setdefault("AIRFLOW_HOME", tempfile.mkdtemp(prefix="inset-airflow-"))

__all__ = ["corpus_file"]
