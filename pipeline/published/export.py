"""Export a version for other tools: its pages as "Beyond Text" has them, and its tables, a file each."""

import contextlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.csv import write_csv

from backends.stores.document_files import StructuredDocumentFile, parsed_file, read_parsed, structured_file
from pipeline.corpus.workspace import Workspace
from pipeline.records.ledger import indexed_sources, read_ledger
from pipeline.records.manifests import read_manifest
from pipeline.records.publication import resolve_version
from schemas.documents import BBOX, Block
from schemas.errors import NotFoundError, UserError
from schemas.parquet import required
from schemas.stages import Report, silent
from schemas.tags import restore, strip
from schemas.versions import Manifest, Status
from tasks.reading.paginate import BEYOND_TEXT, DROPS, UNIQUE_TEXTS, ImageFilter, Paginated, paginate, unique_texts
from tasks.tables.mark_up import caption_of
from tasks.tables.type_columns import decimal_mark, type_columns
from workers.brief_reads import read_subjects


@dataclass(frozen=True, slots=True)
class ExportSummary:
    """The result of an export. ``drops`` is the file that lists the images left out."""

    version: str
    file: str
    rows: int
    pages: int
    images: int
    dropped: int
    drops: str


def export_pages(
    workspace: Workspace,
    file: Path,
    *,
    version: str | None = None,
    images: ImageFilter = ImageFilter.PAPER,
    unique: bool = False,
    report: Report = silent,
) -> ExportSummary:
    """Write the Parquet of "Beyond Text", a row per page and image, and ``<name>.drops.parquet``: images left out and why.

    Sources of the same bytes are all exported; with ``unique`` each text is written once, with all its pages. Both files
    are written atomically.

    Raises:
        UserError: There is no such version, or the file can't be written.
    """
    manifest = manifest_of(workspace, version)
    drops_file = file.with_name(f"{file.stem}.drops.parquet")
    partial, partial_drops = (path.with_name(f".{path.name}.partial") for path in (file, drops_file))
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with (
            pq.ParquetWriter(partial, UNIQUE_TEXTS if unique else BEYOND_TEXT, compression="zstd") as rows,
            pq.ParquetWriter(partial_drops, DROPS, compression="zstd") as drops,
        ):
            count = _write(_documents(workspace, manifest, images, report), rows, drops, unique=unique)
        # The rows come last: after a crash between the two, no new export is without its list.
        partial_drops.replace(drops_file)
        partial.replace(file)
    except OSError as error:
        raise UserError(f"can't write {file}: {error.strerror or error}") from error
    finally:
        for path in (partial, partial_drops):
            with contextlib.suppress(OSError):
                path.unlink()
    return ExportSummary(version=manifest.version, file=str(file), drops=str(drops_file), **count)


def _write(
    documents: Iterable[tuple[int, Paginated]], rows: pq.ParquetWriter, drops: pq.ParquetWriter, *, unique: bool
) -> dict[str, int]:
    """Write the rows of documents, or each text once; return the counts of the summary."""
    count = {"rows": 0, "pages": 0, "images": 0, "dropped": 0}
    texts: list[pa.Table] = []
    for pages, paginated in documents:
        drops.write_table(paginated.drops)
        if unique:
            # A text may come again in any later document, so all are held, without their pictures.
            texts.append(paginated.rows.drop_columns(["image_bytes"]))
        else:
            rows.write_table(paginated.rows)
            count["rows"] += paginated.rows.num_rows
        count["pages"] += pages
        count["images"] += paginated.rows.num_rows - paginated.rows.column("image_id").null_count
        count["dropped"] += paginated.drops.num_rows
    if unique:
        table = unique_texts(texts)
        rows.write_table(table)
        count["rows"] = table.num_rows
    return count


def manifest_of(workspace: Workspace, version: str | None) -> Manifest:
    """Return the manifest of a version, of the live one by default."""
    name = workspace.corpus.name
    version = resolve_version(workspace.store, name, version or "live")
    manifest = read_manifest(workspace.store, version)
    if manifest is None:
        raise NotFoundError(f"corpus {name}: there is no version {version}")
    return manifest


def _documents(
    workspace: Workspace, manifest: Manifest, images: ImageFilter, report: Report
) -> Iterator[tuple[int, Paginated]]:
    """Yield the number of pages and the rows of each source of a version, by name."""
    store = workspace.store
    ledger = [row for row in read_ledger(store, manifest.version) if row.status is Status.INDEXED]
    doc_ids = sorted({row.doc_id for row in ledger})
    subjects = read_subjects(
        doc_ids, store_address=store.root, limits=workspace.corpus.parse, passwords=workspace.passwords()
    )
    index = 0
    for number, row in enumerate(sorted(ledger, key=lambda row: row.source), 1):
        document = read_parsed(store, parsed_file(row.doc_id, manifest.keys["parse"]))
        paginated = paginate(
            document,
            source=row.source,
            subject=subjects[row.doc_id],
            load=lambda figure: store.get(f"figures/{figure.figure_id}.{figure.ext}"),
            images=images,
            first_index=index,
        )
        index += paginated.rows.num_rows
        yield len(document.pages), paginated
        report("export", number, len(ledger))


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
    """Write each table of a version as a Parquet file with typed columns, or CSV, and ``tables.parquet``, which lists them.

    A table over several pages is one file. Sources of the same bytes have the same files. The folder must be new or empty.

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
        # The list comes last: a folder without it is that of an export that failed.
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
