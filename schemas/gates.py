"""The gates: what a version must hold to be published. Each is an entry of ``GATES``.

Name, key, default, description and remedy of a gate are defined here only. Gates on counts are measured here too: add an
entry to ``COUNTED``. The others are judged where their evidence is. Light to import.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Protocol

from schemas.base import Frozen
from schemas.printing import listed

if TYPE_CHECKING:
    from schemas.versions import Counts


class GateResult(Frozen):
    """A gate's verdict, with its value and the bound that decided; None if none did."""

    gate: str
    passed: bool
    value: float | None
    bound: float | None
    message: str


class Bounds(Protocol):
    """The bounds of a corpus file."""

    def of(self, gate: "Gate") -> float:
        """Return the bound of a gate; of one that the corpus file no longer has, a bound that every value holds."""


@dataclass(frozen=True)
class Gate:
    """A gate with a bound in the corpus file, a minimum if ``at_least``, else a maximum, from 0 to 1.

    ``key`` is its key below ``gates``, ``means`` describes the bound, ``remedy`` what to do about a refusal; ``{ease}`` there is
    the change of the corpus file that lets the version pass.
    """

    name: str
    key: str
    default: float
    means: str
    remedy: str
    at_least: bool = False

    @property
    def option(self) -> str:
        """The key in the corpus file, in full."""
        return f"gates.{self.key}"

    @property
    def ease(self) -> str:
        """The change of the corpus file that lets more pass."""
        return f"{'lower' if self.at_least else 'raise'} {self.option}"

    def holds(self, value: float, bounds: Bounds) -> bool:
        """Return whether a value passes."""
        return value >= bounds.of(self) if self.at_least else value <= bounds.of(self)

    def judge(
        self,
        value: float,
        bounds: Bounds,
        finding: str,
        *,
        passed: bool | None = None,
        remedy: str | None = None,
        **words: str,
    ) -> GateResult:
        """Return the verdict on a value, with a description of the finding.

        ``passed`` overrides the comparison; ``remedy`` replaces the gate's own, and ``words`` fill its fields.
        """
        holds = self.holds(value, bounds) if passed is None else passed
        message = finding if holds else f"{finding}; {(remedy or self.remedy).format(ease=self.ease, **words)}"
        return GateResult(gate=self.name, passed=holds, value=value, bound=bounds.of(self), message=message)


@dataclass(frozen=True, kw_only=True)
class CountedGate(Gate):
    """A gate on counts of a version and perhaps of the live one, of which ``measure`` gives value and finding."""

    measure: "Callable[[Counts, Counts | None], tuple[float, str]]"
    allowed: str = "{:.0%} allowed"

    def judge_counts(
        self, now: "Counts", before: "Counts | None", bounds: Bounds, compare: str, corpus: str = ""
    ) -> GateResult:
        """Return the verdict; ``compare`` is the command that shows the changes since the live version of the corpus."""
        value, finding = self.measure(now, before)
        return self.judge(
            value, bounds, f"{finding}, {self.allowed.format(bounds.of(self))}", compare=compare, corpus=corpus
        )


def _rows_lost(now: "Counts", before: "Counts | None") -> tuple[float, str]:
    loss = max(0.0, 1 - now.rows / before.rows) if before and before.rows else 0.0
    compared = f"the live version has {before.rows}" if before else "there was no version before"
    return loss, f"{now.rows} rows, {compared}; a loss of {loss:.0%}"


def _partly_read(now: "Counts", _: "Counts | None") -> tuple[float, str]:
    # OCR is off because somebody wants it so.
    unread = now.partly_read - now.needs_ocr
    share = unread / now.documents if now.documents else 0.0
    return share, f"{unread} of {now.documents} documents are partly read ({share:.0%})"


