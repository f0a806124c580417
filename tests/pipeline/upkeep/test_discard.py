"""What is damaged is named, and one refresh later all is well again."""

import shutil
from pathlib import Path
from typing import Literal

import pytest

from pipeline.corpus.workspace import Workspace
from pipeline.published.corpus import PublishedCorpus
from pipeline.records.evidence import row_files
from pipeline.records.ledger import read_ledger
from pipeline.records.publication import LIVE, list_versions, publish_version, read_pointer, roll_back
from pipeline.run import RefreshRun, refresh
from pipeline.stages.plan import plan
from pipeline.upkeep.discard import find_damage
from pipeline.upkeep.doctor import diagnose
from schemas.errors import DamagedError, UserError
from schemas.retrieval import Query
from schemas.stages import Stage
from schemas.versions import Status
from tests.manuals import write_manual
from tests.published_files import figure_of

QUESTION = "How many screws has the steel winch?"


def _live(workspace: Workspace) -> str:
    pointer = read_pointer(workspace.store)
    assert pointer is not None
    return pointer.version


def _object(workspace: Workspace, kind: str) -> Path:
    """Return the file of an object of the live version."""
    live_prefix = f"versions/{_live(workspace)}/"
    names = [name for name in workspace.store.names("") if not name.startswith("versions/") or name.startswith(live_prefix)]
    return Path(workspace.store.root) / next(name for name in names if kind in name)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2].rstrip(b"}"))


def _turn_a_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 8
    path.write_bytes(bytes(data))


def _is_well(workspace: Workspace) -> bool:
    damage = find_damage(workspace, deep=True)
    assert damage == {}
    published = PublishedCorpus(workspace)
    hits = published.search(Query(QUESTION, preset="hybrid", k=50)).hits
    figures = [figure_of(published, figure) for hit in hits for figure in hit.figure_refs]
    published.close()
    return {hit.source for hit in hits} == {"pump.pdf", "winch.pdf"} and bool(figures)


@pytest.mark.parametrize(
    "kind",
    [
        "LIVE",
        "manifest.json",
        "ledger.parquet",
        "parts.json",
        "documents.parquet",
        "rows/",
        "index.json",
        "figures/",
        "documents/",
        "parsed/",
    ],
)
def test_a_refresh_makes_again_what_was_cut(published: Workspace, kind: str) -> None:
    _cut(_object(published, kind))
    assert find_damage(published, deep=True)
    if kind in ("figures/", "documents/", "parsed/"):
        diagnose([str(published.file)], deep=True)  # a refresh reads only what it needs
    refresh(published)
    assert _is_well(published)
    assert not refresh(published).published, "there is nothing left to do"


@pytest.mark.parametrize("folder", ["data", "_indices", "_versions"])
def test_a_damaged_index_is_told_and_built_again(published: Workspace, folder: str) -> None:
    before = _live(published)
    path = _object(published, f"/{folder}/")
    path.unlink()
    (finding,) = [
        candidate for candidate in diagnose([str(published.file)]).findings if candidate.subject.endswith(" index")
    ]
    assert not finding.ok
    opened = PublishedCorpus(published)
    with pytest.raises(
        DamagedError, match=rf"{before} is damaged: .*{path.name} isn't what was built; .* inset refresh manuals"
    ):
        opened.search(Query(QUESTION))
    opened.close()
    assert refresh(published).published
    assert _is_well(published)


def test_a_turned_bit_of_the_index_is_not_answered_from(published: Workspace) -> None:
    _turn_a_bit(_object(published, "/data/"))
    opened = PublishedCorpus(published)
    with pytest.raises(DamagedError, match="isn't what was built"):
        opened.search(Query(QUESTION))
    opened.close()


def test_doctor_reads_all_says_what_a_refresh_does_and_deletes_for_it(published: Workspace, tmp_path: Path) -> None:
    first = _live(published)
    write_manual(tmp_path / "pdfs" / "crane.pdf", "tower crane", seed=7)
    second = refresh(published).version
    (earlier,) = row_files(published.store, first, "evidence")
    _turn_a_bit(Path(published.store.root) / earlier)
    _turn_a_bit(_object(published, "figures/"))
    findings = {
        finding.message: finding.remedy for finding in diagnose([str(published.file)], deep=True).findings if not finding.ok
    }
    assert len(findings) == 2
    assert any(earlier in message and "removes the earlier versions" in remedy for message, remedy in findings.items())
    assert any("/figures/" in message and "makes it again" in remedy for message, remedy in findings.items())
    refresh(published)
    assert first not in published.store.folders("versions")
    pointer = read_pointer(published.store)
    assert pointer is not None
    assert pointer.previous == second, "its figure is back, so it can be gone back to"
    assert find_damage(published, deep=True) == {}


