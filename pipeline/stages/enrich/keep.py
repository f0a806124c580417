"""Writing what models make as it comes."""

import time
from collections.abc import Iterable

import pyarrow as pa

from pipeline.corpus.workspace import Report
from pipeline.records.cache import ShardedCache

_SHARD_RECORDS = 256
_SHARD_SECONDS = 20.0


def keep(cache: ShardedCache, batches: Iterable[pa.Table], step: str, total: int, report: Report, before: int = 0) -> None:
    """Write records as shards while they come, so that a killed job loses seconds of work, not all of it."""
    report(step, before, before + total)
    held = cache.schema.empty_table()
    done, since = 0, time.monotonic()
    try:
        for records in batches:
            held = pa.concat_tables([held, records])
            done += records.num_rows
            report(step, before + done, before + total)
            if held.num_rows >= _SHARD_RECORDS or time.monotonic() - since > _SHARD_SECONDS:
                cache.append(held)
                held, since = cache.schema.empty_table(), time.monotonic()
    finally:
        cache.append(held)
