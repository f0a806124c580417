"""Note of damaged objects, which the next refresh repairs."""

import contextlib
from collections.abc import Collection, Iterable

from pydantic import BaseModel, ConfigDict

from backends.stores.objects import read_model
from schemas.errors import DamagedError, InsetError
from schemas.ports import ObjectStore

NOTED = "DAMAGED.json"


class DamageNote(BaseModel):
    """Damaged objects by name, and documents to parse again because of them.

    ``remade`` are documents that the current refresh parses again: a fault in them now is not damage of the store.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    names: list[str] = []
    documents: list[str] = []
    remade: list[str] = []


def note_damage(store: ObjectStore, names: Iterable[str], documents: Iterable[str] = ()) -> None:
    """Add damaged objects, and ids of documents to parse again, to the note; does nothing where the store is read-only."""
    before = read_damage_note(store)
    found = {"names": sorted({*before.names, *names}), "documents": sorted({*before.documents, *documents})}
    now = before.model_copy(update=found)
    if now != before:
        with contextlib.suppress(InsetError):
            store.replace(NOTED, now.model_dump_json().encode())


def drop_notes(store: ObjectStore, doc_ids: Collection[str]) -> None:
    """Remove what is noted of deleted documents."""
    before = read_damage_note(store)
    left = {
        "names": [name for name in before.names if not any(doc_id in name for doc_id in doc_ids)],
        "documents": [doc_id for doc_id in before.documents if doc_id not in doc_ids],
        "remade": [doc_id for doc_id in before.remade if doc_id not in doc_ids],
    }
    now = before.model_copy(update=left)
    if now != before:
        store.replace(NOTED, now.model_dump_json().encode())


def remade(store: ObjectStore) -> frozenset[str]:
    """Return the documents that the current refresh parses again because they were damaged."""
    return frozenset(read_damage_note(store).remade)


def read_damage_note(store: ObjectStore) -> DamageNote:
    """Return the note; an empty one where it can't be read."""
    try:
        return read_model(store, NOTED, DamageNote)
    except DamagedError:
        return DamageNote()
