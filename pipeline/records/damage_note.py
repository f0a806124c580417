"""What was found damaged, noted for the next refresh to see to."""

import contextlib
from collections.abc import Iterable

from pydantic import BaseModel, ConfigDict

from backends.stores.objects import read_model
from schemas.errors import DamagedError, InsetError
from schemas.ports import ObjectStore

NOTED = "DAMAGED.json"


class DamageNote(BaseModel):
    """Objects that somebody found damaged, and documents to be made again for it, for the next refresh to see to.

    ``remade`` are documents that this refresh makes again: what isn't right of them then was never damaged, but made so.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    names: list[str] = []
    documents: list[str] = []
    remade: list[str] = []


def note_damage(store: ObjectStore, names: Iterable[str], documents: Iterable[str] = ()) -> None:
    """Write down what was found damaged, for the next refresh; nothing happens where the store can't be written to.

    Args:
        store: The corpus's store.
        names: Objects, by name.
        documents: Documents that have to be made again for them, by id.
    """
    before = read_damage_note(store)
    found = {"names": sorted({*before.names, *names}), "documents": sorted({*before.documents, *documents})}
    now = before.model_copy(update=found)
    if now != before:
        with contextlib.suppress(InsetError):
            store.replace(NOTED, now.model_dump_json().encode())


def remade(store: ObjectStore) -> frozenset[str]:
    """Return the documents that the refresh under way makes again, since something of them was damaged."""
    return frozenset(read_damage_note(store).remade)


def read_damage_note(store: ObjectStore) -> DamageNote:
    """Return what was noted; one that can't be read says nothing."""
    try:
        return read_model(store, NOTED, DamageNote)
    except DamagedError:
        return DamageNote()
