"""Descriptions by models and people: caches of replies, and the description of each figure, page and text of a document."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import get_args

from backends.models.language import Py3LangId
from backends.stores.objects import reading
from pipeline.corpus.workspace import Workspace
from pipeline.records.cache import RecordCache
from pipeline.records.caption_targets import StructuredFiles, caption_targets
from pipeline.records.near_duplicates import NearDuplicates
from schemas.corpus.captions import PERSON
from schemas.errors import TransientError, UserError
from schemas.flags import Flag
from schemas.generation import Description, Subject
from schemas.parquet import rows_of, schema_of
from schemas.ports import ObjectStore
from schemas.versions import Spent
from tasks.enriching.caption import DescriptionResult, DescriptionResults, description_result
from tasks.enriching.corrections import Corrected, CorrectionsError, match_corrections
from tasks.enriching.spending import spent_on

_FOLDER = "captions"

SPENT = "SPENT"
"""The object that counts the total spending of a corpus."""


def open_descriptions(store: ObjectStore, key: str) -> RecordCache:
    """Open the reply cache of one captioner."""
    return RecordCache(store, f"{_FOLDER}/{key}", schema_of(Description))


class Descriptions:
    """Descriptions of figures, pages and texts; caches of captioners are opened once.

    ``all_targets`` yields the id of each figure, page and text of the version, and the SHA-1 of a figure or its last
    digits. It is called only to match corrections.

    Raises:
        UserError: A correction matches several.
    """

    def __init__(self, workspace: Workspace, all_targets: Callable[[], Iterable[tuple[str, int | None]]]) -> None:
        self._workspace = workspace
        self._caches = {
            name: open_descriptions(workspace.store, captioner.captions.key)
            for name, captioner in workspace.captioners.items()
        }
        self._duplicates = {name: NearDuplicates(workspace, captioner) for name, captioner in workspace.captioners.items()}
        self._languages = Py3LangId()
        self._corrections = match(workspace, all_targets()).by_id if workspace.corrections.entries else {}

    def of(self, source: str, files: StructuredFiles) -> DescriptionResults:
        """Return the descriptions for a document; figures that only their context describes are left out.

        The document's first source selects the captioners.
        """
        results: dict[tuple[Subject, str], DescriptionResult] = {}
        for subject in get_args(Subject):
            label = self._workspace.captioner_of(subject, source)
            if label is not None:
                results |= {(subject, name): wording for name, wording in self._by_model(label, files).items()}
            if corrections := self._corrections:
                corrected = caption_targets(subject, files).keys() & corrections.keys()
                results |= {(subject, name): DescriptionResult(PERSON, corrections[name]) for name in corrected}
        return results

    def _by_model(self, label: str, files: StructuredFiles) -> dict[str, DescriptionResult]:
        captioner = self._workspace.captioners[label]
        targets = caption_targets(captioner.subject, files, language=captioner.options.language or "")
        stand_ins = self._duplicates[label].of(targets.keys())
        stored_by_id = {
            description.id: description
            for description in rows_of(Description, self._caches[label].read([*stand_ins.values()]))
        }
        results = {}
        for name, target in targets.items():
            description = stored_by_id.get(stand_ins[name])
            result = description_result(
                captioner.name, captioner.options.kind, captioner.prompt, target.around(), description, self._languages
            )
            is_shared = description is not None and description.id != name
            results[name] = replace(result, flags=(*result.flags, Flag.SHARED)) if is_shared else result
        return results


def match(workspace: Workspace, all_targets: Iterable[tuple[str, int | None]]) -> Corrected:
    """Match the corrections of a corpus with all figures, pages and texts of a version.

    Raises:
        UserError: A correction matches several.
    """
    try:
        return match_corrections(workspace.corrections, all_targets)
    except CorrectionsError as error:
        file = workspace.corpus.captions.corrections
        raise UserError(*(f"{file}: {mistake}" for mistake in error.args)) from error


def read_spent(store: ObjectStore) -> Spent:
    """Return the total spending of a corpus on generative models; if the count was damaged, the cost of all stored replies."""
    spent_and_etag = _read_spent(store)
    return spent_and_etag[0] if spent_and_etag else _cost_of_stored(store)


def add_spent(store: ObjectStore, spent: Spent) -> None:
    """Add to the total spending; only the holder of the lease may call this."""
    spent_and_etag = _read_spent(store)
    total = spent_and_etag[0] + spent if spent_and_etag else _cost_of_stored(store)
    if not store.swap(SPENT, total.model_dump_json().encode(), spent_and_etag[1] if spent_and_etag else None):
        raise TransientError(f"another run is writing {store.root}/{SPENT}; refresh again when it is done")


def _read_spent(store: ObjectStore) -> tuple[Spent, str] | None:
    stored = store.read_mutable(SPENT)
    if stored is None:
        return None
    with reading(store, SPENT):
        return Spent.model_validate_json(stored[0]), stored[1]


def _cost_of_stored(store: ObjectStore) -> Spent:
    total = Spent()
    for key in store.folders(_FOLDER):
        for shard in open_descriptions(store, key).shards():
            total += spent_on(rows_of(Description, shard))
    return total
