"""Models as a corpus file names them, and their loaders. Light to import: schedulers do."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Generic, Literal, TypeAlias, TypeVar

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


def settings(**options: str | float | None) -> Settings:
    """Return the settings that are given, sorted by name."""
    return tuple(sorted((name, value) for name, value in options.items() if value is not None))


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
    """A model that is loaded on demand, for a maximum batch size, which no output depends on: planning needs only its card."""

    card: "Callable[[], ModelCard]"
    load: Callable[[int], Loaded]


@dataclass(frozen=True)
class TextModel(Model[_Embedder]):
    """A text embedder; its counter loads only the tokenizer, ``languages`` are ISO 639-1, None if unknown."""

    token_counter: Callable[[], TokenCounter]
    languages: frozenset[str] | None = None


Subject = Literal["figure", "page", "text"]
"""What a model describes: a figure, a page's picture, or a row of text or table."""


@dataclass(slots=True)
class Usage:
    """The cost of requests: ``calls`` that may have been charged, and tokens as the model reports them."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def add(self, usage: "Usage") -> None:
        """Add another usage."""
        self.calls += usage.calls
        self.input_tokens += usage.input_tokens
        self.output_tokens += usage.output_tokens

    def since(self, before: "Usage") -> "Usage":
        """Return the usage since an earlier copy of it."""
        return Usage(
            self.calls - before.calls, self.input_tokens - before.input_tokens, self.output_tokens - before.output_tokens
        )


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a chat; ``pictures`` are encoded images, before the text."""

    role: Literal["system", "user", "assistant"]
    text: str
    pictures: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Request:
    """One call of a generative model: a chat whose last message is the user's."""

    id: str
    messages: tuple[Message, ...]

    @classmethod
    def of(cls, request_id: str, prompt: str, picture: bytes | None = None) -> "Request":
        """Return a request of one message, perhaps with an encoded image."""
        return cls(request_id, (Message("user", prompt, () if picture is None else (picture,)),))


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's reply to one request.

    ``model`` is the name in the response. ``calls`` counts charged attempts, tokens are of all of them. ``complete`` is
    false if the token limit was reached; ``note`` says that another model answered than was asked for.
    """

    text: str
    model: str
    calls: int = 1
    input_tokens: int = 0
    output_tokens: int = 0
    complete: bool = True
    note: str = ""


@dataclass(frozen=True, slots=True)
class Description:
    """A stored reply: the unchecked description of one figure, page or text, or the failure; ``money`` by prices of its time."""

    id: str
    text: str
    model: str
    calls: int
    input_tokens: int
    output_tokens: int
    complete: bool = True
    failure: str | None = None
    money: float = 0.0


class Flag(StrEnum):
    """Why a description isn't used, or a warning about one that is.

    Rows store flags by name. Without a usable description a figure or page is described by its document, and a text is
    searched as it is.
    """

    NOT_DESCRIBED = "not_described"
    """The model hasn't replied yet: the budget was spent, or it didn't answer."""
    FAILED = "failed"
    """The model can't describe it."""
    NO_TEXT = "no_text"
    """The model reads words, and there are none."""
    EMPTY = "empty"
    """The answer has no word."""
    TOO_SHORT = "too_short"
    """It has fewer words than its prompt says."""
    TOO_LONG = "too_long"
    """It has more words than its prompt allows."""
    REPETITION = "repetition"
    """It says the same again and again."""
    PROMPT_ECHO = "prompt_echo"
    """It repeats the prompt, or marks of a chat."""
    REFUSAL = "refusal"
    """The model refuses to answer."""
    WRONG_LANGUAGE = "wrong_language"
    """It is in another language than it must be."""
    MARKDOWN = "markdown"
    """It has marks of a mark-up language."""
    CUT_OFF = "cut_off"
    """It ends where the model reached its limit of tokens."""
    NUMBERS_MISSING = "numbers_missing"
    """It lacks most of the numbers that were read in the figure."""
    PAGE_NUMBER_MISSING = "page_number_missing"
    """It describes a page, and lacks the number that is printed there."""


MARKING = frozenset({Flag.MARKDOWN, Flag.CUT_OFF, Flag.NUMBERS_MISSING, Flag.PAGE_NUMBER_MISSING})
"""Warnings: the description is used."""

REFUSING = frozenset(Flag) - MARKING
"""Flags of an unusable description."""


def is_refused(flags: Iterable[Flag]) -> bool:
    """Return whether a description with these flags is left out."""
    return not REFUSING.isdisjoint(flags)
