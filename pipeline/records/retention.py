"""Which versions retention keeps, what they need beside their own folders, and the alias of the live one."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

from backends.stores.document_files import parsed_file
from backends.stores.objects import unless_damaged
from backends.stores.temporary_tables import NAMED, TemporaryTables
from pipeline.corpus.workspace import Workspace, corrected_file, open_server
from pipeline.records.cache import RecordCache
from pipeline.records.collection import open_vectors, vector_files
from pipeline.records.converted import pdf_of, read_converted
from pipeline.records.corrections import corrections_of
from pipeline.records.descriptions import open_descriptions, open_drawn, target_ids
from pipeline.records.evidence import evidence_parts, figures_of, page_rows, placement_parts
from pipeline.records.ledger import quarantine_file, read_ledger
from pipeline.records.manifests import manifests, read_manifest
from pipeline.records.publication import read_pointer
from pipeline.records.row_parts import FOLDER, read_parts
from pipeline.records.tagged_copies import tagged_copies
from schemas.documents import Recognised, drawn_page_id
from schemas.errors import TransientError
from schemas.filters import Modality
from schemas.ids import alias_name, figure_file, original_file
from schemas.ports import ObjectStore
from schemas.stages import Report, silent
from schemas.versions import Manifest, Status

FOLLOWED_WITHIN_S = 120.0
"""Seconds within which a server's alias follows."""

_POLL_S = 0.1


def update_alias(workspace: Workspace) -> bool:
    """Point the alias at the live version's collection; return whether it moved.

    The server has no compare-and-swap, so the alias is compared with the pointer again after each move: another process may
    have moved either of them meanwhile. Raises ``TransientError`` if the server doesn't answer or follow.
    """
    name, patience = alias_name(workspace.corpus.name), time.monotonic() + FOLLOWED_WITHIN_S
    requested_move: tuple[str | None, str] | None = None
    while (live := read_pointer(workspace.store, fresh=True)) is not None:
        options = workspace.index_options(live.version)
        if options.engine != "weaviate":
            break
        collection = workspace.collection(live.version)
        server = open_server(options)
        try:
            current = server.alias(name)
            if current == collection:
                break
            if time.monotonic() > patience:
                raise TransientError(f"Weaviate at {server.url} still names {current}; see its log")
            # The server may name the old collection for a while after a move, so each move is requested once, and then
            # waited for.
            if (current, collection) != requested_move:
                requested_move = current, collection
                server.point(name, collection)
            else:
                time.sleep(_POLL_S)
        except TransientError as error:
            raise TransientError(
                f"{live.version} is live, but alias {name} may lag behind; repair it with: inset doctor ({error.message})"
            ) from error
    return requested_move is not None


def removable_versions(workspace: Workspace, *, except_version: str | None = None) -> list[str]:
    """Return the versions that ``sweep`` would remove, oldest first."""
    store, retention = workspace.store, workspace.corpus.retention
    finished = [manifest.version for manifest in manifests(store)]
    live = read_pointer(store)
    kept_versions = {except_version, *finished[: retention.versions], *retention.pinned}
    if live is not None:
        kept_versions |= {live.version, live.previous}
    return [
        version
        for version in store.folders("versions")
        if version not in kept_versions and not _may_be_aliased(workspace, version)
    ]


def _may_be_aliased(workspace: Workspace, version: str) -> bool:
    """Return whether the server's alias points to a version's collection, which must then be kept, or doesn't answer."""

    def is_aliased() -> bool:
        options, name = workspace.index_options(version), alias_name(workspace.corpus.name)
        if options.engine != "weaviate" or workspace.is_taken(version):
            return False
        return open_server(options).alias(name) == workspace.collection(version)

    try:
        return bool(unless_damaged(is_aliased))
    except TransientError:
        return True


def spare_versions(workspace: Workspace, version: str | None = None) -> list[str]:
    """Return the versions whose collections are more than the server is to hold, in the order to keep them.

    With ``version``, one that gets a collection is counted too: the first is the one whose collection it takes over. Pinned
    versions keep theirs, beside the others. [] if the engine is embedded.
    """
    store, options, pinned_versions = workspace.store, workspace.corpus.index, workspace.corpus.retention.pinned
    if options.engine != "weaviate" or version in pinned_versions:
        return []
    live = read_pointer(store)
    kept_longest = (live.version, live.previous) if live is not None else ()

    def can_be_brought_forward(earlier: str) -> bool:
        # Only a whole collection, on the same server and of the same kind.
        return not workspace.is_taken(earlier) and workspace.index_options(earlier).shape() == options.shape()

    finished = [manifest.version for manifest in manifests(store) if manifest.version not in {version, *pinned_versions}]
    holding_versions = [earlier for earlier in finished if unless_damaged(partial(can_be_brought_forward, earlier))]
    # The rest newest first.
    holding_versions.sort(key=lambda earlier: kept_longest.index(earlier) if earlier in kept_longest else len(kept_longest))
    spare = holding_versions[max(1, options.collections - (version is not None)) :]
    return [earlier for earlier in spare if not _may_be_aliased(workspace, earlier)]


