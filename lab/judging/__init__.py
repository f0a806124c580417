"""Metrics that a generative model grades."""
