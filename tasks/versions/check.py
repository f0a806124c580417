"""Hold a version to its laws of conservation: nothing is lost or invented between what went in and what is searched.

A law that holds document by document looks at some documents at a time and judges at the end; one that holds of all figures gets
their placements by figure, or by number.
"""

import io
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from PIL import Image

from schemas.documents import TAGGED, Page, Placement, Role
from schemas.evidence import EVIDENCE, PLACEMENTS, Modality, VersionRows
from schemas.gates import QUARANTINE, Bounds
from schemas.ids import figure_id
from schemas.tags import TagTemplate, is_disarmed
from schemas.versions import GateResult, LedgerRow, Plan, Status
from schemas.violations import EXAMPLES, OUR_FAULT, GateVerdict, Violation, in_words

CHECK_VERSION = "1"
"""Goes up when a law changes: rows that held the laws before are looked at again."""

Names = Mapping[str, str]
"""A source of each document, by its id: what messages call it."""


def documents_conserved(plan: Plan, ledger: Sequence[LedgerRow]) -> GateVerdict:
    """Hold that every planned source is in the ledger once, indexed or quarantined, and no other is."""
    # Sources that are planned and not in the ledger yet: for a corpus of very many, one count of them is enough.
    left = Counter((row.source, row.doc_id) for rows in (plan.documents, plan.carried) for row in rows)
    planned = left.total()
    status: Counter[Status] = Counter()
    for row in ledger:
        status[row.status] += 1
        left[row.source, row.doc_id] -= 1
    # A source that isn't in the ledger can't be put in quarantine there, so these are no single document's.
    violations = [Violation(None, None, f"{source} got lost") for source, _ in left.elements()]
    violations += [Violation(None, None, f"{source} was not planned") for source, _ in (-left).elements()]
    held = f"{planned} sources in, {status[Status.INDEXED]} indexed, {status[Status.QUARANTINED]} quarantined"
    return _law("documents conserved", violations, held, {})


@dataclass(frozen=True)
class DocumentContent:
    """What the pages of a document held before anything was made of them.

    ``failed`` are the pages on which something could not be read, and ``marginal`` those with running heads alone; ``pictured``
    are those that have a picture to be found by, where the corpus file asks for rows of pages; ``by_text`` says of pictures
    without a caption, by placement, whether they are read with text next to them.
    """

    doc_id: str
    pages: Sequence[Page]
    placements: Sequence[Placement]
    failed: Collection[int] = frozenset()
    marginal: Collection[int] = frozenset()
    by_text: Mapping[int, bool] = field(default_factory=dict)
    pictured: Collection[int] = frozenset()


_NO_ROWS = VersionRows(EVIDENCE.empty_table(), PLACEMENTS.empty_table())


class ContentConserved:
    """Holds that every page and every figure that went in is indexed, in quarantine, or left out for a reason.

    A page is indexed where a row stands on it, that of the whole page aside; without one it must have a failure, or nothing to
    index: no words, or running heads alone. Where pages have rows, each that has a picture must have its own. A figure is
    indexed where its placement has a tag and, if it is content, a row; else it must have a failure on its page, or a role that
    gets no tag with the reason of that role.
    """

    def __init__(self) -> None:
        self._pages, self._figures = _Tally(), _Tally()

    def look(self, documents: Iterable[DocumentContent], rows: VersionRows = _NO_ROWS) -> None:
        """Look at documents that went in, and at all rows that they have in the version; those of others don't matter."""
        standing: dict[str, set[int]] = defaultdict(set)
        shown: dict[str, set[str]] = defaultdict(set)
        wanted = list(documents)
        if not wanted:
            return
        own = rows.of([document.doc_id for document in wanted])
        whole: dict[str, set[int]] = defaultdict(set)
        for row in _rows(own.evidence, "doc_id", "modality", "regions", "figure_id"):
            pages = (region["page"] for region in row["regions"])
            if row["modality"] == Modality.PAGE:
                whole[row["doc_id"]].update(pages)
            else:
                standing[row["doc_id"]].update(pages)
                shown[row["doc_id"]].add(row["figure_id"])
        placed = {
            (row["doc_id"], row["order"]): row
            for row in _rows(own.placements, "doc_id", "order", "role", "number", "reason")
        }
        for document in wanted:
            for page in document.pages:
                fate = _fate_of_page(page, document, standing[document.doc_id], whole[document.doc_id])
                self._pages.add(fate, document.doc_id, page.page)
            for place in document.placements:
                found = placed.get((document.doc_id, place.order))
                fate = _fate_of_figure(place, found, document, shown[document.doc_id])
                self._figures.add(fate, document.doc_id, place.page)

    def verdicts(self, names: Names) -> list[GateVerdict]:
        """Judge; ``names`` are what messages call the documents."""
        return [
            self._pages.verdict("pages conserved", "pages", names),
            self._figures.verdict("figures conserved", "figures", names),
        ]


