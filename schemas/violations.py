"""What a version is held to, and what breaks it: verdicts, and offences that are laid at documents."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from schemas.versions import GateResult

EXAMPLES = 3
"""Documents, kinds of offences and pages that a message names at most."""

FEWEST_PICTURES = 20
"""Pictures without a caption that a share is counted from: of fewer, one on an odd page would refuse a version."""

OUR_FAULT = "this is a fault of Inset: please report it"
"""What to do about data that isn't what it should be, whatever the documents are."""


@dataclass(frozen=True, slots=True)
class Violation:
    """Something that breaks a law.

    ``doc_id`` is None where no single document is to blame; ``page`` counts from 1, and is None, or 0, where it is no page's.
    """

    doc_id: str | None
    page: int | None
    what: str


@dataclass(frozen=True)
class GateVerdict:
    """A gate's verdict; ``offences`` are what documents may be taken out of the version for, so that the gate holds."""

    gate: GateResult
    offences: tuple[Violation, ...] = ()


def by_document(verdicts: Iterable[GateVerdict], documents: Collection[str]) -> dict[str, str]:
    """Say of each document that breaks a law which laws it breaks, where, and what to do.

    Args:
        verdicts: On all laws.
        documents: Those of the version, by id; offences of others stay with the gates.
    """
    found: dict[str, list[str]] = {}
    for verdict in verdicts:
        laid: dict[str, list[Violation]] = {}
        for offence in verdict.offences:
            if offence.doc_id is not None and offence.doc_id in documents:
                laid.setdefault(offence.doc_id, []).append(offence)
        for doc_id, offences in laid.items():
            found.setdefault(doc_id, []).append(f"{verdict.gate.gate}: {places(offences)}")
    return {doc_id: "; ".join([*broken, OUR_FAULT]) for doc_id, broken in found.items()}


def in_words(offences: Sequence[Violation], names: Mapping[str, str]) -> str:
    """Name offences by the sources of their documents and by their pages; a few are named, the rest counted.

    Args:
        offences: In any order.
        names: A source of each document, by its id.
    """
    laid: dict[str | None, list[Violation]] = {}
    for offence in offences:
        laid.setdefault(offence.doc_id, []).append(offence)
    named = sorted((_name(doc_id, names), found) for doc_id, found in laid.items() if doc_id is not None)
    unnamed = [places(laid[None])] if None in laid else []
    return _some([*unnamed, *(f"{name}: {places(found)}" for name, found in named)], "document")


def places(offences: Sequence[Violation]) -> str:
    """Return what offences of one document are, each kind with its pages."""
    pages: dict[str, set[int]] = {}
    for offence in offences:
        pages.setdefault(offence.what, set()).update([offence.page] if offence.page else [])
    return _some([f"{what}{on_pages(found)}" for what, found in pages.items()], "fault")


def on_pages(pages: Iterable[int]) -> str:
    """Return page numbers as an addition in brackets; "" for none."""
    known = sorted(set(pages))
    if not known:
        return ""
    rest = f" and {len(known) - EXAMPLES} more" if len(known) > EXAMPLES else ""
    return f" (page{'s' if len(known) > 1 else ''} {', '.join(map(str, known[:EXAMPLES]))}{rest})"


def _name(doc_id: str, names: Mapping[str, str]) -> str:
    return names.get(doc_id, f"a document that isn't in the version ({doc_id[:12]})")


def _some(items: Sequence[str], kind: str) -> str:
    rest = len(items) - EXAMPLES
    more = [f"and {rest} more {kind}{'s' if rest > 1 else ''}"] if rest > 0 else []
    return "; ".join([*items[:EXAMPLES], *more])
