"""Make the rows of a version out of its documents, and number their tags."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from schemas.documents import TAGGED, Chunk, Figure, Placement
from schemas.evidence import EVIDENCE, PLACEMENTS, Modality
from schemas.ids import evidence_id
from schemas.tags import DOC_DIGITS, TagTemplate, fill, restore
from tasks.tag import number_figures


@dataclass(frozen=True)
class DocumentPieces:
    """What a document brings into a version. ``captions`` goes by the order of the placement."""

    doc_id: str
    title: str
    sources: tuple[str, ...]
    chunks: Sequence[Chunk]
    figures: Sequence[Figure]
    placements: Sequence[Placement]
    captions: Mapping[int, str]


@dataclass(frozen=True)
class Assembled:
    """Rows of a version, by document id and reading order."""

    evidence: pa.Table
    placements: pa.Table


def assemble(documents: Iterable[DocumentPieces], template: TagTemplate, digits: int) -> Assembled:
    """Return the rows of a version; the same for the same documents, whatever their order and who made them.

    Args:
        documents: Every document of the version, once.
        template: How tags are spelled.
        digits: Digits of a tag before widening.
    """
    ordered = sorted(documents, key=lambda document: document.doc_id)
    figures = {figure.figure_id: figure for document in ordered for figure in document.figures}
    tagged = {
        placement.figure_id
        for document in ordered
        for placement in document.placements
        if placement.role in TAGGED and placement.figure_id is not None
    }
    numbers = number_figures({figure_id: int(figures[figure_id].sha1, 16) for figure_id in tagged}, digits)
    evidence: list[dict[str, object]] = []
    placements: list[dict[str, object]] = []
    for document in ordered:
        tags = _tags(document, figures, numbers, template)
        evidence.extend(_evidence(document, tags))
        placements.extend(_placements(document, figures, numbers, tags))
    unique = {row["evidence_id"]: row for row in reversed(evidence)}
    kept = [row for row in evidence if unique[row["evidence_id"]] is row]
    return Assembled(pa.Table.from_pylist(kept, schema=EVIDENCE), pa.Table.from_pylist(placements, schema=PLACEMENTS))


def _tags(
    document: DocumentPieces, figures: Mapping[str, Figure], numbers: Mapping[str, str], template: TagTemplate
) -> dict[int, str]:
    """Return the tags of a document's tagged placements, by their order."""
    tags: dict[int, str] = {}
    for placement in document.placements:
        if placement.role in TAGGED and placement.figure_id is not None:
            figure, box = figures[placement.figure_id], placement.bbox
            tags[placement.order] = template.write(
                numbers[placement.figure_id],
                figure.ext,
                width=figure.width,
                height=figure.height,
                kind=str(placement.kind),
                role=str(placement.role),
                doc=document.doc_id[:DOC_DIGITS],
                title=restore(document.title),
                page=placement.page,
                bbox=(round(box.x0), round(box.y0), round(box.x1), round(box.y1)),
            )
    return tags


class _Standing:
    """The placements that a document's placeholders stand for.

    A placeholder names a figure; which of its placements is meant follows from where the chunk stands on its pages, and
    where a figure stands there twice, from the order.
    """

    def __init__(self, placements: Sequence[Placement]) -> None:
        self._placements: dict[str, list[Placement]] = {}
        for placement in placements:
            if placement.role in TAGGED and placement.figure_id is not None:
                self._placements.setdefault(placement.figure_id, []).append(placement)
        self._written: set[int] = set()

    def within(self, piece: Chunk, tags: Mapping[int, str]) -> Callable[[str], str]:
        """Return what finds the tags of one chunk's placeholders, taken in order."""

        def find(figure_id: str) -> str:
            known = self._placements[figure_id]
            if piece.modality == Modality.FIGURE:
                here = (place.order for place in known if place.bbox == piece.regions[0].bbox and _on(place, piece))
                return tags[next(here, known[0].order)]
            fresh = [place for place in known if place.order not in self._written] or known
            order = next((place.order for place in fresh if _on(place, piece)), fresh[0].order)
            self._written.add(order)
            return tags[order]

        return find


def _on(placement: Placement, piece: Chunk) -> bool:
    return any(region.page == placement.page and region.bbox.has_middle_of(placement.bbox) for region in piece.regions)


def _evidence(document: DocumentPieces, tags: Mapping[int, str]) -> Iterator[dict[str, object]]:
    standing = _Standing(document.placements)
    for piece in document.chunks:
        tag_of = standing.within(piece, tags)
        first = piece.regions[0]
        yield {
            "evidence_id": evidence_id(document.doc_id, piece.modality, piece.order, piece.text),
            "modality": str(piece.modality),
            "doc_id": document.doc_id,
            "sources": list(document.sources),
            "page": first.page,
            "bbox": list(first.bbox),
            "regions": [{"page": region.page, "bbox": list(region.bbox)} for region in piece.regions],
            "order": piece.order,
            "section_path": list(piece.section_path),
            "title": document.title,
            "text": piece.text,
            "tagged_text": fill(piece.tagged_text, tag_of),
            "figure_refs": list(piece.figure_refs),
            "caption": piece.caption,
            "figure_id": piece.figure_id,
        }


def _placements(
    document: DocumentPieces, figures: Mapping[str, Figure], numbers: Mapping[str, str], tags: Mapping[int, str]
) -> Iterator[dict[str, object]]:
    for placement in document.placements:
        figure = figures.get(placement.figure_id or "")
        tag = tags.get(placement.order)
        yield {
            "doc_id": document.doc_id,
            "page": placement.page,
            "order": placement.order,
            "bbox": list(placement.bbox),
            "figure_id": placement.figure_id,
            "number": numbers[placement.figure_id] if tag and placement.figure_id else None,
            "tag": tag,
            "ext": figure.ext if figure else None,
            "width": figure.width if figure else None,
            "height": figure.height if figure else None,
            "kind": str(placement.kind),
            "role": str(placement.role),
            "reason": placement.reason,
            "caption": document.captions.get(placement.order, ""),
        }
