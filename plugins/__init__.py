"""Operators and triggers of the DAGs."""
