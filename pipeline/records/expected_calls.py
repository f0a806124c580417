"""Estimate of the calls that a refresh would make to models that cost money."""

import math
from collections.abc import Collection, Iterable, Mapping

from pipeline.corpus.prompts import CaptionerInUse
from pipeline.corpus.workspace import Workspace
from pipeline.records.cache import RecordCache
from pipeline.records.collection import open_vectors
from pipeline.records.descriptions import (
    StructuredFiles,
    caption_targets,
    describable_by,
    drawn_cache,
    open_descriptions,
)
from ray_jobs.embed import BATCHES_A_CALL
from schemas.base import batched
from schemas.models import Description, Subject
from schemas.versions import ExpectedCalls, Manifest, PlannedDocument, Spent
from tasks.enriching.spaces import RowText, Space
from tasks.enriching.spending import TOKEN_CHARACTERS, Budget, cost_of, maximum_cost, maximum_embedding_cost, spent_on

PER_MEBIBYTE: dict[Subject, float] = {"figure": 12.0, "page": 28.0, "text": 100.0}
"""Figures with a row, pages, and rows of text in 1 MiB of PDF, for a corpus without a live version.

Measured on 4,488 figures in 380 MiB of four corpora, and 2,707 pages in 98 MiB of one with 3.6 rows of text or tables a page.
"""

DOCUMENTS_AT_ONCE = 64
"""Documents that are looked up together."""


def expected_calls(
    workspace: Workspace,
    documents: Collection[PlannedDocument],
    live: Manifest | None,
    pages: Mapping[str, int],
    budget: Budget,
) -> dict[str, ExpectedCalls]:
    """Return the expected calls of each captioner for documents whose rows are made.

    Figures and texts of structured documents, and pages that are drawn, are counted. For other documents they are
    estimated, by the ratios of the live version: from ``pages``, the number of pages by document, or else from the
    document's bytes.
    """
    calls_by_captioner = {}
    sizes = {document.doc_id: document.size for document in documents}
    for label, captioner in workspace.captioners.items():
        subject = captioner.subject
        structured_ids = sorted(doc_id for doc_id in sizes if workspace.store.exists(workspace.structured_file(doc_id)))
        cache = open_descriptions(workspace.store, captioner.captions.key)
        counted, undrawn = _missing(workspace, captioner, structured_ids, cache)
        unread = sizes.keys() - set(structured_ids)
        in_a_byte = per_byte(subject, live)
        by_pages = sum(pages[doc_id] for doc_id in unread & pages.keys()) * in_a_byte / per_byte("page", live)
        by_bytes = sum(sizes[doc_id] for doc_id in unread - pages.keys()) * in_a_byte
        estimated = undrawn + round(by_pages + by_bytes)
        cost_of_one, items = _cost_of_call(captioner, cache), counted + estimated
        money_of_calls = None
        if captioner.options.mode == "batch":
            money_of_calls = items * cost_of(captioner.options.price, cost_of_one).money
            cost_of_one = cost_of(captioner.options.in_batch.price, cost_of_one)
        calls_by_captioner[label] = ExpectedCalls(
            subject=subject,
            items=items,
            estimated=estimated,
            affordable=min(items, budget.calls_left(cost_of_one, items)),
            spent=cost_of_one.times(items),
            money_of_calls=money_of_calls,
        )
    return calls_by_captioner


def vectors_of(space: Space) -> str:
    """Return the name of a space among captioners."""
    return f"vectors {space.name}"


def expected_embeddings(
    workspace: Workspace,
    changed: Collection[PlannedDocument],
    documents: Iterable[PlannedDocument],
    live: Manifest | None,
    budget: Budget,
) -> dict[str, ExpectedCalls]:
    """Return the expected calls of each embedding model at an endpoint, by ``vectors_of``.

    Rows are estimated from bytes, by the ratio of the live version: those of ``changed`` documents, or of all ``documents``
    if the space has no vectors yet.
    """
    corpus = workspace.corpus
    calls_by_space = {}
    for vectors in open_vectors(workspace.store, workspace.spaces):
        space = vectors.space
        endpoint = space.endpoint(corpus.embedding_models)
        if endpoint is None:
            continue
        embedded = changed if vectors.exist() else documents
        size = sum({document.doc_id: document.size for document in embedded}.values())
        items = math.ceil(size * _rows_per_byte(space, live))
        # Calls of a whole group of texts; concurrency may make them smaller than a batch.
        batch = space.entry(corpus.embedding_models).batch_size
        group = batch * BATCHES_A_CALL
        characters = group * corpus.chunks.tokens * TOKEN_CHARACTERS
        cost_of_group = maximum_embedding_cost(endpoint.price, characters, endpoint.calls(group, batch))
        groups = -(-items // group)
        calls_by_space[vectors_of(space)] = ExpectedCalls(
            subject="text",
            work="embed",
            items=items,
            estimated=items,
            affordable=min(items, group * budget.calls_left(cost_of_group, groups)),
            spent=cost_of_group.times(items / group),
        )
    return calls_by_space


def _rows_per_byte(space: Space, live: Manifest | None) -> float:
    """Return how many rows of which a space has a vector come from a byte of PDF."""
    modalities = []
    for modality in ("text", "table", "figure", "page"):
        # A row with all of its fields filled shows whether the space embeds rows of this modality.
        picture = "0" if modality in ("figure", "page") else None
        row = RowText(
            modality, "", (), "words", figure_id=picture, description="words", caption="words", tagged_text="words"
        )
        modalities += [modality] if space.content(row) is not None else []
    if live is None or not (size := live.sizes.get("sources", 0)):
        subjects: set[Subject] = {"figure" if name == "figure" else "text" for name in modalities if name != "page"}
        return sum(PER_MEBIBYTE[subject] for subject in subjects) / (1 << 20)
    return sum(live.counts.rows_by_modality.get(name, 0) for name in modalities) / size


def per_byte(subject: Subject, live: Manifest | None) -> float:
    """Return how many figures with a row, pages, or rows of text a byte of PDF has, in the live version or in corpora at hand."""
    if live is None or not (size := live.sizes.get("sources", 0)) or not live.counts.pages:
        return PER_MEBIBYTE[subject] / (1 << 20)
    rows = live.counts.rows_by_modality
    counts = {
        "figure": rows.get("figure", 0),
        "page": live.counts.pages,
        "text": rows.get("text", 0) + rows.get("table", 0),
    }
    return counts[subject] / size


def _missing(
    workspace: Workspace, captioner: CaptionerInUse, doc_ids: Iterable[str], cache: RecordCache[Description]
) -> tuple[int, int]:
    """Return how many descriptions are missing of structured documents, and how many of their pages aren't drawn yet."""
    missing, undrawn = set[str](), 0
    drawn_pages = drawn_cache(workspace)
    for group in batched(doc_ids, DOCUMENTS_AT_ONCE):
        target_ids: set[str] = set()
        for doc_id in group:
            document = StructuredFiles(workspace, doc_id, drawn_pages)
            target_ids |= describable_by(captioner.options.kind, caption_targets(captioner.subject, document)).keys()
            if captioner.subject == "page":
                undrawn += len(document.pages) - len(document.drawn)
        missing.update(cache.missing(target_ids))
    return len(missing), undrawn


def _cost_of_call(captioner: CaptionerInUse, cache: RecordCache[Description]) -> Spent:
    """Return the mean cost of a stored call; the maximum cost if there is none."""
    stored = cache.read(next(cache.ids_by_shard(), []))
    if not stored:
        return maximum_cost(captioner.options, captioner.prompt.body, captioner.subject)
    return spent_on(stored).times(1 / len(stored))
