"""The documents of a corpus that were deleted for good, and aren't taken in again."""

from datetime import datetime

from pydantic import Field

from backends.stores.objects import read_model
from schemas.frozen import Frozen
from schemas.ports import ObjectStore

FORGOTTEN = "FORGOTTEN.json"


class ForgottenDocument(Frozen):
    """A deleted document, by the digest of its bytes."""

    doc_id: str
    at: datetime
    by: str
    reason: str | None = None


class Forgotten(Frozen):
    """The deleted documents. ``pending`` and ``sources`` name those whose deletion isn't finished."""

    documents: list[ForgottenDocument] = Field([])
    pending: list[str] = Field([], description="Digests.")
    sources: list[str] = Field([], description="Their sources, which aren't kept once nothing is left of them.")

    @property
    def doc_ids(self) -> frozenset[str]:
        """Digests of all of them."""
        return frozenset(document.doc_id for document in self.documents)


def read_forgotten(store: ObjectStore) -> Forgotten:
    """Return the list; an empty one where nothing was forgotten.

    Raises:
        DamagedError: It can't be read, so that a document might be taken in again.
    """
    try:
        return read_model(store, FORGOTTEN, Forgotten)
    except FileNotFoundError:
        return Forgotten()


def write_forgotten(store: ObjectStore, forgotten: Forgotten) -> None:
    """Replace the list; only the holder of the lease may call this."""
    store.replace(FORGOTTEN, forgotten.model_dump_json(indent=1).encode())
