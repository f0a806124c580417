"""Kill who drives enrich: what it had written is never computed again, and the rest is as if nothing had been."""

from pathlib import Path

import pytest

from bench.enrich_faults import kill

pytestmark = pytest.mark.slow


def test_a_killed_driver_leaves_records_that_are_not_made_again(tmp_path: Path) -> None:
    found = kill(tmp_path, kills=1, seed=3)
    assert found.killed == {"driver": 1}
    assert found.faults() == []