class ReusedRows:
    """Holds that documents which the live version has already bring as many rows and placements as they did there.

    What is expected of a document is said before it is looked at.
    """

    def __init__(self) -> None:
        self._open: tuple[dict[str, int], dict[str, int]] = ({}, {})
        self._violations: tuple[list[Violation], list[Violation]] = ([], [])
        self._documents = 0

    def expect(self, rows: VersionRows) -> None:
        """Take in the live version's rows of some of those documents."""
        counts = [_counts(table) for table in (rows.evidence, rows.placements)]
        self._documents += len({doc_id for found in counts for doc_id in found})
        for expected, found in zip(self._open, counts, strict=True):
            expected.update(found)

    def look(self, rows: VersionRows) -> None:
        """Look at rows of the version; those of other documents don't matter."""
        for kind, table in enumerate((rows.evidence, rows.placements)):
            for doc_id, found in _counts(table).items():
                self._compare(kind, doc_id, self._open[kind].pop(doc_id, found), found)

    def _compare(self, kind: int, doc_id: str, had: int, has: int) -> None:
        if had != has:
            self._violations[kind].append(Violation(doc_id, None, f"it had {had} {_KINDS[kind]} and has {has}"))

    def verdict(self, names: Names) -> GateVerdict:
        """Judge; ``names`` are what messages call the documents."""
        for kind, left in enumerate(self._open):
            for doc_id in sorted(left):
                self._compare(kind, doc_id, left[doc_id], 0)
        violations = [violation for found in self._violations for violation in found]
        return _law(
            "documents taken over", violations, f"{self._documents} documents have the rows that they had before", names
        )


_KINDS = ("rows", "placements")


def _counts(table: pa.Table) -> dict[str, int]:
    counted = table.group_by("doc_id").aggregate([("doc_id", "count")])
    return {row["doc_id"]: row["doc_id_count"] for row in counted.to_pylist()}


_INDEXED, _QUARANTINED = "indexed", "quarantined"


@dataclass(frozen=True, slots=True)
class _Lost:
    """The fate of what came to nothing, in words."""

    how: str


class _Tally:
    """How many of a kind came to what."""

    def __init__(self) -> None:
        self._fates: Counter[str] = Counter()
        self._lost: list[Violation] = []

    def add(self, fate: str | _Lost, doc_id: str, page: int) -> None:
        if isinstance(fate, _Lost):
            self._lost.append(Violation(doc_id, page, fate.how))
        else:
            self._fates[fate] += 1

    def verdict(self, gate: str, kind: str, names: Names) -> GateVerdict:
        total = self._fates.total() + len(self._lost)
        left_out = {fate: count for fate, count in self._fates.items() if fate not in (_INDEXED, _QUARANTINED)}
        why = "; ".join(f"{count} {fate}" for fate, count in sorted(left_out.items()))
        held = (
            f"{total} {kind} in, {self._fates[_INDEXED]} indexed, {self._fates[_QUARANTINED]} quarantined, "
            f"{sum(left_out.values())} left out" + (f" ({why})" if why else "")
        )
        return _law(gate, self._lost, held, names)


