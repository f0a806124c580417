"""Copy a version to another store or engine without computing anything again.

Originals, figures, finished work and cache records are copied, so that the next refresh there finds all of it. The collection is
filled from the copied rows and vectors.
"""

from concurrent.futures import ThreadPoolExecutor

from backends.stores.objects import unless_damaged
from backends.stores.temporary_tables import TemporaryTables
from pipeline.corpus.workspace import INDEX_FILE, Workspace, open_index
from pipeline.records.cache import RecordCache
from pipeline.records.collection import fill, open_vectors, read_back
from pipeline.records.columns import read_columns
from pipeline.records.evidence import evidence_parts, evidence_sample
from pipeline.records.lease import alone
from pipeline.records.manifests import FILE, manifest_name, named_manifest, read_manifest, write_inventory
from pipeline.records.publication import read_pointer, resolve_version
from pipeline.records.retention import needs_of
from schemas.corpus import LEXICAL_FIELDS
from schemas.errors import ContractError, UserError
from schemas.ids import collection_name, version_file
from schemas.ports import ObjectStore
from schemas.reports import MirrorResult
from schemas.stages import Report, silent
from schemas.versions import Manifest

COPIES_AT_ONCE = 16
_OBJECTS_A_BATCH = 10_000


def mirror(workspace: Workspace, target: Workspace, version: str | None = None, report: Report = silent) -> MirrorResult:
    """Copy a finished version, by default the live one, to the store of another corpus file, without making it live there.

    A killed mirror leaves an unfinished version, which the next mirror finishes and the next refresh removes. Raises
    ``UserError`` where there is no such version or both corpora share a store, and ``ContractError`` where an object that
    the version needs is missing.
    """
    version = resolve_version(workspace.store, workspace.corpus.name, version or "live")
    manifest = named_manifest(workspace.store, workspace.corpus.name, version)
    if target.store.root == workspace.store.root:
        raise UserError(
            f"{target.file} keeps its versions where {workspace.file} does; name another store there. To move a corpus to "
            f"another engine, change its 'index' and refresh: nothing is computed again"
        )
    target.reach_engine()
    with alone(target.store, "mirror"):
        copied = 0
        if read_manifest(target.store, version) is None:
            _claim(target, version)
            copied = _copy(workspace, target.store, version, report)
            _index(target, manifest, report)
            _finish(target, manifest)
    pointer = read_pointer(target.store)
    return MirrorResult(
        corpus=target.corpus.name,
        version=version,
        store=target.store.root,
        live=pointer is not None and pointer.version == version,
        objects=copied,
        rows=manifest.counts.rows,
    )


def _claim(target: Workspace, version: str) -> None:
    """Refuse to replace a collection of another corpus with the same name on the same server."""
    if target.store.exists(version_file(version, INDEX_FILE)):
        return  # left by an earlier mirror
    index = open_index(target.store.root, target.corpus.name, version, target.corpus.index)
    if unless_damaged(index.count) is None:
        return
    raise UserError(
        f"{target.file} names a server that has collection {collection_name(target.corpus.name, version)} already, for another "
        f"store; name another server there, or give the corpus another name"
    )


def _copy(workspace: Workspace, target: ObjectStore, version: str, report: Report) -> int:
    source = workspace.store

    def copy(name: str) -> bool:
        if target.exists(name):
            return False
        try:
            target.put(name, source.get(name))
        except FileNotFoundError as error:
            raise ContractError(f"{version} can't be copied: {name} is gone from {source.root}") from error
        return True

    # The target writes these itself, since they name its corpus or belong to its engine.
    made_there = tuple(version_file(version, file) for file in ("manifest.json", INDEX_FILE, FILE, "lance/", "inventory"))
    version_files = [name for name in source.names(version_file(version, "")) if not name.startswith(made_there)]
    with TemporaryTables() as tables, ThreadPoolExecutor(COPIES_AT_ONCE) as pool:
        needs = needs_of(workspace, [version], tables)
        names = sorted({*needs.objects(), *version_files})
        report("copy", 0, len(names))
        copied = 0
        for start in range(0, len(names), _OBJECTS_A_BATCH):  # the pool queues a task for each object
            for copied_count, is_copied in enumerate(pool.map(copy, names[start : start + _OBJECTS_A_BATCH]), start + 1):
                copied += is_copied
                report("copy", copied_count, len(names))
        for folder, records in sorted(needs.records.items()):
            target_cache = RecordCache(target, folder, records.cache.schema)
            for table in records.not_in(target_cache):
                target_cache.append(table)
    return copied


def _index(target: Workspace, manifest: Manifest, report: Report) -> None:
    target.write_index_options(manifest.version, manifest.counts.documents_by_language)
    index = target.index(manifest.version)
    vectors = open_vectors(target.store, manifest.spaces)
    columns = read_columns(target.store, manifest.version)
    rows = fill(index, lambda: evidence_parts(target.store, manifest.version), vectors, LEXICAL_FIELDS, report, columns)
    sample = evidence_sample(target.store, manifest.version)
    for gate in read_back(index, sample, rows, [space_vectors.space for space_vectors in vectors]):
        if not gate.passed:
            raise ContractError(f"{manifest.version} was copied, but {gate.message.partition(';')[0]}; mirror it again")


def _finish(target: Workspace, manifest: Manifest) -> None:
    """Write inventory and manifest, which finishes the copy."""
    corpus = target.corpus
    copy = manifest.model_copy(
        update={
            "corpus": corpus.name,
            "collection": collection_name(corpus.name, manifest.version),
            "parameters": manifest.parameters | {"name": corpus.name, "index": corpus.index.model_dump(mode="json")},
        }
    )
    inventory = write_inventory(target.store, manifest.version)
    copy = copy.model_copy(update={"inventory": inventory})
    target.store.put(manifest_name(manifest.version), copy.model_dump_json(indent=1).encode())
