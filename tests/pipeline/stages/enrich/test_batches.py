"""Descriptions by batches: nothing is lost, and nothing paid for twice, whatever fails, through whole refreshes."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from backends.models import endpoint_calls
from backends.stores.object_store import FolderStore
from pipeline import run
from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.records.cache import RecordCache
from pipeline.records.manifests import read_manifest
from pipeline.run import refresh
from pipeline.stages.plan import plan
from schemas.errors import TransientError, UserError
from schemas.reports import RefreshResult
from schemas.versions import in_words
from tests import batch_server
from tests.batch_server import BatchServer, Fault
from tests.endpoint_server import EndpointServer, status
from tests.versions import read_evidence

FIGURES = 4
PRICE = {"input": 2.0, "output": 8.0}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchServer]:
    monkeypatch.setattr(endpoint_calls, "FIRST_WAIT_S", 0.01)
    monkeypatch.setattr(endpoint_calls, "LONGEST_WAIT_S", 0.02)
    monkeypatch.setattr(run, "BATCHES_SEEN_EVERY_S", 0.02)
    with batch_server.running() as lent:
        yield lent


@pytest.fixture
def corpus(published: Workspace, server: BatchServer) -> Callable[..., Workspace]:
    """Open the published corpus, its figures described in batches."""

    def opened(budget: dict[str, Any] | None = None, **model: Any) -> Workspace:
        endpoint = {"url": server.url, "concurrency": 2, "retries": 2, "timeout_s": 0.4}
        described = {"kind": "vlm", "model": "tiny-vlm", "revision": "1", "endpoint": endpoint, "mode": "batch"}
        file = yaml.safe_load(published.file.read_text())
        file["models"] = {"vlm": described | {"price": PRICE} | model}
        file["captions"] = {"ocr": "none", "captioner": "vlm"}
        file["budget"] = budget or {}
        published.file.write_text(yaml.safe_dump(file))
        return open_workspace(str(published.file))

    return opened


def _descriptions(workspace: Workspace, result: RefreshResult) -> dict[str, str | None]:
    rows = read_evidence(workspace.store, str(result.version)).to_pylist()
    return {row["caption"]: row["description"] for row in rows if row["modality"] == "figure"}


def _check_complete(workspace: Workspace, result: RefreshResult, server: BatchServer) -> None:
    assert result.published
    described = _descriptions(workspace, result)
    assert len(described) == FIGURES
    for caption, description in described.items():
        assert description is not None, caption
        assert f"taken for {caption}," in description
    assert len(server.paid) == FIGURES
    assert set(server.paid.values()) == {1}, "a request was paid for twice"
    assert workspace.store.names("batches") == []


def test_all_but_the_first_go_in_a_batch_at_half_the_price(corpus: Callable[..., Workspace], server: BatchServer) -> None:
    workspace = corpus()
    expected = plan(workspace, "test").summary.captions["vlm"]
    assert expected.money_of_calls == pytest.approx(2 * expected.spent.money)
    assert f"{expected.spent.money:,.2f} by its price in batches, {expected.money_of_calls:,.2f} in" in in_words(expected)
    progress: list[tuple[int, int, str]] = []

    def report(step: str, done: int, total: int, spent: str = "", /) -> None:
        if step == "caption":
            progress.append((done, total, spent))

    result = refresh(workspace, report=report)
    _check_complete(workspace, result, server)
    assert (len(server.calls), len(server.batches)) == (1, 1)
    assert (0, 3, "in batches; stop, and the next refresh goes on") in progress
    manifest = read_manifest(workspace.store, str(result.version))
    assert manifest is not None
    spent = manifest.spent["vlm"]
    full = (2 * spent.input_tokens + 8 * spent.output_tokens) / 1e6
    assert spent.calls == FIGURES
    assert full / 2 < spent.money < full * 0.66, "three of four at half the price"
    assert refresh(open_workspace(str(workspace.file))).version == result.version
    assert len(server.batches) == 1


class Killed(BaseException):
    """The end of the process, as far as it goes in one process."""


Setup = Callable[[BatchServer, pytest.MonkeyPatch], None]


def _killed(owner: type, method: str, number: int, part: str = "batches/", *, works: bool) -> Setup:
    """End the refresh at a call of a store or cache, before or after its work."""

    def setup(_server: BatchServer, monkeypatch: pytest.MonkeyPatch) -> None:
        original, calls = getattr(owner, method), []

        def dying(self: Any, first: Any, *more: Any) -> Any:
            if part in (first if isinstance(first, str) else f"{self.folder}/"):
                calls.append(first)
                if len(calls) == number:
                    if works:
                        original(self, first, *more)
                    raise Killed
            return original(self, first, *more)

        monkeypatch.setattr(owner, method, dying)

    return setup


def _interrupted(_server: BatchServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Press Ctrl-C at the first wait."""
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", sleep)