KINDS = ("documents", "converted", "figures", "parsed", "structured", "tagged", "vectors", "quarantine", FOLDER)
"""Folders of objects that versions share."""


class NeededRecords:
    """Ids of a cache's records that versions need; ``number`` distinguishes it from others in the database."""

    def __init__(self, cache: RecordCache[Any], tables: TemporaryTables, number: int = 0) -> None:
        self.cache = cache
        self._tables = tables
        self._needed = f"needed_records_{number}"
        tables.create(self._needed, NAMED)

    def add(self, names: Iterable[str]) -> None:
        """Add ids; duplicates don't matter."""
        self._tables.add_names(self._needed, names)

    def spare(self) -> Sequence[str]:
        """Return the ids of records that aren't needed, each once."""
        self._tables.create("held", NAMED)
        self._tables.add_names("held", chain.from_iterable(self.cache.ids_by_shard()))
        return [*self._tables.values(f"SELECT DISTINCT name FROM held ANTI JOIN {self._needed} USING (name) ORDER BY name")]


@dataclass(frozen=True)
class Needs:
    """Finished versions, and the cache records that they need, by folder."""

    workspace: Workspace
    manifests: Sequence[Manifest]
    records: dict[str, NeededRecords]

    def objects(self) -> Iterator[str]:
        """Yield the names of the shared objects that they need; one may come twice."""
        for manifest in self.manifests:
            yield from objects_of(self.workspace, manifest)
            yield from vectors_of_version(self.workspace.store, manifest)


def needs_of(workspace: Workspace, versions: Iterable[str], tables: TemporaryTables, report: Report = silent) -> Needs:
    """Return what finished versions need; unfinished ones need nothing."""
    version_names = sorted(versions)
    manifests: list[Manifest] = []
    records: dict[str, NeededRecords] = {}

    def needed(cache: RecordCache[Any]) -> NeededRecords:
        if cache.folder not in records:
            records[cache.folder] = NeededRecords(cache, tables, len(records))
        return records[cache.folder]

    for read_count, version in enumerate(version_names, 1):
        manifest = read_manifest(workspace.store, version)
        if manifest is not None:
            manifests.append(manifest)
            _add_records(workspace, manifest, needed)
        report("read versions", read_count, len(version_names))
    return Needs(workspace, manifests, records)


def _add_records(workspace: Workspace, manifest: Manifest, needed: Callable[[RecordCache[Any]], NeededRecords]) -> None:
    store, keys, version = workspace.store, manifest.keys, manifest.version
    pictures = needed(RecordCache(store, f"recognised/{keys['recognised']}", Recognised))
    for placements in placement_parts(store, version):
        pictures.add(figures_of(placements))
    for captions in manifest.captioners.values():
        described = needed(open_descriptions(store, captions.key))
        for part in evidence_parts(store, version):
            described.add(target_ids(captions.subject, part))
    if "drawn" in keys and manifest.counts.rows_by_modality.get(Modality.PAGE):
        drawn = needed(open_drawn(store, keys["drawn"]))
        for part in evidence_parts(store, version):
            drawn.add(drawn_page_id(doc_id, page) for doc_id, page, _ in page_rows(part))


def vectors_of_version(store: ObjectStore, manifest: Manifest) -> Iterator[str]:
    """Yield the names of the files with a version's vectors; all its rows are read."""
    yield from vector_files(evidence_parts(store, manifest.version), open_vectors(store, manifest.spaces))


def objects_of(workspace: Workspace, manifest: Manifest) -> Iterator[str]:
    """Yield the names of the shared objects that a version needs, but for its vectors; a figure may come twice."""
    store, keys, version = workspace.store, manifest.keys, manifest.version
    converted, by_hand = read_converted(store, version), corrections_of(store, version)
    for row in read_ledger(store, version):
        if row.status is Status.INDEXED:
            yield pdf_of(row.doc_id, converted)
            if row.doc_id in converted:
                yield original_file(row.doc_id)
            yield parsed_file(row.doc_id, keys["parse"])
            yield corrected_file(row.doc_id, keys["structured"], by_hand)
    for part in placement_parts(store, version):
        yield from map(figure_file, sorted(figures_of(part)))
    if manifest.counts.rows_by_modality.get(Modality.PAGE):
        for part in evidence_parts(store, version):
            yield from (figure_file(picture) for _, _, picture in page_rows(part))
    yield from read_parts(store, version).sizes()
    if store.exists(failures := quarantine_file(manifest.run_id)):  # an older version answers without
        yield failures
    yield from (tagged_copies(store, version) or {}).values()
