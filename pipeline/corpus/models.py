"""Models that this process has loaded, each once."""

import functools

from backends.models.minilm import open_text_embedder
from schemas.corpus import EmbeddingOptions
from schemas.ports import TextEmbedder
from schemas.versions import ModelCard


@functools.lru_cache(maxsize=4)
def text_embedder(model: ModelCard) -> TextEmbedder:
    """Return the embedder that a version's vectors were made by.

    Raises:
        UserError: There is no such model here.
    """
    packaged = model.name == "minilm"
    return open_text_embedder(EmbeddingOptions(text=model.name, revision=None if packaged else model.revision))
