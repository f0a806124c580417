"""Models that this process has loaded, each once."""

import functools

from backends.models.registry import TEXT_EMBEDDERS
from schemas.errors import UserError
from schemas.models import ModelName
from schemas.ports import TextEmbedder
from schemas.versions import ModelCard, VectorSpace

TEXTS_AT_ONCE = 32


def is_here(space: VectorSpace) -> bool:
    """Return whether questions can be embedded as a version's rows were: its model is still here, at that revision."""
    try:
        return TEXT_EMBEDDERS.find(ModelName(space.model.name, space.model.revision)).card() == space.model
    except UserError:
        return False


@functools.lru_cache(maxsize=4)
def text_embedder(model: ModelCard) -> TextEmbedder:
    """Return the embedder that a version's vectors were made by.

    Raises:
        UserError: It isn't here, or not at that revision any more.
    """
    found = TEXT_EMBEDDERS.find(ModelName(model.name, model.revision))
    if (card := found.card()) != model:
        raise UserError(
            f"the vectors are of {model.name} at revision {model.revision}, and here it has {card.revision}; "
            f"refresh the corpus, or go back to the release of Inset that built them"
        )
    return found.load(TEXTS_AT_ONCE)
