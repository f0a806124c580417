"""Documents in the store: one Parquet file when parsed, one when structured, each with a nested column for each part."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

import pyarrow as pa
from pyarrow.parquet import ParquetFile

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
from schemas.ids import document_file
from schemas.parquet import nested, open_parquet, part_of, read_columns, rows_of, to_parquet
from schemas.ports import ObjectStore
from schemas.stages import Stage, Step

Decoded = TypeVar("Decoded")

FILES_VERSION = "3"
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
    doubts: tuple[str, ...] = ()
    pdf: str | None = None


def parsed_file(doc_id: str, key: str) -> str:
    """Name the file of a parsed document."""
    return f"parsed/{doc_id}/{key}.parquet"


def structured_file(doc_id: str, key: str) -> str:
    """Name the file of a structured document."""
    return f"structured/{doc_id}/{key}.parquet"


class _DocumentFile:
    """The file of a document, read and checked once; each part is decoded on first use."""

    def __init__(self, store: ObjectStore, file: str) -> None:
        self.file = file
        self._store = store

    @cached_property
    def _parts(self) -> ParquetFile:
        data = self._store.get(self.file)
        with reading(self._store, self.file):
            return open_parquet(data)

    def read(self, part: str, decode: Callable[[pa.Table], Decoded]) -> Decoded:
        """Return what ``decode`` makes of a part."""
        parts = self._parts
        with reading(self._store, self.file):
            return decode(part_of(read_columns(parts, [part]), part))


class _Rows(Generic[Noun]):
    """The rows of a part of a document's file, decoded at each use, or once where ``keep``."""

    def __init__(self, part: str, noun: type[Noun], *, keep: bool = False) -> None:
        self._part, self._noun, self._keep = part, noun, keep

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, file: _DocumentFile, owner: type) -> tuple[Noun, ...]:
        rows = file.read(self._part, lambda table: rows_of(self._noun, table))
        if self._keep:
            file.__dict__[self._name] = rows  # found before this descriptor
        return rows


class ParsedDocumentFile(_DocumentFile):
    """The file of a parsed document."""

    pages = _Rows("pages", Page, keep=True)
    placements = _Rows("placements", Placement, keep=True)
    lines = _Rows("lines", Line)
    failures = _Rows("failures", PageFailure)
    _heads = _Rows(_HEAD, DocumentHead, keep=True)

    @property
    def pdf(self) -> str:
        """The name of its PDF in the store."""
        head = self._heads[0]
        return head.pdf or document_file(head.doc_id)

    @property
    def doubts(self) -> tuple[str, ...]:
        """Why the file may be cut or damaged."""
        return self._heads[0].doubts

    @property
    def labelled(self) -> frozenset[int]:
        """The orders of the placements that contain lines of text."""
        inside = self.read("lines", lambda lines: lines.column("inside"))
        return frozenset(order for order in inside.to_pylist() if order is not None)


class StructuredDocumentFile(_DocumentFile):
    """The file of a structured document; ``figures`` are the tagged ones, ``chunks`` those of text, tables and figures."""

    blocks = _Rows("blocks", Block, keep=True)
    chunks = _Rows("chunks", Chunk, keep=True)
    figures = _Rows("figures", PlacedFigure, keep=True)
    all_figures = _Rows("pictures", Figure)
    placements = _Rows("placements", Placement)
    tree = _Rows("tree", Node)
    failures = _Rows("failures", PageFailure)
    _heads = _Rows(_HEAD, DocumentHead, keep=True)

    @property
    def head(self) -> DocumentHead:
        """The document without its parts."""
        return self._heads[0]

    @property
    def marginal_pages(self) -> frozenset[int]:
        """The pages that have running heads and nothing else."""
        kinds: dict[int, set[str]] = {}
        for block in self.blocks:
            kinds.setdefault(block.page, set()).add(block.kind)
        return frozenset(page for page, kinds_of_page in kinds.items() if kinds_of_page == {BlockKind.MARGIN})


def is_finished(store: ObjectStore, file: str) -> bool:
    """Return whether a structured document has no work left for models."""
    return not any(failure.code in UNFINISHED for failure in StructuredDocumentFile(store, file).failures)


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
    return ParsedDocument(
        doc_id=head.doc_id, title=head.title, date=head.date, labels=head.labels, doubts=head.doubts, pdf=head.pdf, **parts
    )


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


def reported(failure: PageFailure, source: str, doc_id: str, run_id: str | None) -> Failure:
    """Return a page failure as a row of quarantine."""
    code = FailureCode(failure.code)
    return Failure(
        source=source,
        doc_id=doc_id,
        page=failure.page,
        step=Step.RECOGNISE
        if code is FailureCode.MODEL_FAILED or code in UNFINISHED
        else Step.STRUCTURE
        if code is FailureCode.CORRECTION_LOST
        else Stage.PARSE,
        code=code,
        message=failure.message,
        run_id=run_id,
    )


def _head(document: ParsedDocument | StructuredDocument) -> DocumentHead:
    doubts = document.doubts if isinstance(document, ParsedDocument) else ()
    pages = len(document.pages)
    return DocumentHead(document.doc_id, document.title, pages, document.date, document.labels, doubts, document.pdf)
