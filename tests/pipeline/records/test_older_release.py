"""Stores that releases 0.1.0 and 0.2.0 wrote: they are said to be old, and built again from finished work."""

import tarfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.main import app
from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.published.corpus import PublishedCorpus
from pipeline.records.publication import list_versions, read_pointer
from pipeline.run import refresh
from pipeline.upkeep.doctor import diagnose
from pipeline.upkeep.prune import prune
from schemas.errors import TransientError
from schemas.retrieval import Query
from tests.pipeline.conftest import write_corpus

RELEASES = ("0.1.0", "0.2.0")
"""Each wrote a store: manuals of a water pump and a steel winch, a page each, refreshed by it.

Of that of 0.1.0, fonts and images of the quality report (3.9 MB) were removed, from the version's inventory too.
"""


@pytest.fixture
def workspace(tmp_path: Path, request: pytest.FixtureRequest) -> Workspace:
    with tarfile.open(Path(__file__).with_name(f"store-{request.param}.tar.xz")) as archive:
        archive.extractall(tmp_path, filter="data")
    return open_workspace(str(write_corpus(tmp_path)))


@pytest.mark.parametrize("workspace", RELEASES, indirect=True)
def test_its_version_is_said_to_be_old(workspace: Workspace) -> None:
    pointer = read_pointer(workspace.store)
    assert pointer is not None
    line = f"{pointer.version} has rows of release 0.2.0 or before; to build them again from finished work: inset refresh manuals"
    for read in (
        lambda: PublishedCorpus(workspace).search(Query("screws of the steel winch")),
        lambda: prune(workspace, dry_run=True),
    ):
        with pytest.raises(TransientError, match=line):
            read()
    messages = [finding for finding in diagnose([str(workspace.file)]).findings if not finding.ok]
    assert {(finding.message, finding.remedy) for finding in messages} >= {
        (f"{pointer.version} has rows of release 0.2.0 or before", "inset refresh manuals makes it again")
    }
    for command in ("search", "export", "diff"):
        arguments = {
            "search": ["winch"],
            "export": ["--out", str(workspace.file.parent / "out")],
            "diff": ["live", "latest"],
        }
        printed = CliRunner().invoke(app, [command, str(workspace.file), *arguments[command]])
        assert not isinstance(printed.exception, KeyError | ValueError | TypeError), command


@pytest.mark.slow
@pytest.mark.parametrize("workspace", RELEASES, indirect=True)
def test_it_is_built_again_from_finished_work(workspace: Workspace) -> None:
    old = read_pointer(workspace.store)
    assert old is not None
    result = refresh(workspace)
    assert (result.published, result.counts.documents, result.failures) == (True, 2, [])
    published = PublishedCorpus(workspace)
    assert published.search(Query("screws of the steel winch")).hits[0].source == "winch.pdf"
    published.close()
    assert [row.version for row in list_versions(workspace.store, "manuals").versions] == [result.version]
    assert refresh(workspace).version == result.version
    prune(workspace, dry_run=False)
    assert not workspace.store.names(f"versions/{old.version}")
    assert not [finding for finding in diagnose([str(workspace.file)], deep=True).findings if not finding.ok]
