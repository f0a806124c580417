import pyarrow as pa
import pytest

from backends.stores.temporary_tables import TemporaryTables

SCHEMA = pa.table({"key": ["key"], "number": [1]}).schema


@pytest.mark.slow
def test_rows_added_one_at_a_time_fit_in_the_memory_limit() -> None:
    count = 15_000
    with TemporaryTables() as tables:
        tables.create("rows", SCHEMA)
        for number in range(count):
            tables.add("rows", pa.table({"key": [f"key {number}"], "number": [number]}, schema=SCHEMA))
        assert list(tables.values("SELECT number FROM rows ORDER BY rowid")) == list(range(count))
