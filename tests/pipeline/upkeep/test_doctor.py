"""What ``inset doctor`` finds."""

import json
import shutil
import threading
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pipeline.corpus.workspace import INDEX_FOLDER, Workspace, open_workspace
from pipeline.records.publication import LIVE, read_pointer, roll_back
from pipeline.run import refresh
from pipeline.stages.publish import make_live, roll_back_version
from pipeline.upkeep.doctor import diagnose
from schemas.errors import UserError
from schemas.ids import version_file
from tests.manuals import write_manual
from tests.pipeline.conftest import write_corpus


def _warnings(workspace: Workspace) -> dict[str, str]:
    diagnosis = diagnose([str(workspace.file)])
    assert diagnosis.ok, "a warning isn't a fault"
    return {finding.message: finding.remedy for finding in diagnosis.findings if finding.warning}


@pytest.mark.slow
def test_what_wants_a_decision_is_a_warning(published: Workspace) -> None:
    assert _warnings(published) == {}
    pdfs, folder = Path(published.corpus.source), published.file.parent.parent
    (pdfs / "page.pdf").write_bytes(b"<html>")
    second = refresh(open_workspace(str(write_corpus(folder, "gates: {max_quarantined: 0.9}\n")))).version
    quarantined = f"1 documents of {second} are in quarantine"
    assert _warnings(published) == {
        quarantined: "to see why: inset quarantine manuals; to try them again: inset quarantine manuals --replay"
    }
    write_manual(pdfs / "crane.pdf", "tower crane", seed=7)
    third = refresh(open_workspace(str(write_corpus(folder)))).version
    (refused,) = (message for message in _warnings(published) if message != quarantined)
    assert refused.startswith(f"{third} was refused: quarantine ceiling: ")
    assert f"inset publish manuals {third} --override" in _warnings(published)[refused]
    roll_back(published.store, "manuals")
    (hold_remedy,) = (
        remedy for message, remedy in _warnings(published).items() if message.startswith("held since a rollback: ")
    )
    assert hold_remedy == "inset publish manuals VERSION"
    assert quarantined not in _warnings(published), "of the live version"


class _Models(BaseHTTPRequestHandler):
    """Lists one model, by its file as llama.cpp does; under /v2 none."""

    def do_GET(self) -> None:
        models = [{"id": "/models/qwen3-8b", "object": "model"}] if self.path.startswith("/v1") else []
        body = json.dumps({"object": "list", "data": models}).encode()
        self.send_response(404 if self.path.startswith("/v3") else 200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def models_server() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Models)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("model", "path", "problem"),
    [
        ("qwen3-8b", "v1", None),
        ("another", "v1", "llm: {server} doesn't list 'another', but /models/qwen3-8b"),
        ("qwen3-8b", "v2", "llm: {server} doesn't list 'qwen3-8b', but no model"),
        ("qwen3-8b", "v3", None),  # a server without a list
    ],
)
def test_a_model_that_its_server_does_not_list_is_a_warning(
    corpus_file: Path, models_server: str, model: str, path: str, problem: str | None
) -> None:
    endpoint = f"{{url: '{models_server}/{path}'}}"
    extra = f"models:\n  llm: {{kind: llm, model: {model}, revision: '1', endpoint: {endpoint}}}\nanswer: {{model: llm}}\n"
    workspace = open_workspace(str(write_corpus(corpus_file.parent.parent, extra)))
    expected = [] if problem is None else [problem.format(server=models_server)]
    assert [message for message in _warnings(workspace) if "llm" in message] == expected


def test_a_finding_is_said_once(published: Workspace) -> None:
    (Path(published.store.root) / LIVE).unlink()
    wrong = [finding for finding in diagnose([str(published.file)]).findings if not finding.ok]
    assert [finding.message for finding in wrong] == [f"{published.store.root}/LIVE is missing"]
    assert wrong[0].remedy.startswith("to restore it: inset refresh manuals")


def test_a_version_whose_rows_are_gone_is_named_and_never_goes_live(published: Workspace) -> None:
    pdfs, folder, store = Path(published.corpus.source), published.file.parent.parent, published.store
    first = read_pointer(store)
    assert first is not None
    write_manual(pdfs / "crane.pdf", "tower crane", seed=7)
    mistyped = "20260101T000000Z-00000000"
    workspace = open_workspace(str(write_corpus(folder, f"retention: {{pinned: [{mistyped}]}}\n")))
    second = refresh(workspace).version
    assert [message for message in _warnings(workspace) if mistyped in message and first.version not in message]
    shutil.rmtree(Path(store.root) / version_file(first.version, INDEX_FOLDER))
    messages = [finding.message for finding in diagnose([str(workspace.file)]).findings]
    assert any(message.startswith(f"the rows of {mistyped}, {first.version} are gone") for message in messages)
    for move in (roll_back_version, partial(make_live, version=first.version)):
        with pytest.raises(UserError, match=f"doesn't hold the .* rows of {first.version} any more"):
            move(workspace)
    live = read_pointer(store)
    assert live is not None
    assert live.version == second