COUNTED = (
    CountedGate(
        name="rows not lost",
        key="max_row_loss",
        default=0.5,
        means="Share of rows a version may lose against the live one.",
        measure=_rows_lost,
        remedy="to see what is gone: {compare}; if that is right, {ease}",
    ),
    CountedGate(
        name="documents read in full",
        key="max_partly_read",
        default=0.5,
        means="Share of documents of which pages may be unreadable.",
        measure=_partly_read,
        remedy="to see which: inset quarantine {corpus}; replace their files by whole copies, or {ease}",
    ),
)
"""Gates on counts, judged by ``check``."""

QUARANTINE = Gate(
    name="quarantine ceiling",
    key="max_quarantined",
    default=0.2,
    means="Share of documents that may be in quarantine.",
    remedy="to see why: inset quarantine {corpus}; correct them, or {ease}",
)
FEW_GONE = 2
"""Documents that may be gone from the source, unless they are half of it: a person removes so many on purpose."""

DOCUMENTS_GONE = Gate(
    name="documents not gone",
    key="max_documents_gone",
    default=0.1,
    means=f"Share of the live version's documents that may be gone from the source; {FEW_GONE} may unless they are half.",
    remedy="put them back; if they are to go, {ease}",
)
RECALL = Gate(
    name="recall at 10",
    key="min_recall_at_10",
    default=0.0,
    at_least=True,
    means="Share of golden questions whose page must be among ten hits.",
    remedy="not found: {questions}; correct what is wrong of them, or {ease}",
)
RECALL_KEPT = Gate(
    name="recall against the live version",
    key="max_recall_loss",
    default=0.05,
    means="Recall at 10 a version may lose against the live one; beyond it, what chance explains passes.",
    remedy="lost: {questions}; correct what is wrong of them, or {ease}",
)
FUSION_HELPS = Gate(
    name="hybrid against single modes",
    key="max_hybrid_loss",
    default=0.1,
    means="Recall at 10 by which hybrid may stay below the best of its retrievers; judged like max_recall_loss.",
    remedy="lost: {questions}; correct what is wrong of them, or {ease}",
)
PINNED = "pinned answers resolve"
COMPLAINTS = Gate(
    name="complaints answered",
    key="min_complaints_answered",
    default=0.0,
    at_least=True,
    means="Share of the golden questions made of feedback that must be answered, by the right page and figure; none that the "
    "live version answers may be lost.",
    remedy="not answered: {questions}; correct what is wrong of them, or {ease}",
)
OF_ROWS = "rows: "
"""Begins the names of gates that are expectations on rows."""
DUPLICATES = Gate(
    name=f"{OF_ROWS}a row says what no other says",
    key="max_duplicates",
    default=0.5,
    means="Share of rows that may say, under the same titles, what another says.",
    remedy="if that is right, {ease}",
)
LONG_TEXTS = Gate(
    name=f"{OF_ROWS}a text has at most {{tokens}} tokens",
    key="max_long_texts",
    default=0.1,
    means="Share of rows whose text may be longer than chunks.tokens.",
    remedy="if that is right, {ease}",
)

METRIC = "experiment: "
"""Begins the names of gates on metrics of the corpus's experiment."""
_AT_LEAST = "at least"
_METRIC_GATE = Gate(
    name=METRIC,
    key="metrics",
    default=0.0,
    means="A metric of the corpus's experiment, with a bound.",
    remedy="to see which questions: {report}; if that is right, {ease}",
)

GATES: tuple[Gate, ...] = (
    QUARANTINE,
    DOCUMENTS_GONE,
    RECALL,
    RECALL_KEPT,
    FUSION_HELPS,
    COMPLAINTS,
    *COUNTED,
    DUPLICATES,
    LONG_TEXTS,
)


def metric_gate(system: str, metric: str, *, at_least: bool) -> Gate:
    """Return the gate on a metric of a system of the corpus's experiment."""
    return _metric_gate(f"{METRIC}{metric} of {system}, {_AT_LEAST if at_least else 'at most'}")


def _metric_gate(name: str) -> Gate:
    return replace(_METRIC_GATE, name=name, at_least=name.endswith(_AT_LEAST))


