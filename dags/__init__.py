"""Airflow DAGs: one refresh DAG per corpus file."""
