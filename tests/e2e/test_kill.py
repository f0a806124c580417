"""Kill a refresh at every step: readers keep a whole version, and nothing finished is done twice."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.corpus.workspace import open_workspace
from pipeline.records.notes import read_notes
from pipeline.records.publication import read_pointer
from tests.manuals import write_manual
from tests.pipeline.conftest import write_corpus

pytestmark = pytest.mark.slow

STEPS = ("parse", "structure", "embed", "assemble", "check", "build", "evaluate", "publish")


def _inset(corpus: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "cli.main", arguments[0], str(corpus), *arguments[1:]]


def _refresh(corpus: Path) -> dict[str, object]:
    done = subprocess.run(_inset(corpus, "refresh", "--json"), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result: dict[str, object] = json.loads(done.stdout)
    return result


def _kill_at(corpus: Path, step: str) -> None:
    command = _inset(corpus, "refresh")
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as running:
        assert running.stderr is not None
        reached = any(line.startswith(f"{step}:") for line in running.stderr)
        os.killpg(running.pid, signal.SIGKILL)
    assert reached, f"the refresh ended before {step}"


def test_a_killed_refresh_leaves_the_live_version_and_its_finished_work(tmp_path: Path) -> None:
    pdfs = tmp_path / "pdfs"
    write_manual(pdfs / "pump.pdf", "water pump", seed=1)
    (tmp_path / "questions.jsonl").write_text('{"id": "1", "question": "bar of the pump", "doc": "pump.pdf", "pages": [1]}')
    corpus = write_corpus(tmp_path, "questions: ../questions.jsonl\n")
    first = _refresh(corpus)
    workspace = open_workspace(str(corpus))
    write_manual(pdfs / "winch.pdf", "steel winch", seed=2)
    for step in STEPS:
        _kill_at(corpus, step)
        live = read_pointer(workspace.store)
        assert live is not None
        assert live.version == first["version"]

    finished = _refresh(corpus)
    assert finished["published"]
    notes = read_notes(workspace.store, str(finished["version"]))
    counts = {name: count for note in notes.values() for name, count in note.counts.items()}
    assert (counts["parsed"], counts["structured"], counts["embedded"]) == (0, 0, 0)
    versions = workspace.store.folders("versions")
    assert sorted(versions) == sorted([str(first["version"]), str(finished["version"])])
