"""Objects that versions share: which are stored, and which are needed."""

from collections.abc import Iterable, Iterator

import pyarrow as pa

from backends.stores.temporary_tables import TemporaryTables
from schemas.batches import batched
from schemas.ports import ObjectStore

KINDS = ("documents", "figures", "parsed", "structured", "tagged", "quarantine")
"""Folders of shared objects."""

OBJECTS = pa.schema((pa.field("name", pa.string(), nullable=False), pa.field("bytes", pa.int64(), nullable=False)))
"""A stored object."""

ABSENT = -1
"""Size of a needed object that isn't stored."""

_ROWS_A_BATCH = 20_000


class SharedObjects:
    """The shared objects of a store, from one listing of each folder."""

    def __init__(self, tables: TemporaryTables, store: ObjectStore) -> None:
        self._tables = tables
        self._load("objects", (found for kind in KINDS for found in store.listing(kind)))

    def needed(self, names: Iterable[str]) -> Iterator[pa.Table]:
        """Yield needed objects as rows of ``OBJECTS``, by name."""
        self._load("needed", ((name, 0) for name in names))
        found = self._tables.query(
            f"""
            SELECT needed.name, coalesce(any_value(objects.bytes), {ABSENT}) AS bytes
            FROM needed LEFT JOIN objects USING (name)
            GROUP BY needed.name ORDER BY needed.name
            """
        )
        return (rows.cast(OBJECTS) for rows in found)

    def spare(self, names: Iterable[str]) -> Iterator[tuple[str, int]]:
        """Yield names and stored bytes of the objects that aren't needed, by name."""
        self._load("needed", ((name, 0) for name in names))
        for rows in self._tables.query("SELECT name, bytes FROM objects ANTI JOIN needed USING (name) ORDER BY name"):
            yield from zip(*(column.to_pylist() for column in rows.columns), strict=True)

    def differing(self, expected: Iterable[tuple[str, int]]) -> Iterator[tuple[str, int, int | None]]:
        """Yield name, expected size and stored size (None where absent) of objects whose sizes differ."""
        self._load("expected", expected)
        for rows in self._tables.query(
            """
            SELECT name, expected.bytes, objects.bytes AS stored
            FROM expected LEFT JOIN objects USING (name)
            WHERE expected.bytes IS DISTINCT FROM objects.bytes ORDER BY name
            """
        ):
            yield from zip(*(column.to_pylist() for column in rows.columns), strict=True)

    def _load(self, table: str, objects: Iterable[tuple[str, int]]) -> None:
        self._tables.create(table, OBJECTS)
        for batch in batched(objects, _ROWS_A_BATCH):
            names, sizes = zip(*batch, strict=True)
            self._tables.add(table, pa.table([names, sizes], schema=OBJECTS))
