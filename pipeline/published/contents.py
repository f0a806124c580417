"""What a published version holds: its documents, their outlines, pages, rows, tables and figures, in parts of lists.

A version never changes, so an offset into one of its lists always names the same item.
"""

import functools
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from fnmatch import translate
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import BaseModel

from backends.stores.objects import read_part
from pipeline.records.evidence import row_files
from pipeline.records.ledger import read_ledger
from pipeline.records.row_parts import read_documents
from schemas.documents import Role
from schemas.errors import NotFoundError
from schemas.evidence import EVIDENCE
from schemas.filters import Modality
from schemas.ports import ObjectStore
from schemas.reports import (
    BrowsedRow,
    DocumentInfo,
    DocumentPage,
    DocumentSummary,
    FigureContext,
    FigureSummary,
    Listing,
    ListPart,
    OutlineSection,
    RowInfo,
    TableInfo,
    TableSummary,
)
from tasks.answering.retrievers import contents_of

if TYPE_CHECKING:
    from pipeline.published.version import OpenVersion

Item = TypeVar("Item", bound=BaseModel)

_FACTS = ("title", "date")


class Contents:
    """What an open version holds. Thread-safe."""

    def __init__(self, opened: "OpenVersion") -> None:
        self._opened = opened

    def documents(
        self,
        part: ListPart,
        *,
        sources: Sequence[str] = (),
        contains: str = "",
        sort: str = "source",
    ) -> Listing[DocumentSummary]:
        """Return documents.

        Args:
            part: The part of the list.
            sources: Globs, one of which fits a source.
            contains: Part of the title or of a source, in any case.
            sort: source, title, date, pages, size or rows, after ``-`` for descending; what has no date comes last.
        """
        catalogue = self._catalogue
        numbers = catalogue.ordered(sort)
        mask = self._fitting(sources)
        if contains:
            mask &= catalogue.named(contains)
        # The order of all documents is kept for later requests, so filters come after it.
        numbers = numbers[mask[numbers]]
        summaries = [catalogue.document(number) for number in numbers[part.items]]
        return self._listing(len(numbers), summaries)

    def document(self, doc_id: str) -> DocumentInfo:
        """Return a document; raise ``NotFoundError`` if the version doesn't hold it."""
        self._opened.require(doc_id)
        catalogue = self._catalogue
        summary = catalogue.document(catalogue.number(doc_id))
        return DocumentInfo(version=self._opened.version, **summary.model_dump())

    def outline(self, part: ListPart, doc_id: str) -> Listing[OutlineSection]:
        """Return the sections of a document that have rows, in reading order; raises as ``document`` does."""
        rows = {
            row["evidence_id"]: row for row in _read(self._opened, doc_id, _SECTIONED, excluded=Modality.PAGE).to_pylist()
        }
        entries = contents_of(rows.values())
        sections = [entry for entry in entries if len(entry.path) > 1]
        listed_sections = []
        for entry in sections[part.items]:
            first = rows[entry.rows[0]] if entry.rows else None
            page, label = (first["page"], page_labels(first).get(first["page"])) if first else (None, None)
            path = list(entry.path[1:])
            listed_sections.append(
                OutlineSection(path=path, title=entry.title, level=len(path), page=page, label=label, rows=len(entry.rows))
            )
        return self._listing(len(sections), listed_sections)

    def pages(self, part: ListPart, doc_id: str) -> Listing[DocumentPage]:
        """Return the pages of a document, each with its label where a row stands on it; raises as ``document`` does."""
        rows, labels = Counter[int](), dict[int, str | None]()
        by_modality = {modality: Counter[int]() for modality in Modality}
        for row in _read(self._opened, doc_id, _PAGED).to_pylist():
            row_pages = {region["page"] for region in row["regions"]}
            labels |= page_labels(row)
            rows.update(row_pages)
            by_modality[Modality(row["modality"])].update(row_pages)
        last = self._opened.pages[doc_id]
        listed_pages = [
            DocumentPage(
                page=page,
                label=labels.get(page),
                rows=rows[page],
                tables=by_modality[Modality.TABLE][page],
                figures=by_modality[Modality.FIGURE][page],
            )
            for page in range(1, last + 1)[part.items]
        ]
        return self._listing(last, listed_pages)

    def rows(
        self, part: ListPart, doc_id: str, *, modalities: Sequence[Modality] = (), page: int | None = None
    ) -> Listing[BrowsedRow]:
        """Return the rows of a document in reading order, of some modalities (() for all) or on a page of it.

        Raises as ``document`` does.
        """
        table = _read(self._opened, doc_id)
        if modalities:
            table = table.filter(pc.is_in(table.column("modality"), pa.array([str(modality) for modality in modalities])))
        if page is not None:
            is_on_page = [
                page in {region["page"] for region in row["regions"]} for row in table.select(["regions"]).to_pylist()
            ]
            table = table.filter(pa.array(is_on_page, pa.bool_()))
        rows = table.slice(part.offset, part.limit).to_pylist()
        return self._listing(table.num_rows, _browse_rows(self._opened, rows))

    def row(self, evidence_id: str) -> RowInfo:
        """Return a row; raise ``NotFoundError`` if the version doesn't hold it."""
        rows: list[dict[str, Any]] = self._opened.index.fetch([evidence_id])
        if not rows:
            raise NotFoundError(f"{self._opened.name} has no row {evidence_id}")
        return RowInfo(version=self._opened.version, **_browse_rows(self._opened, rows)[0].model_dump())

    def tables(self, part: ListPart, doc_id: str, *, page: int | None = None) -> Listing[TableSummary]:
        """Return the tables of a document; arguments and errors are those of ``rows``."""
        listing = self.rows(part, doc_id, modalities=[Modality.TABLE], page=page)
        return self._listing(listing.total, [TableSummary(**_table(row)) for row in listing.items])

    def table(self, evidence_id: str) -> TableInfo:
        """Return a table; raise ``NotFoundError`` if the version has no such row, or it isn't one."""
        row = self.row(evidence_id)
        if row.modality is not Modality.TABLE:
            raise NotFoundError(f"row {evidence_id} isn't a table, but a {row.modality}")
        return TableInfo(**_table(row), version=row.version, rows=row.rows, spans=row.spans)

    def figures(
        self,
        part: ListPart,
        doc_id: str | None = None,
        *,
        page: int | None = None,
        sources: Sequence[str] = (),
        contains: str = "",
        roles: Sequence[Role] = (),
    ) -> Listing[FigureSummary]:
        """Return figures by document and page.

        Args:
            part: As of ``rows``, like the arguments and errors that aren't named here.
            doc_id: The document.
            page: Its page.
            sources: Globs.
            contains: Part of the caption, in any case.
            roles: One of which the placement has; without any, those that have a tag.
        """
        table = self._opened.placed_figures if roles else self._opened.tagged_figures
        mask = np.ones(table.num_rows, bool)
        if roles:
            mask &= pc.is_in(table.column("role"), pa.array(roles, pa.string())).to_numpy()
        if doc_id is not None:
            self._opened.require(doc_id)
            mask &= pc.equal(table.column("doc_id"), pa.scalar(doc_id)).to_numpy()
        if page is not None:
            mask &= pc.equal(table.column("page"), pa.scalar(page, pa.int32())).to_numpy()
        if sources:
            fitting_documents = pa.array(self._catalogue.doc_ids).filter(pa.array(self._fitting(sources)))
            mask &= pc.is_in(table.column("doc_id"), fitting_documents).to_numpy()
        if contains:
            mask &= _contains(table.column("caption"), contains)
        numbers = np.flatnonzero(mask)
        rows = table.take(numbers[part.items]).to_pylist()
        summaries = [FigureSummary(**_figure(self._opened, row)) for row in rows]
        return self._listing(len(numbers), summaries)

    def context(self, part: ListPart, figure_id: str, *, around: int = 2) -> Listing[FigureContext]:
        """Return the placements of a figure that have a tag, each with ``around`` rows before and after in reading order."""
        self._opened.require_figure(figure_id)
        table = self._opened.tagged_figures
        table = table.filter(pc.equal(table.column("figure_id"), pa.scalar(figure_id)))
        contexts = []
        for row in table.slice(part.offset, part.limit).to_pylist():
            rows = _read(self._opened, row["doc_id"], excluded=Modality.PAGE)
            row_number = _row_number_of(rows, row)
            nearby_rows: dict[str, Any] = {"row": None, "before": [], "after": []}
            if row_number is not None:
                before = min(around, row_number)
                browsed = _browse_rows(self._opened, rows.slice(row_number - before, before + 1 + around).to_pylist())
                nearby_rows = {"row": browsed[before], "before": browsed[:before], "after": browsed[before + 1 :]}
            contexts.append(FigureContext(**_figure(self._opened, row), **nearby_rows))
        return self._listing(table.num_rows, contexts)

    def _fitting(self, sources: Sequence[str]) -> NDArray[np.bool_]:
        """Return which documents of the catalogue the reader may see, with a source that fits one of some globs."""
        return self._catalogue.fitting(sources) & self._opened.are_visible(self._catalogue.doc_ids)

    @property
    def _catalogue(self) -> "Catalogue":
        return self._opened.tables.catalogue

    def _listing(self, total: int, items: Sequence[Item]) -> Listing[Item]:
        return Listing(version=self._opened.version, total=total, items=[*items])