def _fate_of_page(page: Page, document: DocumentContent, standing: Collection[int], whole: Collection[int]) -> str | _Lost:
    if page.page in document.pictured and page.page not in whole:
        return _Lost("a page has a picture and no row of its own")
    if page.page in standing:
        return _INDEXED
    if page.page in document.failed:
        return _QUARANTINED
    if page.characters == 0:
        scanned = any(place.page == page.page and place.role is Role.PAGE_SCAN for place in document.placements)
        return "of which no words were read" if scanned else "without words"
    return "with running heads alone" if page.page in document.marginal else _Lost("a page has words and no row")


def _fate_of_figure(
    place: Placement, row: Mapping[str, Any] | None, document: DocumentContent, shown: Collection[str | None]
) -> str | _Lost:
    if row is None:
        return _Lost("a figure has no placement")
    if row["number"] is not None:
        has_row = row["role"] != Role.CONTENT or place.figure_id in shown
        return _INDEXED if has_row else _Lost("a figure has no row")
    if place.figure_id is None and place.page in document.failed:
        return _QUARANTINED
    left_out = row["role"] not in TAGGED and row["reason"]
    return str(row["role"]) if left_out else _Lost("a figure has no tag, and nothing says why")


class TagsArePlacements:
    """Holds that the running text of each document carries a tag for each tagged placement, no more and no fewer.

    Figure rows are left out: they repeat the tag of the placement they describe.
    """

    def __init__(self, template: TagTemplate) -> None:
        self._template = template
        self._violations: list[Violation] = []
        self._written = self._placed = 0

    def look(self, rows: VersionRows) -> None:
        """Look at rows of the version."""
        written: dict[tuple[str, str], list[int]] = defaultdict(list)
        placed: dict[tuple[str, str], list[int]] = defaultdict(list)
        for row in _rows(rows.evidence, "doc_id", "page", "modality", "tagged_text"):
            if row["modality"] != Modality.FIGURE:
                for number in self._template.numbers(row["tagged_text"]):
                    written[row["doc_id"], number].append(row["page"])
        for row in _tagged(rows.placements):
            placed[row["doc_id"], row["number"]].append(row["page"])
        for doc_id, number in sorted(written.keys() | placed.keys()):
            where, there = placed[doc_id, number], written[doc_id, number]
            if len(where) != len(there):
                what = f"tag {number} is placed {len(where)} times and written {len(there)} times"
                self._violations.append(Violation(doc_id, min(where or there), what))
        self._written += sum(map(len, written.values()))
        self._placed += sum(map(len, placed.values()))

    def verdict(self, names: Names) -> GateVerdict:
        """Judge; ``names`` are what messages call the documents."""
        held = f"{self._written} tags written for {self._placed} tagged placements"
        return _law("tags are placements", self._violations, held, names)


class TagsResolve:
    """Holds that whatever a row says of figures leads to figures of its own document.

    Tags and ``figure_refs`` must name figures placed there, and nothing may be left of a placeholder or half a tag.
    """

    def __init__(self, template: TagTemplate) -> None:
        self._template = template
        self._violations: list[Violation] = []
        self._tags = 0

    def look(self, rows: VersionRows) -> None:
        """Look at rows of the version."""
        numbers: dict[str, set[str]] = defaultdict(set)
        figures: dict[str, set[str]] = defaultdict(set)
        for row in _tagged(rows.placements):
            numbers[row["doc_id"]].add(row["number"])
            figures[row["doc_id"]].add(row["figure_id"])
        for row in _rows(rows.evidence, "doc_id", "page", "tagged_text", "figure_refs"):
            doc_id, parts = row["doc_id"], self._template.split(row["tagged_text"])
            named = [number for _, number in parts if number is not None]
            self._tags += len(named)
            strange = [f"tag {number} leads nowhere" for number in named if number not in numbers[doc_id]]
            strange += [f"figure {ref[:12]} leads nowhere" for ref in row["figure_refs"] if ref not in figures[doc_id]]
            strange += ["a tag is broken" for words, number in parts if number is None and not is_disarmed(words)]
            self._violations += [Violation(doc_id, row["page"], what) for what in strange]

    def verdict(self, names: Names) -> GateVerdict:
        """Judge; ``names`` are what messages call the documents."""
        return _law("tags resolve", self._violations, f"all {self._tags} tags lead to figures of their own document", names)


