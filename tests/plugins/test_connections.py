"""Credentials of a source come from Airflow's connections, by name."""

import json
import os

import pytest

from plugins.airflow_run import use_connections
from schemas.base import combined_address


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore the environment, and describe a connection as Airflow reads it there."""
    connection = {"conn_type": "sftp", "login": "reader", "password": "of sftp", "extra": {"port": 2222}}
    for name in ("USERNAME", "PASSWORD", "PORT"):
        monkeypatch.setenv(f"FSSPEC_SFTP_{name}", "")
        monkeypatch.delenv(f"FSSPEC_SFTP_{name}")
    monkeypatch.setenv("AIRFLOW_CONN_INSET_SFTP", json.dumps(connection))


def _arguments() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("FSSPEC_SFTP_")}


def test_a_connection_gives_the_arguments_of_its_file_system() -> None:
    use_connections(combined_address({"notes": "sftp://host/notes", "manuals": "/manuals", "help": "webdav://help"}))
    assert _arguments() == {
        "FSSPEC_SFTP_USERNAME": "reader",
        "FSSPEC_SFTP_PASSWORD": "of sftp",
        "FSSPEC_SFTP_PORT": "2222",
    }


def test_the_environment_counts_before_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FSSPEC_SFTP_USERNAME", "writer")
    use_connections("sftp://host/notes")
    assert (_arguments()["FSSPEC_SFTP_USERNAME"], _arguments()["FSSPEC_SFTP_PASSWORD"]) == ("writer", "of sftp")


def test_a_folder_needs_no_connection() -> None:
    use_connections("/manuals")
    assert _arguments() == {}