@pytest.mark.parametrize("file", ["ledger.parquet", "manifest.json"])
def test_what_can_not_be_gone_back_to_is_not_offered(published: Workspace, tmp_path: Path, file: str) -> None:
    first = _live(published)
    write_manual(tmp_path / "pdfs" / "crane.pdf", "tower crane", seed=7)
    refresh(published)
    (Path(published.store.root) / f"versions/{first}/{file}").unlink()
    assert [*find_damage(published)] == [f"versions/{first}/{file}"]
    assert not refresh(published).published
    with pytest.raises(UserError, match="there is none before it to roll back to"):
        roll_back(published.store, "manuals")
    assert find_damage(published, deep=True) == {}


def test_a_lost_inventory_is_damage_and_is_made_again(published: Workspace) -> None:
    name = f"versions/{_live(published)}/files.parquet"
    published.store.delete(name)
    assert [*find_damage(published)] == [name]
    assert refresh(published).published
    assert _is_well(published)
    assert published.store.exists(f"versions/{_live(published)}/files.parquet")


def test_without_pointer_and_audit_log_somebody_has_to_say_what_is_live(published: Workspace) -> None:
    live = _live(published)
    (Path(published.store.root) / "LIVE").write_bytes(b"{")
    shutil.rmtree(Path(published.store.root) / "audit")
    with pytest.raises(
        UserError, match=rf"LIVE is cut short, and the audit log names no version .* inset publish manuals VERSION .*{live}"
    ):
        refresh(published)
    assert publish_version(published.store, "manuals", live).version == live
    assert not refresh(published).published
    assert _is_well(published)


@pytest.mark.parametrize("damage", [None, b"", b'{"version":'])
def test_a_damaged_pointer_is_written_again_by_the_audit_log_with_its_hold(
    published: Workspace, tmp_path: Path, damage: bytes | None
) -> None:
    first = _live(published)
    write_manual(tmp_path / "pdfs" / "crane.pdf", "tower crane", seed=7)
    second = refresh(published).version
    roll_back(published.store, "manuals")
    path = Path(published.store.root) / LIVE
    path.unlink() if damage is None else path.write_bytes(damage)
    with pytest.raises(DamagedError, match=r"LIVE is (missing|empty|cut short); to restore it: inset refresh"):
        read_pointer(published.store)
    refresh(published)
    pointer = read_pointer(published.store)
    assert pointer is not None
    assert (pointer.version, pointer.previous, pointer.held) == (first, second, True)


def test_a_version_whose_manifest_is_damaged_is_listed_as_such(published: Workspace) -> None:
    _cut(_object(published, "manifest.json"))
    (row,) = list_versions(published.store, "manuals").versions
    assert row.state == "damaged"
    assert "manifest.json is cut short; to make it again: inset refresh manuals" in row.refusals[0]


@pytest.mark.parametrize(
    ("rows", "step"), [("evidence", "structure"), ("placements", "structure"), ("evidence", "assemble")]
)
def test_rows_that_are_damaged_while_a_refresh_takes_them_over_are_made_anew(
    published: Workspace, tmp_path: Path, rows: Literal["evidence", "placements"], step: str
) -> None:
    write_manual(tmp_path / "pdfs" / "crane.pdf", "tower crane", seed=7)
    (name,) = row_files(published.store, _live(published), rows)
    part = Path(published.store.root) / name
    undamaged_parts = [part]

    def report(at: str, _done: int, _total: int, _spent: str = "") -> None:
        if at == step and undamaged_parts:
            _turn_a_bit(undamaged_parts.pop())

    result = refresh(published, report=report)
    assert result.published
    assert not undamaged_parts
    assert {row.status for row in read_ledger(published.store, _live(published))} == {Status.INDEXED}
    assert result.counts.documents == 3
    assert find_damage(published, deep=True) == {}


def test_a_stage_that_is_tried_again_takes_over_no_damaged_rows(published: Workspace, tmp_path: Path) -> None:
    write_manual(tmp_path / "pdfs" / "crane.pdf", "tower crane", seed=7)
    before, run = _live(published), RefreshRun(published, "run")
    planned = run.plan()
    run.parse(planned.version, [0])
    run.work(Stage.ENRICH, planned.version)
    (part,) = row_files(published.store, before, "placements")
    _turn_a_bit(Path(published.store.root) / part)
    with pytest.raises(DamagedError, match=part):
        run.work(Stage.ASSEMBLE, planned.version)
    assert run.work(Stage.ASSEMBLE, planned.version).counts["documents"] == 3


def test_damaged_vectors_are_made_again(published: Workspace) -> None:
    files = sorted((Path(published.store.root) / "vectors").rglob("*.parquet"))
    assert len(files) == 2
    for file in files:
        _turn_a_bit(file)
    assert len(find_damage(published, deep=True)) == 2
    published.index(_live(published)).drop()
    assert refresh(published).published
    assert _is_well(published)


def test_versions_follow_each_other_though_the_clock_was_set_back(published: Workspace) -> None:
    published.store.replace("versions/20990101T000000Z-00000000/plan.json", b"{}")
    assert plan(published, "r").version == _live(published)
    assert plan(published, "r", rebuild=True).version.startswith("20990101T000001Z-")
