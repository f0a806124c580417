"""A corpus: its file, its schedule, and what it opens for work."""
