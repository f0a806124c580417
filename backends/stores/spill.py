"""Rows put aside on disk while a corpus is gone through, and given back by key: what a join or a group-by needs of memory.

Why these few lines and no engine: ``docs/decisions/0017-engine-for-streaming.md``.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

PARTS = 64
"""Files that the rows are spread over. One is in memory at a time: of two million ids that is 3 MB."""

_CHARACTERS = 3
_MIXES = 2_654_435_761
"""Knuth's multiplier: the middle bits of what it gives depend on all bits of what it is given."""


class Spill:
    """Rows on disk, by the value of one column: rows that share it come back in one table, in the order they came in.

    Args:
        folder: A folder for it alone; whoever made it removes it.
        schema: Of the rows.
        key: A column of strings, none of them null. They differ in their last characters, as digests, ids and numbers do.
    """

    def __init__(self, folder: Path, schema: pa.Schema, key: str) -> None:
        folder.mkdir(parents=True)
        self._files = [folder / f"{part:03}.arrow" for part in range(PARTS)]
        self._writers = [pa.ipc.new_file(str(file), schema) for file in self._files]
        self._key = key
        self.schema = schema
        self.rows = 0

    def add(self, table: pa.Table) -> None:
        """Put rows aside."""
        self.rows += table.num_rows
        if table.num_rows == 0:
            return
        parts = part_of(table.column(self._key))
        order = np.argsort(parts, kind="stable")
        sorted_rows = table.cast(self.schema).take(order)
        ends = np.searchsorted(parts[order], np.arange(PARTS + 1))
        for writer, start, end in zip(self._writers, ends[:-1], ends[1:], strict=True):
            if end > start:
                writer.write_table(sorted_rows.slice(start, end - start))

    def tables(self) -> Iterator[pa.Table]:
        """Yield all rows, a table a part; nothing can be added any more."""
        return (self.part(number) for number in range(PARTS))

    def part(self, number: int) -> pa.Table:
        """Return the rows of one part, whose keys all have that ``part_of``; nothing can be added any more."""
        return pa.concat_tables([self.schema.empty_table(), *self.runs(number)])

    def runs(self, number: int, at_least: int | None = None) -> Iterator[pa.Table]:
        """Yield the rows of one part, at once or whenever they take ``at_least`` bytes; nothing can be added any more."""
        for writer in self._writers:
            writer.close()
        self._writers = []
        with pa.OSFile(str(self._files[number]), "rb") as file:
            reader = pa.ipc.open_file(file)
            held: list[pa.RecordBatch] = []
            held_bytes = 0
            for place in range(reader.num_record_batches):
                held.append(reader.get_batch(place))
                held_bytes += held[-1].nbytes
                if at_least is not None and held_bytes >= at_least:
                    yield pa.Table.from_batches(held)
                    held, held_bytes = [], 0
            if held:
                yield pa.Table.from_batches(held)


def part_of(keys: Any) -> NDArray[np.int64]:
    """Return the part, 0 to ``PARTS`` - 1, that each key of a chunked array belongs to: a digest of its last characters."""
    ends = pc.binary_slice(keys.cast(pa.binary()), -_CHARACTERS, None)
    characters = np.frombuffer(b"".join(end.rjust(_CHARACTERS, b"\0") for end in ends.to_pylist()), np.uint8)
    numbers: NDArray[np.int64] = characters.reshape(-1, _CHARACTERS).astype(np.int64) @ np.array([65_536, 256, 1])
    return (numbers * _MIXES >> 16) % PARTS
