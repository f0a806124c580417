"""The figures, pages and texts of structured documents that captioners describe."""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from backends.stores.document_files import (
    ParsedDocumentFile,
    StructuredDocumentFile,
    parsed_file,
    structured_file,
)
from pipeline.corpus.workspace import Workspace
from pipeline.records.cache import RecordCache
from pipeline.records.kept_files import read_kept
from schemas.corpus.captions import CaptionerKind
from schemas.documents import Chunk, DrawnPage, Page, PageFailure, PlacedFigure, Role, drawn_page_id
from schemas.generation import Subject
from schemas.parquet import rows_of, schema_of
from schemas.ports import ObjectStore
from tasks.enriching.caption import description_subject, description_subjects
from tasks.enriching.caption_quality import missing_input
from tasks.enriching.page_rows import PageWords, rows_of_pages, words_of_pages
from tasks.enriching.prompts import Surroundings
from tasks.enriching.surroundings import surroundings, surroundings_of_page, surroundings_of_text

DRAWN = "drawn"


def open_drawn(store: ObjectStore, key: str) -> RecordCache:
    """Open the cache of drawn pages."""
    return RecordCache(store, f"{DRAWN}/{key}", schema_of(DrawnPage))


def drawn_cache(workspace: Workspace) -> RecordCache | None:
    """Open the cache of a corpus's drawn pages; None where pages have no rows."""
    return None if workspace.keys.drawn is None else open_drawn(workspace.store, workspace.keys.drawn)


class StructuredFiles(StructuredDocumentFile):
    """A structured document with its pages and their pictures, each part read on first use."""

    def __init__(self, workspace: Workspace, doc_id: str, drawn: RecordCache | None) -> None:
        super().__init__(workspace.store, structured_file(doc_id, workspace.keys.structured))
        self.parsed = ParsedDocumentFile(workspace.store, parsed_file(doc_id, workspace.keys.parse))
        self._doc_id, self._drawn = doc_id, drawn

    @functools.cached_property
    def _data(self) -> bytes:
        # A document with failures may be structured again under the same name.
        return read_kept(self._store, self.file, lambda data: not self._rows_in(data, "failures", PageFailure))

    @property
    def pages(self) -> tuple[Page, ...]:
        """Its pages."""
        return self.parsed.pages

    @functools.cached_property
    def words(self) -> dict[int, PageWords]:
        """The words of each page."""
        return words_of_pages(self.pages, self.blocks)

    @functools.cached_property
    def drawn(self) -> tuple[DrawnPage, ...]:
        """Its drawn pages, in order; () where pages have no rows."""
        if self._drawn is None:
            return ()
        drawn_pages = rows_of(DrawnPage, self._drawn.read([drawn_page_id(self._doc_id, page.page) for page in self.pages]))
        return tuple(sorted(drawn_pages, key=lambda drawn_page: drawn_page.page))

    @property
    def pictures(self) -> dict[int, str]:
        """The pictures of its pages, by page; blank pages have none."""
        return {drawn_page.page: drawn_page.figure_id for drawn_page in self.drawn if drawn_page.figure_id is not None}

    def rows(self) -> list[Chunk]:
        """Return all its rows, those of pages before what stands on them."""
        if not self.drawn:
            return [*self.chunks]
        pages = rows_of_pages(self.pages, self.words, self.pictures, self.figures)
        return sorted([*pages, *self.chunks], key=lambda piece: piece.order)


@dataclass(frozen=True)
class CaptionTarget:
    """A figure, page or text that a captioner describes, at its first place in the document.

    Attributes:
        id: The id of its description: the figure's, or the text's.
        page: Its page.
        picture: Its figure id; None for a text.
        words: The words in it.
        around: Returns the text around it.
    """

    id: str
    page: int
    picture: str | None
    words: str
    around: Callable[[], Surroundings]


def caption_targets(subject: Subject, files: StructuredFiles, *, language: str = "") -> dict[str, CaptionTarget]:
    """Return the figures, pages or texts of a document that have a row, by id.

    ``language`` is that of the descriptions, "" for the document's.
    """
    targets: dict[str, CaptionTarget] = {}
    match subject:  # surroundings are read on demand, since few targets need them
        case "figure":
            for name, figure in _figures_to_describe(files.figures).items():
                surroundings = functools.partial(_around_figure, files, figure, language)
                targets[name] = CaptionTarget(name, figure.placement.page, name, figure.inner_text, surroundings)
        case "page":
            for page, picture in files.pictures.items():
                words = files.words[page]
                surroundings = functools.partial(_around_page, files, words, language)
                targets.setdefault(picture, CaptionTarget(picture, page, picture, words.text, surroundings))
        case "text":
            for piece in files.chunks:
                kind, name = description_subject(piece)
                if kind == subject and piece.text.strip():
                    surroundings = functools.partial(_around_text, files, piece, language)
                    page = piece.regions[0].page if piece.regions else 0
                    targets.setdefault(name, CaptionTarget(name, page, None, piece.text, surroundings))
    return targets


def _around_figure(files: StructuredFiles, figure: PlacedFigure, language: str) -> Surroundings:
    return surroundings(files.head.title, figure, files.chunks, language=language)


def _around_page(files: StructuredFiles, words: PageWords, language: str) -> Surroundings:
    return surroundings_of_page(files.head.title, words, language=language)


def _around_text(files: StructuredFiles, piece: Chunk, language: str) -> Surroundings:
    return surroundings_of_text(files.head.title, piece, language=language)


def target_ids(subject: Subject, evidence: pa.Table) -> Iterator[str]:
    """Yield the ids of a version's rows that captioners of a subject describe; some more than once."""
    columns = (evidence.column(name).to_pylist() for name in ("modality", "figure_id", "text"))
    for modality, picture, text in zip(*columns, strict=True):
        kind, name = description_subjects(modality, picture, text)
        if kind == subject:
            yield name


def _figures_to_describe(figures: Iterable[PlacedFigure]) -> dict[str, PlacedFigure]:
    """Return the figures that have a row of their own, each at its first place; decorations and icons have none."""
    figures_by_id: dict[str, PlacedFigure] = {}
    for figure in figures:
        if figure.placement.role is Role.CONTENT and figure.placement.figure_id is not None:
            figures_by_id.setdefault(figure.placement.figure_id, figure)
    return figures_by_id


def describable_by(kind: CaptionerKind, targets: Mapping[str, CaptionTarget]) -> dict[str, CaptionTarget]:
    """Return those that a kind of captioner can describe: one that sees no pictures needs words."""
    return {
        name: target for name, target in targets.items() if missing_input(kind, Surroundings(words=target.words)) is None
    }
