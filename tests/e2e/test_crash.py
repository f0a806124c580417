"""Kill a refresh at random moments of its writes: nothing half-made is ever read, and nothing of it stays."""

from pathlib import Path

import pytest

from bench.crash import crash

pytestmark = pytest.mark.slow


def test_a_killed_publisher_leaves_whole_versions_and_no_orphans(tmp_path: Path) -> None:
    outcome = crash(tmp_path, kills=6, seed=7)
    assert len(outcome.killed_at) == 6
    assert outcome.answers.total() > 0
    assert (outcome.wrong_answers, outcome.broken_versions, outcome.unpublished, outcome.orphans) == ([], [], [], [])
