"""What the rows of an index have by their document beside what they are made of: rights of the day, and fields of one's own."""

import contextlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from backends.stores.objects import read_table, unless_damaged
from pipeline.corpus.statements import Statements, Value, parse_value
from pipeline.corpus.workspace import Workspace
from pipeline.records.access import read_current, read_rights, update_rights
from pipeline.records.converted import pdf_of, read_converted
from pipeline.records.evidence import row_files
from pipeline.records.ledger import indexed_sources, read_ledger
from pipeline.records.publication import readable_pointer
from schemas.corpus.documents import PDF_KEYS, TITLE, Supersedes
from schemas.filters import ACCESS, SUPERSEDED, FieldType, field_column
from schemas.ids import key, version_file
from schemas.parquet import to_parquet
from schemas.ports import ObjectStore
from schemas.rights import Rights
from workers.brief_reads import read_pdf_metadata

_FILE, _PDF_FILE = "columns.parquet", "pdf_metadata.parquet"


NEWER = "newer"
"""The column with the documents that supersede a document, the newest first; no index has it."""

_TYPES: Mapping[FieldType, pa.DataType] = {
    "keyword": pa.list_(pa.string()),
    "keywords": pa.list_(pa.string()),
    "number": pa.float64(),
    "date": pa.string(),
    "boolean": pa.bool_(),
}


def write_columns(workspace: Workspace, version: str) -> None:
    """Write the columns of an assembled version by ``doc_id``, and bring the current rights up to date for its documents."""
    store, corpus = workspace.store, workspace.corpus
    if corpus.access is None and not corpus.fields:
        store.delete(version_file(version, _FILE))
        return
    sources = dict(sorted(indexed_sources(read_ledger(store, version)).items()))
    doc_ids = [*sources]
    columns: dict[str, Any] = {"doc_id": pa.array(doc_ids, pa.string())}
    if corpus.access is not None:
        columns[ACCESS] = read_rights(store, update_rights(workspace)[0].digest).column(doc_ids)
    if corpus.fields:
        values = _values(workspace, version, sources)
        for name, field in corpus.fields.items():
            in_list = field.type == "keyword"
            field_values = [values[doc_id].get(name) for doc_id in doc_ids]
            lists = [[value] if in_list and isinstance(value, str) else value for value in field_values]
            columns[field_column(name)] = pa.array(lists, _TYPES[field.type])
    if corpus.supersedes is not None:
        newer = _newer(values, _titles(store, version), corpus.supersedes)
        columns[SUPERSEDED] = pa.array([bool(newer.get(doc_id)) for doc_id in doc_ids], pa.bool_())
        columns[NEWER] = pa.array([newer.get(doc_id, []) for doc_id in doc_ids], pa.list_(pa.string()))
    store.replace(version_file(version, _FILE), to_parquet(pa.table(columns)))


def _values(workspace: Workspace, version: str, sources: Mapping[str, Sequence[str]]) -> dict[str, dict[str, Value]]:
    """Return the values of each document's fields: of several sources, the first counts that has a value."""
    by_source = Statements(workspace).values(sorted({source for names in sources.values() for source in names}))
    values: dict[str, dict[str, Value]] = {}
    for doc_id, names in sources.items():
        values[doc_id] = {name: value for source in reversed(names) for name, value in by_source[source].items()}
    entries = {name: field for name, field in workspace.corpus.fields.items() if field.pdf is not None}
    if entries:
        for doc_id, facts in _pdf_metadata(workspace, version, [*sources]).items():
            for name, field in entries.items():
                # What a PDF says of itself is no mistake of the operator: a value of another type is left out.
                with contextlib.suppress(ValueError):
                    if raw := facts.get(str(field.pdf)):
                        values[doc_id].setdefault(name, parse_value(field.type, raw))
    return values


