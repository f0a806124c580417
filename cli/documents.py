"""Commands that read one PDF, and that write a version's pages and tables for other tools."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.terminal import (
    CorpusArgument,
    Json,
    VersionOption,
    by_document,
    page_words,
    print_json,
    reporting,
    say,
    show,
    show_text,
    show_title,
)
from schemas.errors import UserError

if TYPE_CHECKING:
    from schemas.reports import InspectedPage


def parse(
    file: Annotated[Path, typer.Argument(help="A PDF.")],
    folder: Annotated[Path | None, typer.Option("--out", help="Write its figures and the text of its pages there.")] = None,
    view: Annotated[
        bool, typer.Option("--view", help="Draw its pages there too, with index.html, to inspect what was found.")
    ] = False,
    contents: Annotated[bool, typer.Option("--contents", help="Print its table of contents instead of its pages.")] = False,
    tagged_pdf: Annotated[
        bool,
        typer.Option("--tagged-pdf", help="Write tagged.pdf there too: the PDF with a tag at each figure."),
    ] = False,
    ocr: Annotated[
        bool, typer.Option("--ocr", help="Recognise text of scanned pages and figures too, which takes seconds for each.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Parse a single PDF and show the result."""
    from pipeline.inspection.inspect import inspect
    from pipeline.records.tagged_copies import write_tagged
    from schemas.corpus.models import CaptionOptions
    from schemas.models import NONE

    if folder is None and (view or tagged_pdf):
        raise UserError(f"{'--view' if view else '--tagged-pdf'} needs --out FOLDER, where it is written")
    with reporting() as report:
        captions = CaptionOptions() if ocr else CaptionOptions(ocr=NONE)
        document = inspect(file, out=folder, view=view, captions=captions, report=report)
    if tagged_pdf and folder is not None and document.pages:
        write_tagged(file, document, folder / "tagged.pdf")
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
            say(f"wrote pages and figures to {folder}" + (f"; look at {folder / 'index.html'}" if view else ""))
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
    file: Annotated[Path | None, typer.Option("--out", metavar="FILE.parquet", help="The file to write.")] = None,
    tables: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Write the tables instead, a Parquet file each with typed columns, and tables.parquet, which lists them.",
        ),
    ] = None,
    csv: Annotated[bool, typer.Option("--csv", help="With --tables: CSV in place of Parquet.")] = False,
    form: Annotated[
        str,
        typer.Option(
            "--format",
            help="beyond-text: the Parquet of the paper Beyond Text, with a row per image of a page (RGB PNG) and one per page "
            "without images; columns index, doc_id, doc_title, page_number, text, url, has_image, image_id, image_bytes.",
        ),
    ] = "beyond-text",
    images: Annotated[
        str,
        typer.Option(
            help="paper: the paper's filter (embedded, shorter side over 50 px, over 1024 bytes). none: every figure. "
            "FILE.drops.parquet lists what is left out, with the reason."
        ),
    ] = "paper",
    unique_texts: Annotated[bool, typer.Option("--unique-texts", help="Write each text once, with all its pages.")] = False,
    version: VersionOption = None,
    as_json: Json = False,
) -> None:
    """Write the live version's pages and figures to a Parquet file, or its tables to a folder, for other tools."""
    from dataclasses import asdict

    if (file is None) == (tables is None):
        raise UserError("name one of --out FILE.parquet, for pages and figures, and --tables FOLDER")
    if tables is not None:
        _export_tables(corpus, tables, version, csv=csv, as_json=as_json)
        return
    assert file is not None
    from pipeline.corpus.workspace import open_workspace
    from pipeline.published.export import export_pages
    from tasks.reading.paginate import ImageFilter

    if form != "beyond-text":
        raise UserError(f"--format {form}: use beyond-text")
    if images not in set(ImageFilter):
        raise UserError(f"--images {images}: use one of {', '.join(ImageFilter)}")
    with reporting() as report:
        summary = export_pages(
            open_workspace(corpus), file, version=version, images=ImageFilter(images), unique=unique_texts, report=report
        )
    if as_json:
        print_json(asdict(summary))
        return
    say(
        f"{summary.file}: {summary.rows} rows of {summary.pages} pages with {summary.images} images, from {summary.version}"
    )
    if summary.dropped:
        say(f"{summary.drops}: {summary.dropped} images left out, with the reasons")


def _export_tables(corpus: str, folder: Path, version: str | None, *, csv: bool, as_json: bool) -> None:
    from dataclasses import asdict

    from pipeline.corpus.workspace import open_workspace
    from pipeline.published.export import export_tables

    with reporting() as report:
        summary = export_tables(open_workspace(corpus), folder, version=version, csv=csv, report=report)
    if as_json:
        print_json(asdict(summary))
        return
    say(
        f"{summary.folder}: {summary.tables} tables with {summary.rows} rows of {summary.documents} documents, "
        f"from {summary.version}"
    )
