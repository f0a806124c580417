"""Hold a version to its laws of conservation: nothing is lost or invented between what went in and what is searched."""

import io
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import pyarrow as pa
from PIL import Image

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
