"""Metrics of several workers, whose files are being made."""

import os
from pathlib import Path

import pytest

from query_service.telemetry import FOLDER, Metrics


def test_a_file_that_a_worker_is_making_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path))
    counter_file = tmp_path / f"counter_{os.getppid()}.db"
    counter_file.touch()
    paused: list[float] = []

    def pause(seconds: float) -> None:
        paused.append(seconds)
        os.truncate(counter_file, 1 << 20)

    monkeypatch.setattr("query_service.telemetry.time.sleep", pause)
    assert Metrics().text() == b""
    assert len(paused) == 1


def test_a_file_that_a_dead_worker_left_empty_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path))
    counter_file = tmp_path / f"counter_{1 << 30}.db"  # no process has such a number
    counter_file.touch()
    assert Metrics().text() == b""
    assert not counter_file.exists()
