"""The pages, with a user who is logged in."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import get_user
from fastapi import FastAPI
from fastapi.testclient import TestClient

from plugins.pages import access
from plugins.pages.plugin import create_app


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose ``corpora/`` is the corpora folder."""
    (tmp_path / "corpora").mkdir()
    monkeypatch.setenv("INSET_CORPORA", str(tmp_path / "corpora"))
    return tmp_path


class Rights:
    """An auth manager that hides DAGs, and lets the user start runs of some; None means of all."""

    def __init__(self) -> None:
        self.hidden: set[str] = set()
        self.starts: set[str] | None = None

    def is_authorized_dag(self, *, method: str, access_entity: DagAccessEntity, details: DagDetails, user: str) -> bool:
        """Return whether the user may start a run."""
        assert (method, access_entity, user) == ("POST", DagAccessEntity.RUN, "ada")
        return self.starts is None or details.id in self.starts

    def filter_authorized_dag_ids(self, *, dag_ids: Iterable[str], user: str) -> set[str]:
        """Return those that aren't hidden."""
        assert user == "ada"
        return set(dag_ids) - self.hidden


@pytest.fixture
def rights(monkeypatch: pytest.MonkeyPatch) -> Rights:
    """Rights of the user."""
    auth_manager = Rights()
    monkeypatch.setattr(access, "get_auth_manager", lambda: auth_manager)
    return auth_manager


@pytest.fixture
def app() -> FastAPI:
    """The pages, mounted as Airflow mounts them, without a user."""
    airflow = FastAPI()
    airflow.mount("/inset", create_app())
    return airflow


@pytest.fixture
def visitor(app: FastAPI) -> Iterator[TestClient]:
    """Somebody who isn't logged in."""
    with TestClient(app) as client:
        yield client


@pytest.fixture
def client(folder: Path, rights: Rights) -> Iterator[TestClient]:
    """Ada, who is logged in, behind a proxy that puts Airflow under a prefix."""
    pages = create_app()
    pages.dependency_overrides |= {get_user: lambda: "ada", access.reads_dag: lambda: None}
    airflow = FastAPI(root_path="/team/airflow")
    airflow.mount("/inset", pages)
    with TestClient(airflow, base_url="http://testserver/team/airflow") as test_client:
        yield test_client
