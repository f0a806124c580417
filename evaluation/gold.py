"""The gold evidence of a question in one version, and the pages and figures of hits."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from evaluation.questions import GoldRegion, Question
from schemas.evidence import CitedFigure, Hit
from schemas.geometry import BBox

FIGURE_IOU = 0.5
"""Minimum IoU of a figure with its gold box."""

Placed = Mapping[str, Sequence[tuple[str, int, BBox]]]
"""Figure id to where it stands: source's file name, page, bbox."""


@dataclass(frozen=True)
class Gold:
    """What a question wants from one version.

    ``figures`` has for each of its figures the ids at that place, empty if the version has none there; ``names`` file names of
    the gold documents by id.
    """

    question: Question
    figures: tuple[frozenset[str], ...] = ()
    names: Mapping[str, str] | None = None

    def document_of(self, hit: Hit) -> str:
        """Return the file name of a hit's document, as the question spells it."""
        return (self.names or {}).get(hit.doc_id) or hit.source.rpartition("/")[2]

    def boxes(self, hit: Hit) -> Iterator[tuple[str, int, BBox]]:
        """Yield document, page and box of all that a hit shows: its regions, then its figures."""
        name = self.document_of(hit)
        yield from ((name, region.page, BBox(*region.bbox)) for region in hit.regions)
        yield from ((name, figure.page, BBox(*figure.bbox)) for figure in hit.figures if _stands_in(hit, figure))

    def figure_at(self, figure_id: str) -> int | None:
        """Return which of its figures an id is; None for another figure."""
        return next((number for number, ids in enumerate(self.figures) if figure_id in ids), None)


def gold_for_question(question: Question, sources: Mapping[str, Sequence[str]], placed: Placed) -> Gold:
    """Return the gold evidence of a question, by the sources of documents and the places of figures that questions ask for."""
    document_names = {*question.documents, *question.evidence_documents}
    names = {
        doc_id: name
        for doc_id, document_sources in sources.items()
        for source in document_sources
        if (name := source.rpartition("/")[2]) in document_names
    }
    figures = tuple(
        frozenset(
            name for name, placements in placed.items() if any(_shows_figure(gold, placement) for placement in placements)
        )
        for gold in question.figures
    )
    return Gold(question, figures, names)


def _shows_figure(gold: GoldRegion, placement: tuple[str, int, BBox]) -> bool:
    name, page, box = placement
    return gold.page == page and gold.doc in (None, name) and BBox(*gold.bbox).iou(box) >= FIGURE_IOU


@dataclass(frozen=True)
class Level:
    """A kind of unit that is retrieved: which units are relevant, with their grades, and those of each hit."""

    name: str
    relevant: Callable[[Gold], dict[str, int]]
    units: Callable[[Gold, Hit], Iterable[str]]

    def first_hit(self, gold: Gold, hits: Sequence[Hit]) -> int | None:
        """Return the rank, from 1, of the first hit with a relevant unit."""
        relevant_units = self.relevant(gold)
        return next(
            (rank for rank, hit in enumerate(hits, 1) if any(unit in relevant_units for unit in self.units(gold, hit))),
            None,
        )


def _pages(gold: Gold, hit: Hit) -> Iterator[str]:
    name = gold.document_of(hit)
    # A gold page that names no document counts in any document.
    anywhere = {gold_page.page for gold_page in gold.question.pages if gold_page.doc is None}
    for page in hit.pages:
        yield f"{'' if page in anywhere else name}#{page}"


def _stands_in(hit: Hit, figure: CitedFigure) -> bool:
    """Return whether a figure stands in a row, which may also only mention it."""
    return figure.figure_id == hit.figure_id or figure.number in hit.tagged_text


def _figures(gold: Gold, hit: Hit) -> Iterator[str]:
    mentioned = {figure.figure_id for figure in hit.figures if not _stands_in(hit, figure)}
    for figure_id in dict.fromkeys(([hit.figure_id] if hit.figure_id else []) + hit.figure_refs):
        if figure_id in mentioned:
            continue
        number = gold.figure_at(figure_id)
        yield figure_id if number is None else f"figure {number}"


PAGES = Level(
    "page", lambda gold: {f"{gold_page.doc or ''}#{gold_page.page}": 1 for gold_page in gold.question.pages}, _pages
)
FIGURES = Level("figure", lambda gold: {f"figure {number}": 1 for number, _ in enumerate(gold.question.figures)}, _figures)
