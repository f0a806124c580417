"""Export a version for other tools."""

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from backends.stores.document_files import parsed_file, read_parsed
from pipeline.corpus.workspace import Workspace
from pipeline.records.ledger import read_ledger
from pipeline.records.manifests import read_manifest
from pipeline.records.publication import resolve_version
from schemas.errors import NotFoundError, UserError
from schemas.stages import Report, silent
from schemas.versions import Manifest, Status
from tasks.reading.paginate import BEYOND_TEXT, DROPS, UNIQUE_TEXTS, ImageFilter, Paginated, paginate, unique_texts
from workers.read_subjects import read_subjects


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

    Sources of the same bytes are all exported. Both files are written atomically.

    Args:
        workspace: The corpus.
        file: The file to write.
        version: None for the live version.
        images: Filter of images.
        unique: Write each text once, with all its pages.
        report: Called with each source.

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
