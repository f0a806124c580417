"""The ways to search. Each is a row of ``MODES``; nothing else knows a mode by its name. Light to import.

To add one is to add a row: the command, the service, its page and the evaluation take them from here.
"""

from dataclasses import dataclass

from schemas.errors import RequestError
from tasks.enriching.spaces import IMAGE, LATE, TABLES, TEXT, UNIFIED, Space


@dataclass(frozen=True)
class Lexical:
    """Rows that share words with the question, by BM25 in the fields that the ranking weighs."""


@dataclass(frozen=True)
class Dense:
    """Rows whose vector in a space is near to the question's; where they have many, by late interaction."""

    space: Space


Retriever = Lexical | Dense


@dataclass(frozen=True)
class Mode:
    """A way to search: what is asked of the index. Several rankings are merged as ``Ranking.fusion`` says.

    Attributes:
        name: What callers name it by.
        label: What people see of it.
        sentence: What it does, in a few words for people, without a full stop.
        retrievers: At least one.
    """

    name: str
    label: str
    sentence: str
    retrievers: tuple[Retriever, ...]

    @property
    def spaces(self) -> list[str]:
        """The spaces that it needs, each once."""
        return list(dict.fromkeys(one.space.name for one in self.retrievers if isinstance(one, Dense)))


_MODES = (
    Mode("hybrid", "Hybrid", "words and meaning together", (Lexical(), Dense(TEXT))),
    Mode("dense", "Dense", "by meaning", (Dense(TEXT),)),
    Mode("bm25", "BM25", "by exact words", (Lexical(),)),
    Mode("tables", "Tables", "tables by meaning", (Dense(TABLES),)),
    Mode("image", "Pictures", "by what pictures show", (Dense(IMAGE),)),
    Mode("unified", "Pictures and words", "by what pictures show and what is said of them", (Dense(UNIFIED),)),
    Mode("late", "Parts of pictures", "by what parts of pictures show, word by word", (Dense(LATE),)),
)

MODES: dict[str, Mode] = {mode.name: mode for mode in _MODES}
"""By name; the first one is the default."""

DEFAULT_MODE = next(iter(MODES.values()))

IN_WORDS = "; ".join(f"{mode.name}: {mode.sentence}" for mode in MODES.values())
"""All modes with their sentences, for help."""


def mode_named(name: str) -> Mode:
    """Return a mode.

    Raises:
        RequestError: There is none of that name.
    """
    if name not in MODES:
        raise RequestError(f"there is no mode {name!r}; use one of {', '.join(MODES)}")
    return MODES[name]
