"""Commands that read one PDF, and that write a version's pages and tables for other tools."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.terminal import (
    CorpusArgument,
    Json,
    ReaderOption,
    VersionOption,
    by_document,
    open_workspace,
    page_words,
    principals_of,
    print_json,
    reporting,
    say,
    show,
    show_text,
    show_title,
)

if TYPE_CHECKING:
    from schemas.reports import InspectedPage


def parse(
    file: Annotated[Path, typer.Argument(help="A PDF, or a document in another format.")],
    folder: Annotated[Path | None, typer.Option("--out", help="Write its figures and the text of its pages there.")] = None,
    contents: Annotated[bool, typer.Option("--contents", help="Print its table of contents instead of its pages.")] = False,
    ocr: Annotated[
        bool, typer.Option("--ocr", help="Recognise text of scanned pages and figures too, which takes seconds for each.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Parse a single document and show the result."""
    from pipeline.inspection.inspect import inspect
    from schemas.corpus.models import CaptionOptions
    from schemas.models import NONE

    with reporting() as report:
        captions = CaptionOptions() if ocr else CaptionOptions(ocr=NONE)
        document = inspect(file, out=folder, captions=captions, report=report)
    if as_json:
        print_json(document)
    else:
        if contents:
            show_text(document.contents)
        else:
            _show_pages(document.pages)
        for failure, pages in by_document(document.failures):
            page_note = f", {page_words(pages)}" if pages else ""
            say(f"{failure.source}{page_note}: {failure.code}: {failure.message}")
        if folder is not None and document.pages:
            say(f"wrote pages and figures to {folder}")
    if not document.pages:
        raise typer.Exit(2)


def _show_pages(pages: "Sequence[InspectedPage]") -> None:
    for page in pages:
        show_title(f"page {page.label} (PDF page {page.page})" if page.label else f"page {page.page}")
        show_text(page.tagged_text)
        for part in page.furniture:
            box = ", ".join(f"{value:.0f}" for value in part.bbox)
            show(f"  {part.role.replace('_', ' ')} at ({box}): {' '.join(part.text.split())}")
        for figure in page.figures:
            box = ", ".join(f"{value:.0f}" for value in figure.bbox)
            label = figure.tag or f"no tag ({figure.reason})"
            show(f"  {figure.role} {figure.kind} at ({box}): {label} {figure.caption}".rstrip())


def export(
    corpus: CorpusArgument,
    folder: Annotated[
        Path,
        typer.Option(
            "--tables",
            metavar="FOLDER",
            help="A new folder for the tables, a Parquet file each, and tables.parquet, which lists them.",
        ),
    ],
    csv: Annotated[bool, typer.Option("--csv", help="Write CSV in place of Parquet.")] = False,
    version: VersionOption = None,
    reader: ReaderOption = None,
    as_json: Json = False,
) -> None:
    """Write the live version's tables to a folder, for other tools."""
    from pipeline.published.export import export_tables

    with reporting() as report:
        summary = export_tables(
            open_workspace(corpus), folder, version=version, principals=principals_of(reader), csv=csv, report=report
        )
    if as_json:
        print_json(summary)
        return
    say(
        f"{summary.folder}: {summary.tables} tables with {summary.rows} rows of {summary.documents} documents, "
        f"from {summary.version}"
    )
