"""Verdicts of the checks of a version, and the violations that they found."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from schemas.versions import GateResult

EXAMPLES = 3
"""Maximum number of documents, kinds of violations and pages that a message names."""

FEWEST_PICTURES = 20
"""Minimum number of uncaptioned pictures for a share: of fewer, one odd page would refuse a version."""

OUR_FAULT = "this is a fault of Inset: please report it"
"""The remedy for inconsistent data."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A violation of an invariant.

    ``doc_id`` is None if no single document is to blame; ``page`` counts from 1, and is None or 0 without a page.
    """

    doc_id: str | None
    page: int | None
    what: str


@dataclass(frozen=True)
class GateVerdict:
    """A gate's verdict; removing the documents of ``violations`` from the version lets the gate pass."""

    gate: GateResult
    violations: tuple[Violation, ...] = ()


def descriptions_by_document(verdicts: Iterable[GateVerdict], documents: Collection[str]) -> dict[str, str]:
    """Describe the violations of each document of a version."""
    faults_by_document: dict[str, list[str]] = {}
    for verdict in verdicts:
        laid: dict[str, list[Violation]] = {}
        for violation in verdict.violations:
            if violation.doc_id is not None and violation.doc_id in documents:
                laid.setdefault(violation.doc_id, []).append(violation)
        for doc_id, violations in laid.items():
            faults_by_document.setdefault(doc_id, []).append(f"{verdict.gate.gate}: {describe_faults(violations)}")
    return {doc_id: "; ".join([*broken, OUR_FAULT]) for doc_id, broken in faults_by_document.items()}


def describe_violations(violations: Sequence[Violation], names: Mapping[str, str]) -> str:
    """Describe violations by sources and pages; a few are named, the rest counted. ``names`` has a source of each document."""
    laid: dict[str | None, list[Violation]] = {}
    for violation in violations:
        laid.setdefault(violation.doc_id, []).append(violation)
    named_violations = sorted(
        (_name(doc_id, names), document_violations) for doc_id, document_violations in laid.items() if doc_id is not None
    )
    unnamed = [describe_faults(laid[None])] if None in laid else []
    return _first_few(
        [*unnamed, *(f"{name}: {describe_faults(document_violations)}" for name, document_violations in named_violations)],
        "document",
    )


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
    remaining_note = f" and {len(page_numbers) - EXAMPLES} more" if len(page_numbers) > EXAMPLES else ""
    return f" (page{'s' if len(page_numbers) > 1 else ''} {', '.join(map(str, page_numbers[:EXAMPLES]))}{remaining_note})"


def _name(doc_id: str, names: Mapping[str, str]) -> str:
    return names.get(doc_id, f"a document that isn't in the version ({doc_id[:12]})")


def _first_few(items: Sequence[str], kind: str) -> str:
    remaining = len(items) - EXAMPLES
    remaining_note = [f"and {remaining} more {kind}{'s' if remaining > 1 else ''}"] if remaining > 0 else []
    return "; ".join([*items[:EXAMPLES], *remaining_note])
