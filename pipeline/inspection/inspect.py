"""Parse a single document without a corpus."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from backends.models.languages import Simplemma
from backends.stores.document_files import ParsedDocumentFile, parsed_file, read_parsed, reported
from backends.stores.object_store import open_store
from backends.stores.sources import FolderSource
from ray_jobs.enrich import looked_at, recognise, structure_with
from ray_jobs.pools import errors_as_bad_input
from schemas.corpus import ParseOptions
from schemas.corpus.models import CaptionOptions
from schemas.documents import (
    TAGGED,
    Block,
    Furniture,
    Node,
    NodeKind,
    Page,
    Recognised,
    StructuredDocument,
)
from schemas.errors import BadInputError, Failure, UserError
from schemas.ids import figure_file
from schemas.models import NONE
from schemas.ports import ObjectStore
from schemas.reports import (
    InspectedDocument,
    InspectedFigure,
    InspectedFurniture,
    InspectedHeading,
    InspectedPage,
    InspectedRegion,
    InspectedTable,
)
from schemas.stages import Report, Step, silent
from schemas.tags import TagTemplate, fill, restore, strip
from tasks.reading.contents import build_tree, depths, print_contents
from tasks.reading.text_layers import layered_pages, reason_to_replace_layer
from tasks.tables.mark_up import as_html, caption_of, markdown, text_on_page
from tasks.versions.assemble import number_figures
from workers.parse_shard import ParseJob, parse_documents, parse_key

_CONVERTED = "document.pdf"
"""Name of the PDF that a document in another format was converted into, in the folder of ``inspect``."""

Tags = Mapping[str, str]
"""Tags by figure id."""


def inspect(
    path: Path,
    *,
    out: Path | None = None,
    options: ParseOptions | None = None,
    captions: CaptionOptions | None = None,
    report: Report = silent,
) -> InspectedDocument:
    """Parse and structure one document as a refresh does.

    Args:
        path: The document.
        out: Folder for figures (``figures/<tag number>.png``), pages (``page-0001.txt``) and the PDF that a document in another
            format was converted into (``document.pdf``); None writes nothing.
        options: Limits and resolution.
        captions: Models of pictures; by default no recogniser of text.
        report: Called with the pages done by a model.

    Returns:
        The document, without pages if it can't be read; ``failures`` has the reason.

    Raises:
        UserError: There is no such file, or the folder can't be written to.
    """
    options, captions = options or ParseOptions(), captions or CaptionOptions(ocr=NONE)
    source = FolderSource(path.parent.absolute())
    name = source.name_of(path)
    doc_id = _digest(path, source, name)
    with tempfile.TemporaryDirectory(prefix="inset-") as folder:
        store = open_store(folder)
        job = ParseJob(doc_id, name)
        structured, failures = _read(job, source, store, options, captions, report)
        if structured is None:
            return InspectedDocument(doc_id=doc_id, source=name, contents="", pages=[], failures=failures)
        tree = build_tree(structured)
        numbers = number_figures(_digests(structured))
        tags = {figure_id: TagTemplate().write(number) for figure_id, number in numbers.items()}
        pages = [_page(page, structured, tree, tags) for page in structured.pages]
        if out is not None:
            _write(out, pages, numbers, store)
            if structured.pdf is not None:
                (out / _CONVERTED).write_bytes(store.get(structured.pdf))
        return InspectedDocument(doc_id=doc_id, source=name, contents=print_contents(tree), pages=pages, failures=failures)


def _digest(path: Path, source: FolderSource, name: str) -> str:
    try:
        return source.digest(name)[0]
    except FileNotFoundError as error:
        raise UserError(f"there is no file {path}") from error
    except BadInputError as error:
        raise UserError(f"{path}: {error.message}") from error


def _read(
    job: ParseJob,
    source: FolderSource,
    store: ObjectStore,
    options: ParseOptions,
    captions: CaptionOptions,
    report: Report,
) -> tuple[StructuredDocument | None, list[Failure]]:
    """Return a document, None if it can't be read, and the failures of it or its parts."""
    outcomes = parse_documents([job], source=source, store_address=store.root, options=options, passwords=[], run_id=None)
    failures = [failure for outcome in outcomes for failure in outcome.failures]
    parsed_at = parsed_file(job.doc_id, parse_key(options))
    if not store.exists(parsed_at):
        return None, failures
    try:
        structured = _structured(store, parsed_at, captions, report)
    except BadInputError as error:
        failure = Failure(
            source=job.source, doc_id=job.doc_id, page=None, step=Step.STRUCTURE, code=error.code, message=error.message
        )
        return None, [*failures, failure]
    return structured, failures + [
        reported(failure, job.source, job.doc_id, run_id=None) for failure in structured.failures
    ]


