"""Models that this process has loaded, each once."""

import functools
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from backends.models.registry import EMBEDDERS
from schemas.errors import UserError
from schemas.models import Embeds, Model, ModelName
from schemas.versions import ModelCard, VectorSpace
from tasks.enriching.spaces import SPACES, Space

AT_ONCE = 32
"""Texts embedded at once, of those who ask."""

_LOADING = threading.Lock()


class Embedders(Mapping[str, Any]):
    """The embedders that a version's vectors were made by, by the name of their space; each is loaded when it is first asked for.

    Args:
        spaces: The version's; those that no release of today knows are left out.
    """

    def __init__(self, spaces: Mapping[str, VectorSpace]) -> None:
        self._spaces = {name: made for name, made in spaces.items() if name in SPACES}

    def __getitem__(self, name: str) -> Any:
        """Return one of them.

        Raises:
            UserError: It isn't here, or not at that revision any more.
        """
        return embedder(SPACES[name], self._spaces[name])

    def __contains__(self, name: object) -> bool:
        return name in self._spaces

    def __iter__(self) -> Iterator[str]:
        return iter(self._spaces)

    def __len__(self) -> int:
        return len(self._spaces)


def is_here(name: str, made: VectorSpace) -> bool:
    """Return whether questions can be embedded as a version's rows were: a space's model is still here, at that revision."""
    try:
        return name in SPACES and _model(SPACES[name], made).card() == made.model
    except UserError:
        return False


def embedder(space: Space, made: VectorSpace) -> Any:
    """Return the embedder that a version's vectors of a space were made by.

    Raises:
        UserError: It isn't here, or not at that revision any more.
    """
    with _LOADING:  # two threads would load it twice
        return loaded(space.embeds, _named(space, made), made.model)


@functools.lru_cache(maxsize=6)
def loaded(embeds: Embeds, named: ModelName, card: ModelCard) -> Any:
    """Load a model; raises as ``embedder`` does."""
    found: Model[Any] = EMBEDDERS[embeds].find(named)
    if (here := found.card()) != card:
        raise UserError(
            f"the vectors are of {card.name} at revision {card.revision}, and here it has {here.revision}; "
            f"refresh the corpus, or go back to the release of Inset that built them"
        )
    return found.load(AT_ONCE)


def _model(space: Space, made: VectorSpace) -> Model[Any]:
    model: Model[Any] = EMBEDDERS[space.embeds].find(_named(space, made))
    return model


def _named(space: Space, made: VectorSpace) -> ModelName:
    return ModelName(made.model.name, made.model.revision, tuple(sorted(made.settings.items())), space.option)
