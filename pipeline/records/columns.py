"""What the rows of an index have by their document beside what they are made of: rights of the day, and fields of one's own."""

from typing import Any

import pyarrow as pa

from backends.stores.objects import read_table
from pipeline.corpus.workspace import Workspace
from pipeline.records.access import read_current, read_rights, update_rights
from pipeline.records.ledger import indexed_sources, read_ledger
from schemas.access import Rights
from schemas.filters import ACCESS
from schemas.ids import version_file
from schemas.parquet import to_parquet
from schemas.ports import ObjectStore

_FILE = "columns.parquet"


def write_columns(workspace: Workspace, version: str) -> None:
    """Write the columns of an assembled version by ``doc_id``, and bring the current rights up to date for its documents."""
    store, corpus = workspace.store, workspace.corpus
    if corpus.access is None:
        store.delete(version_file(version, _FILE))
        return
    doc_ids = sorted(indexed_sources(read_ledger(store, version)))
    columns: dict[str, Any] = {"doc_id": pa.array(doc_ids, pa.string())}
    if corpus.access is not None:
        columns[ACCESS] = read_rights(store, update_rights(workspace)[0].digest).column(doc_ids)
    store.replace(version_file(version, _FILE), to_parquet(pa.table(columns)))


def read_columns(store: ObjectStore, version: str) -> pa.Table | None:
    """Return the columns of a version's rows by ``doc_id``; None where they have none."""
    try:
        return read_table(store, version_file(version, _FILE))
    except FileNotFoundError:
        return None


def rights_of_rows(store: ObjectStore, version: str) -> Rights | None:
    """Return the rights that a version's rows carry: those of the day of their build; None where they carry none."""
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
