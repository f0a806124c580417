"""Models as a corpus file names them, and what a model's module offers of one. Light to import: schedulers do."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

if TYPE_CHECKING:
    from schemas.ports import TextEmbedder
    from schemas.versions import ModelCard

NONE = "none"
"""How a corpus file says that it wants no model, where it can do without."""

PRECISION, FLOAT32, BFLOAT16 = "precision", "float32", "bfloat16"
"""The setting that says in what precision a model of torch computes, whatever the device; float32 where it isn't given."""

MINILM = "minilm"
"""The packaged embedder of texts."""

DEFAULT_SPACE = "text"
"""The vector space of those who name none."""

Loaded = TypeVar("Loaded")
_Embedder: TypeAlias = "TextEmbedder"

TokenCounter = Callable[[Sequence[str]], list[int]]
"""Texts to how many tokens each has, special ones left out."""


Settings = tuple[tuple[str, str | float], ...]
"""How a model is used, where its vectors depend on that: names and values, sorted by name."""


@dataclass(frozen=True, slots=True)
class ModelName:
    """A model as a corpus file names it.

    ``revision`` is None where the model's module pins it. ``option`` is the corpus file's key, for messages.
    ``query_settings`` affect queries only, never the vectors of rows.
    """

    name: str
    revision: str | None = None
    settings: Settings = ()
    option: str = field(default="embeddings.text", compare=False)
    query_settings: Settings = ()

    def setting(self, name: str) -> str | float | None:
        """Return one of its settings; None where it isn't given."""
        return dict((*self.settings, *self.query_settings)).get(name)


class Embeds(StrEnum):
    """What an embedder makes vectors of."""

    TEXTS = "texts"
    PICTURES = "pictures"
    PAIRS = "pairs"
    """Pictures with the words that describe them."""
    EITHER = "either"
    """Pictures, and the texts of rows that show none, by one model of both."""
    PATCHES = "patches"
    """Pictures again, each into many vectors, which late interaction compares."""


@dataclass(frozen=True)
class Model(Generic[Loaded]):
    """A model, of which only what is asked for is loaded: planning needs no more than its card.

    Attributes:
        card: Describes it by constants or small files.
        load: Loads it, to look at so many inputs at once at most; no output depends on that number.
    """

    card: "Callable[[], ModelCard]"
    load: Callable[[int], Loaded]


@dataclass(frozen=True)
class TextModel(Model[_Embedder]):
    """A text embedder.

    Attributes:
        token_counter: Loads its tokenizer alone, which is all that chunking needs.
        languages: Those that it knows, in ISO 639-1; None where that isn't known here, and then nothing is made of it.
    """

    token_counter: Callable[[], TokenCounter]
    languages: frozenset[str] | None = None
