"""DAGs of installed packages: each entry point of the group ``inset.dags`` is a DAG of Airflow."""

from schemas.base import extensions

globals().update({entry.name: entry.load() for entry in extensions("inset.dags")})
