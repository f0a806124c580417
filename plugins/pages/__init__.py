"""Inset's pages in Airflow's UI.

A page is a route of an ``APIRouter`` that ``plugin.py`` includes, a template that extends ``base.html``, and a read model of
``pipeline/operations``. A route depends on ``User`` or ``ReadsDag`` (``access.py``), because Airflow protects no route of a
plugin. It only reads: what changes something is a run of a DAG, which the browser starts through Airflow's REST API
(``actions.html``), so roles and the audit log are Airflow's.
"""
