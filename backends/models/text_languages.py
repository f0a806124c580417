"""Languages that text models know; light to import."""

ENGLISH = frozenset(["en"])

_ENGLISH_ONLY = (
    "baai/bge-base-en",
    "baai/bge-large-en",
    "baai/bge-small-en",
    "intfloat/e5-base",
    "intfloat/e5-large",
    "intfloat/e5-small",
    "mixedbread-ai/mxbai-embed-large-v1",
    "sentence-transformers/all-",
    "sentence-transformers/multi-qa-",
    "thenlper/gte-",
)
"""Prefixes of the names of English models."""


def languages_of(name: str) -> frozenset[str] | None:
    """Return the languages of a model by its name on the hub; None if unknown."""
    lowered = name.lower()
    in_full = lowered if "/" in lowered else f"sentence-transformers/{lowered}"
    return ENGLISH if in_full.startswith(_ENGLISH_ONLY) else None
