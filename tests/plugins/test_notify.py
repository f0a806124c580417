"""Whom a corpus's runs tell, and what the store says meanwhile."""

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.exceptions import HITLRejectException

from pipeline.operations.health import corpus_health
from pipeline.records.notes import LastRefresh, read_last_refresh, write_last_refresh
from pipeline.records.publication import read_pointer
from pipeline.records.states import State
from plugins.notify import TOLD_TRIES, announce, note_answer, note_question, refresh_callbacks
from schemas.ids import version_file
from tests.pipeline.operations.corpora import schedule_of, version_name, write_corpus


@pytest.fixture
def posted() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The address of a server, and what was posted to it."""
    bodies: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/hook", bodies
    server.shutdown()
    thread.join()
    server.server_close()


def _context(task: str = "enrich", *, attempt: int = 1, exception: Exception | None = None) -> dict[str, Any]:
    delays = SimpleNamespace(max_retry_delay=timedelta(minutes=30))
    ti = SimpleNamespace(task_id=task, try_number=attempt, max_tries=12, task=delays)
    return {"ti": ti, "run_id": "nightly", "exception": exception}


def _hooks(url: str, key: str) -> str:
    return f"operations: {{{key}: {{plugins.notify.Webhook: {{url: '{url}'}}}}}}\n"


def test_a_question_a_long_retry_and_a_failure_are_told_and_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, posted: tuple[str, list[dict[str, Any]]]
) -> None:
    monkeypatch.setenv("INSET_CORPORA", str(tmp_path / "corpora"))
    url, bodies = posted
    write_corpus(tmp_path, "pumps", versions=1, more=_hooks(url, "notify"))
    schedule = schedule_of("pumps")
    calls = refresh_callbacks(schedule)
    full = OSError("no space left on device")
    for attempt in (1, *TOLD_TRIES):
        calls["on_retry_callback"](_context(attempt=attempt, exception=full))
    assert [body["message"] for body in bodies] == [
        f"enrich is tried again, {attempt + 1} of 13: no space left on device" for attempt in TOLD_TRIES
    ]
    assert corpus_health(schedule, datetime.now(UTC)).state is State.RETRYING
    calls["on_retry_callback"](_context())
    assert "its process was killed" in corpus_health(schedule, datetime.now(UTC)).problems[0]

    note_question(schedule, _context("approve"), "Publish it?", 12)
    assert bodies[-1]["event"] == "waiting"
    assert bodies[-1]["message"].startswith("pumps waits for your answer until ")
    health = corpus_health(schedule, datetime.now(UTC))
    assert health.state is State.WAITING
    assert health.question == "dags/refresh_pumps/runs/nightly/tasks/approve/required_actions"
    note_answer(schedule, _context("approve"))
    assert corpus_health(schedule, datetime.now(UTC)).question is None

    calls["on_failure_callback"](_context(exception=HITLRejectException("rejected by ada: wrong screws")))
    assert (bodies[-1]["event"], bodies[-1]["message"]) == ("failed", "rejected by ada: wrong screws")
    health = corpus_health(schedule, datetime.now(UTC))
    assert health.state is State.REFUSED
    assert "rejected by ada: wrong screws" in health.problems[0]


def test_a_live_version_is_announced_with_its_release_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, posted: tuple[str, list[dict[str, Any]]]
) -> None:
    monkeypatch.setenv("INSET_CORPORA", str(tmp_path / "corpora"))
    url, bodies = posted
    store = write_corpus(tmp_path, "pumps", versions=1, more=_hooks(url, "announce"))
    store.replace(version_file(version_name(0), "release_note.md"), b"Two documents are new.")
    pointer = read_pointer(store)
    assert pointer is not None
    announce(schedule_of("pumps"), store, pointer, _context("confirm"))
    (body,) = bodies
    assert (body["corpus"], body["event"], body["version"]) == ("pumps", "live", version_name(0))
    assert body["release_note"] == "Two documents are new."


def test_a_run_that_has_published_is_not_shown_as_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INSET_CORPORA", str(tmp_path / "corpora"))
    store = write_corpus(tmp_path, "pumps", versions=1)
    last_refresh = LastRefresh(run_id="airflow:nightly", at=datetime.now(UTC), state="published", version="v")
    write_last_refresh(store, last_refresh)
    refresh_callbacks(schedule_of("pumps"))["on_retry_callback"](_context("confirm", exception=OSError("gone")))
    assert read_last_refresh(store) == last_refresh
