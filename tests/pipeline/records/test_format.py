"""A store of a newer format is refused by one line, and left as it is."""

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.published.corpus import PublishedCorpus
from pipeline.records.lease import LEASE, acquire
from pipeline.records.publication import LIVE, list_versions, read_pointer
from pipeline.run import refresh
from pipeline.stages.publish import roll_back_version
from pipeline.upkeep.doctor import diagnose
from pipeline.upkeep.forget import forget
from pipeline.upkeep.prune import prune
from schemas.errors import UserError
from schemas.retrieval import Query
from schemas.versions import FORMAT, Pointer
from tests.pipeline.conftest import write_corpus

COMMANDS: list[Callable[[Workspace], object]] = [
    refresh,
    roll_back_version,
    lambda workspace: prune(workspace, dry_run=False),
    lambda workspace: forget(workspace, "a" * 64, dry_run=False),
    lambda workspace: list_versions(workspace.store, workspace.corpus.name),
    lambda workspace: PublishedCorpus(workspace).search(Query("pump")),
]


def _files(workspace: Workspace) -> dict[str, bytes]:
    root = Path(workspace.store.root)
    return {name: (root / name).read_bytes() for name in workspace.store.names("") if not name.endswith(".lock")}


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "pdfs").mkdir()
    (tmp_path / "pdfs" / "pump.pdf").write_bytes(b"%PDF-1.7\n")
    return open_workspace(str(write_corpus(tmp_path)))


def _write(workspace: Workspace, name: str, content: dict[str, object]) -> None:
    assert workspace.store.swap(name, json.dumps(content).encode(), workspace.store.etag(name))


@pytest.mark.parametrize("command", COMMANDS)
def test_a_pointer_of_a_newer_format_is_refused(workspace: Workspace, command: Callable[[Workspace], object]) -> None:
    version = "20260101T000000Z-00000000"
    _write(workspace, LIVE, {"format": FORMAT + 1, "version": version, "shape": "unknown here"})
    _write(workspace, LEASE, {"format": FORMAT + 1, "run_id": "", "of": "a newer release"})
    workspace.store.replace(f"versions/{version}/manifest.json", b'{"shape": "unknown here"}')
    before = _files(workspace)
    with pytest.raises(UserError, match=f"has format {FORMAT + 1}, of a newer release of Inset") as caught:
        command(workspace)
    assert "\n" not in caught.value.message
    assert _files(workspace) == before


def test_doctor_says_so(workspace: Workspace) -> None:
    _write(workspace, LIVE, {"format": FORMAT + 1})
    findings = [finding for finding in diagnose([str(workspace.file)]).findings if "has format" in finding.message]
    assert findings
    assert not any(finding.ok for finding in findings)


def test_a_store_of_the_first_format_is_read_and_written_in_this_one(workspace: Workspace) -> None:
    """A release that knows no formats named none; one that knows the first refuses what is written now."""
    pointer = Pointer(version="v", previous=None, since=datetime.now(UTC)).model_dump(mode="json")
    assert pointer.pop("format") == FORMAT > 1
    _write(workspace, LIVE, pointer)
    stored_pointer = read_pointer(workspace.store)
    assert stored_pointer is not None
    assert stored_pointer.version == "v"
    assert acquire(workspace.store, "a-run", tied_to_process=True).format == FORMAT
