"""Benchmarks: each prints our figure beside a peer's or a floor's, from one run."""