def _structured(store: ObjectStore, parsed_at: str, captions: CaptionOptions, report: Report) -> StructuredDocument:
    """Structure a document with what is recognised in its pictures, in this process."""
    recognised: list[Recognised] = []
    parsed, lexicon = ParsedDocumentFile(store, parsed_at), Simplemma()
    fault: str | None = None

    def read(names: Sequence[str]) -> None:
        total = len(recognised) + len(names)
        for batch in recognise(names, store.root) if names else ():
            recognised.extend(batch)
            report(Step.RECOGNISE, len(recognised), total)

    if captions.ocr != NONE:
        pictures = looked_at(parsed, lexicon)
        read(pictures.recognised)
        if pictures.compared:
            lines, layered = {picture.id: picture.lines for picture in recognised}, layered_pages(parsed.placements)
            fault = reason_to_replace_layer(layered, parsed.lines, lines, lexicon)
            if fault is not None:
                read(sorted({placement.figure_id or "" for placement in layered.values()} - lines.keys()))
    with errors_as_bad_input("structuring it"):
        return structure_with(read_parsed(store, parsed_at), recognised, store, fault_of_layer=fault)


def _digests(structured: StructuredDocument) -> dict[str, int]:
    tagged = {placement.figure_id for placement in structured.placements if placement.role in TAGGED}
    return {figure.figure_id: int(figure.sha1, 16) for figure in structured.pictures if figure.figure_id in tagged}


def _page(page: Page, structured: StructuredDocument, tree: Sequence[Node], tags: Tags) -> InspectedPage:
    placed = {figure.placement.order: figure for figure in structured.figures}
    depth = depths(tree)
    label = structured.labels[page.page - 1] if structured.labels else ""
    return InspectedPage(
        page=page.page,
        label=label if label not in ("", str(page.page)) else None,
        width_pt=page.width_pt,
        height_pt=page.height_pt,
        tagged_text="\n\n".join(
            fill(text, tags.__getitem__)
            for block in structured.blocks
            if block.furniture is not Furniture.LINE_NUMBER and (text := text_on_page(block, page.page))
        ),
        figures=[
            InspectedFigure(
                tag=tags.get(placement.figure_id or "") if placement.role in TAGGED else None,
                figure_id=placement.figure_id,
                bbox=placement.bbox,
                role=str(placement.role),
                kind=str(placement.kind),
                caption=figure.caption if figure else "",
                step=strip(figure.step) if figure else "",
                words=figure.inner_text if figure else "",
                reason=placement.reason,
            )
            for placement in structured.placements
            for figure in [placed.get(placement.order)]
            if placement.page == page.page
        ],
        tables=[_table(block, tags) for block in structured.blocks if block.parts and block.page == page.page],
        outline=[
            InspectedHeading(level=depth[node.node_id] + 1, title=restore(node.title), node_id=node.node_id)
            for node in tree
            if node.kind is NodeKind.SECTION and node.page == page.page
        ],
        furniture=[
            InspectedFurniture(role=block.furniture, bbox=block.bbox, text=restore(block.text))
            for block in structured.blocks
            if block.furniture is not None and block.page == page.page
        ],
    )


def _table(table: Block, tags: Tags) -> InspectedTable:
    rows = [[fill(cell, tags.__getitem__) for cell in row] for row in table.rows]
    caption = caption_of(table)
    return InspectedTable(
        bbox=table.parts[0].bbox,
        caption=fill(caption, tags.__getitem__),
        header=rows[0],
        rows=rows,
        spans=list(table.spans),
        markdown=fill(markdown(table.rows), tags.__getitem__),
        html=fill(as_html(table.rows, caption, table.spans), tags.__getitem__),
        regions=[InspectedRegion(page=part.page, bbox=part.bbox, found_by=part.found_by) for part in table.parts],
    )


def _write(out: Path, pages: list[InspectedPage], numbers: dict[str, str], store: ObjectStore) -> None:
    try:
        (out / "figures").mkdir(parents=True, exist_ok=True)
        for page in pages:
            (out / f"page-{page.page:04d}.txt").write_text(page.tagged_text + "\n", encoding="utf-8")
        for figure_id, number in numbers.items():
            (out / "figures" / f"{number}.png").write_bytes(store.get(figure_file(figure_id)))
    except OSError as error:
        raise UserError(f"can't write to {out}: {error.strerror}") from error