class Catalogue:
    """The documents of a version, by id."""

    def __init__(
        self, store: ObjectStore, version: str, sources: Mapping[str, list[str]], pages: Mapping[str, int]
    ) -> None:
        self._sources = sources
        self.doc_ids = sorted(sources)
        doc_ids = pa.array(self.doc_ids, pa.string())
        facts = {name: np.full(len(self.doc_ids), None, object) for name in _FACTS}
        for file in row_files(store, version, "evidence"):
            numbers = pc.index_in(read_part(store, file, "doc_id"), doc_ids).to_numpy()
            # All rows of a document have its title and date, so one row of each is read.
            documents, firsts = np.unique(numbers, return_index=True)
            for name in _FACTS:
                facts[name][documents] = read_part(store, file, name).take(firsts).to_pylist()
        counted = read_documents(store, version)
        counts = [counted.get(doc_id) for doc_id in self.doc_ids]
        sizes = {row.doc_id: row.size for row in read_ledger(store, version)}
        self.documents = pa.table(
            {
                "doc_id": doc_ids,
                "source": pa.array([sources[doc_id][0] for doc_id in self.doc_ids], pa.string()),
                **{name: pa.array(facts[name], pa.string()) for name in _FACTS},
                "language": pa.array([count and count.language for count in counts], pa.string()),
                "pages": pa.array([pages[doc_id] for doc_id in self.doc_ids], pa.int32()),
                "size": pa.array([sizes[doc_id] for doc_id in self.doc_ids], pa.int64()),
                "rows": pa.array([count.rows if count else 0 for count in counts]),
                "tables": pa.array([count.table if count else 0 for count in counts]),
                "figures": pa.array([count.figure if count else 0 for count in counts]),
            }
        )
        # A document may have several sources: they are compared in one list, and ``_owners`` has the document of each.
        self._flat_sources = [source for doc_id in self.doc_ids for source in sources[doc_id]]
        self._owners = np.repeat(np.arange(len(self.doc_ids)), [len(sources[doc_id]) for doc_id in self.doc_ids])
        # A cache of this object ends with it; one of the method would keep every catalogue.
        self.ordered = functools.cache(self._ordered)

    def number(self, doc_id: str) -> int:
        """Return the number of a document that the version holds."""
        return bisect_left(self.doc_ids, doc_id)

    def document(self, number: int) -> DocumentSummary:
        """Return a document."""
        row = self.documents.slice(number, 1).to_pylist()[0]
        row["title"] = row["title"] or ""
        del row["source"]
        return DocumentSummary(sources=self._sources[row["doc_id"]], **row)

    def _ordered(self, sort: str) -> NDArray[np.int64]:
        name, is_descending = sort.removeprefix("-"), sort.startswith("-")
        order: Literal["ascending", "descending"] = "descending" if is_descending else "ascending"
        indices = pc.sort_indices(self.documents, [(name, order), ("doc_id", "ascending")])
        return cast(NDArray[np.int64], indices.to_numpy().astype(np.int64))

    def fitting(self, sources: Sequence[str]) -> NDArray[np.bool_]:
        """Return which documents have a source that fits one of some globs; all without globs."""
        mask = np.full(len(self.doc_ids), not sources)
        if sources:
            matches = re.compile("|".join(translate(glob) for glob in sources)).match
            fitting = (matches(source) is not None for source in self._flat_sources)
            mask[self._owners[np.fromiter(fitting, bool, len(self._flat_sources))]] = True
        return mask

    def named(self, contains: str) -> NDArray[np.bool_]:
        """Return which documents have a text in their title or a source, in any case."""
        mask = _contains(self.documents.column("title"), contains)
        mask[self._owners[_contains(pa.chunked_array([pa.array(self._flat_sources, pa.string())]), contains)]] = True
        return mask


