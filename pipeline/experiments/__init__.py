"""Experiments on published versions."""
