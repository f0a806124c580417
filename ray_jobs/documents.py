"""Documents in the store: parsed and structured, each a folder of Parquet files whose head is written last."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from backends.stores.objects import Noun, read_part, read_rows, read_table, reading
from schemas.documents import (
    Block,
    BlockKind,
    Chunk,
    Figure,
    Node,
    Page,
    PageFailure,
    ParsedDocument,
    PlacedFigure,
    Placement,
    StructuredDocument,
)
from schemas.errors import UNFINISHED, Failure, FailureCode
from schemas.parquet import PARSED_FILES, pack, table_of, to_parquet, unpack
from schemas.ports import ObjectStore
from schemas.stages import Stage, Step
from tasks.reading.contents import grow
from tasks.reading.neighbours import read_with_neighbours

HEAD = "document.parquet"


@dataclass(frozen=True)
class StructuredHead:
    """What is known of a structured document without reading its parts."""

    doc_id: str
    title: str
    pages: int
    date: str | None = None
    labels: tuple[str, ...] = ()


def parsed_folder(doc_id: str, key: str) -> str:
    """Name the folder of a parsed document."""
    return f"parsed/{doc_id}/{key}"


def structured_folder(doc_id: str, key: str) -> str:
    """Name the folder of a structured document."""
    return f"structured/{doc_id}/{key}"


def is_finished(store: ObjectStore, folder: str) -> bool:
    """Return whether a document's folder is complete."""
    return store.exists(f"{folder}/{HEAD}")


def is_settled(store: ObjectStore, folder: str) -> bool:
    """Return whether a structured document is complete, and no model has something left to do for it."""
    return is_finished(store, folder) and not any(failure.code in UNFINISHED for failure in read_failures(store, folder))


def write_parsed(store: ObjectStore, folder: str, document: ParsedDocument) -> None:
    """Keep a parsed document."""
    for name, data in pack(document).items():
        store.put(f"{folder}/{name}", data)


def read_parsed(store: ObjectStore, folder: str) -> ParsedDocument:
    """Return a parsed document."""
    files = {name: store.get(f"{folder}/{name}") for name in PARSED_FILES}
    with reading(store, f"{folder}/{HEAD}"):
        return unpack(files)


def read_pages(store: ObjectStore, folder: str) -> tuple[tuple[Page, ...], tuple[Placement, ...]]:
    """Return the pages of a parsed document, and what stands on them."""
    return _rows(store, folder, "pages", Page), _rows(store, folder, "placements", Placement)


def read_labelled(store: ObjectStore, folder: str) -> frozenset[int]:
    """Return the orders of a parsed document's placements that lines of its text stand in; the lines themselves stay unread.

    Whoever structures the document reads them whole, and finds out whether they are what was written.
    """
    inside = read_part(store, f"{folder}/lines.parquet", "inside")
    return frozenset(order for order in inside.to_pylist() if order is not None)


def read_marginal_pages(store: ObjectStore, folder: str) -> frozenset[int]:
    """Return the pages of a structured document that have running heads, and nothing else."""
    kinds: dict[int, set[str]] = {}
    for row in _part(store, folder, "blocks", ["page", "kind"]).to_pylist():
        kinds.setdefault(row["page"], set()).add(row["kind"])
    return frozenset(page for page, found in kinds.items() if found == {BlockKind.MARGIN})


def read_placements(store: ObjectStore, folder: str) -> tuple[tuple[Figure, ...], tuple[Placement, ...]]:
    """Return all figures of a structured document, and where they stand."""
    return _rows(store, folder, "pictures", Figure), _rows(store, folder, "placements", Placement)


def pack_structured(document: StructuredDocument, chunks: list[Chunk]) -> dict[str, bytes]:
    """Return the files of a structured document with its evidence tree and its chunks, the head last."""
    parts: list[tuple[str, type, object]] = [
        ("blocks", Block, document.blocks),
        ("figures", PlacedFigure, document.figures),
        ("placements", Placement, document.placements),
        ("pictures", Figure, document.pictures),
        ("failures", PageFailure, document.failures),
        ("tree", Node, grow(document)),
        ("chunks", Chunk, chunks),
    ]
    files = {f"{name}.parquet": to_parquet(table_of(noun, rows)) for name, noun, rows in parts}  # type: ignore[arg-type]
    head = StructuredHead(document.doc_id, document.title, len(document.pages), document.date, document.labels)
    return files | {HEAD: to_parquet(table_of(StructuredHead, [head]))}


def write_structured(store: ObjectStore, folder: str, files: Mapping[str, bytes]) -> None:
    """Keep the files of a structured document."""
    if is_finished(store, folder):
        # Structured once before: without what a model had not come to then, or other than it should be.
        store.delete(f"{folder}/{HEAD}")
    for name, data in files.items():
        store.replace(f"{folder}/{name}", data)


def read_head(store: ObjectStore, folder: str) -> StructuredHead:
    """Return a structured document's head."""
    return _rows(store, folder, "document", StructuredHead)[0]


def read_chunks(store: ObjectStore, folder: str) -> tuple[Chunk, ...]:
    """Return a structured document's chunks."""
    return _rows(store, folder, "chunks", Chunk)


def read_blocks(store: ObjectStore, folder: str) -> tuple[Block, ...]:
    """Return a structured document's blocks, in reading order."""
    return _rows(store, folder, "blocks", Block)


def read_figures(store: ObjectStore, folder: str) -> tuple[PlacedFigure, ...]:
    """Return a structured document's tagged figures, with what it says of them."""
    return _rows(store, folder, "figures", PlacedFigure)


def read_neighbours(store: ObjectStore, folder: str, pages: Sequence[Page]) -> dict[int, bool]:
    """Say of a structured document's pictures without a caption whether they are read with text next to them."""
    return read_with_neighbours(pages, read_blocks(store, folder), read_figures(store, folder))


def read_failures(store: ObjectStore, folder: str) -> tuple[PageFailure, ...]:
    """Return what of a structured document could not be read."""
    return _rows(store, folder, "failures", PageFailure)


def reported(failure: PageFailure, source: str, doc_id: str, run_id: str | None) -> Failure:
    """Return what could not be read of a document as a row of quarantine."""
    code = FailureCode(failure.code)
    return Failure(
        source=source,
        doc_id=doc_id,
        page=failure.page,
        step=Step.RECOGNISE if code is FailureCode.MODEL_FAILED or code in UNFINISHED else Stage.PARSE,
        code=code,
        message=failure.message,
        run_id=run_id,
    )


def _part(store: ObjectStore, folder: str, part: str, columns: Sequence[str] | None = None) -> pa.Table:
    return read_table(store, f"{folder}/{part}.parquet", columns=columns)


def _rows(store: ObjectStore, folder: str, part: str, noun: type[Noun]) -> tuple[Noun, ...]:
    return read_rows(store, f"{folder}/{part}.parquet", noun)