_SECTIONED = ("evidence_id", "doc_id", "title", "section_path", "modality", "page", "regions", "page_labels")
_PAGED = ("modality", "regions", "page_labels")


def _contains(texts: "pa.ChunkedArray[Any]", contains: str) -> NDArray[np.bool_]:
    """Return which texts have a part, in any case."""
    matches = cast("pa.ChunkedArray[Any]", pc.match_substring(texts, contains, ignore_case=True))
    return cast(NDArray[np.bool_], matches.fill_null(pa.scalar(False)).to_numpy().copy())


def _read(
    opened: "OpenVersion", doc_id: str, columns: Sequence[str] = tuple(EVIDENCE.names), excluded: Modality | None = None
) -> pa.Table:
    """Return the rows of a document, but for those of a modality; raises as ``Contents.document`` does."""
    opened.require(doc_id)
    table = opened.rows_of(doc_id, list(dict.fromkeys([*columns, "modality"])))
    if excluded is not None:
        table = table.filter(pc.not_equal(table.column("modality"), pa.scalar(str(excluded))))
    return table.select(list(columns))


def page_labels(row: Mapping[str, Any]) -> dict[int, str | None]:
    """Return what is printed on the pages of a row, if that is not their number."""
    pages = [region["page"] for region in row["regions"]]
    labels = row.get("page_labels") or [None] * len(pages)
    return {page: label if label and label != str(page) else None for page, label in zip(pages, labels, strict=True)}


