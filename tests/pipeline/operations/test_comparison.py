"""A question asked of two versions or presets."""

from pathlib import Path

import pytest

from pipeline.corpus.workspace import Workspace
from pipeline.operations import comparison
from pipeline.operations.comparison import Side, ask, listed_presets
from pipeline.records.publication import read_pointer
from pipeline.run import refresh
from tests.manuals import write_manual
from tests.pipeline.operations.corpora import write_corpus

QUESTION = "How many bar does the steel winch take?"


def live(workspace: Workspace) -> str:
    pointer = read_pointer(workspace.store)
    assert pointer is not None
    return pointer.version


def test_ranks_are_those_of_both_sides(published: Workspace) -> None:
    one, other = ask(str(published.file), QUESTION, [Side(live(published), "bm25"), Side(live(published), "dense")], 5)
    assert (one.preset, other.preset, one.problem, other.problem) == ("bm25", "dense", "", "")
    ranks = [{found.hit.evidence_id: found.rank for found in side.hits} for side in (one, other)]
    assert ranks[0] != ranks[1]
    assert [found.other for found in one.hits] == [ranks[1].get(name) for name in ranks[0]]
    assert [found.other for found in other.hits] == [ranks[0].get(name) for name in ranks[1]]


def test_hits_are_bounded(published: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "MOST_HITS", 2)
    (only,) = ask(str(published.file), QUESTION, [Side(live(published))], 100)
    assert [found.rank for found in only.hits] == [1, 2]


def test_what_one_side_cannot_answer_is_its_own_problem(published: Workspace) -> None:
    sides = [Side(live(published), "image"), Side(live(published), "bm25")]
    image, words = ask(str(published.file), QUESTION, sides, 5)
    assert "embeddings.image" in image.problem
    assert words.hits
    assert {found.other for found in words.hits} == {None}
    (gone,) = ask(str(published.file), QUESTION, [Side("20200101T000000Z-00000000")], 5)
    assert "there is no version" in gone.problem


@pytest.mark.slow
def test_two_versions_at_most_are_open(published: Workspace, tmp_path: Path) -> None:
    versions = [live(published)]
    for number, title in enumerate(("hand drill", "band saw"), start=7):
        write_manual(tmp_path / "pdfs" / f"{title}.pdf", title, seed=number)
        assert refresh(published).published
        versions.append(live(published))
    file = str(published.file)
    for version in versions:
        assert ask(file, "How many bar does the band saw take?", [Side(version, "bm25")], 5)[0].problem == ""
    (corpus,) = comparison._open.values()
    assert list(corpus._open) == versions[1:]
    old, new = ask(file, "the band saw", [Side(versions[0], "bm25"), Side(versions[2], "bm25")], 5)
    assert new.hits[0].hit.source == "band saw.pdf"
    assert new.hits[0].other is None
    assert "band saw.pdf" not in {found.hit.source for found in old.hits}


def test_one_corpus_is_open_and_read_again_when_its_file_changes(published: Workspace) -> None:
    file = published.file
    (first,) = ask(str(file), QUESTION, [Side(live(published))], 1)
    file.write_text(file.read_text() + "retrieval: {preset: bm25}\n")
    (second,) = ask(str(file), QUESTION, [Side(live(published))], 1)
    assert (first.preset, second.preset) == ("pages", "bm25")
    assert len(comparison._open) == 1


def test_presets_are_listed_without_a_store(folder: Path) -> None:
    write_corpus(folder, "pumps", more="retrieval: {preset: bm25}\n")
    names = [preset.name for preset in listed_presets(str(folder / "corpora" / "pumps.yaml"))]
    assert names[0] == "bm25"
    assert len(names) == len(set(names)) > 5
