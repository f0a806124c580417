"""Compare a source's listing with a ledger, and cut the work into shards."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from schemas.errors import OF_THE_SOURCE, BadInputError, FailureCode
from schemas.stages import Stage
from schemas.versions import LedgerRow, PlannedDocument, PlanSummary, SourceFile, Status

Digest = Callable[[str], tuple[str, int]]
"""Returns a source's document id, and its bytes."""


@dataclass(frozen=True)
class Comparison:
    """Every source with its document, the differences from the ledger, and sources whose document was forgotten."""

    documents: list[PlannedDocument] = field(default_factory=list)
    carried: list[LedgerRow] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)


def compare(
    listed: Sequence[SourceFile],
    ledger: Sequence[LedgerRow],
    *,
    attempt: str,
    digest: Digest,
    retry: frozenset[str] = frozenset(),
    accept: Sequence[str] = (),
    forgotten: frozenset[str] = frozenset(),
) -> Comparison:
    """Compare a listing with the live version's ledger, [] without one.

    Equal size, if the listing has it, and stamp mean unchanged; all other files are digested. A quarantined document is carried
    over while neither its bytes nor ``attempt``, the key of what would be tried on it, change, unless ``retry`` names it; so is
    an earlier document that is kept in place of one, unless ``accept`` names the source. Failures of the source are never
    carried over, and ``forgotten`` documents are left out. ``digest`` returns a source's document id and its bytes; it raises
    ``BadInputError``, or ``FileNotFoundError`` for a file that is gone.
    """
    rows_by_source = {row.source: row for row in ledger}
    comparison, present_sources = Comparison(), set[str]()
    for file in listed:
        row = rows_by_source.get(file.source)
        if row is not None and (row.doc_id in forgotten or file.source in accept):
            row = replace(row, status=Status.QUARANTINED, attempt="")  # nothing of it is kept
        document = _planned_document(file, row, attempt, digest, retry)
        if document is None:
            continue
        if document.bytes_id in forgotten:
            comparison.forgotten.append(file.source)
            continue
        present_sources.add(file.source)
        if isinstance(document, LedgerRow):
            comparison.carried.append(document)
        else:
            comparison.documents.append(document)
        is_kept = row is not None and row.bytes_id == document.bytes_id
        (comparison.new if row is None else comparison.kept if is_kept else comparison.changed).append(file.source)
    comparison.gone.extend(sorted(rows_by_source.keys() - present_sources))
    return comparison


def _planned_document(
    file: SourceFile, row: LedgerRow | None, attempt: str, digest: Digest, retry: frozenset[str]
) -> PlannedDocument | LedgerRow | None:
    """Return the planned document of a file, or its quarantine row; None if it is gone."""
    try:
        doc_id, size = _id_and_size(file, row, digest)
    except FileNotFoundError:
        return None
    except BadInputError as error:
        if row is None or row.status is not Status.INDEXED:
            return LedgerRow(
                source=file.source,
                doc_id="",
                size=file.size or 0,
                stamp=file.stamp,
                status=Status.QUARANTINED,
                attempt=attempt,
                code=error.code,
                step=Stage.PLAN,
                message=error.message,
            )
        message = f"the file can't be read ({error.code}: {error.message}): the document before is kept"
        size = row.size if file.size is None else file.size
        return PlannedDocument(file.source, row.doc_id, size, file.stamp, newer="", message=message, code=error.code)
    is_same = row is not None and row.bytes_id == doc_id and row.attempt == attempt and row.code not in OF_THE_SOURCE
    if row is not None and is_same and doc_id not in retry:
        if row.status is Status.QUARANTINED:
            # With the new stamp, the next refresh needn't digest the same bytes again.
            return replace(row, stamp=file.stamp)
        if row.newer is not None:
            return PlannedDocument(file.source, row.doc_id, size, file.stamp, doc_id, row.message, row.code)
    return PlannedDocument(file.source, doc_id, size, file.stamp)


def _id_and_size(file: SourceFile, row: LedgerRow | None, digest: Digest) -> tuple[str, int]:
    if file.problem is not None:
        raise BadInputError(file.problem, FailureCode.SOURCE_UNREADABLE)
    # After a failure of the source, the row's digest is missing or not that of the listed bytes.
    is_same = row is not None and row.stamp == file.stamp and file.size in (None, row.size)
    if row is not None and is_same and row.code not in OF_THE_SOURCE:
        return row.bytes_id, row.size
    return digest(file.source)


def was_disturbed(ledger: Sequence[LedgerRow]) -> bool:
    """Return whether the source removed or changed planned files during the refresh."""
    return any(row.code in OF_THE_SOURCE and row.bytes_id for row in ledger)


def cut_shards(sizes: Mapping[str, int], shard_bytes: int) -> list[list[str]]:
    """Distribute documents over at most 256 sorted shards of about equal bytes, largest first; deterministic."""
    if not sizes:
        return []
    count = min(256, len(sizes), -(-sum(sizes.values()) // shard_bytes) or 1)
    shards: list[list[str]] = [[] for _ in range(count)]
    loads = [0] * count
    for doc_id in sorted(sizes, key=lambda doc_id: (-sizes[doc_id], doc_id)):
        lightest = loads.index(min(loads))
        shards[lightest].append(doc_id)
        loads[lightest] += sizes[doc_id]
    return [sorted(shard) for shard in shards]


def summarise(comparison: Comparison, to_parse: Mapping[str, int]) -> PlanSummary:
    """Return a comparison in numbers; ``to_parse`` gives the bytes of each document without a finished parse."""
    return PlanSummary(
        new=len(comparison.new),
        changed=len(comparison.changed),
        gone=len(comparison.gone),
        kept=len(comparison.kept),
        to_parse=len(to_parse),
        bytes_to_parse=sum(to_parse.values()),
        forgotten=len(comparison.forgotten),
        sources={"new": comparison.new, "changed": comparison.changed, "gone": comparison.gone},
    )
