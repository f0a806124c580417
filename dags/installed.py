"""DAGs of installed packages: each entry point of the group ``inset.dags`` is a DAG of Airflow."""

from schemas.extensions import extensions

globals().update({one.name: one.load() for one in extensions("inset.dags")})
