"""``CORRECTIONS.json``: what people corrected in documents. A version's plan has those that the version was made with."""

from collections.abc import Callable, Iterable

from backends.stores.objects import change_model, read_changing
from pipeline.corpus.workspace import ByDocument
from pipeline.records.notes import read_plan_summary
from schemas.corrections import StoredCorrection, StoredCorrections
from schemas.ports import ObjectStore

CORRECTIONS = "CORRECTIONS.json"


def read_stored_corrections(store: ObjectStore) -> list[StoredCorrection]:
    """Return all corrections, those that are undone too, oldest first."""
    return read_changing(store, CORRECTIONS, StoredCorrections)[0].corrections


def change_corrections(store: ObjectStore, change: Callable[[list[StoredCorrection]], Iterable[StoredCorrection]]) -> None:
    """Replace the corrections, as ``change_model`` does."""
    change_model(
        store, CORRECTIONS, StoredCorrections, lambda now: StoredCorrections(corrections=[*change(now.corrections)])
    )


def remove_corrections(store: ObjectStore, names_any: Callable[[str], bool]) -> None:
    """Remove corrections of which ``names_any`` returns true for the stored text."""
    if store.exists(CORRECTIONS):
        change_corrections(
            store, lambda now: [correction for correction in now if not names_any(correction.model_dump_json())]
        )


def corrections_by_document(store: ObjectStore, documents: Iterable[tuple[str, str]]) -> dict[str, list[StoredCorrection]]:
    """Return the corrections that hold of documents, each named by its id and a source: of these bytes, or this source."""
    holding = [correction for correction in read_stored_corrections(store) if not correction.undone]
    doc_ids, sources = {correction.doc_id for correction in holding}, {correction.source for correction in holding}
    names: dict[str, set[str]] = {}
    for doc_id, source in documents if holding else ():
        if doc_id in doc_ids or source in sources:
            names.setdefault(doc_id, set()).add(source)
    return {
        doc_id: [correction for correction in holding if correction.doc_id == doc_id or correction.source in names[doc_id]]
        for doc_id in sorted(names)
    }


def corrections_of(store: ObjectStore, version: str) -> ByDocument:
    """Return the corrections that a version was made with."""
    try:
        return read_plan_summary(store, version).corrections
    except FileNotFoundError:
        return {}


def ids_by_document(corrections: ByDocument) -> dict[str, list[str]]:
    """Return the ids of the corrections of each document that has any."""
    return {doc_id: [correction.id for correction in of_document] for doc_id, of_document in corrections.items()}
