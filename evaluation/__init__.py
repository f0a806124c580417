"""Evaluation of a version."""
