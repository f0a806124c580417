"""Export the tables of a version, a file each, for other tools."""

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow.csv import write_csv

from backends.stores.document_files import StructuredDocumentFile
from pipeline.corpus.workspace import Workspace, corrected_file
from pipeline.records.access import read_current, read_rights
from pipeline.records.columns import read_documents_columns
from pipeline.records.corrections import corrections_of
from pipeline.records.ledger import indexed_sources, read_ledger
from pipeline.records.manifests import named_manifest
from pipeline.records.publication import resolve_version
from schemas.access import Principals
from schemas.documents import BBOX, Block
from schemas.errors import UserError
from schemas.filters import field_column
from schemas.parquet import required
from schemas.stages import Report, silent
from schemas.tags import restore, strip
from schemas.versions import Manifest
from tasks.tables.mark_up import caption_of, head_rows, on_one_line


def manifest_of(workspace: Workspace, version: str | None) -> Manifest:
    """Return the manifest of a version, of the live one by default."""
    name = workspace.corpus.name
    return named_manifest(workspace.store, name, resolve_version(workspace.store, name, version or "live"))


_LIST = "tables.parquet"

TABLES = pa.schema(
    required(
        file=pa.string(),
        doc_id=pa.string(),
        sources=pa.list_(pa.string()),
        page=pa.int32(),
        bbox=BBOX,
        caption=pa.string(),
        section_path=pa.list_(pa.string()),
        rows=pa.int32(),
        columns=pa.int32(),
    )
)
"""The tables exported: the file of each, where it begins, and its rows without its header."""


@dataclass(frozen=True, slots=True)
class TablesSummary:
    """The result of an export of tables."""

    version: str
    folder: str
    documents: int
    tables: int
    rows: int


def export_tables(
    workspace: Workspace,
    folder: Path,
    *,
    version: str | None = None,
    principals: Principals | None = None,
    csv: bool = False,
    report: Report = silent,
) -> TablesSummary:
    """Write each table of a version as a Parquet file, or CSV, and ``tables.parquet``, which lists them.

    A table over several pages is one file. Sources of the same bytes have the same files. The list has a column for each of the
    corpus's own fields. ``principals`` are those of a reader, who gets the tables of documents that the reader may see; None
    sees all. The folder must be new or empty.

    Raises:
        UserError: There is no such version, or the folder can't be written to.
        DamagedError: Rights can't be read.
    """
    manifest, store = manifest_of(workspace, version), workspace.store
    sources = indexed_sources(sorted(read_ledger(store, manifest.version), key=lambda row: row.source))
    if principals is not None and workspace.corpus.access is not None:
        rights = read_rights(store, read_current(store).digest)
        sources = {doc_id: names for doc_id, names in sources.items() if rights.allows(doc_id, principals)}
    by_hand = corrections_of(store, manifest.version)
    table_rows: list[dict[str, Any]] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise UserError(f"{folder} isn't empty; name a new folder")
        for number, (doc_id, names) in enumerate(sources.items(), 1):
            file = StructuredDocumentFile(store, corrected_file(doc_id, manifest.keys["structured"], by_hand))
            for description, table in _tables(names[0], doc_id, file.blocks):
                name = f"{description['name']}.{'csv' if csv else 'parquet'}"
                if csv:
                    write_csv(table, folder / name)
                else:
                    pq.write_table(table, folder / name, compression="zstd")
                table_rows.append(description | {"file": name, "sources": names})
            report("export", number, len(sources))
        # The list comes last: a folder without it is that of an export that failed.
        listed = _with_fields(
            pa.Table.from_pylist(table_rows, schema=TABLES), read_documents_columns(store, manifest.version)
        )
        pq.write_table(listed, folder / _LIST, compression="zstd")
    except OSError as error:
        raise UserError(f"can't write to {folder}: {error.strerror or error}") from error
    return TablesSummary(
        manifest.version, str(folder), len(sources), len(table_rows), sum(row["rows"] for row in table_rows)
    )


def _with_fields(listed: pa.Table, columns: pa.Table | None) -> pa.Table:
    """Return the list of tables with the fields of the corpus's own of each table's document."""
    names = [] if columns is None else [name for name in columns.column_names if name.startswith(field_column(""))]
    if columns is None or not names:
        return listed
    rows = pc.index_in(listed.column("doc_id"), columns.column("doc_id").combine_chunks())
    for name in names:
        listed = listed.append_column(name, columns.column(name).combine_chunks().take(rows))
    return listed


def _tables(source: str, doc_id: str, blocks: tuple[Block, ...]) -> Iterator[tuple[dict[str, Any], pa.Table]]:
    """Yield the tables of a document, each with what the list says of it."""
    tables = [block for block in blocks if block.rows]
    stem = re.sub(r"[^\w.-]+", "-", Path(source).stem)[:60]
    for number, block in enumerate(tables, 1):
        table = _with_columns(block)
        yield (
            {
                "name": f"{stem}-{doc_id[:8]}-p{block.page:04d}-{number:03d}",
                "doc_id": doc_id,
                "page": block.page,
                "bbox": list(block.parts[0].bbox),
                "caption": restore(strip(caption_of(block))),
                "section_path": list(block.section_path),
                "rows": table.num_rows,
                "columns": table.num_columns,
            },
            table,
        )


def _with_columns(block: Block) -> pa.Table:
    """Return the body of a table, a column of text each, named by its header; a cell merged over rows is repeated in each."""
    width = max(map(len, block.rows))
    cells = [[on_one_line(restore(strip(cell))) for cell in (*row, *[""] * (width - len(row)))] for row in block.rows]
    heads = head_rows(block.rows, block.spans)
    for span in block.spans:
        columns = range(span.column, span.column + (span.colspan if span.row < heads else 1))
        for row in cells[span.row : span.row + (1 if span.row < heads else span.rowspan)]:
            for column in columns:
                row[column] = cells[span.row][span.column]
    texts_by_name: dict[str, list[str]] = {}
    for number, texts in enumerate(zip(*cells, strict=True), 1):
        name = " / ".join(dict.fromkeys(filter(None, texts[:heads]))) or f"column {number}"
        unused_names = (f"{name} ({count})" if count > 1 else name for count in itertools.count(1))
        texts_by_name[next(unused for unused in unused_names if unused not in texts_by_name)] = [*texts[heads:]]
    return pa.table({name: pa.array(texts, pa.string()) for name, texts in texts_by_name.items()})
