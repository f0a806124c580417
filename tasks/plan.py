"""Compare what a source lists with what a ledger knows, and cut the work into shards."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from schemas.versions import LedgerRow, PlannedDocument, PlanSummary, SourceFile, Status


@dataclass(frozen=True)
class Comparison:
    """What a refresh finds: every source with its document, and how the sources differ from the ledger's."""

    documents: tuple[PlannedDocument, ...]
    carried: tuple[LedgerRow, ...]
    new: tuple[str, ...]
    changed: tuple[str, ...]
    gone: tuple[str, ...]
    kept: tuple[str, ...]


def compare(
    listed: Sequence[SourceFile],
    ledger: Sequence[LedgerRow],
    *,
    attempt: str,
    digest: Callable[[str], str],
    retry: frozenset[str] = frozenset(),
) -> Comparison:
    """Compare a listing with the live version's ledger.

    Same size and stamp means unchanged, and the file isn't read; for all others ``digest`` reads it. A source whose bytes
    turn out the same is kept. A quarantined document is carried over as it is while neither its bytes nor ``attempt``
    change, unless ``retry`` names it.

    Args:
        listed: What the source holds now.
        ledger: What the live version holds; [] where nothing is live.
        attempt: Key of what would be tried on a document now, limits included.
        digest: Reads a source and returns its document's id.
        retry: Document ids to try again in any case.
    """
    known = {row.source: row for row in ledger}
    documents: list[PlannedDocument] = []
    carried: list[LedgerRow] = []
    new: list[str] = []
    changed: list[str] = []
    kept: list[str] = []
    for file in listed:
        row = known.get(file.source)
        unread = row is not None and (row.size, row.stamp) == (file.size, file.stamp)
        doc_id = row.doc_id if row is not None and unread else digest(file.source)
        if row is None:
            new.append(file.source)
        else:
            (kept if row.doc_id == doc_id else changed).append(file.source)
        if row is not None and _still_quarantined(row, doc_id, attempt) and doc_id not in retry:
            carried.append(replace(row, stamp=file.stamp))
        else:
            documents.append(PlannedDocument(file.source, doc_id, file.size, file.stamp))
    here = {file.source for file in listed}
    gone = [source for source in sorted(known) if source not in here]
    return Comparison(tuple(documents), tuple(carried), tuple(new), tuple(changed), tuple(gone), tuple(kept))


def _still_quarantined(row: LedgerRow, doc_id: str, attempt: str) -> bool:
    return row.status is Status.QUARANTINED and row.doc_id == doc_id and row.attempt == attempt


def cut_shards(sizes: Mapping[str, int], shard_bytes: int, most: int = 256) -> list[list[str]]:
    """Spread documents over shards of about equal bytes, largest first.

    Args:
        sizes: Document id to bytes.
        shard_bytes: Bytes that a shard should hold about.
        most: Shards at most, however large they get; Airflow's scheduler suffers above a few thousand mapped tasks.

    Returns:
        Document ids by shard, each sorted; the same for the same sizes; [] for none.
    """
    if not sizes:
        return []
    count = min(most, len(sizes), -(-sum(sizes.values()) // shard_bytes) or 1)
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
        sources={"new": list(comparison.new), "changed": list(comparison.changed), "gone": list(comparison.gone)},
    )
