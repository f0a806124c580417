"""The vector spaces of a version, each an entry of ``SPACES``. Light to import.

To add one, add an entry: keys, caches, the index, checks and copies iterate over them. Presets search in them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from schemas.corpus.models import EmbeddingEndpoint, EmbeddingModels, ModelEntry, Part
from schemas.errors import ContractError
from schemas.ids import sha256
from schemas.models import DEFAULT_SPACE, ENDPOINT, Embeds, ModelName, Settings
from schemas.tags import with_ordinals

_TABLE = "table"
"""The modality; importing its enum would import Arrow."""


EMBED_VERSION = "1"


def search_text(title: str, section_path: Sequence[str], text: str) -> str:
    """Return a row's text under the document's title and the two innermost section titles."""
    heading = " > ".join(part for part in (title, *section_path[-2:]) if part)
    return f"{heading}\n{text}" if heading else text


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
    """Raise ``ContractError`` unless a model's vectors are unit ones, ``(dimension,)`` each or ``(n, dimension)`` if ``late``."""
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
            texts = [] if content.text is None else [repr(content.text[:60])]
            inputs = " with ".join([*([f"figure {content.picture}"] if content.picture else []), *texts])
            raise ContractError(f"{model} made {wrong}, of {inputs}; its vectors can't be used")


class RowText(NamedTuple):
    """The embeddable content of a row; ``figure_id`` is its picture's, ``caption`` as printed, tags may be placeholders."""

    modality: str
    title: str
    section_path: Sequence[str]
    text: str
    figure_id: str | None = None
    description: str | None = None
    caption: str = ""
    tagged_text: str = ""


@dataclass(frozen=True)
class Space:
    """Vectors of one model, compared by cosine; ``version`` goes up when other content of rows is embedded.

    ``content`` is a row's, None for no vector; ``model`` that of a corpus file, None for no such space, with ``option`` its key
    there and ``entry`` the entry of ``models``.
    """

    name: str
    version: str
    content: Callable[[RowText], EmbeddingInput | None]
    model: Callable[[EmbeddingModels], ModelName | None]
    embeds: Embeds = Embeds.TEXTS
    option: str = "embeddings.text"
    entry: Callable[[EmbeddingModels], ModelEntry] = lambda models: models.text

    def endpoint(self, models: EmbeddingModels) -> EmbeddingEndpoint | None:
        """Return the server of its model; None if it runs here, or there is no such space."""
        model = self.model(models)
        endpoint_json = None if model is None else model.setting(ENDPOINT)
        return None if endpoint_json is None else EmbeddingEndpoint.model_validate_json(str(endpoint_json))

    @property
    def sees(self) -> bool:
        """Whether its model embeds pictures."""
        return self.embeds is not Embeds.TEXTS

    @property
    def late(self) -> bool:
        """Whether a row has many vectors, compared by late interaction."""
        return self.embeds is Embeds.PATCHES


_WRITTEN = frozenset({"text", "table"})
"""Modalities of rows with text of their own; importing the enum would import Arrow."""


def searched_text(row: RowText) -> str:
    """Return the text of a row that BM25 and text models see: its text, or the summary of it, under its titles."""
    words = row.description if row.description and row.modality in _WRITTEN else row.text
    return search_text(row.title, row.section_path, words)


def _words(row: RowText) -> EmbeddingInput:
    return EmbeddingInput(text=searched_text(row))


def _picture(row: RowText) -> EmbeddingInput | None:
    return None if row.figure_id is None else EmbeddingInput(picture=row.figure_id)


IMAGE_WEIGHT = 0.5
"""What the picture counts in a unified vector."""

TEXT = Space(name=DEFAULT_SPACE, version=EMBED_VERSION, content=_words, model=lambda models: models.text_model)
"""Text of every row."""

TABLES = Space(
    name="tables",
    version=EMBED_VERSION,
    content=lambda row: _words(row) if row.modality == _TABLE else None,
    model=lambda models: models.model("tables"),
    option="embeddings.tables",
    entry=lambda models: models.tables or models.text,
)
"""Text of tables, by a model of their own."""

