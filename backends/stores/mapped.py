"""Tables put aside on disk while a process runs, of which some rows at a time are read."""

import io
import mmap
import os
import tempfile
import weakref

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


class MappedTables:
    """Tables in one temporary file, by name: decoded once, and only those of their rows that are taken come into memory.

    The file has no name, so that it goes with the process, however that ends.
    """

    def __init__(self) -> None:
        self._file: io.BufferedRandom | None = None
        self._map: mmap.mmap | None = None
        self._places: dict[str, tuple[int, int]] = {}

    def __contains__(self, name: str) -> bool:
        """Return whether a table was put aside."""
        return name in self._places

    def add(self, name: str, table: pa.Table) -> None:
        """Put a table aside."""
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115  open as long as this is
            weakref.finalize(self, self._file.close)
        start = self._file.seek(0, os.SEEK_END)
        with pa.ipc.new_stream(self._file, table.schema) as writer:
            writer.write_table(table.combine_chunks())
        self._file.flush()
        self._places[name] = start, self._file.tell() - start
        self._map = None  # it ends before this table

    def take(self, name: str, rows: NDArray[np.int64]) -> pa.Table:
        """Return some rows of a table, in the order they are named."""
        if self._map is None:
            assert self._file is not None
            self._map = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        start, size = self._places[name]
        with pa.ipc.open_stream(pa.py_buffer(self._map).slice(start, size)) as reader:
            taken = reader.read_all().take(rows)
        # What was read counts as this process's memory otherwise, until somebody else needs it.
        page = start % mmap.PAGESIZE
        self._map.madvise(mmap.MADV_DONTNEED, start - page, size + page)
        return taken