def _met(*faults: Fault) -> Setup:
    def setup(server: BatchServer, _monkeypatch: pytest.MonkeyPatch) -> None:
        server.faults += faults

    return setup


def _ends(as_: str, fate: str, of: str = "winch") -> Setup:
    """Let a batch end as anything, and requests that name something have a fate."""

    def setup(server: BatchServer, _monkeypatch: pytest.MonkeyPatch) -> None:
        server.ends_as = as_
        server.fates = lambda prompt: fate if of in prompt else "done"  # type: ignore[assignment, return-value]

    return setup


def _spoilt(spoil: Callable[[list[str]], list[str]]) -> Setup:
    def setup(server: BatchServer, _monkeypatch: pytest.MonkeyPatch) -> None:
        server.spoil = spoil

    return setup


def _changed(line: str, **fields: Any) -> str:
    return json.dumps(json.loads(line) | fields)


def _late(server: BatchServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kill the refresh behind a creation that no listing shows yet."""
    server.hidden = {"batch_0"}
    _killed(FolderStore, "replace", 2, works=False)(server, monkeypatch)
    looks: list[str] = []
    original, age_s = time.sleep, FolderStore.age_s

    def sleep(seconds: float) -> None:
        looks.append("")
        if len(looks) == 3:
            server.hidden = set()
        original(seconds)

    monkeypatch.setattr(time, "sleep", sleep)
    # However slow the machine is, the calls are cut off "just now" while the batch is hidden.
    monkeypatch.setattr(FolderStore, "age_s", lambda store, name: 0.0 if server.hidden else age_s(store, name))


UPLOAD, CREATE, LIST = "POST /v1/files", "POST /v1/batches", "GET /v1/batches"
LOOK, READ = "GET /v1/batches/.*", "GET /v1/files/.*"

FAULTS: dict[str, Setup] = {
    "killed before the intent is stored": _killed(FolderStore, "replace", 1, works=False),
    "killed once the intent is stored": _killed(FolderStore, "replace", 1, works=True),
    "killed before the id is stored": _killed(FolderStore, "replace", 2, works=False),
    "killed once the id is stored": _killed(FolderStore, "replace", 2, works=True),
    "killed before the id is stored, and seen late": _late,
    "left while it waits": _interrupted,
    "killed before replies are stored": _killed(RecordCache, "append", 2, "captions/", works=False),
    "killed once replies are stored": _killed(RecordCache, "append", 2, "captions/", works=True),
    "killed before the batch is forgotten": _killed(FolderStore, "delete", 1, works=False),
    "killed once the batch is forgotten": _killed(FolderStore, "delete", 1, works=True),
    "upload: no reply": _met(Fault(UPLOAD, "cut", works=True)),
    "upload: 500": _met(Fault(UPLOAD, 500)),
    "creation: no reply": _met(Fault(CREATE, "cut", works=True)),
    "creation: cut before its work": _met(Fault(CREATE, "cut")),
    "creation: 503, and done": _met(Fault(CREATE, 503, works=True)),
    "creation: 503, always": _met(*[Fault(CREATE, 503)] * 3),
    "creation: 429": _met(Fault(CREATE, 429)),
    "creation: slower than the client waits": _met(Fault(CREATE, 200, works=True, run=lambda: time.sleep(0.6))),
    "creation and the listing behind it: no reply": _met(Fault(CREATE, "cut", works=True), Fault(LIST, "cut")),
    "creation: no reply, and no listing": _met(Fault(LIST, "cut"), Fault(LIST, "cut"), Fault(CREATE, "cut", works=True)),
    "look: 500": _met(Fault(LOOK, 500), Fault(LOOK, "cut")),
    "look: 500, always": _met(*[Fault(LOOK, 500)] * 3),
    "replies: cut": _met(Fault(READ, "cut")),
    "replies: 500, always": _met(*[Fault(READ, 500)] * 3),
    "some expire": _ends("expired", "expired"),
    "some fail": _ends("completed", "failed"),
    "all fail": _ends("completed", "failed", of=""),
    "cancelled in part": _ends("cancelled", "expired"),
    "the batch is invalid": _ends("failed", "done"),
    "replies come twice, shuffled": _spoilt(lambda lines: [*lines, *reversed(lines)]),
    "replies to nothing, and no replies": _spoilt(
        lambda lines: [_changed(lines[0], custom_id="else"), '{"custom_id": "no reply"}', "not JSON", *lines, ""]
    ),
    "a failure beside the reply": _spoilt(
        lambda lines: [_changed(lines[0], response={"status_code": 500, "body": {"error": "busy"}}), *lines]
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_every_figure_is_described_and_paid_for_once(
    fault: str, corpus: Callable[..., Workspace], server: BatchServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = corpus()
    with monkeypatch.context() as faulty:
        FAULTS[fault](server, faulty)
        for _ in range(3):
            try:
                result = refresh(open_workspace(str(workspace.file)))
            except (Killed, KeyboardInterrupt, TransientError):
                continue
            break
        else:
            pytest.fail("it never ends")
    _check_complete(workspace, result, server)
    assert not server.faults, "not all faults were met"
    manifest = read_manifest(workspace.store, str(result.version))
    assert manifest is not None
    assert manifest.spent["vlm"].calls <= FIGURES


def test_a_batch_is_sent_as_the_first_call_was_taken(corpus: Callable[..., Workspace], server: BatchServer) -> None:
    server.script(status(400, "use another", code="unsupported_parameter", param="max_tokens"))
    workspace = corpus()
    _check_complete(workspace, refresh(workspace), server)
    bodies = [json.loads(line)["body"] for line in server.files["file-0"].splitlines()]
    assert [("max_tokens" in body, body["max_completion_tokens"]) for body in bodies] == [(False, 300)] * 3


def test_a_refusal_is_paid_for_and_not_asked_for_again(corpus: Callable[..., Workspace], server: BatchServer) -> None:
    workspace = corpus()
    server.fates = lambda prompt: "refused" if "winch" in prompt else "done"
    result = refresh(workspace)
    assert result.published
    assert set(server.paid.values()) == {1}
    assert refresh(open_workspace(str(workspace.file))).version == result.version


def test_a_budget_counts_before_anything_is_sent(corpus: Callable[..., Workspace], server: BatchServer) -> None:
    workspace = corpus(budget={"calls": 3})
    result = refresh(workspace)
    assert [failure.code for failure in result.failures] == ["over_budget"]
    assert sum(server.paid.values()) == 3
    assert server.files["file-0"].count(b"\n") == 2
    _check_complete(workspace, refresh(open_workspace(str(workspace.file))), server)


def test_what_waits_counts_against_the_budget_of_the_next_refresh(
    corpus: Callable[..., Workspace], server: BatchServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as interrupted:
        _interrupted(server, interrupted)
        with pytest.raises(KeyboardInterrupt):
            refresh(corpus(budget={"calls": 3}))
    workspace = corpus(budget={"calls": 2})
    result = refresh(workspace)
    assert [failure.code for failure in result.failures] == ["over_budget"]
    assert sum(server.paid.values()) == 3


def test_a_batch_outlives_a_change_to_calls(
    corpus: Callable[..., Workspace], server: BatchServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as interrupted:
        _interrupted(server, interrupted)
        with pytest.raises(KeyboardInterrupt):
            refresh(corpus())
    workspace = corpus(mode="calls")
    _check_complete(workspace, refresh(workspace), server)
    assert len(server.calls) == 1


@pytest.mark.parametrize("change", ["the server forgets it", "another server", "its replies are gone"])
def test_a_batch_that_is_gone_is_said_and_not_sent_again(
    change: str,
    corpus: Callable[..., Workspace],
    server: BatchServer,
    endpoint: EndpointServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as interrupted:
        _interrupted(server, interrupted)
        with pytest.raises(KeyboardInterrupt):
            refresh(corpus())
    workspace = corpus()
    if change == "another server":
        workspace = corpus(endpoint={"url": endpoint.url, "retries": 0})
    elif change == "its replies are gone":
        server.spoil = lambda _lines: server.files.clear() or []  # type: ignore[func-returns-value]
        monkeypatch.setattr(server, "_keep", lambda _data: "file-gone")
    else:
        server.batches.clear()
    with pytest.raises(UserError, match=r"doesn't have batch \w{32}: set .* or delete \w{32}.json in batches/"):
        refresh(workspace)
    assert len(server.calls) == 1
    assert all("/batches/" in call.path for call in endpoint.calls)


def test_a_server_without_batches_is_a_mistake_of_the_corpus_file(
    corpus: Callable[..., Workspace], server: BatchServer
) -> None:
    server.faults += [Fault(LIST, 404)]
    with pytest.raises(UserError, match=r"models.vlm: its server takes no batches \(then set mode: calls\)"):
        refresh(corpus())


@pytest.mark.slow
@pytest.mark.parametrize(("call", "works"), [(UPLOAD, True), (CREATE, False), (CREATE, True), (LIST, True)])
def test_a_process_killed_at_a_call_leaves_a_batch_that_the_next_one_finds(
    call: str, works: bool, corpus: Callable[..., Workspace], server: BatchServer
) -> None:
    workspace = corpus()
    command = [sys.executable, "-m", "cli.main", "refresh", str(workspace.file)]
    with subprocess.Popen(command, start_new_session=True) as process:
        server.faults += [Fault(call, "cut", works=works, run=lambda: os.killpg(process.pid, signal.SIGKILL))]
        assert process.wait(120) == -signal.SIGKILL
    _check_complete(workspace, refresh(workspace), server)
