"""A version copied elsewhere is the same version, and nothing is computed again for it."""

import shutil
from pathlib import Path

import pytest

from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.published.corpus import PublishedCorpus
from pipeline.records.manifests import read_manifest
from pipeline.records.notes import read_notes
from pipeline.records.publication import read_pointer, roll_back
from pipeline.run import refresh
from pipeline.stages.publish import make_live
from pipeline.upkeep.doctor import diagnose
from pipeline.upkeep.mirror import mirror
from pipeline.upkeep.prune import prune
from schemas.errors import ContractError, UserError
from schemas.retrieval import AnswerQuery, Query
from schemas.stages import Stage
from tests.manuals import write_manual
from tests.published_files import figure_of

QUESTION = "What does the water pump look like from side 2?"


def _other(workspace: Workspace, store: str, name: str = "manuals", more: str = "") -> Workspace:
    file = workspace.file.parent / f"{name}-elsewhere.yaml"
    text = workspace.file.read_text().replace("name: manuals", f"name: {name}")
    file.write_text(f"{text}store: {store}\n{more}")
    return open_workspace(str(file))


def _live(workspace: Workspace) -> str:
    pointer = read_pointer(workspace.store)
    assert pointer is not None
    return pointer.version


def _answer(workspace: Workspace) -> tuple[object, list[tuple[str, float]], list[bytes]]:
    published = PublishedCorpus(workspace)
    answer = published.answer(AnswerQuery(QUESTION))
    pictures = [figure_of(published, part.figure_id) for part in answer.parts if part.type == "figure"]
    hits = [(hit.evidence_id, hit.score) for hit in published.search(Query(QUESTION)).hits]
    published.close()
    assert pictures
    return answer, hits, pictures


def test_a_copy_answers_alike_and_refreshes_without_work(published: Workspace, tmp_path: Path) -> None:
    version = _live(published)
    target = _other(published, str(tmp_path / "elsewhere"))
    copied = mirror(published, target)
    assert copied.version == version
    assert copied.rows == target.index(version).count() > 0
    assert read_pointer(target.store) is None, "a copy isn't live by being there"
    make_live(target, copied.version)
    assert (copied.live, mirror(published, target).live) == (False, True)
    assert _answer(target) == _answer(published)

    assert not refresh(target).published, "the same sources, settings and engine: there is nothing to do"
    write_manual(tmp_path / "pdfs" / "winch.pdf", "steel winch", seed=3)
    again = refresh(target)
    assert again.published
    assert again.plan.kept == again.plan.to_parse == 1
    counts = read_notes(target.store, str(again.version), (Stage.PARSE, Stage.ENRICH))
    assert (counts[Stage.PARSE].counts["parsed"], counts[Stage.ENRICH].counts["structured"]) == (1, 1)


def test_copying_again_copies_nothing_and_prune_finds_nothing_to_remove(published: Workspace, tmp_path: Path) -> None:
    target = _other(published, str(tmp_path / "elsewhere"))
    assert mirror(published, target).objects > 0
    before = target.store.names("")
    assert mirror(published, target).objects == 0
    assert target.store.names("") == before
    left = prune(target, dry_run=True)
    assert (left.versions, left.objects, left.records) == ([], {}, {})


def test_a_copy_under_another_name_is_that_corpus_s_own(published: Workspace, tmp_path: Path) -> None:
    version = _live(published)
    target = _other(published, str(tmp_path / "store"), name="pumps")
    mirror(published, target)
    manifest = read_manifest(target.store, version)
    assert manifest is not None
    assert manifest.corpus == "pumps"
    assert manifest.collection.startswith("Pumps_")


def test_a_copy_that_breaks_off_is_no_version_and_is_finished_later(published: Workspace, tmp_path: Path) -> None:
    version = _live(published)
    target = _other(published, str(tmp_path / "elsewhere"))
    figure = published.store.names("figures")[0]
    pixels = published.store.get(figure)
    published.store.delete(figure)
    with pytest.raises(ContractError, match=figure):
        mirror(published, target)
    assert read_manifest(target.store, version) is None
    published.store.put(figure, pixels)
    assert mirror(published, target).version == version
    assert read_manifest(target.store, version) is not None


def test_only_what_the_version_needs_is_copied(published: Workspace, tmp_path: Path) -> None:
    version = _live(published)
    write_manual(tmp_path / "pdfs" / "winch.pdf", "steel winch", seed=3)
    assert refresh(published).published
    target = _other(published, str(tmp_path / "elsewhere"))
    mirror(published, target, version)
    assert target.store.folders("versions") == [version]
    assert len(target.store.names("documents")) == 2
    assert len(published.store.names("documents")) == 3


def test_a_version_goes_from_a_folder_to_s3(published: Workspace, s3_bucket: str) -> None:
    version = _live(published)
    target = _other(published, f"s3://{s3_bucket}/inset")
    make_live(target, mirror(published, target).version)
    assert _answer(target) == _answer(published)
    assert _live(target) == version


def test_the_same_place_is_refused(published: Workspace) -> None:
    with pytest.raises(UserError, match="change its 'index' and refresh"):
        mirror(published, published)


def test_nothing_live_is_said(published: Workspace, tmp_path: Path) -> None:
    empty = _other(published, str(tmp_path / "elsewhere"))
    with pytest.raises(UserError, match="nothing is published yet"):
        mirror(empty, published)


def test_a_lost_store_is_taken_over_by_its_mirror(published: Workspace, tmp_path: Path) -> None:
    """The drill of the guide on backups: the first store is gone, its mirror answers, and a refresh goes on from there."""
    version = _live(published)
    target = _other(published, str(tmp_path / "elsewhere"))
    mirror(published, target)
    before = _answer(published)
    shutil.rmtree(published.store.root)
    with pytest.raises(UserError, match="nothing is published yet"):
        mirror(published, target)
    make_live(target, version)
    assert _answer(target) == before
    assert _problems(target) == []
    write_manual(tmp_path / "pdfs" / "crane.pdf", "tower crane", seed=3)
    after = refresh(target)
    assert (after.published, after.counts.documents, after.plan.to_parse) == (True, 3, 1)
    assert read_notes(target.store, str(after.version), (Stage.PARSE,))[Stage.PARSE].counts["parsed"] == 1
    assert roll_back(target.store, target.corpus.name).version == version
    assert _answer(target) == before
    assert _problems(target) == []


def _problems(workspace: Workspace) -> list[str]:
    findings = diagnose([str(workspace.file)], deep=True).findings
    return [finding.message for finding in findings if not finding.ok and finding.subject.startswith("corpus")]
