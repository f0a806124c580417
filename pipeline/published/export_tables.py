"""Export the tables of a version, a file each."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.csv import write_csv

from backends.stores.document_files import StructuredDocumentFile, structured_file
from pipeline.corpus.workspace import Workspace
from pipeline.published.export import manifest_of
from pipeline.records.ledger import indexed_sources, read_ledger
from schemas.documents import BBOX, Block
from schemas.errors import UserError
from schemas.parquet import required
from schemas.stages import Report, silent
from schemas.tags import restore, strip
from tasks.tables.mark_up import caption_of
from tasks.tables.type_columns import decimal_mark, type_columns

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
    workspace: Workspace, folder: Path, *, version: str | None = None, csv: bool = False, report: Report = silent
) -> TablesSummary:
    """Write each table of a version as a Parquet file with typed columns, and ``tables.parquet``, which lists them.

    A table over several pages is one file. Sources of the same bytes have the same files.

    Args:
        workspace: The corpus.
        folder: The folder to write; it must be new or empty.
        version: None for the live version.
        csv: Write CSV in place of Parquet.
        report: Called with each document.

    Raises:
        UserError: There is no such version, or the folder can't be written to.
    """
    manifest = manifest_of(workspace, version)
    sources = indexed_sources(sorted(read_ledger(workspace.store, manifest.version), key=lambda row: row.source))
    table_rows: list[dict[str, Any]] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise UserError(f"{folder} isn't empty; name a new folder")
        for number, (doc_id, names) in enumerate(sources.items(), 1):
            file = StructuredDocumentFile(workspace.store, structured_file(doc_id, manifest.keys["structured"]))
            for description, table in _tables(names[0], doc_id, file.blocks):
                name = f"{description['name']}.{'csv' if csv else 'parquet'}"
                if csv:
                    write_csv(table, folder / name)
                else:
                    pq.write_table(table, folder / name, compression="zstd")
                table_rows.append(description | {"file": name, "sources": names})
            report("export", number, len(sources))
        pq.write_table(pa.Table.from_pylist(table_rows, schema=TABLES), folder / _LIST, compression="zstd")
    except OSError as error:
        raise UserError(f"can't write to {folder}: {error.strerror or error}") from error
    return TablesSummary(
        manifest.version, str(folder), len(sources), len(table_rows), sum(row["rows"] for row in table_rows)
    )


def _tables(source: str, doc_id: str, blocks: tuple[Block, ...]) -> Iterator[tuple[dict[str, Any], pa.Table]]:
    """Yield the tables of a document, each with what the list says of it."""
    tables = [block for block in blocks if block.rows]
    mark = decimal_mark(cell for block in tables for row in block.rows for cell in row)
    stem = re.sub(r"[^\w.-]+", "-", Path(source).stem)[:60]
    for number, block in enumerate(tables, 1):
        table = type_columns(block.rows, block.spans, mark)
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
