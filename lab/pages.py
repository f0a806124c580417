"""Export a version's pages and images as the Parquet of "Beyond Text"."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from backends.pdf.document import open_document
from backends.stores.document_files import parsed_file, read_parsed
from backends.stores.object_store import open_store
from lab.paginate import BEYOND_TEXT, DROPS, UNIQUE_TEXTS, ImageFilter, Paginated, paginate, unique_texts
from pipeline.corpus.workspace import Workspace
from pipeline.published.export import manifest_of
from pipeline.records.converted import pdf_of, read_converted
from pipeline.records.ledger import read_ledger
from schemas.corpus import ParseOptions
from schemas.errors import UserError
from schemas.stages import Report, silent
from schemas.versions import Manifest, Status
from workers.child_processes import Done, run_all
from workers.isolation import isolate


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


def _documents(
    workspace: Workspace, manifest: Manifest, images: ImageFilter, report: Report
) -> Iterator[tuple[int, Paginated]]:
    """Yield the number of pages and the rows of each source of a version, by name."""
    store = workspace.store
    ledger = [row for row in read_ledger(store, manifest.version) if row.status is Status.INDEXED]
    converted = read_converted(store, manifest.version)
    names = sorted({pdf_of(row.doc_id, converted) for row in ledger})
    subjects = _read_subjects(
        names, store_address=store.root, limits=workspace.corpus.parse, passwords=workspace.passwords()
    )
    index = 0
    for number, row in enumerate(sorted(ledger, key=lambda row: row.source), 1):
        document = read_parsed(store, parsed_file(row.doc_id, manifest.keys["parse"]))
        paginated = paginate(
            document,
            source=row.source,
            subject=subjects[pdf_of(row.doc_id, converted)],
            load=lambda figure: store.get(f"figures/{figure.figure_id}.{figure.ext}"),
            images=images,
            first_index=index,
        )
        index += paginated.rows.num_rows
        yield len(document.pages), paginated
        report("export", number, len(ledger))


def _read_subjects(
    names: Sequence[str], *, store_address: str, limits: ParseOptions, passwords: Sequence[str]
) -> dict[str, str]:
    """Return the subject of each stored PDF's metadata, by name; "" if it has none or can't be opened."""
    tasks = [(name, store_address, passwords) for name in names]
    with contextlib.closing(run_all(_subject, tasks, limits)) as outcomes:
        return {name: last.result if isinstance(last, Done) else "" for (name, *_), last in outcomes}


def _subject(task: tuple[str, str, Sequence[str]], _opened: Callable[[int], None]) -> str:
    name, store_address, passwords = task
    data = open_store(store_address).get(name)
    isolate()
    return " ".join(open_document(data, passwords).metadata("subject").split())
