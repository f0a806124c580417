"""A refresh in Airflow's terms: which run it is, what its plan left for the tasks, and which errors are tried again."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from airflow.sdk import get_current_context
from airflow.sdk.exceptions import AirflowFailException

from schemas.errors import InsetError, TransientError

_logger = logging.getLogger("inset")


@contextmanager
def in_airflow_terms() -> Iterator[None]:
    """Let only what may succeed later be retried; all else fails at once, and its log has the one line that matters."""
    try:
        yield
    except TransientError as error:
        _logger.warning("%s", error.message)
        raise
    except InsetError as error:
        _logger.error("%s", error.message)
        raise AirflowFailException(error.message) from None


def run_name() -> str:
    """Return what the current run is called outside Airflow."""
    return f"airflow:{get_current_context()['run_id']}"


def planned_as(name: str) -> Any:
    """Return what the task ``plan`` of the current run left: version, outcome or parent."""
    return get_current_context()["ti"].xcom_pull(task_ids="plan", key=name)
