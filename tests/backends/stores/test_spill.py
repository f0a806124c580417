"""Rows put aside on disk come back whole, by key, in order."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from backends.stores.spill import PARTS, Spill, part_of
from tasks.versions.repeat import KEYED, keyed, sharing

KEYS = st.lists(st.sampled_from(["", "a", "ab", "abc", "zabc", "é", "0123", "1123"]) | st.text(max_size=5), max_size=30)


@given(KEYS, st.integers(0, 30))
def test_rows_that_share_a_key_come_back_in_one_table_in_order(keys: list[str], cut: int) -> None:
    keys = [key.encode(errors="replace").decode() for key in keys]
    with TemporaryDirectory() as name:
        folder = Path(name)
        aside = Spill(folder / "rows", KEYED, "key")
        table = keyed(range(len(keys)), keys)
        aside.add(table.slice(0, cut))
        aside.add(table.slice(cut))
        tables = list(aside.tables())
        runs = [pa.concat_tables([KEYED.empty_table(), *aside.runs(part, at_least=1)]) for part in range(PARTS)]
    assert runs == tables
    assert aside.rows == len(keys)
    found = [(row["key"], row["row"]) for part in tables for row in part.to_pylist()]
    assert sorted(found) == sorted(zip(keys, range(len(keys)), strict=True))
    for part in tables:
        rows = [row["row"] for row in part.to_pylist()]
        assert rows == sorted(rows)
    parts = [set(part.column("key").to_pylist()) for part in tables]
    assert sum(map(len, parts)) == len(set(keys)), "no key is in two parts"
    shared, repeated = sharing(tables, len(keys))
    assert shared.tolist() == [keys.count(key) > 1 for key in keys]
    assert repeated.tolist() == [key in keys[:row] for row, key in enumerate(keys)]


def test_digests_and_numbers_are_spread_over_the_parts() -> None:
    for keys in (
        [f"{number * 2_654_435_761 % 2**64:016x}" for number in range(20_000)],
        [f"{n:08}" for n in range(20_000)],
    ):
        counts = [0] * PARTS
        for part in part_of(pa.chunked_array([keys])):
            counts[part] += 1
        assert max(counts) < 3 * len(keys) / PARTS