PLACED = pa.schema(
    (
        *(PLACEMENTS.field(name) for name in ("doc_id", "page", "figure_id", "number")),
        pa.field("known", pa.bool_(), nullable=False),
    )
)
"""A placement of a figure as the laws on all figures see it; ``known`` says that its pixels were looked at before."""


def placed_figures(placements: pa.Table, known: Collection[str]) -> pa.Table:
    """Return the placements that have a figure, as rows of ``PLACED``; ``known`` are documents whose figures were looked at."""
    rows = placements.select(PLACED.names[:-1])
    return _placed(rows.filter(pc.is_valid(rows.column("figure_id"))), known)


def pictured_pages(evidence: pa.Table, known: Collection[str]) -> pa.Table:
    """Return the rows of pages as rows of ``PLACED``: their pictures are named as figures are, and no tag has their number."""
    rows = evidence.filter(pc.equal(evidence.column("modality"), pa.scalar(str(Modality.PAGE))))
    rows = rows.select(["doc_id", "page", "figure_id"])
    return _placed(rows.append_column(PLACED.field("number"), pa.nulls(rows.num_rows, pa.string())), known)


def _placed(rows: pa.Table, known: Collection[str]) -> pa.Table:
    documents = rows.column("doc_id").combine_chunks().dictionary_encode()
    known_documents = pa.array([str(doc_id) in known for doc_id in documents.dictionary.to_pylist()], pa.bool_())
    return rows.append_column(PLACED.field("known"), known_documents.take(documents.indices)).cast(PLACED)


def one_figure_a_number(by_number: Iterable[pa.Table], by_figure: Iterable[pa.Table], names: Names) -> GateVerdict:
    """Hold that a tag's number names one figure of the version, and a figure has one number.

    It is a document's violation where the document contradicts itself; where documents contradict each other it is nobody's.

    Args:
        by_number: Rows of ``PLACED`` that have a number; those that share one are in one table.
        by_figure: Rows of ``PLACED``; those that share a figure are in one table.
        names: What messages call the documents.
    """
    numbers, named_twice = _several(by_number, "number", "figure_id", "number {} names {} figures")
    figures, numbered_twice = _several(by_figure, "figure_id", "number", "figure {:.12} has {} numbers")
    violations = []
    for what, rows in [*sorted(named_twice.items()), *sorted(numbered_twice.items())]:
        alone = {doc_id for doc_id, found in _pairs(rows).items() if len(found) > 1}
        if alone:
            violations += [Violation(row["doc_id"], row["page"], what) for row in rows if row["doc_id"] in alone]
        else:
            where = {row["doc_id"]: row["page"] for row in reversed(rows)}
            named = ", ".join(f"{names.get(doc_id, doc_id[:12])} page {page}" for doc_id, page in sorted(where.items())[:2])
            violations.append(Violation(None, None, f"{what}, as in {named}"))
    return _law("one figure a number", violations, f"{numbers} numbers, {figures} figures", names)


def _several(tables: Iterable[pa.Table], one: str, other: str, words: str) -> tuple[int, dict[str, list[dict[str, Any]]]]:
    """Return how many values of ``one`` stand with any of ``other``, and the rows of those with several, by what to say."""
    total = 0
    found: dict[str, list[dict[str, Any]]] = {}
    for table in tables:
        tagged = table.filter(pc.is_valid(table.column("number")))
        counted = tagged.group_by(one).aggregate([(other, "count_distinct")])
        total += counted.num_rows
        counts = counted.filter(pc.greater(counted.column(f"{other}_count_distinct"), pa.scalar(1)))
        for row in counts.to_pylist():
            same = tagged.filter(pc.equal(tagged.column(one), pa.scalar(row[one])))
            found[words.format(row[one], row[f"{other}_count_distinct"])] = same.to_pylist()
    return total, found


