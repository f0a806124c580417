"""What captioners describe, and the descriptions by models and people."""

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import get_args

import pyarrow as pa

from backends.models.languages import Py3LangId
from backends.stores.document_files import ParsedDocumentFile, StructuredDocumentFile, parsed_file
from pipeline.corpus.workspace import Workspace
from pipeline.records.cache import RecordCache
from schemas.corpus.models import PERSON, EntryKind
from schemas.documents import Chunk, DrawnPage, Page, PlacedFigure, Role, drawn_page_id
from schemas.models import Description, Subject
from schemas.ports import ObjectStore
from tasks.enriching.caption import (
    DescriptionResult,
    DescriptionResults,
    description_result,
    description_subject,
    description_subjects,
)
from tasks.enriching.caption_quality import missing_input
from tasks.enriching.chunk import PageWords, rows_of_pages, words_of_pages
from tasks.enriching.prompts import Surroundings, surroundings, surroundings_of_page, surroundings_of_text
from tasks.reading.correct import descriptions_by_hand

DRAWN = "drawn"


def open_drawn(store: ObjectStore, key: str) -> RecordCache[DrawnPage]:
    """Open the cache of drawn pages."""
    return RecordCache(store, f"{DRAWN}/{key}", DrawnPage)


def drawn_cache(workspace: Workspace) -> RecordCache[DrawnPage] | None:
    """Open the cache of a corpus's drawn pages; None if pages have no rows."""
    return None if workspace.keys.drawn is None else open_drawn(workspace.store, workspace.keys.drawn)


class StructuredFiles(StructuredDocumentFile):
    """A structured document with its pages and their pictures, each part read on first use."""

    def __init__(self, workspace: Workspace, doc_id: str, drawn: RecordCache[DrawnPage] | None) -> None:
        super().__init__(workspace.store, workspace.structured_file(doc_id))
        self.parsed = ParsedDocumentFile(workspace.store, parsed_file(doc_id, workspace.keys.parse))
        self._doc_id, self._drawn = doc_id, drawn
        self._by_hand = workspace.by_hand.get(doc_id, ())

    @property
    def pages(self) -> tuple[Page, ...]:
        """Its pages."""
        return self.parsed.pages

    @property
    def by_hand(self) -> dict[str, str]:
        """The descriptions of its figures that are corrections in the store."""
        return descriptions_by_hand(self._by_hand, self._doc_id, self.placements) if self._by_hand else {}

    @functools.cached_property
    def words(self) -> dict[int, PageWords]:
        """The words of each page."""
        return words_of_pages(self.pages, self.blocks)

    @functools.cached_property
    def drawn(self) -> tuple[DrawnPage, ...]:
        """Its drawn pages, in order; () if pages have no rows."""
        if self._drawn is None:
            return ()
        drawn_pages = self._drawn.read([drawn_page_id(self._doc_id, page.page) for page in self.pages])
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
    """A figure (``picture``: its id), page or text (None) that a captioner describes, at its first place in the document.

    ``id`` is that of its description, ``words`` are those in it, and ``around`` returns the text around it.
    """

    id: str
    page: int
    picture: str | None
    words: str
    around: Callable[[], Surroundings]


def caption_targets(subject: Subject, files: StructuredFiles, *, language: str = "") -> dict[str, CaptionTarget]:
    """Return the figures, pages or texts of a document that have a row, by id; ``language`` "" means the document's."""
    targets: dict[str, CaptionTarget] = {}

    def add(name: str, page: int, picture: str | None, words: str, target: PlacedFigure | PageWords | Chunk) -> None:
        around = functools.partial(_surroundings, files, target, language)  # read on demand, since few targets need them
        targets.setdefault(name, CaptionTarget(name, page, picture, words, around))

    match subject:
        case "figure":
            for figure in files.figures:  # decorations and icons have no row of their own
                placement = figure.placement
                if placement.role is Role.CONTENT and placement.figure_id is not None:
                    add(placement.figure_id, placement.page, placement.figure_id, figure.inner_text, figure)
        case "page":
            for page, picture in files.pictures.items():
                add(picture, page, picture, files.words[page].text, files.words[page])
        case "text":
            for piece in files.chunks:
                kind, name = description_subject(piece)
                if kind == subject and piece.text.strip():
                    add(name, piece.regions[0].page if piece.regions else 0, None, piece.text, piece)
    return targets


def _surroundings(files: StructuredFiles, target: PlacedFigure | PageWords | Chunk, language: str) -> Surroundings:
    match target:
        case PlacedFigure():
            return surroundings(files.head.title, target, files.chunks, language=language)
        case PageWords():
            return surroundings_of_page(files.head.title, target, language=language)
        case Chunk():
            return surroundings_of_text(files.head.title, target, language=language)


def target_ids(subject: Subject, evidence: pa.Table) -> Iterator[str]:
    """Yield the ids of a version's rows that captioners of a subject describe; some more than once."""
    columns = (evidence.column(name).to_pylist() for name in ("modality", "figure_id", "text"))
    for modality, picture, text in zip(*columns, strict=True):
        kind, name = description_subjects(modality, picture, text)
        if kind == subject:
            yield name


def describable_by(kind: EntryKind, targets: Mapping[str, CaptionTarget]) -> dict[str, CaptionTarget]:
    """Return those that a kind of captioner can describe: one that sees no pictures needs words."""
    return {
        name: target for name, target in targets.items() if missing_input(kind, Surroundings(words=target.words)) is None
    }


_FOLDER = "captions"


def open_descriptions(store: ObjectStore, key: str) -> RecordCache[Description]:
    """Open the reply cache of one captioner."""
    return RecordCache(store, f"{_FOLDER}/{key}", Description)


class Descriptions:
    """Descriptions of figures, pages and texts; caches of captioners are opened once."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._caches = {
            name: open_descriptions(workspace.store, captioner.captions.key)
            for name, captioner in workspace.captioners.items()
        }
        self._languages = Py3LangId()

    def of(self, files: StructuredFiles) -> DescriptionResults:
        """Return the descriptions for a document, but of figures with only a context."""
        results: dict[tuple[Subject, str], DescriptionResult] = {}
        for subject in get_args(Subject):
            label = self._workspace.captioner_of(subject)
            if label is not None:
                results |= {(subject, name): wording for name, wording in self._by_model(label, files).items()}
        # Added last, so that corrections by people replace what models wrote.
        if by_hand := files.by_hand:
            corrected = caption_targets("figure", files).keys() & by_hand.keys()
            results |= {("figure", name): DescriptionResult(PERSON, by_hand[name]) for name in corrected}
        return results

    def _by_model(self, label: str, files: StructuredFiles) -> dict[str, DescriptionResult]:
        captioner = self._workspace.captioners[label]
        targets = caption_targets(captioner.subject, files, language=captioner.options.language or "")
        stored_by_id = {description.id: description for description in self._caches[label].read([*targets])}
        kind, prompt = captioner.options.kind, captioner.prompt
        return {
            name: description_result(captioner.name, kind, prompt, target.around(), stored_by_id.get(name), self._languages)
            for name, target in targets.items()
        }
