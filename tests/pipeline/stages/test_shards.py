"""Assemble and check on several workers give what one process gives."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from backends.stores.document_files import structured_file
from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.records.manifests import read_manifest
from pipeline.records.notes import StageNote, read_plan, write_plan
from pipeline.records.publication import read_pointer
from pipeline.run import WORK, refresh
from pipeline.stages import assemble, check
from ray_jobs.cluster import connected
from schemas.corpus.operations import RayOptions
from schemas.errors import DamagedError
from schemas.stages import Stage, silent
from tests.manuals import write_manual
from tests.pipeline.conftest import write_corpus

pytestmark = pytest.mark.slow

AGAIN = "20990101T000000Z-00000000"


@pytest.fixture(scope="module")
def manuals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a published corpus of five manuals, two of which share a figure, and one of which can't be read."""
    folder = tmp_path_factory.mktemp("shards")
    for number, seed in enumerate((1, 2, 3, 3, 4)):
        write_manual(folder / "pdfs" / f"{number}.pdf", f"water pump {number}", seed=seed)
    (folder / "pdfs" / "cut.pdf").write_bytes((folder / "pdfs" / "0.pdf").read_bytes()[:200])
    assert refresh(open_workspace(str(write_corpus(folder, "ray: {num_cpus: 2}\n")))).version
    return folder


@pytest.fixture(scope="module")
def ray() -> Iterator[None]:
    with connected(RayOptions(num_cpus=2)):
        yield


@pytest.fixture
def workspace(manuals: Path, tmp_path: Path) -> Workspace:
    """A copy of that corpus, in which a plan of all documents waits to be assembled."""
    shutil.copytree(manuals, tmp_path, dirs_exist_ok=True)
    workspace = open_workspace(str(tmp_path / "corpora" / "manuals.yaml"))
    pointer = read_pointer(workspace.store)
    assert pointer is not None
    assert read_manifest(workspace.store, pointer.version) is not None
    plan = read_plan(workspace.store, pointer.version)
    write_plan(workspace.store, plan.model_copy(update={"version": AGAIN, "parent": None}))
    for stage in ("parse", "enrich"):
        notes = workspace.store.get(f"versions/{pointer.version}/stages/{stage}.json")
        workspace.store.replace(f"versions/{AGAIN}/stages/{stage}.json", notes)
    return workspace


def _run(workspace: Workspace) -> list[StageNote]:
    """Run both stages; return their notes without the time."""
    notes = [WORK[stage](workspace, AGAIN, silent) for stage in (Stage.ASSEMBLE, Stage.CHECK)]
    return [note.model_copy(update={"seconds": 0}) for note in notes]


def _stored(workspace: Workspace) -> dict[str, bytes]:
    """Return the objects of the version, but for notes and Data Docs, which hold times."""
    store = workspace.store
    names = [*store.names(f"versions/{AGAIN}"), *store.names("rows"), *store.names("quarantine")]
    return {name: store.get(name) for name in names if "/stages/" not in name and "/quality/" not in name}


def _delete_rows(workspace: Workspace) -> None:
    for name in workspace.store.names("rows"):
        workspace.store.delete(name)


def _shard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ray_jobs.pools.FEW_DOCUMENTS", 0)
    monkeypatch.setattr(assemble, "DOCUMENTS_A_SHARD", 2)
    monkeypatch.setattr("pipeline.records.row_parts.ROWS_A_PART", 12)


def test_shards_give_the_bytes_of_one_process(
    workspace: Workspace, tmp_path: Path, ray: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.records.row_parts.ROWS_A_PART", 12)
    _delete_rows(workspace)
    notes, stored = _run(workspace), _stored(workspace)
    _delete_rows(workspace)
    assert notes[0].counts["documents"] == 5
    assert notes[0].counts["quarantined"] == 1
    _shard(monkeypatch)
    assert _run(workspace) == notes
    assert _stored(workspace) == stored


@pytest.mark.parametrize("stage", [assemble, check])
def test_a_damaged_file_is_named_by_the_worker_that_read_it(
    workspace: Workspace, ray: None, monkeypatch: pytest.MonkeyPatch, stage: ModuleType
) -> None:
    _run(workspace)
    _shard(monkeypatch)
    store = workspace.store
    doc_id = next(document.doc_id for document in read_plan(store, AGAIN).documents if document.source == "2.pdf")
    file = structured_file(doc_id, workspace.keys.structured)
    store.replace(file, b"junk")
    with pytest.raises(DamagedError) as caught:
        WORK[Stage(stage.__name__.rpartition(".")[2])](workspace, AGAIN, silent)
    assert caught.value.name == file
