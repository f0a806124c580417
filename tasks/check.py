"""Hold a version to its laws of conservation: nothing is lost or invented between what went in and what is searched."""

import io
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from PIL import Image

from schemas.documents import TAGGED, Page, Placement, Role
from schemas.evidence import Modality
from schemas.ids import figure_id
from schemas.tags import TagTemplate, is_disarmed
from schemas.versions import GateResult, LedgerRow, Plan, Status

EXAMPLES = 3
"""Offenders that a message names at most."""


def documents_conserved(plan: Plan, ledger: Sequence[LedgerRow]) -> GateResult:
    """Hold that every planned source is in the ledger once, indexed or quarantined, and no other is."""
    planned = Counter((row.source, row.doc_id) for row in plan.documents)
    planned.update((row.source, row.doc_id) for row in plan.carried)
    recorded = Counter((row.source, row.doc_id) for row in ledger)
    status = Counter(row.status for row in ledger)
    offenders = [f"{source} got lost" for source, _ in (planned - recorded).elements()]
    offenders += [f"{source} was not planned" for source, _ in (recorded - planned).elements()]
    indexed, quarantined = status[Status.INDEXED], status[Status.QUARANTINED]
    held = f"{planned.total()} sources in, {indexed} indexed, {quarantined} quarantined"
    return _law("documents conserved", offenders, held)


@dataclass(frozen=True)
class DocumentIn:
    """What the pages of a document held before anything was made of them.

    ``failed`` are the pages on which something could not be read, and ``marginal`` those with running heads alone;
    ``by_text`` says of pictures without a caption, by placement, whether they are read with text next to them.
    """

    doc_id: str
    pages: Sequence[Page]
    placements: Sequence[Placement]
    failed: Collection[int] = frozenset()
    marginal: Collection[int] = frozenset()
    by_text: Mapping[int, bool] = field(default_factory=dict)


def content_conserved(documents: Iterable[DocumentIn], evidence: pa.Table, placements: pa.Table) -> list[GateResult]:
    """Hold that every page and every figure that went in is indexed, in quarantine, or left out for a reason.

    A page is indexed where a row stands on it; without one it must have a failure, or nothing to index: no words, or running
    heads alone. A figure is indexed where its placement has a tag and, if it is content, a row; else it must have a failure
    on its page, or a role that gets no tag with the reason of that role.

    Args:
        documents: What went in.
        evidence: Rows of the version; those of other documents don't matter.
        placements: Of the version, likewise.
    """
    standing: dict[str, set[int]] = defaultdict(set)
    shown: dict[str, set[str]] = defaultdict(set)
    for row in _rows(evidence, "doc_id", "regions", "figure_id"):
        standing[row["doc_id"]].update(region["page"] for region in row["regions"])
        shown[row["doc_id"]].add(row["figure_id"])
    placed = {
        (row["doc_id"], row["order"]): row for row in _rows(placements, "doc_id", "order", "role", "number", "reason")
    }
    pages, figures = _Tally(), _Tally()
    for document in documents:
        name = document.doc_id[:12]
        for page in document.pages:
            fate = _fate_of_page(page, document, standing[document.doc_id])
            pages.add(fate, f"page {page.page} of document {name}")
        for place in document.placements:
            found = placed.get((document.doc_id, place.order))
            fate = None if found is None else _fate_of_figure(place, found, document, shown[document.doc_id])
            figures.add(fate, f"a figure on page {place.page} of document {name}")
    return [pages.gate("pages conserved", "pages"), figures.gate("figures conserved", "figures")]


def taken_over(
    earlier_evidence: pa.Table, earlier_placements: pa.Table, evidence: pa.Table, placements: pa.Table
) -> GateResult:
    """Hold that documents which the live version has already bring as many rows and placements as they did there.

    Args:
        earlier_evidence: The live version's rows of those documents.
        earlier_placements: And its placements of them.
        evidence: Rows of the version; those of other documents don't matter.
        placements: Of the version, likewise.
    """
    offenders = []
    documents: set[str] = set()
    for kind, earlier, now in (("rows", earlier_evidence, evidence), ("placements", earlier_placements, placements)):
        before, found = (Counter(map(str, table.column("doc_id").to_pylist())) for table in (earlier, now))
        documents |= before.keys()
        offenders += [
            f"document {doc_id[:12]} had {count} {kind} and has {found[doc_id]}"
            for doc_id, count in sorted(before.items())
            if found[doc_id] != count
        ]
    return _law("documents taken over", offenders, f"{len(documents)} documents have the rows that they had before")


_INDEXED, _QUARANTINED = "indexed", "quarantined"


