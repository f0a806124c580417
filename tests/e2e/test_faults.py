"""Break a store object by object, and let a corpus meet trouble: nothing is lost, and one refresh makes all well."""

from pathlib import Path

import pytest

from bench.faults import rounds, s3_rounds, table

pytestmark = pytest.mark.slow


@pytest.mark.endurance
@pytest.mark.parametrize(
    ("kinds", "damages"),
    [
        (["LIVE", "evidence/", "lance/data"], ["truncated"]),
        (["LEASE", "manifest.json", "ledger.parquet"], ["flipped"]),
    ],
)
def test_damage_is_named_and_repaired(tmp_path: Path, kinds: list[str], damages: list[str]) -> None:
    outcome = table(tmp_path / "corpus", kinds=kinds, damages=damages)
    assert outcome.cells > 60
    assert outcome.faults() == []


@pytest.mark.parametrize("number", [2, pytest.param(6, marks=pytest.mark.endurance)])
def test_a_corpus_in_trouble_is_well_after_one_refresh(tmp_path: Path, number: int) -> None:
    outcome = rounds(tmp_path / "corpus", number, seed=5)
    assert (outcome.rounds.total(), outcome.faults()) == (number, [])
    assert outcome.answers > number


@pytest.mark.endurance
def test_a_corpus_on_s3_is_well_after_trouble_behind_a_network_that_breaks_replies(tmp_path: Path) -> None:
    outcome = s3_rounds(tmp_path / "corpus", 2, seed=1)
    assert (outcome.rounds.total(), outcome.faults()) == (2, [])
