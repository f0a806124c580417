"""Keeping stores healthy and small: doctor, repair, prune, forget."""
