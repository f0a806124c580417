"""Corrections by hand: what of a page can be corrected, what was corrected, and whether it still fits."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from backends.stores.document_files import ParsedDocumentFile, StructuredDocumentFile, parsed_file
from pipeline.corpus.workspace import corrected_file
from pipeline.records.corrections import change_corrections, corrections_of, read_stored_corrections
from pipeline.records.evidence import read_placements
from pipeline.records.ledger import document_of, indexed_sources, read_failures, read_ledger
from pipeline.records.manifests import named_manifest
from pipeline.records.publication import read_pointer, resolve_version
from schemas.base import Frozen
from schemas.corrections import CHOICES, OF_FIGURES, CorrectionKind, StoredCorrection
from schemas.documents import Block, Page, Placement, Role
from schemas.errors import FailureCode, UserError
from schemas.geometry import Box
from schemas.ports import ObjectStore
from schemas.tags import restore, strip
from tasks.reading.correct import CORRECTABLE, as_words, section_of, text_of

MOST_CHARACTERS = 20_000
"""Maximum characters of a corrected text."""

State = Literal["live", "waits for a refresh", "no longer fits", "document gone", "undone"]


class PagePart(Frozen):
    """A figure or block of a page; ``name`` is the figure's id or the block's number, ``kinds`` what can be corrected of it."""

    name: str
    what: str
    text: str
    bbox: Box
    kinds: list[CorrectionKind]
    rows: list[list[str]] = []


class PageParts(Frozen):
    """A page of a document of the live version, with what can be corrected on it; sizes in points, before its rotation."""

    source: str
    doc_id: str
    page: int
    pages: int
    width_pt: float
    height_pt: float
    rotation: int
    parts: list[PagePart]


class ListedCorrection(Frozen):
    """A correction, and what became of it."""

    id: str
    state: State
    correction: StoredCorrection


class LiveDocument:
    """A document of the live version, by its source; raises ``UserError`` if there is none."""

    def __init__(self, store: ObjectStore, corpus: str, source: str) -> None:
        version = resolve_version(store, corpus, "live")
        doc_id = document_of(source, indexed_sources(read_ledger(store, version)))
        if doc_id is None:
            raise UserError(f"{version} has no document {source}; name it as 'inset search' shows it")
        keys = named_manifest(store, corpus, version).keys
        file = corrected_file(doc_id, keys["structured"], corrections_of(store, version))
        document = StructuredDocumentFile(store, file)
        self.source, self.doc_id = source, doc_id
        self.blocks: Sequence[Block] = document.blocks
        self.placements: Sequence[Placement] = document.placements
        self.captions = {figure.placement.order: figure.caption for figure in document.figures}
        self._pages = ParsedDocumentFile(store, parsed_file(doc_id, keys["parse"])).pages

    def page(self, number: int) -> Page:
        """Return a page, or raise ``UserError``."""
        if not 1 <= number <= len(self._pages):
            raise UserError(f"{self.source} has no page {number}; its pages are 1 to {len(self._pages)}")
        return self._pages[number - 1]

    def parts(self, number: int) -> PageParts:
        """Return what can be corrected on a page, or raise ``UserError``."""
        page = self.page(number)
        parts = [
            PagePart(
                name=placement.figure_id,
                what=placement.role,
                text=restore(self.captions.get(placement.order, "")),
                bbox=placement.bbox,
                kinds=[kind for kind in OF_FIGURES if kind is CorrectionKind.ROLE or placement.order in self.captions],
            )
            for placement in self.placements
            if placement.page == number and placement.figure_id is not None
        ]
        parts += [
            PagePart(
                name=str(block.order),
                what=block.kind,
                text=restore(strip(block.text)),
                bbox=block.bbox,
                kinds=kinds,
                rows=[[restore(strip(cell)) for cell in row] for row in block.rows],
            )
            for block in self.blocks
            if block.page == number and (kinds := [kind for kind, takes in CORRECTABLE.items() if takes(block)])
        ]
        return PageParts(
            source=self.source,
            doc_id=self.doc_id,
            page=number,
            pages=len(self._pages),
            width_pt=page.width_pt,
            height_pt=page.height_pt,
            rotation=page.rotation,
            parts=parts,
        )


def live_sources(store: ObjectStore) -> list[str]:
    """Return the sources of the live version's documents, sorted; [] if nothing is live."""
    pointer = read_pointer(store)
    documents = indexed_sources(read_ledger(store, pointer.version)) if pointer else {}
    return sorted(source for sources in documents.values() for source in sources)