def _pairs(rows: Iterable[dict[str, Any]]) -> dict[str, set[tuple[str, str]]]:
    found: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for row in rows:
        found[row["doc_id"]].add((row["number"], row["figure_id"]))
    return found


def figures_are_their_names(by_figure: Iterable[pa.Table], load: Callable[[str], bytes], names: Names) -> GateVerdict:
    """Hold that every stored figure decodes to pixels whose digest is its name.

    Objects never change, so figures that were looked at before are not decoded again.

    Args:
        by_figure: Rows of ``PLACED``; those that share a figure are in one table.
        load: Returns a figure's encoded bytes; raises ``FileNotFoundError`` where there are none.
        names: What messages call the documents.
    """
    total = decoded = 0
    faults: dict[str, list[Violation]] = {}
    for table in by_figure:
        figures = table.group_by("figure_id").aggregate([("known", "any")])
        unseen = [row["figure_id"] for row in figures.to_pylist() if not row["known_any"]]
        total, decoded = total + figures.num_rows, decoded + len(unseen)
        for name in sorted(unseen):
            if (fault := _fault(name, load)) is not None:
                where: dict[str, int] = {}
                for row in table.filter(pc.equal(table.column("figure_id"), pa.scalar(name))).to_pylist():
                    where.setdefault(row["doc_id"], row["page"])
                what = f"figure {name[:12]} {fault}"
                faults[name] = [Violation(doc_id, page, what) for doc_id, page in where.items()]
    violations = [violation for name in sorted(faults) for violation in faults[name]]
    held = f"{decoded} of {total} figures decoded, the others were before"
    return _law("figures are their names", violations, held, names)


def quarantine_ceiling(ledger: Sequence[LedgerRow], bounds: Bounds, corpus: str) -> GateResult:
    """Hold that not too many documents are in quarantine, and that not all are.

    Args:
        ledger: Of the version.
        bounds: What share of its documents may be there.
        corpus: Its name, for the message.
    """
    documents = {row.doc_id for row in ledger if row.status is Status.INDEXED}
    quarantined = {row.doc_id or row.source: row for row in reversed(ledger) if row.status is Status.QUARANTINED}
    total = len(documents) + len(quarantined)
    share = len(quarantined) / total if total else 0.0
    passed = QUARANTINE.holds(share, bounds) and bool(documents)
    if not total:
        found, todo = "there is no document in it: the source is empty", "fill it, or correct 'source' in the corpus file"
        return QUARANTINE.judge(share, bounds, found, passed=False, remedy=todo)
    found = f"{len(quarantined)} of {total} documents are in quarantine ({share:.0%})"
    found = f"{found}; the ceiling is {bounds.of(QUARANTINE):.0%}"
    if not passed:
        rows = sorted(quarantined.values(), key=lambda row: row.source)
        named = ", ".join(f"{row.source} ({row.code})" for row in rows[:EXAMPLES])
        rest = f" and {len(rows) - EXAMPLES} more" if len(rows) > EXAMPLES else ""
        found = f"{found}: {named}{rest}"
    remedy = None if documents else "to see why: inset quarantine {corpus}; correct them"
    return QUARANTINE.judge(share, bounds, found, passed=passed, remedy=remedy, corpus=corpus)


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
    rows = _rows(placements, "doc_id", "page", "figure_id", "number")
    return (row for row in rows if row["number"] is not None)


def _law(gate: str, violations: Sequence[Violation], held: str, names: Names) -> GateVerdict:
    message = f"{in_words(violations, names)}; {OUR_FAULT}" if violations else held
    result = GateResult(gate=gate, passed=not violations, value=len(violations), bound=0, message=message)
    return GateVerdict(result, tuple(violations))
