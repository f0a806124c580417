"""Triage of feedback: what came in, and what operators make of it."""

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import groupby

from pipeline.records.access import read_current, read_rights
from pipeline.records.feedback import change_decisions, decided, entry_of, read_feedback
from pipeline.records.ledger import document_of, indexed_pages, indexed_sources, read_ledger
from pipeline.records.publication import resolve_version
from pipeline.records.row_parts import rows_of_documents
from schemas.access import Principals
from schemas.base import Frozen
from schemas.errors import UserError
from schemas.feedback import Decision, DecisionKind, Feedback, FeedbackRegion
from schemas.ports import ObjectStore


class Entry(Frozen):
    """An entry of feedback with what became of it; None while it is open."""

    id: str
    feedback: Feedback
    decision: Decision | None


class Group(Frozen):
    """Entries on one question and the same documents, newest first."""

    question: str
    sources: list[str]
    entries: list[Entry]

    @property
    def is_open(self) -> bool:
        """Whether a complaint among them waits for a decision."""
        return any(entry.decision is None and not entry.feedback.helpful for entry in self.entries)


def feedback_groups(store: ObjectStore, readers: Principals | None = None, *, has_rights: bool = False) -> list[Group]:
    """Return the feedback of a corpus by question and documents; those that wait for a decision first, then the newest.

    ``readers`` see entries all of whose documents they may read; of a corpus with rights, none on no document.
    """
    entries, decisions = read_feedback(store), decided(store)
    if readers is not None and has_rights:
        rights = read_rights(store, read_current(store).digest)
        entries = [
            entry for entry in entries if entry.doc_ids and all(rights.allows(doc_id, readers) for doc_id in entry.doc_ids)
        ]

    def topic(entry: Feedback) -> tuple[str, list[str]]:
        return " ".join(entry.question.casefold().split()), sorted({region.source for region in entry.regions})

    groups = [
        Group(
            question=same[0].question,
            sources=sources,
            entries=[Entry(id=entry.id, feedback=entry, decision=decisions.get(entry.id)) for entry in same],
        )
        for (_, sources), grouped in groupby(sorted(entries, key=topic), topic)
        if (same := sorted(grouped, key=lambda entry: entry.at, reverse=True))
    ]
    groups.sort(key=lambda group: group.entries[0].feedback.at, reverse=True)
    return sorted(groups, key=lambda group: not group.is_open)


def decide(
    store: ObjectStore,
    corpus: str,
    entry_id: str,
    kind: DecisionKind,
    *,
    by: str,
    reason: str = "",
    source: str | None = None,
    page: int | None = None,
    figure_id: str | None = None,
) -> Decision:
    """Store what an operator makes of an entry, in place of an earlier decision on it.

    A golden question names the page of a source that answers, by default the first that the entry names, and perhaps a figure.
    Raises ``UserError`` where the live version has no such page or figure.
    """
    entry = entry_of(store, entry_id)
    now = datetime.now(UTC)
    region = _chosen_region(store, corpus, entry, source, page, figure_id) if kind == "question" else None
    decision = Decision(
        kind=kind,
        entry=entry_id,
        at=now,
        by=by,
        reason=reason.strip(),
        question=entry.question if region else "",
        region=region,
    )
    change_decisions(store, lambda decisions: [*_undone(decisions, entry_id, by, now), decision])
    return decision


def undo(store: ObjectStore, entry_id: str, *, by: str) -> None:
    """Take back the decision on an entry, which is open again; raise ``UserError`` where there is none."""
    if entry_id not in decided(store):
        raise UserError(f"nothing was decided on feedback {entry_id!r}, so there is nothing to undo")
    now = datetime.now(UTC)
    change_decisions(store, lambda decisions: _undone(decisions, entry_id, by, now))


def _undone(decisions: Sequence[Decision], entry_id: str, by: str, now: datetime) -> list[Decision]:
    by_whom = f"by {by} at {now:%Y-%m-%d %H:%M} UTC"
    return [
        decision.model_copy(update={"undone": by_whom}) if decision.entry == entry_id and not decision.undone else decision
        for decision in decisions
    ]


def _chosen_region(
    store: ObjectStore, corpus: str, entry: Feedback, source: str | None, page: int | None, figure_id: str | None
) -> FeedbackRegion:
    """Return the page or figure of the live version that an operator chose."""
    version = resolve_version(store, corpus, "live")
    cited_region = entry.regions[0] if entry.regions else None
    source = source or (cited_region.source if cited_region else None)
    if source is None:
        raise UserError(
            "the reader names no document; name the one that answers, with its page: --source SOURCE --page PAGE"
        )
    ledger = read_ledger(store, version)
    doc_id = document_of(source, indexed_sources(ledger))
    if doc_id is None:
        raise UserError(f"{version} has no document {source}; name it as 'inset search' shows it: --source SOURCE")
    page, pages = (
        page or (cited_region.page if cited_region and cited_region.source == source else None),
        indexed_pages(ledger)[doc_id],
    )
    if page is None or not 1 <= page <= pages:
        raise UserError(f"name the page of {source} that answers, 1 to {pages}: --page PAGE")
    region = FeedbackRegion(doc_id=doc_id, source=source, page=page, bbox=(0, 0, 0, 0))
    if figure_id is None:
        return region
    figures = page_figures(store, version, doc_id, page)
    figure = next((figure for figure in figures if (figure.figure_id or "").startswith(figure_id)), None)
    if figure is None:
        raise UserError(f"page {page} of {source} has no figure {figure_id}; the id is that of a hit or of inset parse")
    return figure.model_copy(update={"source": source})


def page_figures(store: ObjectStore, version: str, doc_id: str, page: int) -> list[FeedbackRegion]:
    """Return the figures of a page that have pixels, in reading order; their source is left open."""
    placements = (row for _, rows in rows_of_documents(store, version, {doc_id}) for row in rows.placements.to_pylist())
    return [
        FeedbackRegion(**{name: row[name] for name in ("doc_id", "page", "bbox", "figure_id")}, source="")
        for row in placements
        if row["page"] == page and row["figure_id"] is not None
    ]
