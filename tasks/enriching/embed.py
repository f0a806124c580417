"""What of a row embedders and BM25 see, and what comes of it. Light to import."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from schemas.errors import ContractError
from schemas.ids import sha256

if TYPE_CHECKING:
    from schemas.ports import Vector

EMBED_VERSION = "1"


def search_text(title: str, section_path: Sequence[str], text: str) -> str:
    """Return a row's text with the titles it stands under, so that a passage need not repeat its own subject.

    Args:
        title: The document's title; "" where it has none.
        section_path: Titles of the sections around it, outermost first; the two innermost are used.
        text: The row's text without tags.
    """
    heading = " > ".join(part for part in (title, *section_path[-2:]) if part)
    return f"{heading}\n{text}" if heading else text


def text_id(text: str) -> str:
    """Name a text in the cache of vectors."""
    return sha256(text.encode())[:32]


class Content(NamedTuple):
    """What is embedded of a row: words, a picture by its figure's id, or both."""

    text: str | None = None
    picture: str | None = None

    @property
    def id(self) -> str:
        """Its name in a cache of vectors: the same for all rows that show the same."""
        if self.picture is None:
            return text_id(self.text or "")
        return self.picture if self.text is None else text_id(f"{self.picture}\n{self.text}")


NORM_TOLERANCE = 1e-3


def check_vectors(
    vectors: "Sequence[Vector]", contents: Sequence[Content], model: str, dimension: int, *, late: bool
) -> None:
    """Refuse what a model gives that isn't a unit vector each, or some unit vectors each: nothing of it may reach a cache.

    Args:
        vectors: What it made, shape ``(dimension,)`` each, or ``(n, dimension)`` where ``late``.
        contents: Of these.
        model: Its name, for the message.
        dimension: Length of its vectors, by its card.
        late: Whether it makes many of each.

    Raises:
        ContractError: It made something else.
    """
    import numpy as np

    if len(vectors) != len(contents):
        raise ContractError(f"{model} made {len(vectors)} vectors of {len(contents)} inputs")
    for vector, content in zip(vectors, contents, strict=True):
        rows = np.atleast_2d(vector)
        wrong = None
        if vector.ndim != 1 + late or rows.shape[-1] != dimension or not len(rows):
            wanted = f"(n, {dimension})" if late else f"({dimension},)"
            wrong = f"an array of shape {vector.shape} where its card promises {wanted}"
        elif not np.isfinite(rows).all():
            wrong = "a vector with values that are no numbers"
        elif (off := np.abs(np.linalg.norm(rows, axis=1) - 1)).max() > NORM_TOLERANCE:
            wrong = f"a vector whose length is {float(off.max()):.2g} off 1"
        if wrong:
            raise ContractError(f"{model} made {wrong}, of {_shown(content)}; its vectors can't be used")


def _shown(content: Content) -> str:
    shown = [f"figure {content.picture}"] if content.picture else []
    return " with ".join([*shown, *([repr(content.text[:60])] if content.text is not None else [])])
