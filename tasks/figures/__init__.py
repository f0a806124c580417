"""Figures: where they are on a page, what they consist of, and what belongs to them."""