def correct_part(
    store: ObjectStore,
    corpus: str,
    source: str,
    page: int,
    name: str,
    kind: CorrectionKind,
    value: str,
    *,
    by: str,
    reason: str = "",
    row: int = -1,
    column: int = -1,
) -> StoredCorrection:
    """Store a correction of a figure or block of the live version, in place of an earlier one; the next refresh applies it.

    ``name`` is a part's, or the beginning of a figure's. A cell is named by ``row`` and ``column``, counted from 0, the header
    first. Raises ``UserError`` where there is no such part, or the value isn't one of its kind.
    """
    document = LiveDocument(store, corpus, source)
    named = (
        part for part in document.parts(page).parts if part.name == name or (len(name) >= 8 and part.name.startswith(name))
    )
    part = next(named, None)
    if part is None:
        raise UserError(
            f"page {page} of {source} has no {name}; to see what it has: inset correct {corpus} {source} {page}"
        )
    if kind not in part.kinds:
        raise UserError(f"a {part.what} has no {kind} to correct; it has: {', '.join(part.kinds)}")
    if kind is CorrectionKind.CELL and not (0 <= row < len(part.rows) and 0 <= column < len(part.rows[row])):
        raise UserError(f"the table has no cell in row {row}, column {column}; they count from 0, the header first")
    holding = [earlier for earlier in read_stored_corrections(store) if not earlier.undone and earlier.source == source]
    fields = (
        {
            "figure_id": part.name,
            "is_only": [placement.figure_id for placement in document.placements].count(part.name) == 1,
        }
        if kind in OF_FIGURES
        else _block_fields(document, int(part.name), holding, row, column)
    )
    now = datetime.now(UTC)
    correction = StoredCorrection(
        at=now,
        by=by,
        reason=reason.strip(),
        kind=kind,
        value=_checked(kind, value),
        source=source,
        doc_id=document.doc_id,
        page=page,
        bbox=part.bbox,
        **fields,
    )
    undone = f"replaced by {by} at {now:%Y-%m-%d %H:%M} UTC"
    change_corrections(
        store,
        lambda stored: [
            *_undone(stored, lambda earlier: _target(earlier) == _target(correction), undone),
            correction,
        ],
    )
    return correction


def describe_figures(
    store: ObjectStore, corpus: str, descriptions: Mapping[str, str], *, by: str, reason: str = ""
) -> list[StoredCorrection]:
    """Store descriptions of figures of the live version, in each document that shows them.

    A figure is named by the beginning of its id, or by the number in its tag. Raises ``UserError``, and stores nothing, where
    a name fits no figure, or several.
    """
    version = resolve_version(store, corpus, "live")
    sources = indexed_sources(read_ledger(store, version))
    placed = read_placements(store, version).select(["figure_id", "number", "role", "doc_id", "page"])
    placed = placed.filter(pc.equal(placed.column("role"), pa.scalar(str(Role.CONTENT))))
    described, mistakes = list[tuple[str, dict[str, Any]]](), list[str]()
    for name, text in descriptions.items():
        is_named = pc.or_kleene(
            pc.starts_with(placed.column("figure_id"), name), pc.equal(placed.column("number"), pa.scalar(name))
        )
        # Of a document's placements the first is the last to be entered.
        rows = {row["doc_id"]: row for row in reversed(placed.filter(is_named).to_pylist())}
        if (figures := len({row["figure_id"] for row in rows.values()})) == 1:
            described += [(text, row) for row in rows.values()]
        else:
            mistakes.append(f"{name[:64]!r} names {figures or 'no'} figures of {version}; write more of its id")
    if mistakes:
        raise UserError(*mistakes)
    kind = CorrectionKind.DESCRIPTION
    return [
        correct_part(
            store, corpus, sources[row["doc_id"]][0], row["page"], row["figure_id"], kind, text, by=by, reason=reason
        )
        for text, row in described
    ]


