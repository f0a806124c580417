"""Random technical pages with known truth, and how well they are read: ``python -m bench.random_pages``."""
