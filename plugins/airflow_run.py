"""Map a refresh to Airflow: the run's name, results of the task ``plan``, and which errors are retried."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from airflow.sdk import get_current_context
from airflow.sdk.exceptions import AirflowFailException

from schemas.errors import InsetError, TransientError

_logger = logging.getLogger("inset")


@contextmanager
def airflow_errors() -> Iterator[None]:
    """Retry transient errors only; other known errors fail at once with one line in the log."""
    try:
        yield
    except TransientError as error:
        _logger.warning("%s", error.message)
        raise
    except InsetError as error:
        _logger.error("%s", error.message)
        raise AirflowFailException(error.message) from None


def run_name() -> str:
    """Return the name of the current run outside Airflow."""
    return f"airflow:{get_current_context()['run_id']}"


def planned(name: str) -> Any:
    """Return a result of the task ``plan`` of the current run: version, outcome or parent."""
    return get_current_context()["ti"].xcom_pull(task_ids="plan", key=name)