IMAGE = Space(
    name="image",
    version="1",
    content=_picture,
    model=lambda models: models.model("image"),
    embeds=Embeds.PICTURES,
    option="embeddings.image",
    entry=lambda models: models.image or models.text,
)
"""Pictures."""

JOINT = Space(
    name="joint",
    version="1",
    content=lambda row: _words(row) if row.figure_id is None else EmbeddingInput(picture=row.figure_id),
    model=lambda models: models.model("image") if "joint" in models.parts else None,
    embeds=Embeds.EITHER,
    option="embeddings.parts",
    entry=lambda models: models.image or models.text,
)
"""Pictures, and text of the other rows, by one model."""

UNIFIED = Space(
    name="unified",
    version="2",
    content=lambda row: (
        None
        if row.figure_id is None
        else EmbeddingInput(text=row.description or row.caption or row.text, picture=row.figure_id)
    ),
    model=lambda models: (
        models.model("image", combine=models.unified, image_weight=IMAGE_WEIGHT) if models.unified else None
    ),
    embeds=Embeds.PAIRS,
    option="embeddings.unified",
    entry=lambda models: models.image or models.text,
)
"""Pictures with their descriptions, or else printed captions, as one vector."""

LATE = Space(
    name="late",
    version="1",
    content=_picture,
    model=lambda models: models.model("late"),
    embeds=Embeds.PATCHES,
    option="embeddings.late",
    entry=lambda models: models.late or models.text,
)
"""Patches of pictures, for late interaction."""


def _of_part(part: Part, content: Callable[[RowText], EmbeddingInput | None]) -> Space:
    """Return the space of a part of rows, by the model of ``text``."""
    return Space(
        name=part,
        version="1",
        content=content,
        model=lambda models: models.text_model if part in models.parts else None,
        option="embeddings.parts",
    )


def _text_input(text: str | None) -> EmbeddingInput | None:
    return EmbeddingInput(text=text) if text and text.strip() else None


def _description(row: RowText) -> EmbeddingInput | None:
    return None if row.figure_id is None else _text_input(row.description)


CAPTIONS = _of_part("captions", lambda row: None if row.figure_id is None else _text_input(row.caption))
"""Printed captions of figures alone."""

DESCRIPTIONS = _of_part("descriptions", _description)
"""Descriptions of figures and pages alone."""

DESCRIPTIONS_AND_TEXTS = _of_part(
    "descriptions_and_texts", lambda row: _words(row) if row.figure_id is None else _description(row)
)
"""Descriptions of figures and pages alone, and text of the other rows."""

SUMMARIES = _of_part("summaries", lambda row: _text_input(row.description) if row.figure_id is None else None)
"""Summaries of texts and tables alone."""

TAGGED_TEXTS = _of_part(
    "tagged_texts",
    lambda row: (
        EmbeddingInput(text=search_text(row.title, row.section_path, with_ordinals(row.tagged_text)))
        if row.figure_id is None
        else None
    ),
)
"""Text of texts and tables with the tags of their figures in place, as in "RAG Beyond Text"."""

SPACES: dict[str, Space] = {
    space.name: space
    for space in (
        *(TEXT, TABLES, IMAGE, JOINT, UNIFIED, LATE),
        *(CAPTIONS, DESCRIPTIONS, DESCRIPTIONS_AND_TEXTS, SUMMARIES, TAGGED_TEXTS),
    )
}
"""By name."""

DEFAULT = SPACES[DEFAULT_SPACE]
"""The default space. Each row has a vector in it; chunks are measured by its model."""


def query_settings(models: EmbeddingModels) -> dict[str, Settings]:
    """Return the settings of each space's model that vectors of queries depend on."""
    model_by_space = ((name, space.model(models)) for name, space in SPACES.items())
    return {
        name: tuple((key, value) for key, value in model.query_settings if key != ENDPOINT)
        for name, model in model_by_space
        if model is not None
    }


if TYPE_CHECKING:
    from schemas.ports import Vector
