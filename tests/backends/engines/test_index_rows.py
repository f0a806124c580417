"""What engines are asked for, so that ties aren't cut by chance and few rows cost little."""

import pytest

from backends.engines.index_rows import first, with_ties

SCORES = [("a", 3.0), *((f"b{number:03}", 2.0) for number in range(40)), ("c", 1.0)]


@pytest.mark.parametrize(("k", "expected"), [(1, ["a"]), (3, ["a", "b000", "b001"]), (42, [name for name, _ in SCORES])])
def test_ties_go_by_id_though_the_engine_gives_any_of_them(k: int, expected: list[str]) -> None:
    limits: list[int] = []

    def search(limit: int) -> list[tuple[str, float]]:
        limits.append(limit)
        return [SCORES[0], *reversed(SCORES[1:-1]), SCORES[-1]][:limit]

    assert [name for name, _ in first(search, k)] == expected
    assert limits[0] >= k
    assert first(search, 0) == []


def test_only_rows_that_a_tie_may_bring_in_are_looked_at_further() -> None:
    assert {name for name, _ in with_ties(lambda limit: SCORES[:limit], 1)} == {"a"}
    assert len(with_ties(lambda limit: SCORES[:limit], 2)) == 41


@pytest.mark.parametrize(
    ("k", "least", "limit"), [(1, 0, 4), (10, 0, 13), (50, 0, 53), (10, 64, 64), (51, 64, 64), (52, 64, 128)]
)
def test_an_engine_is_asked_for_few_rows_and_some_to_spare(k: int, least: int, limit: int) -> None:
    limits: list[int] = []

    def search(limit: int) -> list[tuple[str, float]]:
        limits.append(limit)
        return [(str(index), -float(index)) for index in range(limit)]

    with_ties(search, k, least)
    assert limits == [limit]
