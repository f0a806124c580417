"""Kill a refresh at every step: readers keep a whole version, and nothing finished is done twice."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pipeline.corpus.workspace import open_workspace
from pipeline.records.notes import read_notes
from pipeline.records.publication import read_pointer
from tests.endpoint_server import Call, EndpointServer
from tests.manuals import write_manual
from tests.pipeline.conftest import write_corpus

pytestmark = pytest.mark.slow

STEPS = ("parse", "structure", "embed", "assemble", "check", "build", "evaluate", "publish")


def _inset(corpus: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "cli.main", arguments[0], str(corpus), *arguments[1:]]


def _refresh(corpus: Path) -> dict[str, object]:
    process = subprocess.run(_inset(corpus, "refresh", "--json"), capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    result: dict[str, object] = json.loads(process.stdout)
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


def test_descriptions_that_a_killed_refresh_kept_are_not_asked_for_again(tmp_path: Path, endpoint: EndpointServer) -> None:
    figures, took_s = 24, 0.1
    write_manual(tmp_path / "pdfs" / "pump.pdf", "water pump", seed=1, pages=figures)
    corpus = write_corpus(tmp_path)
    model = f"{{kind: vlm, model: tiny, revision: '1', endpoint: {{url: '{endpoint.url}', concurrency: 2}}}}"
    corpus.write_text(
        corpus.read_text().replace("{ocr: none}", "{ocr: none, captioner: vlm}") + f"models: {{vlm: {model}}}\n"
    )

    def reply(call: Call) -> str:
        time.sleep(took_s)
        return f"The pump from side {hash(call.picture)}, with its screws."

    endpoint.replies = reply
    with subprocess.Popen(_inset(corpus, "refresh"), stderr=subprocess.DEVNULL, start_new_session=True) as running:
        while len(endpoint.calls) < figures * 3 // 4 and running.poll() is None:
            time.sleep(0.01)
        os.killpg(running.pid, signal.SIGKILL)
    paid = {call.picture for call in endpoint.calls}
    assert len(paid) < figures, "the refresh was killed while it had figures to describe"

    endpoint.calls.clear()
    assert _refresh(corpus)["published"]
    again = [call.picture for call in endpoint.calls]
    assert len(set(again)) == len(again)
    assert len(paid | set(again)) == figures
    assert paid - set(again), "half a second after a description came it was kept"
