"""Make the rows of a version out of its documents, and number their tags."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from schemas.documents import TAGGED, Chunk, Figure, Placement
from schemas.evidence import EVIDENCE, PLACEMENTS
from schemas.ids import evidence_id
from schemas.tags import TagTemplate, fill
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
    tags = {figure_id: template.write(number, figures[figure_id].ext) for figure_id, number in numbers.items()}

    evidence = [row for document in ordered for row in _evidence(document, tags)]
    placements = [row for document in ordered for row in _placements(document, figures, numbers, tags)]
    unique = {row["evidence_id"]: row for row in reversed(evidence)}
    kept = [row for row in evidence if unique[row["evidence_id"]] is row]
    return Assembled(pa.Table.from_pylist(kept, schema=EVIDENCE), pa.Table.from_pylist(placements, schema=PLACEMENTS))


def _evidence(document: DocumentPieces, tags: Mapping[str, str]) -> Iterable[dict[str, object]]:
    for piece in document.chunks:
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
            "tagged_text": fill(piece.tagged_text, tags.__getitem__),
            "figure_refs": list(piece.figure_refs),
            "caption": piece.caption,
            "figure_id": piece.figure_id,
        }


def _placements(
    document: DocumentPieces, figures: Mapping[str, Figure], numbers: Mapping[str, str], tags: Mapping[str, str]
) -> Iterable[dict[str, object]]:
    for placement in document.placements:
        figure = figures.get(placement.figure_id or "")
        tagged = placement.role in TAGGED and placement.figure_id is not None
        yield {
            "doc_id": document.doc_id,
            "page": placement.page,
            "order": placement.order,
            "bbox": list(placement.bbox),
            "figure_id": placement.figure_id,
            "number": numbers[placement.figure_id] if tagged and placement.figure_id else None,
            "tag": tags[placement.figure_id] if tagged and placement.figure_id else None,
            "ext": figure.ext if figure else None,
            "width": figure.width if figure else None,
            "height": figure.height if figure else None,
            "kind": str(placement.kind),
            "role": str(placement.role),
            "reason": placement.reason,
            "caption": document.captions.get(placement.order, ""),
        }
