"""The content of a row that embedders and BM25 see. Light to import."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from schemas.errors import ContractError
from schemas.ids import sha256

if TYPE_CHECKING:
    from schemas.ports import Vector

EMBED_VERSION = "1"


def search_text(title: str, section_path: Sequence[str], text: str) -> str:
    """Return a row's text under the document's title and the two innermost section titles."""
    heading = " > ".join(part for part in (title, *section_path[-2:]) if part)
    return f"{heading}\n{text}" if heading else text


_WRITTEN = frozenset({"text", "table"})
"""Modalities of rows with text of their own; importing the enum would import Arrow."""


def searched_words(modality: str, text: str, description: str | None) -> str:
    """Return the searched text of a row: its text, or the summary of it."""
    return description if description and modality in _WRITTEN else text


def text_id(text: str) -> str:
    """Return the id of a text in caches."""
    return sha256(text.encode())[:32]


class EmbeddingInput(NamedTuple):
    """The embedded content of a row: text, a picture by its figure's id, or both."""

    text: str | None = None
    picture: str | None = None

    @property
    def id(self) -> str:
        """Its key in caches of vectors."""
        if self.picture is None:
            return text_id(self.text or "")
        return self.picture if self.text is None else text_id(f"{self.picture}\n{self.text}")


NORM_TOLERANCE = 1e-3


def check_vectors(
    vectors: "Sequence[Vector]", contents: Sequence[EmbeddingInput], model: str, dimension: int, *, late: bool
) -> None:
    """Check a model's vectors, ``(dimension,)`` each or ``(n, dimension)`` if ``late``, before they reach a cache.

    Raises:
        ContractError: They aren't unit vectors of that shape.
    """
    import numpy as np

    if len(vectors) != len(contents):
        raise ContractError(f"{model} made {len(vectors)} vectors of {len(contents)} inputs")
    for vector, content in zip(vectors, contents, strict=True):
        rows = np.atleast_2d(vector)
        wrong = None
        if vector.ndim != 1 + late or rows.shape[-1] != dimension or not len(rows):
            expected_shape = f"(n, {dimension})" if late else f"({dimension},)"
            wrong = f"an array of shape {vector.shape} where its card promises {expected_shape}"
        elif not np.isfinite(rows).all():
            wrong = "a vector with values that are no numbers"
        elif (off := np.abs(np.linalg.norm(rows, axis=1) - 1)).max() > NORM_TOLERANCE:
            wrong = f"a vector whose length is {float(off.max()):.2g} off 1"
        if wrong:
            raise ContractError(f"{model} made {wrong}, of {_shown(content)}; its vectors can't be used")


def _shown(content: EmbeddingInput) -> str:
    descriptions = [f"figure {content.picture}"] if content.picture else []
    return " with ".join([*descriptions, *([repr(content.text[:60])] if content.text is not None else [])])
