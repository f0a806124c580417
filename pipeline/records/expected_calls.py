"""Estimate of the calls that a refresh would make to generative models."""

from collections.abc import Collection, Iterable

from backends.stores.document_files import structured_file
from pipeline.corpus.captioners import CaptionerInUse
from pipeline.corpus.workspace import Workspace
from pipeline.records.cache import RecordCache
from pipeline.records.caption_targets import StructuredFiles, caption_targets, describable_by, drawn_cache
from pipeline.records.descriptions import open_descriptions, read_spent
from pipeline.records.near_duplicates import NearDuplicates
from schemas.batches import batched
from schemas.generation import Description, Subject
from schemas.parquet import rows_of
from schemas.versions import ExpectedCalls, Manifest, PlannedDocument, Spent
from tasks.enriching.spending import Budget, most, spent_on

PER_MEBIBYTE: dict[Subject, float] = {"figure": 12.0, "page": 28.0, "text": 100.0}
"""Figures with a row, pages, and rows of text in 1 MiB of PDF, for a corpus without a live version.

Measured on 4,488 figures in 380 MiB of four corpora, and 2,707 pages in 98 MiB of one with 3.6 rows of text or tables a page.
"""

DOCUMENTS_AT_ONCE = 64
"""Documents that are looked up together."""


def expected_calls(
    workspace: Workspace, documents: Collection[PlannedDocument], live: Manifest | None
) -> dict[str, ExpectedCalls]:
    """Return the expected calls of each captioner for documents whose rows are made.

    Figures and texts of structured documents, and pages that are drawn, are counted. For other documents they are estimated from
    the document's bytes, by the ratio of the live version.
    """
    budget = Budget(workspace.corpus.budget, workspace.corpus.budget.corpus, read_spent(workspace.store))
    found = {}
    for label, used in workspace.captioners.items():
        subject = used.subject
        sizes = {
            document.doc_id: document.size
            for document in documents
            if workspace.captioner_of(subject, document.source) == label
        }
        structured_key = workspace.keys.structured
        read = sorted(doc_id for doc_id in sizes if workspace.store.exists(structured_file(doc_id, structured_key)))
        cache = open_descriptions(workspace.store, used.captions.key)
        counted, undrawn = _missing(workspace, used, read, cache)
        per_byte = _per_byte(subject, live)
        estimated = undrawn + round((sum(sizes.values()) - sum(sizes[doc_id] for doc_id in read)) * per_byte)
        each, items = _cost_of_call(used, cache), counted + estimated
        found[label] = ExpectedCalls(
            subject=subject,
            items=items,
            estimated=estimated,
            affordable=min(items, budget.calls_left(each, items)),
            spent=each.times(items),
        )
    return found


def _per_byte(subject: Subject, live: Manifest | None) -> float:
    size = live.sizes.get("sources", 0) if live else 0
    if live is None or not size:
        return PER_MEBIBYTE[subject] / (1 << 20)
    rows = live.counts.rows_by_modality
    match subject:
        case "figure":
            return rows.get("figure", 0) / size
        case "page":
            return live.counts.pages / size
        case "text":
            return (rows.get("text", 0) + rows.get("table", 0)) / size


def _missing(workspace: Workspace, used: CaptionerInUse, doc_ids: Iterable[str], cache: RecordCache) -> tuple[int, int]:
    """Return how many descriptions are missing of structured documents, and how many of their pages aren't drawn yet."""
    missing: set[bytes] = set()
    duplicates, undrawn = NearDuplicates(workspace, used), 0
    drawn = drawn_cache(workspace)
    for group in batched(doc_ids, DOCUMENTS_AT_ONCE):
        found: set[str] = set()
        for doc_id in group:
            files = StructuredFiles(workspace, doc_id, drawn)
            found |= describable_by(used.options.kind, caption_targets(used.subject, files)).keys()
            if used.subject == "page":
                undrawn += len(files.pages) - len(files.drawn)
        missing.update(bytes.fromhex(name)[:16] for name in cache.missing(duplicates.of(found).values()))
    return len(missing), undrawn


def _cost_of_call(used: CaptionerInUse, cache: RecordCache) -> Spent:
    """Return the mean cost of a stored call; the maximum cost where there is none."""
    made = rows_of(Description, next(cache.shards(), cache.schema.empty_table()))
    if not made:
        return most(used.options, used.prompt.body, used.subject)
    return spent_on(made).times(1 / len(made))
