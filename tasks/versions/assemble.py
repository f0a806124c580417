"""Make the rows of a version from its documents, one after another, and number their tags.

Memory is bounded by a few documents, and by the figures that share a number.
"""

import bisect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from schemas.documents import TAGGED, Chunk, Figure, Node, NodeKind, Placement, Region
from schemas.evidence import EVIDENCE, PLACEMENTS, VersionRows
from schemas.filters import Modality
from schemas.geometry import BBox
from schemas.ids import evidence_id
from schemas.tags import DIGITS_DEFAULT, DIGITS_MOST, DOC_DIGITS, TagTemplate, fill, placeholder, placeholders, restore
from tasks.enriching.caption import DescriptionResult, DescriptionResults, as_one_line, description_subject

ASSEMBLE_VERSION = "7"

NUMBERED = pa.schema([("figure_id", pa.string()), ("number", pa.string())])
"""A tagged figure, and its number as far as it is known."""


@dataclass(frozen=True)
class DocumentChunks:
    """A document's contribution to a version. ``captions`` are by the order of the placement; ``language`` may be unknown.

    ``labels`` are its page labels; empty if they are the numbers. ``tree`` is its evidence tree.
    """

    doc_id: str
    title: str
    sources: tuple[str, ...]
    chunks: Sequence[Chunk]
    figures: Sequence[Figure]
    placements: Sequence[Placement]
    captions: Mapping[int, str]
    wordings: DescriptionResults = field(default_factory=dict)
    date: str | None = None
    language: str | None = None
    labels: Sequence[str] = ()
    doc_type: str | None = None
    tree: Sequence[Node] = ()


@dataclass(frozen=True)
class TagNumbers:
    """The numbers of a version's tags: the last digits of figures' SHA-1; figures that share theirs have longer ones."""

    digits: int
    wider: Mapping[str, str]

    def of(self, figure: Figure) -> str:
        """Return a figure's number."""
        digest = int(figure.sha1, 16)
        return self.wider.get(figure.figure_id) or f"{digest % 10**self.digits:0{self.digits}d}"


Pictures = tuple[Sequence[Figure], Sequence[Placement]]
"""A document's figures and where they stand."""


def number_version(
    shared: Mapping[str, str], earlier: Iterable[pa.Table], load: Callable[[str], Pictures], digits: int
) -> tuple[TagNumbers, Set[str]]:
    """Number the figures of a version, as a pure function of the set of figures.

    Args:
        shared: The longest known number of each figure whose last ``digits`` another figure has too.
        earlier: The tagged figures of other documents of an earlier version with the same template whose number ends as one of
            a document that is new, or that left since.
        load: Reads the pictures of one of those documents.
        digits: Digits of an unshared number.

    Returns the numbers, and the documents of ``earlier`` with a renumbered figure.
    """
    rows = [row for table in earlier for row in _tagged_rows(table)]
    digests = {figure_id: int(number) for figure_id, number in shared.items()}
    # Rows of the earlier version have no more digits than were needed then; a longer number needs the whole SHA-1.
    for doc_id in sorted({row["doc_id"] for row in rows if row["figure_id"] in shared}):
        figures, placements = load(doc_id)
        sha1_by_figure = _sha1_by_tagged_figure(figures, placements)
        digests |= {name: int(sha1_by_figure[name], 16) for name in sha1_by_figure.keys() & shared.keys()}
    wider = number_figures(digests, digits)
    renumbered = (row for row in rows if wider.get(row["figure_id"], row["number"][-digits:]) != row["number"])
    return TagNumbers(digits, wider), {row["doc_id"] for row in renumbered}


def numbered_figures(pictures: Iterable[Pictures]) -> pa.Table:
    """Return the tagged figures of documents as rows of ``NUMBERED``."""
    rows = [
        {"figure_id": name, "number": f"{int(sha1, 16):0{DIGITS_MOST}d}"}
        for figures, placements in pictures
        for name, sha1 in _sha1_by_tagged_figure(figures, placements).items()
    ]
    return pa.Table.from_pylist(rows, schema=NUMBERED)


