"""The gates that a corpus file can set: what a version must hold to be published. Each is a row of ``GATES``.

A gate's name, its key in the corpus file with default and description, and what to do where it refuses stand here and nowhere
else. A gate that looks at counts alone is measured here too: to add one is to add a row of ``COUNTED``. The others name what
they ask for, and are judged where their evidence is. Light to import.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from schemas.versions import Counts, GateResult


class Bounds(Protocol):
    """What a corpus file asks for."""

    def of(self, gate: "Gate") -> float:
        """Return the bound of a gate."""


@dataclass(frozen=True)
class Gate:
    """What a version must hold to be published, against a bound of the corpus file.

    Attributes:
        name: What messages, notes and manifests call it.
        key: Its key below ``gates`` in the corpus file.
        default: The bound where the corpus file gives none.
        means: What the bound is, for people who write corpus files.
        remedy: What to do where it refuses; ``{ease}`` is the change of the corpus file that lets the version pass, and
            further fields are given when it is judged.
        at_least: Whether the bound is the least value that passes; else it is the largest.
        limits: The least and the largest bound that make sense.
    """

    name: str
    key: str
    default: float
    means: str
    remedy: str
    at_least: bool = False
    limits: tuple[float, float] = (0, 1)

    @property
    def option(self) -> str:
        """The key in the corpus file, in full."""
        return f"gates.{self.key}"

    @property
    def ease(self) -> str:
        """What to change in the corpus file so that more passes."""
        return f"{'lower' if self.at_least else 'raise'} {self.option}"

    def holds(self, value: float, bounds: Bounds) -> bool:
        """Return whether a value passes."""
        return value >= bounds.of(self) if self.at_least else value <= bounds.of(self)

    def judge(
        self,
        value: float,
        bounds: Bounds,
        found: str,
        *,
        passed: bool | None = None,
        remedy: str | None = None,
        **words: str,
    ) -> "GateResult":
        """Return the verdict on a value.

        Args:
            value: What was measured.
            bounds: What the corpus file asks for.
            found: What was found, in words.
            passed: The verdict, where more than the bound decides.
            remedy: What to do instead of the gate's own remedy.
            words: What the remedy names.
        """
        from schemas.versions import GateResult

        holds = self.holds(value, bounds) if passed is None else passed
        message = found if holds else f"{found}; {(remedy or self.remedy).format(ease=self.ease, **words)}"
        return GateResult(gate=self.name, passed=holds, value=value, bound=bounds.of(self), message=message)


@dataclass(frozen=True, kw_only=True)
class CountedGate(Gate):
    """A gate on what a version holds in numbers, maybe against the live version.

    Attributes:
        measure: Counts of the version, and of the live one, None where there is none, to the value and what was found.
        allowed: The bound in words, a format of it.
    """

    measure: "Callable[[Counts, Counts | None], tuple[float, str]]"
    allowed: str = "{:.0%} allowed"

    def judge_counts(self, now: "Counts", before: "Counts | None", bounds: Bounds, compare: str) -> "GateResult":
        """Return the verdict; ``compare`` is the command that shows what changed since the live version."""
        value, found = self.measure(now, before)
        return self.judge(value, bounds, f"{found}, {self.allowed.format(bounds.of(self))}", compare=compare)


def _rows_lost(now: "Counts", before: "Counts | None") -> tuple[float, str]:
    loss = max(0.0, 1 - now.rows / before.rows) if before and before.rows else 0.0
    compared = f"the live version has {before.rows}" if before else "there was no version before"
    return loss, f"{now.rows} rows, {compared}; a loss of {loss:.0%}"


def _rows_a_page(now: "Counts", before: "Counts | None") -> tuple[float, str]:
    """Compare by the page: documents may come and go, but a parse that cuts up pages, or skips them, changes it much."""
    # An empty version counts as one row, so that there is a factor.
    mine, theirs = (max(counts.rows, 1) / max(counts.pages, 1) for counts in (now, before or now))
    drift = max(mine / theirs, theirs / mine)
    compared = f"the live version has {theirs:.2f}" if before else "there was no version before"
    return drift, f"{mine:.2f} rows a page, {compared}; a factor of {drift:.2f}"


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
        name="rows a page",
        key="max_row_drift",
        default=3.0,
        limits=(1, 1e6),
        means="Factor by which rows a page may become more, or fewer, than the live version's.",
        measure=_rows_a_page,
        allowed="{:g} allowed",
        remedy="to see what changed: {compare}; if that is right, {ease}",
    ),
)
"""Gates on counts; ``check`` judges every one of them."""

QUARANTINE = Gate(
    name="quarantine ceiling",
    key="max_quarantined",
    default=0.2,
    means="Share of documents that may be in quarantine.",
    remedy="to see why: inset quarantine {corpus}; correct them, or {ease}",
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
PICTURES_BY_TEXT = Gate(
    name="pictures by their text",
    key="min_pictures_by_text",
    default=0.8,
    at_least=True,
    means="Share of the pictures without a caption that must be read with text next to them on the page.",
    remedy="most others: {most}; to look at them: inset parse FILE.pdf --out FOLDER --view; if they are right, {ease}",
)
DUPLICATES = Gate(
    name="rows: a row says what no other says",
    key="max_duplicates",
    default=0.5,
    means="Share of rows that may say, under the same titles, what another says.",
    remedy="if that is right, {ease}",
)
LONG_TEXTS = Gate(
    name="rows: a text has at most {tokens} tokens",
    key="max_long_texts",
    default=0.1,
    means="Share of rows whose text may be longer than chunks.tokens.",
    remedy="if that is right, {ease}",
)

GATES: tuple[Gate, ...] = (
    QUARANTINE,
    RECALL,
    RECALL_KEPT,
    FUSION_HELPS,
    *COUNTED,
    PICTURES_BY_TEXT,
    DUPLICATES,
    LONG_TEXTS,
)

NO_QUESTIONS = "golden questions"
"""The gate that passes where there is no question to judge by; it has no bound."""
