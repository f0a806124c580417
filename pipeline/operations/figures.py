"""The figures of a version as a contact sheet, filtered and paged, and pictures of figures and pages."""

import functools
import io
from collections.abc import Hashable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from backends.models.pictures import fit
from backends.stores.objects import read_table
from pipeline.corpus.workspace import open_workspace
from pipeline.records.evidence import DocumentRows, placement_parts, row_files, rows_at
from pipeline.records.ledger import first_sources, read_fates, read_ledger
from pipeline.records.manifests import last_manifest
from schemas.base import Frozen
from schemas.documents import Role
from schemas.errors import NotFoundError, UserError
from schemas.evidence import PLACEMENTS
from schemas.filters import Modality
from schemas.geometry import BBox
from schemas.ids import document_file, figure_file
from schemas.ports import ObjectStore
from workers.draw_pages import Drawing, PageDrawer

SHEETS = 4
"""Most versions whose placements are indexed in this process."""

THUMBNAIL = 240
"""Longer side of a thumbnail, in pixels."""
_THUMBNAILS = 1_000  # some 8 kB each

Box = tuple[float, float, float, float]
"""x0, y0, x1, y1 in PDF points from the top left."""

_ROLES = list(Role)


class SheetFigure(Frozen):
    """A placement of a figure.

    Attributes:
        figure_id: Its pixels; None where none are stored.
        source: The document's first source.
        bbox: In points.
        kind: Such as raster, vector or scan.
        tag: Its tag in the text; None for roles without.
        caption: As printed; "" without.
        width: In pixels; None without pixels, as ``height``.
        placed: How often the version places the same pixels.
        description: By a model or person; None where its document describes it.
        described_by: Who described it; None where it has no row.
        flags: Short warnings.
    """

    figure_id: str | None
    source: str
    doc_id: str
    page: int
    bbox: BBox
    role: Role
    reason: str
    kind: str
    tag: str | None
    caption: str
    width: int | None
    height: int | None
    placed: int
    description: str | None
    described_by: str | None
    flags: list[str]


class FigureSheet:
    """The placements of a version, in the order of documents and pages.

    It holds ten bytes a placement. Whole rows are read from the files that hold a page's figures.
    """

    def __init__(self, store: ObjectStore, version: str) -> None:
        self._store = store
        self._files = row_files(self._store, version, "placements")
        self._evidence = DocumentRows(self._store, version)
        self._sources = first_sources(read_ledger(self._store, version))
        documents: dict[str, int] = {}
        roles, captioned, of_document, pixels = [], [], [], []
        self._starts = [0]
        for part in placement_parts(self._store, version):
            self._starts.append(self._starts[-1] + part.num_rows)
            roles.append(pc.index_in(part.column("role"), pa.array(_ROLES, pa.string())).to_numpy().astype(np.int8))
            captioned.append(pc.not_equal(part.column("caption"), pa.scalar("")).to_numpy())
            of_document.append(_numbered(part.column("doc_id"), documents))
            # Half a digest tells figures apart.
            pixels.append(pc.utf8_slice_codeunits(part.column("figure_id"), 0, 32))
        self._roles = np.concatenate([np.empty(0, np.int8), *roles])
        self._captioned = np.concatenate([np.empty(0, bool), *captioned])
        self._of_document = np.concatenate([np.empty(0, np.int32), *of_document])
        self._occurrences = _occurrences(pixels)
        self._documents = list(documents)

    @property
    def roles(self) -> dict[Role, int]:
        """How many placements have each role that occurs."""
        counts = np.bincount(self._roles, minlength=len(_ROLES))
        return {role: int(count) for role, count in zip(_ROLES, counts, strict=True) if count}

    def find(self, *, role: Role | None = None, source: str = "", captioned: bool | None = None) -> NDArray[np.int64]:
        """Return the numbers of the placements that fit.

        Args:
            role: None for all.
            source: Part of a document's source, in any case; "" for all.
            captioned: With or without a printed caption; None for both.
        """
        fits = np.ones(len(self._roles), bool)
        if role is not None:
            fits &= self._roles == _ROLES.index(role)
        if captioned is not None:
            fits &= self._captioned == captioned
        if source:
            is_named = [source.casefold() in self._source(doc_id).casefold() for doc_id in self._documents]
            fits &= np.array(is_named, bool)[self._of_document] if is_named else False
        return np.flatnonzero(fits)

    def figures(self, numbers: Sequence[int]) -> list[SheetFigure]:
        """Return placements by their numbers, in ascending order.

        Raises:
            TransientError: Their rows can't be read.
        """
        placements = rows_at(self._store, self._files, self._starts, np.array(numbers, np.int64), PLACEMENTS)
        rows = list(zip(numbers, placements, strict=True))
        descriptions = self._descriptions({row["doc_id"] for _, row in rows})
        return [self._figure(number, row, descriptions.get((row["doc_id"], row["figure_id"]))) for number, row in rows]

    def _figure(self, number: int, row: dict[str, Any], description_row: dict[str, Any] | None) -> SheetFigure:
        flags = [name.replace("_", " ") for name in (description_row or {}).get("flags") or []]
        if row["role"] == Role.CONTENT and not row["caption"]:
            flags.insert(0, "no caption")
        placed = int(self._occurrences[number])
        if placed > 1:
            flags.append(f"placed {placed} times")
        sheet_values = {name: value for name, value in row.items() if name in SheetFigure.model_fields}
        return SheetFigure(
            **sheet_values,
            source=self._source(row["doc_id"]),
            placed=placed,
            description=description_row["description"] if description_row else None,
            described_by=description_row["described_by"] if description_row else None,
            flags=flags,
        )

    def _source(self, doc_id: str) -> str:
        return self._sources.get(doc_id, doc_id)

    def _descriptions(self, doc_ids: Iterable[str]) -> dict[tuple[str, str], dict[str, Any]]:
        """Return what the rows of figures of some documents say of each, from the files that hold them."""
        documents = sorted(doc_ids)
        document_ids = pa.array(documents, pa.string())
        files = dict.fromkeys(name for doc_id in documents for name in self._evidence.files(doc_id))
        rows_by_figure = dict[tuple[str, str], dict[str, Any]]()
        for name in files:
            part = read_table(self._store, name, columns=["doc_id", "modality", "figure_id", *_SAID])
            of_figures = pc.equal(part.column("modality"), pa.scalar(str(Modality.FIGURE)))
            fits = pc.and_(of_figures, pc.is_in(part.column("doc_id"), document_ids))
            for row in part.filter(fits).to_pylist():
                rows_by_figure.setdefault((row["doc_id"], row["figure_id"]), row)
        return rows_by_figure


