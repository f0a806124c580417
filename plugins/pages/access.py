"""Who may see a page: Airflow's own users and rights."""

from collections.abc import Iterable

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag
from fastapi import Depends

PREFIX = "refresh_"
"""Begins the id of a corpus's DAG."""

User = GetUserDep
"""The user of a request; 401 without a login."""

reads_dag = requires_access_dag("GET")
"""Allows who may read the DAG ``dag_id`` of the path; 401 without a login, 403 without the right."""

ReadsDag = Depends(reads_dag)


def startable(dag_ids: Iterable[str], user: BaseUser) -> set[str]:
    """Return the DAGs of which a user may start a run."""
    manager = get_auth_manager()
    return {
        dag_id
        for dag_id in dag_ids
        if manager.is_authorized_dag(
            method="POST", access_entity=DagAccessEntity.RUN, details=DagDetails(id=dag_id), user=user
        )
    }


def readable(corpora: Iterable[str], user: BaseUser) -> set[str]:
    """Return the corpora whose DAG a user may read."""
    ids = {f"{PREFIX}{name}" for name in corpora}
    return {name.removeprefix(PREFIX) for name in get_auth_manager().filter_authorized_dag_ids(dag_ids=ids, user=user)}
