"""Documents in the store: one Parquet file when parsed, one when structured, each with a nested column for each part."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from backends.stores.objects import Noun, read_table, reading
from schemas.documents import (
    Block,
    BlockKind,
    Chunk,
    Figure,
    Line,
    Node,
    OutlineEntry,
    Page,
    PageFailure,
    ParsedDocument,
    PlacedFigure,
    Placement,
    StructuredDocument,
    TableRegion,
)
from schemas.errors import UNFINISHED, Failure, FailureCode
from schemas.parquet import nested, part_of, rows_of, to_parquet
from schemas.ports import ObjectStore
from schemas.stages import Stage, Step

FILES_VERSION = "2"
"""Version of the files' layout; raising it makes documents be parsed again."""

_PARSED: dict[str, type] = {
    "pages": Page,
    "lines": Line,
    "figures": Figure,
    "placements": Placement,
    "tables": TableRegion,
    "outline": OutlineEntry,
    "failures": PageFailure,
}
_HEAD = "head"


@dataclass(frozen=True)
class DocumentHead:
    """A document without its parts."""

    doc_id: str
    title: str
    pages: int
    date: str | None = None
    labels: tuple[str, ...] = ()


def parsed_file(doc_id: str, key: str) -> str:
    """Name the file of a parsed document."""
    return f"parsed/{doc_id}/{key}.parquet"


def structured_file(doc_id: str, key: str) -> str:
    """Name the file of a structured document."""
    return f"structured/{doc_id}/{key}.parquet"


def is_finished(store: ObjectStore, file: str) -> bool:
    """Return whether a document is structured, with no work left for models."""
    return store.exists(file) and not any(failure.code in UNFINISHED for failure in read_failures(store, file))


def pack_parsed(document: ParsedDocument) -> bytes:
    """Encode a parsed document."""
    parts = {name: (noun, getattr(document, name)) for name, noun in _PARSED.items()}
    return to_parquet(nested({_HEAD: (DocumentHead, [_head(document)]), **parts}))


def read_parsed(store: ObjectStore, file: str) -> ParsedDocument:
    """Return a parsed document."""
    table = read_table(store, file)
    with reading(store, file):
        head = rows_of(DocumentHead, part_of(table, _HEAD))[0]
        parts: dict[str, Any] = {name: rows_of(noun, part_of(table, name)) for name, noun in _PARSED.items()}
    return ParsedDocument(doc_id=head.doc_id, title=head.title, date=head.date, labels=head.labels, **parts)


def read_pages(store: ObjectStore, file: str) -> tuple[tuple[Page, ...], tuple[Placement, ...]]:
    """Return the pages and placements of a parsed document."""
    table = read_table(store, file, columns=["pages", "placements"])
    return rows_of(Page, part_of(table, "pages")), rows_of(Placement, part_of(table, "placements"))


def read_labelled(store: ObjectStore, file: str) -> frozenset[int]:
    """Return the orders of a parsed document's placements that contain lines of text."""
    inside = part_of(read_table(store, file, columns=["lines"]), "lines").column("inside")
    return frozenset(order for order in inside.to_pylist() if order is not None)


def read_marginal_pages(store: ObjectStore, file: str) -> frozenset[int]:
    """Return the pages of a structured document that have running heads and nothing else."""
    kinds: dict[int, set[str]] = {}
    for block in read_blocks(store, file):
        kinds.setdefault(block.page, set()).add(block.kind)
    return frozenset(page for page, found in kinds.items() if found == {BlockKind.MARGIN})


def read_placements(store: ObjectStore, file: str) -> tuple[tuple[Figure, ...], tuple[Placement, ...]]:
    """Return all figures and placements of a structured document."""
    table = read_table(store, file, columns=["pictures", "placements"])
    return rows_of(Figure, part_of(table, "pictures")), rows_of(Placement, part_of(table, "placements"))


def pack_structured(document: StructuredDocument, tree: Sequence[Node], chunks: Sequence[Chunk]) -> bytes:
    """Encode a structured document with its evidence tree and chunks."""
    return to_parquet(
        nested(
            {
                _HEAD: (DocumentHead, [_head(document)]),
                "blocks": (Block, document.blocks),
                "figures": (PlacedFigure, document.figures),
                "placements": (Placement, document.placements),
                "pictures": (Figure, document.pictures),
                "failures": (PageFailure, document.failures),
                "tree": (Node, tree),
                "chunks": (Chunk, chunks),
            }
        )
    )


def read_head(store: ObjectStore, file: str) -> DocumentHead:
    """Return a document's head."""
    return _rows(store, file, _HEAD, DocumentHead)[0]


def read_chunks(store: ObjectStore, file: str) -> tuple[Chunk, ...]:
    """Return a structured document's chunks."""
    return _rows(store, file, "chunks", Chunk)


def read_blocks(store: ObjectStore, file: str) -> tuple[Block, ...]:
    """Return a structured document's blocks, in reading order."""
    return _rows(store, file, "blocks", Block)


def read_figures(store: ObjectStore, file: str) -> tuple[PlacedFigure, ...]:
    """Return a structured document's tagged figures."""
    return _rows(store, file, "figures", PlacedFigure)


def read_tree(store: ObjectStore, file: str) -> tuple[Node, ...]:
    """Return a structured document's evidence tree."""
    return _rows(store, file, "tree", Node)


def read_failures(store: ObjectStore, file: str) -> tuple[PageFailure, ...]:
    """Return a structured document's page failures."""
    return _rows(store, file, "failures", PageFailure)


def reported(failure: PageFailure, source: str, doc_id: str, run_id: str | None) -> Failure:
    """Return a page failure as a row of quarantine."""
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


def _head(document: ParsedDocument | StructuredDocument) -> DocumentHead:
    return DocumentHead(document.doc_id, document.title, len(document.pages), document.date, document.labels)


def _rows(store: ObjectStore, file: str, part: str, noun: type[Noun]) -> tuple[Noun, ...]:
    table = read_table(store, file, columns=[part])
    with reading(store, file):
        return rows_of(noun, part_of(table, part))