def gate_of(name: str) -> Gate | None:
    """Return the gate with a bound that a verdict is of; None for others."""
    if name.startswith(METRIC):
        return _metric_gate(name)
    return next((gate for gate in GATES if name.startswith(gate.name.partition("{")[0])), None)


NO_QUESTIONS = "golden questions"
"""The gate that passes without golden questions; it has no bound."""


EXAMPLES = 3
"""Maximum number of documents, kinds of violations and pages that a message names."""

OUR_FAULT = "this is a fault of Inset: please report it"
"""The remedy for inconsistent data."""


_UNKNOWN = "a document that isn't in the version ({})"


@dataclass(frozen=True, slots=True)
class Violation:
    """A violation of an invariant; ``doc_id`` is None if no single document is to blame, ``page`` None or 0 without one."""

    doc_id: str | None
    page: int | None
    what: str


@dataclass(frozen=True)
class GateVerdict:
    """A gate's verdict; removing the documents of ``violations`` from the version lets the gate pass."""

    gate: GateResult
    violations: tuple[Violation, ...] = ()


@dataclass(frozen=True)
class RuleCount:
    """How many of ``rows`` break a rule; a share of ``allowed`` may. ``examples`` name some of the broken rows."""

    SHOWN: ClassVar = 20
    """Maximum number of examples."""

    rule: str
    rows: int
    broken: int
    allowed: float
    examples: Sequence[str]

    @property
    def share(self) -> float:
        """Share of the rows that break the rule."""
        return self.broken / max(self.rows, 1)


def descriptions_by_document(verdicts: Iterable[GateVerdict], documents: Collection[str]) -> dict[str, str]:
    """Describe the violations of each document of a version."""
    faults_by_document: dict[str, list[str]] = {}
    for verdict in verdicts:
        for doc_id, violations in _by_document(verdict.violations).items():
            if doc_id is not None and doc_id in documents:
                faults_by_document.setdefault(doc_id, []).append(f"{verdict.gate.gate}: {describe_faults(violations)}")
    return {doc_id: "; ".join([*broken, OUR_FAULT]) for doc_id, broken in faults_by_document.items()}


def _by_document(violations: Iterable[Violation]) -> dict[str | None, list[Violation]]:
    by_document: dict[str | None, list[Violation]] = {}
    for violation in violations:
        by_document.setdefault(violation.doc_id, []).append(violation)
    return by_document


def describe_violations(violations: Sequence[Violation], names: Mapping[str, str]) -> str:
    """Describe violations by sources and pages; a few are named, the rest counted. ``names`` has a source of each document."""
    by_document = _by_document(violations)
    unnamed = [describe_faults(by_document.pop(None))] if None in by_document else []
    described = sorted(
        f"{names.get(str(doc_id), _UNKNOWN.format(str(doc_id)[:12]))}: {describe_faults(faults)}"
        for doc_id, faults in by_document.items()
    )
    return _first_few([*unnamed, *described], "document")


def describe_faults(violations: Sequence[Violation]) -> str:
    """Describe the violations of one document, each kind with its pages."""
    pages: dict[str, set[int]] = {}
    for violation in violations:
        pages.setdefault(violation.what, set()).update([violation.page] if violation.page else [])
    return _first_few([f"{fault}{on_pages(fault_pages)}" for fault, fault_pages in pages.items()], "fault")


def on_pages(pages: Iterable[int]) -> str:
    """Return page numbers in brackets; "" for none."""
    page_numbers = sorted(set(pages))
    if not page_numbers:
        return ""
    return f" (page{'s' if len(page_numbers) > 1 else ''} {listed([*map(str, page_numbers)], EXAMPLES)})"


def _first_few(items: Sequence[str], kind: str) -> str:
    remaining = len(items) - EXAMPLES
    remaining_note = [f"and {remaining} more {kind}{'s' if remaining > 1 else ''}"] if remaining > 0 else []
    return "; ".join([*items[:EXAMPLES], *remaining_note])
