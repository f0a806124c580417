"""Stage 1: plan a refresh, before anything is spent."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import NoReturn

from evaluation.golden import OF_RETRIEVAL
from pipeline.corpus.answers import check_answers
from pipeline.corpus.languages import unknown_languages
from pipeline.corpus.metric_gates import metric_gates
from pipeline.corpus.models import stored_embedding_models
from pipeline.corpus.presets import check_default_preset, default_preset
from pipeline.corpus.statements import Statements
from pipeline.corpus.workspace import Workspace
from pipeline.records.collection import ENGINE_GATES, holds
from pipeline.records.columns import are_rights_outdated, metadata_key
from pipeline.records.converted import conversion_advice, converted_otherwise, wait_no_longer, without_libreoffice
from pipeline.records.corrections import corrections_by_document, ids_by_document
from pipeline.records.documents import parsed_documents
from pipeline.records.expected_calls import expected_calls, expected_embeddings, per_byte
from pipeline.records.ledger import indexed_pages, read_failures, read_forgotten, readable_ledger
from pipeline.records.manifests import manifests, next_version, readable_manifest, state_and_manifest
from pipeline.records.publication import read_pointer
from schemas.errors import UNFINISHED, TransientError, UserError
from schemas.formats import Format, format_of
from schemas.gates import COUNTED, METRIC, GateResult, gate_of
from schemas.ids import key
from schemas.ports import DocumentSource
from schemas.stages import Stage
from schemas.versions import (
    LedgerRow,
    Manifest,
    Outcome,
    Plan,
    PlannedDocument,
    Pointer,
    SourceFile,
    Spent,
    Status,
)
from tasks.answering.presets import steps_of
from tasks.enriching.spaces import query_settings
from tasks.enriching.spending import Budget
from tasks.versions.check import documents_gone
from tasks.versions.plan import Comparison, compare, cut_shards, summarise, was_disturbed
from workers.brief_reads import count_pages

MEBIBYTE = 1 << 20

MOST_OPENED, MOST_OPENED_BYTES, OPENED_WITHIN_S = 500, 512 * MEBIBYTE, 20.0
"""PDFs, their bytes, and seconds within which a plan counts their pages; of further ones, pages are guessed."""

SECONDS_A_PAGE, SECONDS_OF_OCR_A_PAGE = 0.4, 0.5
"""Seconds of parse a page, and of OCR, on one core, for a corpus without a measured version."""

MEASURED_PAGES = 50
"""Pages that a version parsed, from which its seconds say what a page takes."""


def plan(
    workspace: Workspace,
    run_id: str,
    *,
    retry: frozenset[str] = frozenset(),
    accept: Sequence[str] = (),
    rebuild: bool = False,
) -> Plan:
    """Compare the source with the live version and return the plan of the next one; nothing is written.

    A version that was already built, or refused, from the same inputs is not built again; see the plan's ``outcome``. A
    refused one is where the bound of a gate that refused it changed. ``retry`` are quarantined documents to try again, ``accept``
    sources to take as they are. ``rebuild`` builds even if the inputs are unchanged, because the live version is damaged.

    Raises:
        UserError: The source was never there or never held a document, or the default preset or the answer settings are invalid.
        TransientError: The source is missing or empty now, or the engine of an earlier version of the same inputs doesn't answer.
    """
    store, corpus = workspace.store, workspace.corpus
    live = read_pointer(store)
    ledger = readable_ledger(store, live.version) if live else []
    source, started = workspace.source(), time.monotonic()
    listed = _listing(workspace, source)
    listing_s = round(time.monotonic() - started)
    if not listed:
        _explain_empty_source(workspace, live, ledger)
    retry |= wait_no_longer(ledger)
    _check_settings(workspace)
    if corpus.access is not None:
        Statements(workspace).access([file.source for file in listed])
    comparison = compare(
        listed,
        ledger,
        attempt=workspace.keys.attempt,
        digest=source.digest,
        retry=retry,
        accept=accept,
        forgotten=read_forgotten(store).doc_ids,
    )
    if live is None and not comparison.documents and not comparison.carried and comparison.forgotten:
        raise UserError(
            f"source {corpus.source_address} holds no document but forgotten ones; to take one in again: "
            f"inset forget {corpus.name} SOURCE --readmit"
        )
    names = [(row.doc_id, row.source) for rows in (comparison.documents, ledger) for row in rows]
    workspace = replace(workspace, by_hand=corrections_by_document(store, names))
    fingerprint = key(
        settings=workspace.keys.settings,
        sources={document.source: document.bytes_id for document in comparison.documents}
        | {row.source: row.doc_id for row in comparison.carried},
        # A refused version is built once more when LibreOffice is there.
        **({"lacks": "libreoffice"} if without_libreoffice(listed) else {}),
        **({"corrections": corrected} if (corrected := ids_by_document(workspace.by_hand)) else {}),
        **metadata_key(workspace, [file.source for file in listed]),
    )
    parsed = set(parsed_documents(workspace, {document.doc_id for document in comparison.documents} - retry))
    to_parse = {document.doc_id: document.size for document in comparison.documents if document.doc_id not in parsed}
    # Indexed documents without a parse result: theirs was damaged and deleted.
    was_discarded = to_parse.keys() & {row.doc_id for row in ledger if row.status is Status.INDEXED}
    # A retry or a second reading may end differently, so an earlier version of the same inputs doesn't count.
    rebuild |= live is not None and are_rights_outdated(workspace, live.version)
    existing_version = None if retry or rebuild or was_discarded else _existing_version(workspace, fingerprint, live)
    parent = readable_manifest(store, live.version) if live else None
    otherwise = converted_otherwise(store, live.version, ledger) if live else {}
    of_languages = unknown_languages(workspace, parent.counts) if parent is not None else None
    advice = [*filter(None, [of_languages]), *conversion_advice(corpus.name, listed, otherwise)]
    expected = _expected(workspace, ledger, comparison, to_parse, parent, is_new=existing_version is None)
    summary = summarise(comparison, to_parse).model_copy(update=expected | {"listing_s": listing_s, "advice": advice})
    return Plan(
        run_id=run_id,
        version=existing_version[0] if existing_version else next_version(store, fingerprint),
        fingerprint=fingerprint,
        parent=live.version if live else None,
        summary=summary,
        documents=comparison.documents,
        carried=comparison.carried,
        shards=cut_shards(to_parse, int(corpus.parse.shard_mb * MEBIBYTE)),
        again=sorted(retry & {document.doc_id for document in comparison.documents}),
        outcome=existing_version[1] if existing_version else "build",
        corpus=corpus,
        assembled=workspace.keys.assembled,
        corrections={doc_id: [*corrections] for doc_id, corrections in workspace.by_hand.items()},
    )


def _check_settings(workspace: Workspace) -> None:
    """Raise ``UserError`` where the default preset, the answer settings or the gates on metrics are invalid."""
    check_default_preset(workspace)
    check_answers(workspace)
    if (gates_of_metrics := metric_gates(workspace.corpus)) is not None:
        gates_of_metrics.check(workspace)


def _expected(
    workspace: Workspace,
    ledger: Sequence[LedgerRow],
    comparison: Comparison,
    to_parse: Mapping[str, int],
    parent: Manifest | None,
    *,
    is_new: bool,
) -> dict[str, object]:
    """Return the pages, minutes and calls that a plan expects; no calls unless its version ``is_new``."""
    if not is_new:
        return _pages_and_minutes(workspace, to_parse, {}, parent)
    pages = _page_counts(workspace, comparison.documents, to_parse)
    unfinished = _unfinished_documents(workspace, parent, ledger, comparison.documents)
    budget = Budget(workspace.corpus.budget)
    calls = expected_calls(workspace, unfinished, parent, pages, budget) if workspace.captioners else {}
    calls |= expected_embeddings(workspace, unfinished, comparison.documents, parent, budget)
    return _pages_and_minutes(workspace, to_parse, pages, parent) | {"captions": calls}


def has_kept(workspace: Workspace, sources: Sequence[str]) -> bool:
    """Return whether sources are named; raises ``UserError`` unless the live version keeps an earlier document of each."""
    live = read_pointer(workspace.store) if sources else None
    ledger = readable_ledger(workspace.store, live.version) if live else []
    sources_kept = {row.source for row in ledger if row.newer is not None}
    if unkept := sorted(set(sources) - sources_kept):
        raise UserError(
            f"corpus {workspace.corpus.name}: no earlier document is kept for {unkept[0]}; see: "
            f"inset quarantine {workspace.corpus.name}"
        )
    return bool(sources)


def _page_counts(workspace: Workspace, documents: Sequence[PlannedDocument], to_parse: Mapping[str, int]) -> dict[str, int]:
    """Return the pages of documents to parse, of the smallest first, as far as opening them takes seconds."""
    sources = {document.doc_id: document.source for document in documents}
    pdfs = (doc_id for doc_id in to_parse if format_of(sources[doc_id]) is Format.PDF)
    smallest_first = sorted(pdfs, key=lambda doc_id: (to_parse[doc_id], doc_id))[:MOST_OPENED]
    sizes = accumulate(to_parse[doc_id] for doc_id in smallest_first)
    names = {
        doc_id: sources[doc_id] for doc_id, size in zip(smallest_first, sizes, strict=True) if size <= MOST_OPENED_BYTES
    }
    corpus = workspace.corpus
    return count_pages(corpus.source_address, names, corpus.parse, within_s=OPENED_WITHIN_S) if names else {}


def _pages_and_minutes(
    workspace: Workspace, to_parse: Mapping[str, int], pages: Mapping[str, int], live: Manifest | None
) -> dict[str, object]:
    """Return the pages and minutes of a summary; both are guessed where PDFs weren't opened."""
    estimated = round(sum(size for doc_id, size in to_parse.items() if doc_id not in pages) * per_byte("page", live))
    number = sum(pages.values()) + estimated
    seconds = SECONDS_A_PAGE + (SECONDS_OF_OCR_A_PAGE if workspace.recogniser is not None else 0.0)
    parsed = live.work.get("pages_parsed", 0) if live else 0
    if live is not None and parsed >= MEASURED_PAGES:
        seconds = (live.timings_s.get(Stage.PARSE, 0.0) + live.timings_s.get(Stage.ENRICH, 0.0)) / parsed
    return {"pages_to_parse": number, "pages_estimated": estimated, "minutes": round(number * seconds / 60, 2)}


