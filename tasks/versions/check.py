"""Check the invariants of a version: nothing is lost or invented between its documents and its rows.

Invariants of single documents take some documents at a time; those of figures take the placements that may break them.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from schemas.documents import TAGGED, Page, Placement, Role
from schemas.evidence import PLACEMENTS, VersionRows
from schemas.filters import Modality
from schemas.gates import (
    DOCUMENTS_GONE,
    EXAMPLES,
    FEW_GONE,
    OUR_FAULT,
    QUARANTINE,
    Bounds,
    GateResult,
    GateVerdict,
    Violation,
    describe_violations,
)
from schemas.printing import listed
from schemas.tags import TagTemplate, is_disarmed
from schemas.versions import LedgerRow, Plan, Status

CHECK_VERSION = "1"
"""Goes up when an invariant changes: all rows are checked again."""

Names = Mapping[str, str]
"""A source of each document, by its id, for messages."""


def documents_conserved(plan: Plan, ledger: Sequence[LedgerRow]) -> GateVerdict:
    """Check that every planned source is in the ledger once, indexed or quarantined, and no other."""
    # Planned sources that aren't in the ledger yet.
    unaccounted = Counter((row.source, row.doc_id) for rows in (plan.documents, plan.carried) for row in rows)
    planned = unaccounted.total()
    status: Counter[Status] = Counter()
    for row in ledger:
        status[row.status] += 1
        unaccounted[row.source, row.doc_id] -= 1
    # No document: a source that isn't in the ledger can't be quarantined there.
    violations = [Violation(None, None, f"{source} got lost") for source, _ in unaccounted.elements()]
    violations += [Violation(None, None, f"{source} was not planned") for source, _ in (-unaccounted).elements()]
    summary = f"{planned} sources in, {status[Status.INDEXED]} indexed, {status[Status.QUARANTINED]} quarantined"
    return _gate_verdict("documents conserved", violations, summary, {})


@dataclass(frozen=True)
class DocumentContent:
    """The content of a document's pages before processing.

    ``failed`` are pages with a failure, ``marginal`` those with running heads alone, ``pictured`` those that must have a
    row of their own.
    """

    doc_id: str
    pages: Sequence[Page]
    placements: Sequence[Placement]
    failed: Collection[int] = frozenset()
    marginal: Collection[int] = frozenset()
    pictured: Collection[int] = frozenset()


PAGES, FIGURES, PLACED_TAGS, RESOLVED_TAGS = "pages conserved", "figures conserved", "tags are placements", "tags resolve"
"""The laws that each document holds or breaks by itself."""

_INDEXED, _QUARANTINED = "indexed", "quarantined"
_NO_ROWS = VersionRows.joined(())


class Tally:
    """What was counted for each law, and where it is broken. It pickles."""

    def __init__(self) -> None:
        self.counts: dict[str, Counter[str]] = defaultdict(Counter)
        self.violations: dict[str, list[Violation]] = defaultdict(list)

    def merge(self, tally: "Tally") -> None:
        """Add what was found in other documents."""
        for law, counts in tally.counts.items():
            self.counts[law].update(counts)
        for law, violations in tally.violations.items():
            self.violations[law] += violations

    def _add(self, law: str, fate: str | Violation) -> None:
        if isinstance(fate, Violation):
            self.violations[law].append(fate)
        else:
            self.counts[law][fate] += 1

    def look_at_content(self, document: DocumentContent, rows: VersionRows = _NO_ROWS) -> None:
        """Examine a document and all of its rows: each page and figure is indexed, in quarantine, or left out for a reason.

        A page needs a row other than its whole-page row, a failure, or nothing to index: no words, or running heads alone.
        ``pictured`` pages need a whole-page row. A figure needs a tag and, if it is content, a row; else a failure on its
        page, or an untagged role with a reason.
        """
        pages_with_rows, pages_with_picture, figures_with_rows = set[int](), set[int](), set[str | None]()
        for row in _rows(rows.evidence, "modality", "regions", "figure_id"):
            pages = (region["page"] for region in row["regions"])
            if row["modality"] == Modality.PAGE:
                pages_with_picture.update(pages)
            else:
                pages_with_rows.update(pages)
                figures_with_rows.add(row["figure_id"])
        placement_rows = {row["order"]: row for row in _rows(rows.placements, "order", "role", "number", "reason")}
        for page in document.pages:
            self._add(PAGES, _fate_of_page(page, document, pages_with_rows, pages_with_picture))
        for placement in document.placements:
            self._add(FIGURES, _fate_of_figure(placement, placement_rows.get(placement.order), document, figures_with_rows))

    def look_at_tags(self, rows: VersionRows, template: TagTemplate) -> None:
        """Examine rows of whole documents: their text has one tag for each tagged placement, and each leads to its figure.

        Figures' rows repeat their tags, and don't count. ``figure_refs`` name figures of the document, and no placeholder or
        broken tag is left.
        """
        pages_written: dict[tuple[str, str], list[int]] = defaultdict(list)
        pages_placed: dict[tuple[str, str], list[int]] = defaultdict(list)
        figures: dict[str, set[str]] = defaultdict(set)
        for row in _rows(rows.placements, "doc_id", "page", "figure_id", "number"):
            if row["number"] is not None:
                pages_placed[row["doc_id"], row["number"]].append(row["page"])
                figures[row["doc_id"]].add(row["figure_id"])
        for row in _rows(rows.evidence, "doc_id", "page", "modality", "tagged_text", "figure_refs"):
            doc_id, parts = row["doc_id"], template.split(row["tagged_text"])
            numbers = [number for _, number in parts if number is not None]
            self.counts[RESOLVED_TAGS]["tags"] += len(numbers)
            faults = [f"tag {number} leads nowhere" for number in numbers if (doc_id, number) not in pages_placed]
            faults += [f"figure {ref[:12]} leads nowhere" for ref in row["figure_refs"] if ref not in figures[doc_id]]
            # Words of a document that look like a tag were disarmed when it was read, so any others come from a broken tag.
            faults += ["a tag is broken" for words, number in parts if number is None and not is_disarmed(words)]
            self.violations[RESOLVED_TAGS] += [Violation(doc_id, row["page"], fault) for fault in faults]
            for number in numbers if row["modality"] != Modality.FIGURE else ():
                pages_written[doc_id, number].append(row["page"])
        for key in sorted(pages_written.keys() | pages_placed.keys()):
            placed_on, written_on = pages_placed.get(key, []), pages_written.get(key, [])
            if len(placed_on) != len(written_on):
                message = f"tag {key[1]} is placed {len(placed_on)} times and written {len(written_on)} times"
                self.violations[PLACED_TAGS].append(Violation(key[0], min(placed_on or written_on), message))
        counts = {"written": sum(map(len, pages_written.values())), "placed": sum(map(len, pages_placed.values()))}
        self.counts[PLACED_TAGS].update(counts)

    def verdict(self, law: str, names: Names) -> GateVerdict:
        """Return the verdict on a law."""
        counts, violations = self.counts[law], self.violations[law]
        if law == PLACED_TAGS:
            summary = f"{counts['written']} tags written for {counts['placed']} tagged placements"
        elif law == RESOLVED_TAGS:
            summary = f"all {counts['tags']} tags lead to figures of their own document"
        else:
            left_out = {fate: count for fate, count in counts.items() if fate not in (_INDEXED, _QUARANTINED)}
            reasons = "; ".join(f"{count} {fate}" for fate, count in sorted(left_out.items()))
            summary = (
                f"{counts.total() + len(violations)} {law.partition(' ')[0]} in, {counts[_INDEXED]} indexed, "
                f"{counts[_QUARANTINED]} quarantined, {sum(left_out.values())} left out"
                + (f" ({reasons})" if reasons else "")
            )
        return _gate_verdict(law, violations, summary, names)


def rows_reused(
    before: Mapping[str, tuple[int, int]],
    now: Mapping[str, tuple[int, int]],
    reused: Collection[str],
    rows_in_parts: int,
    names: Names,
) -> GateVerdict:
    """Check that documents reused from the live version have as many rows and placements as there, and that no row is lost.

    ``before`` and ``now`` are these numbers by document; ``rows_in_parts`` are the rows of the version's parts.
    """
    violations = []
    for index, kind in enumerate(("rows", "placements")):
        for doc_id in sorted(before.keys() & reused):
            count_before, count_now = before[doc_id][index], now.get(doc_id, (0, 0))[index]
            if count_before != count_now:
                violations.append(Violation(doc_id, None, f"it had {count_before} {kind} and has {count_now}"))
    if rows_in_parts != (counted := sum(rows for rows, _ in now.values())):
        violations.append(Violation(None, None, f"the parts have {rows_in_parts} rows, and the documents {counted}"))
    documents = len(before.keys() & reused)
    return _gate_verdict(
        "documents taken over", violations, f"{documents} documents have the rows that they had before", names
    )


def _fate_of_page(
    page: Page, document: DocumentContent, pages_with_rows: Collection[int], pages_with_picture: Collection[int]
) -> str | Violation:
    if page.page in document.pictured and page.page not in pages_with_picture:
        return Violation(document.doc_id, page.page, "a page has a picture and no row of its own")
    # Before failures, since a page of which a part can't be read still has rows of the rest.
    if page.page in pages_with_rows:
        return _INDEXED
    if page.page in document.failed:
        return _QUARANTINED
    if page.characters == 0:
        scanned = any(placement.page == page.page and placement.role is Role.PAGE_SCAN for placement in document.placements)
        return "of which no words were read" if scanned else "without words"
    if page.page in document.marginal:
        return "with running heads alone"
    return Violation(document.doc_id, page.page, "a page has words and no row")


def _fate_of_figure(
    placement: Placement,
    row: Mapping[str, Any] | None,
    document: DocumentContent,
    figures_with_rows: Collection[str | None],
) -> str | Violation:
    if row is None:
        return Violation(document.doc_id, placement.page, "a figure has no placement")
    if row["number"] is not None:
        # Icons have a tag in the text, and no row.
        has_row = row["role"] != Role.CONTENT or placement.figure_id in figures_with_rows
        return _INDEXED if has_row else Violation(document.doc_id, placement.page, "a figure has no row")
    # A picture that can't be read has no id, and the failure of its page accounts for it.
    if placement.figure_id is None and placement.page in document.failed:
        return _QUARANTINED
    if row["role"] not in TAGGED and row["reason"]:
        return str(row["role"])
    return Violation(document.doc_id, placement.page, "a figure has no tag, and nothing says why")


PLACED = pa.schema([PLACEMENTS.field(name) for name in ("doc_id", "page", "figure_id", "number")])
"""A placement with a figure."""

_Placed = Mapping[str, Any]


def placed_figures(placements: pa.Table) -> pa.Table:
    """Return the placements with a figure as rows of ``PLACED``."""
    rows = placements.select(PLACED.names)
    return rows.filter(pc.is_valid(rows.column("figure_id"))).cast(PLACED)


def pictured_pages(evidence: pa.Table) -> pa.Table:
    """Return the rows of pages as rows of ``PLACED``, without numbers."""
    rows = evidence.filter(pc.equal(evidence.column("modality"), pa.scalar(str(Modality.PAGE))))
    rows = rows.select(["doc_id", "page", "figure_id"])
    return rows.append_column(PLACED.field("number"), pa.nulls(rows.num_rows, pa.string())).cast(PLACED)


def one_figure_a_number(
    numbers: int, named_twice: Iterable[_Placed], figures: int, numbered_twice: Iterable[_Placed], names: Names
) -> GateVerdict:
    """Check that a tag's number names one figure of the version, and a figure has one number.

    A document that contradicts itself is to blame; contradictions between documents blame none. The rows are those of numbers
    with several figures, and of figures with several numbers.
    """
    violations = []
    for key, counted, rows, words in (
        ("number", "figure_id", named_twice, "number {} names {} figures"),
        ("figure_id", "number", numbered_twice, "figure {:.12} has {} numbers"),
    ):
        rows_by_key: dict[str, list[_Placed]] = defaultdict(list)
        for row in rows:
            rows_by_key[row[key]].append(row)
        for value, group in sorted(rows_by_key.items()):
            message = words.format(value, len({row[counted] for row in group}))
            pairs_by_document: dict[str, set[str]] = defaultdict(set)
            for row in group:
                pairs_by_document[row["doc_id"]].add(row[counted])
            guilty = {doc_id for doc_id, values in pairs_by_document.items() if len(values) > 1}
            violations += [Violation(row["doc_id"], row["page"], message) for row in group if row["doc_id"] in guilty]
            if not guilty:
                page_by_document = {row["doc_id"]: row["page"] for row in reversed(group)}
                examples = ", ".join(
                    f"{names.get(doc_id, doc_id[:12])} page {page}" for doc_id, page in sorted(page_by_document.items())[:2]
                )
                violations.append(Violation(None, None, f"{message}, as in {examples}"))
    return _gate_verdict("one figure a number", violations, f"{numbers} numbers, {figures} figures", names)


def figures_are_their_names(total: int, faulty: Iterable[_Placed], names: Names) -> GateVerdict:
    """Check that every stored figure decodes to the pixels that its id digests; ``faulty`` figures have a ``fault``."""
    violations = [Violation(row["doc_id"], row["page"], f"figure {row['figure_id'][:12]} {row['fault']}") for row in faulty]
    return _gate_verdict("figures are their names", violations, f"{total} figures decoded", names)


def quarantine_ceiling(ledger: Sequence[LedgerRow], bounds: Bounds, corpus: str) -> GateResult:
    """Check that the share of quarantined documents is within bounds, and that some document is indexed."""
    documents = {row.doc_id for row in ledger if row.status is Status.INDEXED}
    # A source that can't be read has no document, and counts by its name.
    quarantined = {row.doc_id or row.source: row for row in reversed(ledger) if row.status is Status.QUARANTINED}
    total = len(documents) + len(quarantined)
    share = len(quarantined) / total if total else 0.0
    passed = QUARANTINE.holds(share, bounds) and bool(documents)
    if not total:
        message, advice = (
            "there is no document in it: the source is empty",
            "fill it, or correct 'source' in the corpus file",
        )
        return QUARANTINE.judge(share, bounds, message, passed=False, remedy=advice).model_copy(update={"bound": None})
    message = f"{len(quarantined)} of {total} documents are in quarantine ({share:.0%})"
    message = f"{message}; the ceiling is {bounds.of(QUARANTINE):.0%}"
    if not passed:
        rows = sorted(quarantined.values(), key=lambda row: row.source)
        message = f"{message}: {listed([f'{row.source} ({row.code})' for row in rows], EXAMPLES)}"
    remedy = None if documents else "to see why: inset quarantine {corpus}; correct them"
    gate_result = QUARANTINE.judge(share, bounds, message, passed=passed, remedy=remedy, corpus=corpus)
    # No ceiling lets a version without a document pass.
    return gate_result if documents else gate_result.model_copy(update={"bound": None})


def documents_gone(ledger: Sequence[LedgerRow], before: Sequence[LedgerRow], bounds: Bounds) -> GateResult:
    """Check how many indexed documents of the live version the source no longer has, under their or another name.

    The value is 0 while no more than ``FEW_GONE`` are gone and these are less than half.
    ``before`` is the live version's ledger, [] without one.
    """
    sources, doc_ids = {row.source for row in ledger}, {row.doc_id for row in ledger}
    sources_before = {row.doc_id: row.source for row in reversed(before) if row.status is Status.INDEXED}
    # A document is still there under its id if its source was renamed, and under its source if that has new bytes.
    present_ids = {row.doc_id for row in before if row.source in sources} | doc_ids
    gone_sources = sorted(source for doc_id, source in sources_before.items() if doc_id not in present_ids)
    share = len(gone_sources) / len(sources_before) if sources_before else 0.0
    examples = f": {listed(gone_sources, EXAMPLES)}" if gone_sources else ""
    message = (
        f"{len(gone_sources)} of {len(sources_before)} documents of the live version are gone from the source ({share:.0%})"
    )
    is_large_part = len(gone_sources) == FEW_GONE and share >= 0.5
    allowed = f"{bounds.of(DOCUMENTS_GONE):.0%}, or {FEW_GONE}, allowed"
    return DOCUMENTS_GONE.judge(
        share if len(gone_sources) > FEW_GONE or is_large_part else 0.0,
        bounds,
        f"{message}, {allowed}{examples}",
    )


def _rows(table: pa.Table, *columns: str) -> list[dict[str, Any]]:
    return table.select(list(columns)).to_pylist()


def _gate_verdict(gate: str, violations: Sequence[Violation], summary: str, names: Names) -> GateVerdict:
    message = f"{describe_violations(violations, names)}; {OUR_FAULT}" if violations else summary
    result = GateResult(gate=gate, passed=not violations, value=len(violations), bound=0, message=message)
    return GateVerdict(result, tuple(violations))