def number_figures(digests: Mapping[str, int], digits: int = DIGITS_DEFAULT) -> dict[str, str]:
    """Return the tag number of every figure, by figure id: ``digest mod 10^digits``, zero-padded; ``digits`` are 4 to 49.

    ``digests`` are the SHA-1 of figures as integers. Figures that share a number get the shortest suffixes that distinguish
    them. The result depends on the set only.
    """
    numbers: dict[str, str] = {}
    pending: dict[int, list[str]] = {digits: sorted(digests)}
    width = digits
    while width in pending:
        groups: dict[int, list[str]] = {}
        for figure in pending.pop(width):
            groups.setdefault(digests[figure] % 10**width, []).append(figure)
        # A number of this width that one figure has is final; figures that share one are tried with a digit more.
        for value, figures in groups.items():
            if len(figures) == 1 or width >= DIGITS_MOST:
                numbers.update(dict.fromkeys(figures, f"{value:0{width}d}"))
            else:
                pending.setdefault(width + 1, []).extend(figures)
        width += 1
    return numbers


def make_rows(document: DocumentChunks, numbers: TagNumbers, template: TagTemplate) -> VersionRows:
    """Return the rows of a document."""
    figures = {figure.figure_id: figure for figure in document.figures}
    tags = _tags(document, figures, numbers, template)
    evidence = pa.Table.from_pylist(list(_evidence(document, tags)), schema=EVIDENCE)
    return VersionRows(
        evidence, pa.Table.from_pylist(list(_placements(document, figures, numbers, tags)), schema=PLACEMENTS)
    )


def with_sources(rows: VersionRows, sources: Sequence[str], doc_type: str | None) -> VersionRows:
    """Return the rows of a document that has moved, with its current sources and type."""
    evidence, count = rows.evidence, rows.evidence.num_rows
    for column, repeated in (("sources", [list(sources)] * count), ("doc_type", [doc_type] * count)):
        column_index = EVIDENCE.get_field_index(column)
        evidence = evidence.set_column(
            column_index, EVIDENCE.field(column_index), pa.array(repeated, EVIDENCE.field(column_index).type)
        )
    return VersionRows(evidence, rows.placements)


def _sha1_by_tagged_figure(figures: Iterable[Figure], placements: Iterable[Placement]) -> dict[str, str]:
    sha1 = {figure.figure_id: figure.sha1 for figure in figures}
    placed = {placement.figure_id for placement in placements if placement.role in TAGGED}
    return {figure_id: sha1[figure_id] for figure_id in placed & sha1.keys() if figure_id is not None}


def _tagged_rows(placements: pa.Table) -> list[dict[str, str]]:
    rows = placements.select(["doc_id", "figure_id", "number"])
    return rows.filter(pc.is_valid(rows.column("number"))).to_pylist()


