"""Documents in the store: one Parquet file when parsed, one when structured, each with a nested column for each part."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

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

    def _read(self, part: str, decode: Callable[[pa.Table], Decoded]) -> Decoded:
        parts = self._parts
        with reading(self._store, self.file):
            return decode(part_of(read_columns(parts, [part]), part))

    def _rows(self, part: str, noun: type[Noun]) -> tuple[Noun, ...]:
        return self._read(part, lambda table: rows_of(noun, table))


class ParsedDocumentFile(_DocumentFile):
    """The file of a parsed document."""

    @cached_property
    def pages(self) -> tuple[Page, ...]:
        """Its pages."""
        return self._rows("pages", Page)

    @cached_property
    def placements(self) -> tuple[Placement, ...]:
        """Its placements."""
        return self._rows("placements", Placement)

    @property
    def lines(self) -> tuple[Line, ...]:
        """Its lines."""
        return self._rows("lines", Line)

    @property
    def failures(self) -> tuple[PageFailure, ...]:
        """Its page failures."""
        return self._rows("failures", PageFailure)

    @property
    def labelled(self) -> frozenset[int]:
        """The orders of the placements that contain lines of text."""
        inside = self._read("lines", lambda lines: lines.column("inside"))
        return frozenset(order for order in inside.to_pylist() if order is not None)


class StructuredDocumentFile(_DocumentFile):
    """The file of a structured document."""

    @cached_property
    def head(self) -> DocumentHead:
        """The document without its parts."""
        return self._rows(_HEAD, DocumentHead)[0]

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """Its blocks, in reading order."""
        return self._rows("blocks", Block)

    @cached_property
    def chunks(self) -> tuple[Chunk, ...]:
        """Its chunks of text, tables and figures, in order."""
        return self._rows("chunks", Chunk)

    @cached_property
    def figures(self) -> tuple[PlacedFigure, ...]:
        """Its tagged figures."""
        return self._rows("figures", PlacedFigure)

    @property
    def all_figures(self) -> tuple[Figure, ...]:
        """All its figures, tagged or not."""
        return self._rows("pictures", Figure)

    @property
    def placements(self) -> tuple[Placement, ...]:
        """All its placements, tagged or not."""
        return self._rows("placements", Placement)

    @property
    def tree(self) -> tuple[Node, ...]:
        """Its evidence tree."""
        return self._rows("tree", Node)

    @property
    def failures(self) -> tuple[PageFailure, ...]:
        """Its page failures."""
        return self._rows("failures", PageFailure)

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
    return ParsedDocument(doc_id=head.doc_id, title=head.title, date=head.date, labels=head.labels, **parts)


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
        step=Step.RECOGNISE if code is FailureCode.MODEL_FAILED or code in UNFINISHED else Stage.PARSE,
        code=code,
        message=failure.message,
        run_id=run_id,
    )


def _head(document: ParsedDocument | StructuredDocument) -> DocumentHead:
    return DocumentHead(document.doc_id, document.title, len(document.pages), document.date, document.labels)