def _listing(workspace: Workspace, source: DocumentSource) -> list[SourceFile]:
    """List a source. One that can't be listed is a mistake in a new corpus, and an outage once it was listed."""
    try:
        return source.files()
    except UserError as error:
        if not manifests(workspace.store):
            raise
        raise TransientError(error.message) from error


def _explain_empty_source(workspace: Workspace, live: Pointer | None, ledger: Sequence[LedgerRow]) -> NoReturn:
    """Say that a source has no document. Where a version is live, they are lost for the moment rather than removed on purpose."""
    source = workspace.corpus.source_address
    if live is None:
        raise UserError(f"source {source} holds no document; put some there, or correct 'source' in {workspace.file}")
    documents = len(indexed_pages(ledger)) or "some"
    raise TransientError(
        f"source {source} lists no document, but {documents} are live; no version is built of nothing: "
        f"put them back, or correct 'source' in {workspace.file}"
    )


def _existing_version(workspace: Workspace, fingerprint: str, live: Pointer | None) -> tuple[str, Outcome] | None:
    """Return an existing version of the same inputs whose rows the engine still holds, and its outcome."""
    store = workspace.store
    same_inputs = [manifest.version for manifest in manifests(store) if manifest.fingerprint == fingerprint]
    for version in sorted(same_inputs, key=lambda version: live is None or version != live.version):
        row, manifest = state_and_manifest(store, version, live)
        if manifest is None or was_disturbed(readable_ledger(store, version)):
            continue
        failed = [gate for gate in manifest.gates if not gate.passed]
        if row.state == "refused" and failed:
            if not any(_may_pass_now(workspace, manifest, gate) for gate in failed):
                return version, "refused"
            continue
        # What models left undone may be done now.
        if manifest.work.get("undescribed") and Budget(workspace.corpus.budget).reserve(Spent(calls=1)):
            continue
        if live is not None and row.state != "live" and _lost_too_much(workspace, manifest, live.version):
            continue
        if row.state == "refused":  # by a person
            return version, "refused"
        if holds(workspace, manifest):
            return version, "unchanged" if row.state == "live" else "held" if live is not None and live.held else "ready"
    return None