def undo_correction(store: ObjectStore, correction_id: str, *, by: str) -> None:
    """Take a correction back; the next refresh makes the document without. Raises ``UserError`` where none holds of this id."""
    if all(entry.undone or entry.id != correction_id for entry in read_stored_corrections(store)):
        raise UserError(f"there is no correction {correction_id!r} to undo; to see them: inset correct CORPUS")
    undone = f"by {by} at {datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    change_corrections(
        store,
        lambda stored: _undone(stored, lambda entry: entry.id == correction_id, undone),
    )


def _undone(
    stored: Sequence[StoredCorrection], matches: Callable[[StoredCorrection], bool], undone: str
) -> list[StoredCorrection]:
    """Return the corrections, those that hold and match taken back for a reason."""
    return [
        entry.model_copy(update={"undone": undone}) if not entry.undone and matches(entry) else entry for entry in stored
    ]


def listed_corrections(store: ObjectStore, corpus: str) -> list[ListedCorrection]:
    """Return the corrections, newest first, with what became of them in the live version."""
    pointer = read_pointer(store)
    applied, sources, lost = set[str](), live_sources(store), ""
    if pointer is not None:
        applied = {entry.id for of_document in corrections_of(store, pointer.version).values() for entry in of_document}
        failures = read_failures(store, named_manifest(store, corpus, pointer.version)) or []
        lost = "\n".join(failure.message for failure in failures if failure.code is FailureCode.CORRECTION_LOST)

    def state(correction: StoredCorrection) -> State:
        if correction.undone:
            return "undone"
        if correction.source not in sources:
            return "document gone"
        if correction.id not in applied:
            return "waits for a refresh"
        return "no longer fits" if f"correction {correction.id} " in lost else "live"

    stored = reversed(read_stored_corrections(store))
    return [ListedCorrection(id=entry.id, state=state(entry), correction=entry) for entry in stored]


def _checked(kind: CorrectionKind, value: str) -> str:
    """Return a correction's value on one line, or raise ``UserError``."""
    value = " ".join(value.split())
    choices = CHOICES.get(kind)
    if choices is not None and value not in choices:
        raise UserError(f"{value!r} is no {kind}; choose one of: {', '.join(choices)}")
    if len(value) > MOST_CHARACTERS or (not value and kind is not CorrectionKind.CELL):
        raise UserError(f"a {kind} has 1 to {MOST_CHARACTERS:,} characters")
    return value


def _block_fields(
    document: LiveDocument, order: int, holding: Sequence[StoredCorrection], row: int, column: int
) -> dict[str, object]:
    """Return how a block is known again: by its words as they were read, which corrections of it that hold have kept."""
    block = next(block for block in document.blocks if block.order == order)
    of_block = [entry for entry in holding if entry.text and (entry.page, entry.bbox) == (block.page, tuple(block.bbox))]
    text = of_block[0].text if of_block else text_of(block)
    identity: dict[str, object] = {
        "text": text,
        "section": section_of(block),
        "is_only": sum(as_words(candidate.text) == as_words(block.text) for candidate in document.blocks) == 1,
    }
    if row < 0:
        return identity
    cells = {(entry.row, entry.column): entry.cell for entry in of_block}

    def as_read(at: tuple[int, int]) -> str:
        return cells.get(at, strip(block.rows[at[0]][at[1]]))

    labels = (as_words(as_read((row, 0))) if column else "", as_words(as_read((0, column))) if row else "")
    return {**identity, "row": row, "column": column, "cell": as_read((row, column)), "labels": labels}


def _target(entry: StoredCorrection) -> tuple[object, ...]:
    """Return what a correction is of, which a later one of the same replaces."""
    is_of_figure = entry.figure_id and entry.kind is CorrectionKind.DESCRIPTION
    position = (entry.figure_id,) if is_of_figure else (entry.page, entry.bbox)
    return entry.kind, entry.source, entry.row, entry.column, position
