"""Objects that versions share: which there are, and which of them are needed. A corpus has millions, so the lists lie on disk."""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from backends.stores.spill import PARTS, Spill
from schemas.ports import ObjectStore

KINDS = ("documents", "figures", "parsed", "structured", "tagged", "quarantine")
"""Folders whose objects versions share."""

OBJECTS = pa.schema((pa.field("name", pa.string(), nullable=False), pa.field("bytes", pa.int64(), nullable=False)))
"""An object as it is stored."""

ABSENT = -1
"""The bytes of an object that is needed and isn't there."""

_OWNER = pa.field("owner", pa.string(), nullable=False)
"""The document, the figure or the run that an object belongs to: objects of one are looked at together."""

_AT_ONCE = 20_000


def _owner(name: str) -> str:
    return name.split("/")[1].partition(".")[0]


class NeededObjects:
    """What versions need by name, or by the name of a folder, which ends in "/": all objects right in it.

    Args:
        names: Of all of them; what is named twice counts once.
        folder: A folder for it alone; whoever made it removes it.
    """

    def __init__(self, names: Iterable[str], folder: Path) -> None:
        self._names = Spill(folder, pa.schema((_OWNER, OBJECTS.field("name"))), "owner")
        coming = iter(names)
        while some := list(islice(coming, _AT_ONCE)):
            self._names.add(pa.table([list(map(_owner, some)), some], schema=self._names.schema))

    def part(self, number: int) -> "pa.Array[Any]":
        """Return the names of one part, each once."""
        return self._names.part(number).column("name").combine_chunks().unique()


class Objects:
    """Objects of a store with their sizes, in an order that depends on their names alone.

    Args:
        objects: All of them, by name.
        folder: A folder for it alone; whoever made it removes it.
    """

    def __init__(self, objects: Iterable[tuple[str, int]], folder: Path) -> None:
        self._rows = Spill(folder, pa.schema((_OWNER, *OBJECTS)), "owner")
        coming = iter(objects)
        while some := list(islice(coming, _AT_ONCE)):
            names, sizes = zip(*some, strict=True)
            self._rows.add(pa.table([list(map(_owner, names)), names, sizes], schema=self._rows.schema))

    def parts(self) -> Iterator[pa.Table]:
        """Yield all of them, as rows of ``OBJECTS``."""
        return map(self.part, range(PARTS))

    def part(self, number: int) -> pa.Table:
        """Return those of one part, by name; all objects of an owner are in one."""
        return self._rows.part(number).select(OBJECTS.names).combine_chunks().sort_by("name")

    def needed(self, needed: NeededObjects) -> Iterator[pa.Table]:
        """Yield those that are needed; what isn't there is ``ABSENT``."""
        for number in range(PARTS):
            here, names = self.part(number), needed.part(number)
            objects = names.filter(pc.invert(pc.match_substring_regex(names, "/$")))
            absent = objects.filter(pc.invert(pc.is_in(objects, _names(here))))
            lost = pa.table([absent.sort(), np.full(len(absent), ABSENT)], schema=OBJECTS)
            yield pa.concat_tables([here.filter(_are_needed(here, names)), lost])

    def beside(self, others: "Objects") -> Iterator[tuple[str, int, int | None]]:
        """Yield those that have another size among others: name, size here and there; None where there is none."""
        for number in range(PARTS):
            mine, theirs = self.part(number), others.part(number)
            found = theirs.column("bytes").take(pc.index_in(_names(mine), _names(theirs)))
            rows = zip(*(column.to_pylist() for column in (*mine.columns, found)), strict=True)
            yield from ((name, size, there) for name, size, there in rows if size != there)

    def spare(self, needed: NeededObjects) -> Iterator[pa.Table]:
        """Yield those that are not needed."""
        for number in range(PARTS):
            here, names = self.part(number), needed.part(number)
            yield here.filter(pc.invert(_are_needed(here, names)))


def list_objects(store: ObjectStore, folder: Path) -> Objects:
    """List the objects that versions share, in one listing a kind.

    Args:
        store: The corpus's store.
        folder: A folder for the list alone; whoever made it removes it.
    """
    return Objects((found for kind in KINDS for found in store.listing(kind)), folder)


def _names(objects: pa.Table) -> "pa.Array[Any]":
    return objects.column("name").combine_chunks()


def _are_needed(objects: pa.Table, needed: "pa.Array[Any]") -> "pa.Array[Any]":
    names = _names(objects)
    folders = pc.replace_substring_regex(names, "[^/]*$", "")
    return pc.or_(pc.is_in(names, needed), pc.is_in(folders, needed))
