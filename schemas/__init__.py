"""Contracts, ids, errors and ports. No I/O, no heavy imports."""
