"""This release over stores that releases 0.1.0 and 0.2.0 wrote, and what those find afterwards."""

import json
import tarfile
from pathlib import Path

import pytest

from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.published.corpus import PublishedCorpus
from pipeline.records.publication import LIVE
from pipeline.run import refresh
from pipeline.stages.publish import make_live, roll_back_version
from pipeline.upkeep.doctor import diagnose
from pipeline.upkeep.forget import forget
from schemas.retrieval import Query
from tests.manuals import write_manual
from tests.pipeline.conftest import write_corpus

RELEASES = ("0.1.0", "0.2.0")
"""Each wrote a store: manuals of a water pump and a steel winch, a page each, refreshed by it.

Of that of 0.1.0, fonts and images of the quality report (3.9 MB) were removed, from the version's inventory too.
"""

POINTER_OF_0_1_0 = {"version", "previous", "since", "held", "fence", "moved", "sha256"}
"""0.1.0 takes a pointer with any other key for damage."""


@pytest.fixture
def workspace(tmp_path: Path, request: pytest.FixtureRequest) -> Workspace:
    with tarfile.open(Path(__file__).with_name(f"store-{request.param}.tar.xz")) as archive:
        archive.extractall(tmp_path, filter="data")
    return open_workspace(str(write_corpus(tmp_path)))


def _first(workspace: Workspace, query: str) -> str:
    return PublishedCorpus(workspace).search(Query(query)).hits[0].source


def _pointer(workspace: Workspace) -> dict[str, object]:
    found: dict[str, object] = json.loads((Path(workspace.store.root) / LIVE).read_bytes())
    return found


def _files(workspace: Workspace, version: object) -> dict[Path, bytes]:
    folder = Path(workspace.store.root) / "versions" / str(version)
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("workspace", RELEASES, indirect=True)
def test_its_version_is_searched(workspace: Workspace) -> None:
    assert _first(workspace, "screws of the steel winch") == "winch.pdf"


@pytest.mark.slow
@pytest.mark.parametrize("workspace", RELEASES, indirect=True)
def test_it_is_refreshed_rolled_back_and_still_readable_by_the_older_release(workspace: Workspace, tmp_path: Path) -> None:
    old = _pointer(workspace)["version"]
    files_of_old = _files(workspace, old)
    write_manual(tmp_path / "pdfs" / "valve.pdf", "steam valve", seed=3, pages=1)
    done = refresh(workspace)
    assert done.published
    assert done.version is not None
    assert _first(workspace, "screws of the steam valve") == "valve.pdf"
    assert _pointer(workspace).keys() <= POINTER_OF_0_1_0

    roll_back_version(workspace)
    assert _pointer(workspace)["version"] == old
    assert _first(workspace, "screws of the steel winch") == "winch.pdf"
    assert _files(workspace, old) == files_of_old
    make_live(workspace, done.version)
    assert _first(workspace, "screws of the steam valve") == "valve.pdf"
    assert _pointer(workspace).keys() <= POINTER_OF_0_1_0
    assert not [finding for finding in diagnose([str(workspace.file)]).findings if not finding.ok]


@pytest.mark.slow
@pytest.mark.parametrize("workspace", ["0.1.0"], indirect=True)
def test_after_forget_the_older_release_publishes_nothing(workspace: Workspace, tmp_path: Path) -> None:
    """0.1.0 doesn't know what is forgotten: a refresh of its would take the document in again."""
    forget(workspace, "pump.pdf", dry_run=False)
    assert _pointer(workspace).keys() > POINTER_OF_0_1_0
    write_manual(tmp_path / "pdfs" / "valve.pdf", "steam valve", seed=3, pages=1)
    assert refresh(workspace).published
    assert {hit.source for hit in PublishedCorpus(workspace).search(Query("pump")).hits} <= {"winch.pdf", "valve.pdf"}
    assert _pointer(workspace).keys() > POINTER_OF_0_1_0
