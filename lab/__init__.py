"""Experiments of papers: judges, pooled evidence, question sets. Nothing of the product imports it."""