def _may_pass_now(workspace: Workspace, manifest: Manifest, failed: GateResult) -> bool:
    """Return whether a gate that refused a version may let one of the same inputs pass that is built now."""
    gate = gate_of(failed.gate)
    if gate is not None and failed.bound not in (None, workspace.corpus.gates.of(gate)):
        return True
    if failed.gate in ENGINE_GATES or (failed.gate.startswith(METRIC) and failed.value is None):
        return True
    return (failed.gate in OF_RETRIEVAL or failed.gate.startswith(METRIC)) and _ranking_changed(workspace, manifest)


def _lost_too_much(workspace: Workspace, manifest: Manifest, live: str) -> bool:
    """Return whether a version lacks too much of the live one, which wasn't live when gates judged it: it is built again."""
    store, bounds = workspace.store, workspace.corpus.gates
    now = readable_manifest(store, live)
    if now is None or manifest.parent == live:
        return False
    documents_lost = documents_gone(readable_ledger(store, manifest.version), readable_ledger(store, live), bounds)
    counted = (gate.judge_counts(manifest.counts, now.counts, bounds, compare="") for gate in COUNTED)
    return not all(gate.passed for gate in (documents_lost, *counted))


def _ranking_changed(workspace: Workspace, manifest: Manifest) -> bool:
    """Return whether a version was judged by other steps or another query prompt than now."""
    corpus = workspace.corpus
    if manifest.parameters.get("judged_by") != steps_of(default_preset(corpus.retrieval)):
        return True
    embeddings_then = stored_embedding_models(manifest.parameters)
    return query_settings(embeddings_then) != query_settings(corpus.embedding_models)


def _unfinished_documents(
    workspace: Workspace, manifest: Manifest | None, ledger: Sequence[LedgerRow], documents: Sequence[PlannedDocument]
) -> list[PlannedDocument]:
    """Return the documents whose rows are made: all but those that the live version finished with the same keys."""
    if manifest is None or manifest.keys.get("assembled") != workspace.keys.assembled:
        return [*documents]
    failures = read_failures(workspace.store, manifest) or []
    unfinished = {failure.doc_id for failure in failures if failure.code in UNFINISHED}
    finished = {row.doc_id for row in ledger if row.status is Status.INDEXED} - unfinished
    return [document for document in documents if document.doc_id not in finished]
