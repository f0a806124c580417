"""Make the rows of a version out of its documents, and number their tags."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from schemas.documents import TAGGED, Chunk, Figure, Placement, Region
from schemas.evidence import EVIDENCE, PLACEMENTS
from schemas.geometry import BBox
from schemas.ids import evidence_id
from schemas.tags import DOC_DIGITS, TagTemplate, fill, placeholder, placeholders, restore
from tasks.versions.tag import number_figures

ASSEMBLE_VERSION = "3"


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


@dataclass(frozen=True)
class Earlier:
    """Documents that an earlier version has rows of, which hold for this one too.

    ``sources`` are those of now, a document may have been moved. ``load`` reads a document whose tags may change: whether two
    figures share a number depends on all that are there.
    """

    evidence: pa.Table
    placements: pa.Table
    sources: Mapping[str, tuple[str, ...]]
    load: Callable[[str], DocumentPieces]


def assemble(
    documents: Iterable[DocumentPieces], template: TagTemplate, digits: int, earlier: Earlier | None = None
) -> Assembled:
    """Return the rows of a version; the same for the same documents, whatever their order and who made them.

    Args:
        documents: Every document of the version, once, but those of ``earlier``.
        template: How tags are spelled.
        digits: Digits of a tag before widening.
        earlier: Further documents, as an earlier version with the same spelling has them.
    """
    fresh = list(documents)
    if earlier is not None:
        again = _renumbered(earlier.placements, fresh, digits)
        fresh += map(earlier.load, sorted(again))
        earlier = replace(
            earlier, evidence=_without(earlier.evidence, again), placements=_without(earlier.placements, again)
        )
    ordered = sorted(fresh, key=lambda document: document.doc_id)
    figures = {figure.figure_id: figure for document in ordered for figure in document.figures}
    # Of a figure that shares its number with none, the number does for the digest that ends in it.
    digests = {row["figure_id"]: int(row["number"]) for row in _tagged_rows(earlier.placements)} if earlier else {}
    digests |= {figure_id: int(sha1, 16) for figure_id, sha1 in _tagged(ordered).items()}
    numbers = number_figures(digests, digits)
    evidence: list[dict[str, object]] = []
    placements: list[dict[str, object]] = []
    for document in ordered:
        tags = _tags(document, figures, numbers, template)
        evidence.extend(_evidence(document, tags))
        placements.extend(_placements(document, figures, numbers, tags))
    made = Assembled(pa.Table.from_pylist(evidence, schema=EVIDENCE), pa.Table.from_pylist(placements, schema=PLACEMENTS))
    return made if earlier is None else _joined(made, earlier)


def _tagged(documents: Sequence[DocumentPieces]) -> dict[str, str]:
    """Return the figures that get a tag, with the SHA-1 of their pixels."""
    sha1 = {figure.figure_id: figure.sha1 for document in documents for figure in document.figures}
    placed = {place.figure_id for document in documents for place in document.placements if place.role in TAGGED}
    return {figure_id: sha1[figure_id] for figure_id in placed & sha1.keys() if figure_id is not None}


def _tagged_rows(placements: pa.Table) -> Iterator[dict[str, str]]:
    rows = placements.select(["doc_id", "figure_id", "number"]).to_pylist()
    return (row for row in rows if row["number"] is not None)


def _renumbered(placements: pa.Table, fresh: Sequence[DocumentPieces], digits: int) -> set[str]:
    """Return the earlier documents with a figure whose number is, or was, shared: their tags may be others now."""
    endings: dict[str, set[str]] = {}
    for row in _tagged_rows(placements):
        endings.setdefault(row["number"][-digits:], set()).add(row["figure_id"])
    for figure_id, sha1 in _tagged(fresh).items():
        endings.setdefault(f"{int(sha1, 16) % 10**digits:0{digits}d}", set()).add(figure_id)
    shared = {figure_id for figure_ids in endings.values() if len(figure_ids) > 1 for figure_id in figure_ids}
    rows = _tagged_rows(placements)
    return {row["doc_id"] for row in rows if row["figure_id"] in shared or len(row["number"]) > digits}


def _without(table: pa.Table, documents: Collection[str]) -> pa.Table:
    return table.filter(pc.invert(pc.is_in(table.column("doc_id"), pa.array(sorted(documents), pa.string()))))


def _joined(made: Assembled, earlier: Earlier) -> Assembled:
    sources = [list(earlier.sources[str(doc_id)]) for doc_id in earlier.evidence.column("doc_id").to_pylist()]
    place = EVIDENCE.get_field_index("sources")
    moved = earlier.evidence.set_column(place, EVIDENCE.field(place), pa.array(sources, EVIDENCE.field(place).type))
    return Assembled(_by_document(made.evidence, moved), _by_document(made.placements, earlier.placements))


def _by_document(one: pa.Table, other: pa.Table) -> pa.Table:
    # The sort is stable: within a document the order stays.
    return pa.concat_tables([one, other]).sort_by("doc_id").combine_chunks()


def _tags(
    document: DocumentPieces, figures: Mapping[str, Figure], numbers: Mapping[str, str], template: TagTemplate
) -> dict[int, str]:
    """Return the tags of a document's tagged placements, by their order."""
    tags: dict[int, str] = {}
    for placement in document.placements:
        figure, box = figures.get(placement.figure_id or ""), placement.bbox
        if placement.role in TAGGED and figure is not None:
            tags[placement.order] = template.write(
                numbers[figure.figure_id],
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
    where a figure stands there twice, from the order. One that stands for none stays as it is, for ``check`` to find.
    """

    def __init__(self, placements: Sequence[Placement], tags: Mapping[int, str]) -> None:
        self._tags = tags
        self._placements: dict[str, list[Placement]] = {}
        for placement in placements:
            if placement.order in tags and placement.figure_id is not None:
                self._placements.setdefault(placement.figure_id, []).append(placement)
        self._written: set[int] = set()

    def within(self, piece: Chunk) -> Callable[[str], str]:
        """Return what finds the tags of one chunk's placeholders, taken in order."""
        tags = self._tags

        def find(figure_id: str) -> str:
            if piece.placement is not None:
                return tags.get(piece.placement, placeholder(figure_id))
            known = self._placements.get(figure_id)
            if known is None:
                return placeholder(figure_id)
            fresh = [place for place in known if place.order not in self._written] or known
            order = next((place.order for place in fresh if _on(place, piece)), fresh[0].order)
            self._written.add(order)
            return tags[order]

        return find


def _on(placement: Placement, piece: Chunk) -> bool:
    return any(region.page == placement.page and region.bbox.has_middle_of(placement.bbox) for region in piece.regions)


_NOWHERE = Region(0, BBox(0, 0, 0, 0))
"""Where a row without a place is put: no page has that number, so ``check`` finds it."""


def _evidence(document: DocumentPieces, tags: Mapping[int, str]) -> Iterator[dict[str, object]]:
    standing = _Standing(document.placements, tags)
    seen: Counter[tuple[str, int, str]] = Counter()
    for piece in document.chunks:
        tagged_text, tagged_rows = _with_tags(piece, standing.within(piece))
        first = piece.regions[0] if piece.regions else _NOWHERE
        name = piece.modality, piece.order if piece.placement is None else piece.placement, piece.text
        seen[name] += 1
        yield {
            "evidence_id": evidence_id(document.doc_id, *name, again=seen[name] - 1),
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
            "tagged_text": tagged_text,
            "figure_refs": list(piece.figure_refs),
            "caption": piece.caption,
            "figure_id": piece.figure_id,
            "tagged_rows": tagged_rows,
        }


def _with_tags(piece: Chunk, tag_of: Callable[[str], str]) -> tuple[str, list[list[str]] | None]:
    """Return the text of a piece with its tags, and its cells with those same tags; None where it has no cells.

    A table's caption goes before its cells, so theirs are the last tags of each figure.
    """
    written: list[tuple[str, str]] = []

    def write(figure_id: str) -> str:
        written.append((figure_id, tag_of(figure_id)))
        return written[-1][1]

    text = fill(piece.tagged_text, write)
    wanted = Counter(figure_id for row in piece.rows for cell in row for figure_id in placeholders(cell))
    tags = {name: iter([tag for other, tag in written if other == name][-count:]) for name, count in wanted.items()}
    rows = [[fill(cell, lambda name: next(tags[name], placeholder(name))) for cell in row] for row in piece.rows]
    return text, rows or None


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
