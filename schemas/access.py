"""Rights of documents: principals, the sets of them that may read a document, and what one reader may see of a version."""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from schemas.printing import is_plain

EVERYONE = "everyone"
"""The principal that every reader has."""

_NAMED = re.compile(r"(?:group|user):[^\s;](?:[^;]{0,198}[^\s;])?")


def principal(text: str) -> str:
    """Return a principal in its one spelling, or raise ``ValueError`` with what to write.

    It is ``everyone``, ``group:NAME`` or ``user:NAME``. Case matters; a name has at most 200 characters and no semicolon.
    """
    name = unicodedata.normalize("NFC", text)
    if name != EVERYONE and not (is_plain(name) and _NAMED.fullmatch(name)):
        raise ValueError(f"{text[:100]!r} names nobody; write group:NAME, user:NAME or everyone")
    return name


Principals = frozenset[str]
"""A set of principals: of a document, who may read it, where an empty one is nobody; of a reader, who is asking."""


NOBODY: Principals = frozenset()


def narrowest(sets: Iterable[Principals]) -> Principals:
    """Return who is in each of some sets: of a document with several sources, who may read it."""
    limited = [names for names in sets if EVERYONE not in names]
    return frozenset.intersection(*limited) if limited else frozenset({EVERYONE})


def of_site(names: Iterable[str], site: str | None) -> Principals:
    """Return principals with each group named by its site, so that groups of two sites never share a name."""
    prefix = "" if site is None else f"{site}/"
    return frozenset(principal(name.replace("group:", f"group:{prefix}", 1)) for name in map(principal, names))


@dataclass(frozen=True)
class Allowed:
    """What a reader may see of a version: rows that carry one of ``principals``, and rows of ``allowed`` documents.

    Rows of ``changed`` documents carry rights that aren't theirs any more; those that may be seen are in ``allowed``.
    """

    principals: tuple[str, ...]
    changed: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