_SAID = ("description", "described_by", "flags")


def figure_sheet(store: ObjectStore, version: str) -> FigureSheet:
    """Return the sheet of a version, which never changes; the last ``SHEETS`` stay indexed.

    Raises:
        TransientError: Its placements can't be read.
    """
    return _figure_sheet(cast(Hashable, store), version)


@functools.lru_cache(maxsize=SHEETS)
def _figure_sheet(store: ObjectStore, version: str) -> FigureSheet:
    return FigureSheet(store, version)


def _numbered(documents: "pa.ChunkedArray[Any]", number_by_document: dict[str, int]) -> NDArray[np.int32]:
    """Return the number of each document, and add new ones to those known."""
    encoded = documents.combine_chunks().dictionary_encode()
    numbers = [number_by_document.setdefault(str(name), len(number_by_document)) for name in encoded.dictionary.to_pylist()]
    return np.array(numbers, np.int32)[encoded.indices.to_numpy()] if numbers else np.empty(0, np.int32)


def _occurrences(pixels: Iterable["pa.ChunkedArray[Any]"]) -> NDArray[np.int32]:
    """Return how often each figure occurs, for each placement; 0 without pixels."""
    chunks = [chunk for part in pixels for chunk in part.chunks]
    encoded = pa.chunked_array(chunks, pa.string()).combine_chunks().dictionary_encode()
    indices = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    counts: NDArray[np.int32] = np.bincount(indices[indices >= 0], minlength=len(encoded.dictionary) + 1).astype(np.int32)
    counts[-1] = 0  # of those without pixels
    occurrences: NDArray[np.int32] = counts[indices]
    return occurrences


def figure_picture(store: ObjectStore, figure_id: str, side: int) -> bytes:
    """Return a stored figure as WebP, its longer side at most ``side`` pixels.

    Args:
        store: The corpus's store.
        figure_id: The figure.
        side: In pixels.

    Raises:
        NotFoundError: The store has no such figure.
        TransientError: It isn't what was written.
    """
    try:
        stored = store.get(figure_file(figure_id))
    except FileNotFoundError as error:
        raise NotFoundError(f"the store has no figure {figure_id}") from error
    webp = io.BytesIO()
    fit(stored, side).save(webp, "WEBP", quality=80, method=0)
    return webp.getvalue()


def thumbnail(store: ObjectStore, figure_id: str) -> bytes:
    """Return a stored figure as ``figure_picture`` does, in the size of a thumbnail; the last ones are cached."""
    return _thumbnail(cast(Hashable, store), figure_id)


@functools.lru_cache(maxsize=_THUMBNAILS)
def _thumbnail(store: ObjectStore, figure_id: str) -> bytes:
    return figure_picture(store, figure_id, THUMBNAIL)


def page_picture(file: str, doc_id: str, page: int, *, dpi: int, boxes: Sequence[Box] = ()) -> "Future[bytes]":
    """Return the future PNG of a page of a document, drawn in a child process; ``boxes`` are highlighted.

    The document is in the store, or in quarantine after the last refresh: then it may be in the source only. Errors are those of
    ``PageDrawer.draw``.

    Args:
        file: The corpus file.
        doc_id: The document.
        page: From 1.
        dpi: Resolution.
        boxes: In points.

    Raises:
        NotFoundError: Neither has it.
        TransientError: Too many pages are waiting.
    """
    workspace = open_workspace(file)
    try:
        passwords = tuple(workspace.passwords())
    except UserError:  # not set here: pages of encrypted documents then say so
        passwords = ()
    drawing = Drawing(workspace.store.root, document_file(doc_id), page, dpi, tuple(boxes), passwords=passwords)
    if not workspace.store.exists(drawing.name):
        source = _source_of(workspace.store, doc_id)
        drawing = replace(drawing, store_address=workspace.corpus.source, name=source, digest=doc_id)
    return _drawer().draw(drawing)


def _source_of(store: ObjectStore, doc_id: str) -> str:
    """Return where the last refresh found a document."""
    last = last_manifest(store)
    if last is not None:
        fates = read_fates(store, last.version)
        document_fates = fates.filter(pc.equal(fates.column("doc_id"), pa.scalar(doc_id)))
        if document_fates.num_rows:
            return str(document_fates.column("source")[0].as_py())
    raise NotFoundError(f"neither the store nor the last refresh has a document {doc_id}")


@functools.cache
def _drawer() -> PageDrawer:
    return PageDrawer()