def _pdf_metadata(workspace: Workspace, version: str, doc_ids: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return the metadata of PDFs, taken from the live version's record if it has them; kept with the version."""
    store, live = workspace.store, readable_pointer(workspace.store)
    table = unless_damaged(lambda: read_table(store, version_file(live.version, _PDF_FILE))) if live else None
    metadata_by_document = {row.pop("doc_id"): row for row in table.to_pylist()} if table is not None else {}
    converted = read_converted(store, version)
    unread = {doc_id: pdf_of(doc_id, converted) for doc_id in doc_ids if doc_id not in metadata_by_document}
    metadata_by_document |= read_pdf_metadata(
        unread, store_address=store.root, limits=workspace.corpus.parse, passwords=workspace.passwords_set(), keys=PDF_KEYS
    )
    metadata = {doc_id: metadata_by_document[doc_id] for doc_id in doc_ids if doc_id in metadata_by_document}
    rows = [{"doc_id": doc_id} | facts for doc_id, facts in metadata.items()]
    schema = pa.schema([(name, pa.string()) for name in ("doc_id", *PDF_KEYS)])
    store.replace(version_file(version, _PDF_FILE), to_parquet(pa.Table.from_pylist(rows, schema=schema)))
    return metadata


def _titles(store: ObjectStore, version: str) -> dict[str, str]:
    titles: dict[str, str] = {}
    for name in row_files(store, version, "evidence"):
        table = read_table(store, name, columns=["doc_id", "title"])
        titles |= {str(row["doc_id"]): str(row["title"]) for row in table.to_pylist()}
    return titles


def _newer(
    values: Mapping[str, Mapping[str, Value]], titles: Mapping[str, str], supersedes: Supersedes
) -> dict[str, list[str]]:
    """Return the documents that supersede each document: of the same group, with a greater value, the newest first.

    A document without one of the values supersedes none, and is superseded by none.
    """
    groups: dict[str, list[tuple[Any, str]]] = {}
    for doc_id, facts in values.items():
        key_values = [titles.get(doc_id) if name == TITLE else facts.get(name) for name in supersedes.by]
        if supersedes.newest in facts and all(value not in (None, "") for value in key_values):
            groups.setdefault(json.dumps(key_values), []).append((facts[supersedes.newest], doc_id))
    newer: dict[str, list[str]] = {}
    for revisions in groups.values():
        revisions.sort(reverse=True)
        for revision, doc_id in revisions:
            newer[doc_id] = [newer_id for greater, newer_id in revisions if greater > revision]
    return newer


def metadata_key(workspace: Workspace, sources: Sequence[str]) -> dict[str, str]:
    """Return what distinguishes the metadata of a version, as a part of its fingerprint; {} without fields of one's own."""
    corpus = workspace.corpus
    if not corpus.fields:
        return {}
    values = Statements(workspace).values(sources)
    fields = {name: [field.type, field.pdf] for name, field in corpus.fields.items()}
    supersedes = corpus.supersedes.model_dump() if corpus.supersedes is not None else None
    return {"metadata": key(fields=fields, values=values, supersedes=supersedes)}


def read_columns(store: ObjectStore, version: str) -> pa.Table | None:
    """Return the columns of a version's rows by ``doc_id``; None if they have none."""
    columns = read_documents_columns(store, version)
    return None if columns is None else columns.select([name for name in columns.column_names if name != NEWER])


def read_documents_columns(store: ObjectStore, version: str) -> pa.Table | None:
    """Return the columns of a version's documents by ``doc_id``, with ``NEWER``; None if they have none."""
    try:
        return read_table(store, version_file(version, _FILE))
    except FileNotFoundError:
        return None


def rights_of_rows(store: ObjectStore, version: str) -> Rights | None:
    """Return the rights that a version's rows carry: those of the day of their build; None if they carry none."""
    columns = read_columns(store, version)
    if columns is None or ACCESS not in columns.column_names:
        return None
    return Rights.of_column(columns.column("doc_id"), columns.column(ACCESS))


_MOST_CHANGED = 0.1
"""Largest share of documents whose rights differ from those of their rows, before a refresh builds a version for that alone."""


def are_rights_outdated(workspace: Workspace, version: str) -> bool:
    """Return whether rights of many documents of a version differ from those that its rows carry; False without rights."""
    if workspace.corpus.access is None:
        return False
    rows = rights_of_rows(workspace.store, version)
    if rows is None:
        return True
    changed = read_rights(workspace.store, read_current(workspace.store).digest).changed_since(rows)
    return sum(map(rows.knows, changed)) > _MOST_CHANGED * len(rows)