def _browse_rows(opened: "OpenVersion", rows: Sequence[dict[str, Any]]) -> list[BrowsedRow]:
    hits = opened.as_hits(rows, dict.fromkeys((row["evidence_id"] for row in rows), 0.0))
    return [BrowsedRow.model_validate(hit.model_dump(include=set(BrowsedRow.model_fields))) for hit in hits]


def _table(row: BrowsedRow) -> dict[str, Any]:
    fields = row.model_dump(include=TableSummary.model_fields.keys() - {"links"})
    size = {"lines": len(row.rows), "columns": max(map(len, row.rows), default=0)}
    return fields | size | {"label": row.regions[0].label}


def _figure(opened: "OpenVersion", row: Mapping[str, Any]) -> dict[str, Any]:
    fields = {name: row[name] for name in FigureSummary.model_fields if name in row}
    return fields | {"source": opened.sources[row["doc_id"]][0]}


def _row_number_of(rows: pa.Table, figure: Mapping[str, Any]) -> int | None:
    """Return the place of a figure's own row on its page, or else of a row that shows or mentions it there, or anywhere."""
    best: tuple[tuple[bool, bool], int] | None = None
    columns = rows.select(["figure_id", "figure_refs", "regions"]).to_pylist()
    for row_number, row in enumerate(columns):
        if figure["figure_id"] in row["figure_refs"] or row["figure_id"] == figure["figure_id"]:
            is_on_page = figure["page"] in {region["page"] for region in row["regions"]}
            rank = (not is_on_page, row["figure_id"] != figure["figure_id"])
            if best is None or rank < best[0]:
                best = rank, row_number
    return None if best is None else best[1]
