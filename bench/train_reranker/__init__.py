"""Train a small cross-encoder from manuals in HTML (docs/reranker.md)."""