class _Tally:
    """How many of a kind came to what; what came to nothing is lost."""

    def __init__(self) -> None:
        self._fates: Counter[str] = Counter()
        self._lost: list[str] = []

    def add(self, fate: str | None, name: str) -> None:
        if fate is None:
            self._lost.append(f"{name} got lost")
        else:
            self._fates[fate] += 1

    def gate(self, gate: str, kind: str) -> GateResult:
        total = self._fates.total() + len(self._lost)
        left_out = {fate: count for fate, count in self._fates.items() if fate not in (_INDEXED, _QUARANTINED)}
        why = "; ".join(f"{count} {fate}" for fate, count in sorted(left_out.items()))
        held = (
            f"{total} {kind} in, {self._fates[_INDEXED]} indexed, {self._fates[_QUARANTINED]} quarantined, "
            f"{sum(left_out.values())} left out" + (f" ({why})" if why else "")
        )
        return _law(gate, self._lost, held)


def _fate_of_page(page: Page, document: DocumentIn, standing: Collection[int]) -> str | None:
    if page.page in standing:
        return _INDEXED
    if page.page in document.failed:
        return _QUARANTINED
    if page.characters == 0:
        scanned = any(place.page == page.page and place.role is Role.PAGE_SCAN for place in document.placements)
        return "of which no words were read" if scanned else "without words"
    return "with running heads alone" if page.page in document.marginal else None


def _fate_of_figure(
    place: Placement, row: Mapping[str, Any], document: DocumentIn, shown: Collection[str | None]
) -> str | None:
    if row["number"] is not None:
        return _INDEXED if row["role"] != Role.CONTENT or place.figure_id in shown else None
    if place.figure_id is None and place.page in document.failed:
        return _QUARANTINED
    return str(row["role"]) if row["role"] not in TAGGED and row["reason"] else None


def tags_are_placements(evidence: pa.Table, placements: pa.Table, template: TagTemplate) -> GateResult:
    """Hold that the running text of each document carries a tag for each tagged placement, no more and no fewer.

    Figure rows are left out: they repeat the tag of the placement they describe.
    """
    running = [row for row in _rows(evidence, "doc_id", "modality", "tagged_text") if row["modality"] != Modality.FIGURE]
    written = Counter((row["doc_id"], number) for row in running for number in template.numbers(row["tagged_text"]))
    placed = Counter((row["doc_id"], row["number"]) for row in _tagged(placements))
    offenders = [
        f"{number} of document {doc_id[:12]} is placed {placed[doc_id, number]} times, written {written[doc_id, number]}"
        for doc_id, number in sorted(written.keys() | placed.keys())
        if written[doc_id, number] != placed[doc_id, number]
    ]
    return _law("tags are placements", offenders, f"{written.total()} tags written for {placed.total()} tagged placements")


def tags_resolve(evidence: pa.Table, placements: pa.Table, template: TagTemplate) -> GateResult:
    """Hold that whatever a row says of figures leads to figures of its own document.

    Tags and ``figure_refs`` must name figures placed there, and nothing may be left of a placeholder or half a tag.
    """
    numbers: dict[str, set[str]] = defaultdict(set)
    figures: dict[str, set[str]] = defaultdict(set)
    for row in _tagged(placements):
        numbers[row["doc_id"]].add(row["number"])
        figures[row["doc_id"]].add(row["figure_id"])
    offenders: list[str] = []
    total = 0
    for row in _rows(evidence, "evidence_id", "doc_id", "tagged_text", "figure_refs"):
        doc_id, parts = row["doc_id"], template.split(row["tagged_text"])
        named = [number for _, number in parts if number is not None]
        total += len(named)
        strange = [f"tag {number}" for number in named if number not in numbers[doc_id]]
        strange += [f"figure {ref[:12]}" for ref in row["figure_refs"] if ref not in figures[doc_id]]
        strange += ["a broken tag" for words, number in parts if number is None and not is_disarmed(words)]
        offenders += [f"row {row['evidence_id']} names {what}, which leads nowhere" for what in strange]
    return _law("tags resolve", offenders, f"all {total} tags lead to figures of their own document")


def one_figure_a_number(placements: pa.Table) -> GateResult:
    """Hold that a tag's number names one figure of the version, and a figure has one number."""
    figures: dict[str, set[str]] = defaultdict(set)
    numbers: dict[str, set[str]] = defaultdict(set)
    for row in _tagged(placements):
        figures[row["number"]].add(row["figure_id"])
        numbers[row["figure_id"]].add(row["number"])
    offenders = [f"{number} names {len(named)} figures" for number, named in sorted(figures.items()) if len(named) > 1]
    offenders += [
        f"figure {figure[:12]} has {len(named)} numbers" for figure, named in sorted(numbers.items()) if len(named) > 1
    ]
    return _law("one figure a number", offenders, f"{len(figures)} numbers, {len(numbers)} figures")


