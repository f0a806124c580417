"""Models as a corpus file names them, and their loaders. Light to import: schedulers do."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

if TYPE_CHECKING:
    from schemas.ports import TextEmbedder
    from schemas.versions import ModelCard

NONE = "none"
"""The name that means no model."""

PRECISION, FLOAT32, BFLOAT16 = "precision", "float32", "bfloat16"
"""The setting of a torch model's precision on any device; default float32."""

MINILM = "minilm"
"""The packaged text embedder for English, the default."""

MULTILINGUAL = "multilingual"
"""The packaged text embedder for other languages."""

DEFAULT_SPACE = "text"
"""The default vector space."""

Loaded = TypeVar("Loaded")
_Embedder: TypeAlias = "TextEmbedder"

TokenCounter = Callable[[Sequence[str]], list[int]]
"""Texts to their numbers of tokens, without special ones."""


Settings = tuple[tuple[str, str | float], ...]
"""Settings that vectors depend on: names and values, sorted by name."""


DIMENSION = "dimension"
"""The setting that a text model behind an endpoint has, and no other: the numbers in one of its vectors."""

TRUST, CODE_REVISION = "trust_remote_code", "code_revision"
"""Settings of a model that brings code: that it may run, and the commit of code in another repository."""

ENDPOINT = "endpoint"
"""The query setting of such a model: its server, as JSON. Rows and queries are embedded there; no vector depends on it."""


def settings(**given: str | float | None) -> Settings:
    """Return the settings that are given, sorted by name."""
    return tuple(sorted((name, value) for name, value in given.items() if value is not None))


@dataclass(frozen=True, slots=True)
class ModelName:
    """A model as a corpus file names it.

    ``revision`` is None if the model's module pins it. ``option`` is the corpus file's key, for messages.
    ``query_settings`` affect queries only, never the vectors of rows.
    """

    name: str
    revision: str | None = None
    settings: Settings = ()
    option: str = field(default="embeddings.text", compare=False)
    query_settings: Settings = ()

    def setting(self, name: str) -> str | float | None:
        """Return a setting; None if it isn't given."""
        return dict((*self.settings, *self.query_settings)).get(name)


class Embeds(StrEnum):
    """The inputs of an embedder."""

    TEXTS = "texts"
    PICTURES = "pictures"
    PAIRS = "pairs"
    """Pictures with their descriptions."""
    EITHER = "either"
    """Pictures, and texts of rows without one."""
    PATCHES = "patches"
    """Pictures, each as many vectors, for late interaction."""


@dataclass(frozen=True)
class Model(Generic[Loaded]):
    """A model that is loaded on demand: planning needs only its card.

    ``load`` takes the maximum batch size, which no output depends on.
    """

    card: "Callable[[], ModelCard]"
    load: Callable[[int], Loaded]


@dataclass(frozen=True)
class TextModel(Model[_Embedder]):
    """A text embedder.

    ``token_counter`` loads only the tokenizer. ``languages`` are ISO 639-1; None if unknown.
    """

    token_counter: Callable[[], TokenCounter]
    languages: frozenset[str] | None = None