def _tags(
    document: DocumentChunks, figures: Mapping[str, Figure], numbers: TagNumbers, template: TagTemplate
) -> dict[int, str]:
    tags: dict[int, str] = {}
    for placement in document.placements:
        figure, box = figures.get(placement.figure_id or ""), placement.bbox
        if placement.role in TAGGED and figure is not None:
            tags[placement.order] = template.write(
                numbers.of(figure),
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


class _PlacedTags:
    """The placements that a document's placeholders refer to.

    Which placement of a figure is meant follows from the chunk's regions, and for several on one page from the order. An
    unresolved placeholder stays, for ``check`` to find.
    """

    def __init__(self, placements: Sequence[Placement], tags: Mapping[int, str]) -> None:
        self._tags = tags
        self._placements: dict[str, list[Placement]] = {}
        for placement in placements:
            if placement.order in tags and placement.figure_id is not None:
                self._placements.setdefault(placement.figure_id, []).append(placement)
        self._written: set[int] = set()

    def within(self, piece: Chunk) -> Callable[[str], str]:
        """Return a function that resolves one chunk's placeholders in order."""
        tags = self._tags

        def find(figure_id: str) -> str:
            if piece.placement is not None:
                return tags.get(piece.placement, placeholder(figure_id))
            figure_placements = self._placements.get(figure_id)
            if figure_placements is None:
                return placeholder(figure_id)
            # A placement whose tag is written already comes into question only if no other is left.
            candidates = [
                placement for placement in figure_placements if placement.order not in self._written
            ] or figure_placements
            order = next((placement.order for placement in candidates if _stands_in(placement, piece)), candidates[0].order)
            self._written.add(order)
            return tags[order]

        return find


def _stands_in(placement: Placement, piece: Chunk) -> bool:
    return any(region.page == placement.page and region.bbox.has_middle_of(placement.bbox) for region in piece.regions)


_NOWHERE = Region(0, BBox(0, 0, 0, 0))
"""The page of a row without one; ``check`` finds it."""


def _evidence(document: DocumentChunks, tags: Mapping[int, str]) -> Iterator[dict[str, object]]:
    placed_tags = _PlacedTags(document.placements, tags)
    node_of = _nodes(document.tree)
    occurrences: Counter[tuple[str, int, str]] = Counter()
    for piece in document.chunks:
        tagged_text, tagged_rows = _with_tags(piece, placed_tags.within(piece))
        first = piece.regions[0] if piece.regions else _NOWHERE
        name = piece.modality, piece.order if piece.placement is None else piece.placement, piece.text
        # Rows may have the same order and text, so a count tells their ids apart.
        occurrences[name] += 1
        node = node_of(piece)
        yield {
            "evidence_id": evidence_id(document.doc_id, *name, again=occurrences[name] - 1),
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
            "spans": [asdict(span) for span in piece.spans] or None,
            "date": document.date,
            "language": document.language,
            "page_labels": [document.labels[region.page - 1] for region in piece.regions] if document.labels else None,
            "doc_type": document.doc_type,
            "node_id": node and node.node_id,
            "parent_id": node and node.parent_id,
        } | _description(document, piece)


_LEAVES = {
    Modality.TEXT: {NodeKind.TEXT, NodeKind.IMAGE},
    Modality.TABLE: {NodeKind.TABLE},
    Modality.FIGURE: {NodeKind.IMAGE},
}
"""Leaves that are part of a row, by its modality."""


def _nodes(tree: Sequence[Node]) -> Callable[[Chunk], Node | None]:
    """Return a function that finds a row's first leaf in the evidence tree; for a row of headings alone, the last section."""
    # The tree is in the order of blocks, so a row's leaves are found by bisection.
    blocks = [node.block for node in tree]

    def find(piece: Chunk) -> Node | None:
        leaf_kinds = _LEAVES.get(Modality(piece.modality))
        if leaf_kinds is None:
            return None
        section = None
        for node_index in range(bisect.bisect_left(blocks, piece.order), len(tree)):
            node = tree[node_index]
            if node.kind in leaf_kinds and piece.figure_id in (None, node.figure_id):
                return node
            if node.kind is not NodeKind.SECTION and node.block != piece.order:
                break
            section = node if node.kind is NodeKind.SECTION else section
        return section

    return find


_CONTEXT_ALONE = DescriptionResult()


def _description(document: DocumentChunks, piece: Chunk) -> dict[str, object]:
    """Return author, text and flags of a row's description; nothing for a text without one."""
    result = document.wordings.get(description_subject(piece), None if piece.figure_id is None else _CONTEXT_ALONE)
    if result is None:
        return {"description": None, "described_by": None, "flags": None}
    return {
        "description": as_one_line(result.text) or None,
        "described_by": result.by,
        "flags": [str(flag) for flag in result.flags],
    }


def _with_tags(piece: Chunk, tag_of: Callable[[str], str]) -> tuple[str, list[list[str]] | None]:
    """Return the text of a piece with tags, and its cells with the same tags; None without cells.

    A table's caption precedes its cells, so theirs are the last tags of each figure.
    """
    figure_tags: list[tuple[str, str]] = []

    def write(figure_id: str) -> str:
        figure_tags.append((figure_id, tag_of(figure_id)))
        return figure_tags[-1][1]

    text = fill(piece.tagged_text, write)
    counts_by_figure = Counter(figure_id for row in piece.rows for cell in row for figure_id in placeholders(cell))
    tags = {
        name: iter([tag for tagged_figure, tag in figure_tags if tagged_figure == name][-count:])
        for name, count in counts_by_figure.items()
    }
    rows = [[fill(cell, lambda name: next(tags[name], placeholder(name))) for cell in row] for row in piece.rows]
    return text, rows or None


def _placements(
    document: DocumentChunks, figures: Mapping[str, Figure], numbers: TagNumbers, tags: Mapping[int, str]
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
            "number": numbers.of(figure) if tag and figure else None,
            "tag": tag,
            "ext": figure.ext if figure else None,
            "width": figure.width if figure else None,
            "height": figure.height if figure else None,
            "kind": str(placement.kind),
            "role": str(placement.role),
            "reason": placement.reason,
            "caption": document.captions.get(placement.order, ""),
        }