def figures_are_their_names(
    placements: pa.Table, load: Callable[[str], bytes], *, verified: Collection[str] = frozenset()
) -> GateResult:
    """Hold that every stored figure decodes to pixels whose digest is its name.

    Args:
        placements: Of the version.
        load: Returns a figure's encoded bytes; raises ``FileNotFoundError`` where there are none.
        verified: Figures that were looked at before. Objects never change, so these are not decoded again.
    """
    named = {row["figure_id"] for row in _rows(placements, "figure_id") if row["figure_id"] is not None}
    unseen = sorted(named.difference(verified))
    offenders = [f"figure {name[:12]} {fault}" for name in unseen if (fault := _fault(name, load)) is not None]
    return _law(
        "figures are their names", offenders, f"{len(unseen)} of {len(named)} figures decoded, the others were before"
    )


def rows_not_lost(rows: int, parent_rows: int | None, max_loss: float) -> GateResult:
    """Hold that a version has not lost more than a share of its parent's rows.

    Args:
        rows: Of the version.
        parent_rows: Of the live version; None where there is none.
        max_loss: Share of them that may be lost, 0 to 1.
    """
    loss = max(0.0, 1 - rows / parent_rows) if parent_rows else 0.0
    before = "there was no version before" if parent_rows is None else f"the live version has {parent_rows}"
    return GateResult(
        gate="rows not lost",
        passed=loss <= max_loss,
        value=loss,
        bound=max_loss,
        message=f"{rows} rows, {before}; a loss of {loss:.0%}, {max_loss:.0%} allowed (gates.max_row_loss)",
    )


def rows_a_page(rows: int, pages: int, parent: tuple[int, int] | None, max_drift: float) -> GateResult:
    """Hold that pages give about as many rows as the parent's do.

    Counted by the page, so that documents may come and go: what changes it much is a parse that cuts pages to pieces, or
    skips over them.

    Args:
        rows: Of the version.
        pages: Of the version.
        parent: Rows and pages of the live version; None where there is none.
        max_drift: Factor by which rows a page may become more or fewer, at least 1.
    """
    # An empty version counts as one row, so that there is a factor.
    now, before = (max(count, 1) / max(of, 1) for count, of in ((rows, pages), parent or (rows, pages)))
    drift = max(now / before, before / now)
    compared = f"the live version has {before:.2f}" if parent else "there was no version before"
    return GateResult(
        gate="rows a page",
        passed=drift <= max_drift,
        value=drift,
        bound=max_drift,
        message=f"{now:.2f} rows a page, {compared}; a factor of {drift:.2f}, {max_drift:g} allowed (gates.max_row_drift)",
    )


def quarantine_ceiling(documents: int, quarantined: int, max_quarantined: float) -> GateResult:
    """Hold that not too many documents are in quarantine, and that not all are.

    Args:
        documents: Indexed ones.
        quarantined: Those in quarantine.
        max_quarantined: Share of both that may be there, 0 to 1.
    """
    total = documents + quarantined
    share = quarantined / total if total else 0.0
    message = f"{quarantined} of {total} documents are in quarantine ({share:.0%}); the ceiling is {max_quarantined:.0%}"
    if not total:
        message = "there is no document in it: the source is empty; fill it, or correct 'source' in the corpus file"
    return GateResult(
        gate="quarantine ceiling",
        passed=share <= max_quarantined and documents > 0,
        value=share,
        bound=max_quarantined,
        message=message,
    )


def _fault(name: str, load: Callable[[str], bytes]) -> str | None:
    try:
        with Image.open(io.BytesIO(load(name))) as image:
            found = figure_id(image.width, image.height, image.convert("RGB").tobytes())
    except FileNotFoundError:
        return "is not stored"
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        return f"can't be decoded ({type(error).__name__})"
    return None if found == name else f"has other pixels, those of {found[:12]}"


def _rows(table: pa.Table, *columns: str) -> list[dict[str, Any]]:
    return table.select(list(columns)).to_pylist()


def _tagged(placements: pa.Table) -> Iterable[dict[str, Any]]:
    return (row for row in _rows(placements, "doc_id", "figure_id", "number") if row["number"] is not None)


def _law(gate: str, offenders: Sequence[str], held: str) -> GateResult:
    named = "; ".join(offenders[:EXAMPLES]) + (
        f"; and {len(offenders) - EXAMPLES} more" if len(offenders) > EXAMPLES else ""
    )
    return GateResult(
        gate=gate, passed=not offenders, value=len(offenders), bound=0, message=f"{gate}: {named}" if offenders else held
    )
