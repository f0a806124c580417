"""The versions of a corpus, a page at a time, and what changed between two."""

from collections import Counter
from pathlib import Path

import pytest

from pipeline.corpus.workspace import Workspace
from pipeline.operations.history import changes, history, version_names
from pipeline.records.manifests import manifest_name
from pipeline.records.notes import StageNote, write_note
from pipeline.records.publication import publish_version
from pipeline.run import refresh
from schemas.errors import UserError
from schemas.stages import Stage
from schemas.versions import Spent
from tests.manuals import write_manual
from tests.pipeline.operations.corpora import REFUSES, publish, version_name, write_corpus, write_version


def test_each_version_has_its_state(folder: Path) -> None:
    store = write_corpus(folder, "pumps", versions=2)
    publish(store, write_version(store, "pumps", 2), before=version_name(1))
    write_version(store, "pumps", 3, gates=[REFUSES])
    write_version(store, "pumps", 4)
    Path(store.root, manifest_name(version_name(4))).write_text("{")
    store.replace(f"versions/{version_name(5)}/plan.json", b"{}")
    rows = history(store, version_names(store))
    assert [row.state for row in rows] == ["unfinished", "damaged", "refused", "live", "previous", "ready"]
    assert [row.publishable for row in rows] == [False, False, True, False, True, True]
    assert "a loss of 80 %" in rows[2].refusals[0]


def test_money_is_that_of_each_run_published_or_not(folder: Path) -> None:
    store = write_corpus(folder, "pumps", versions=2)
    store.replace(f"versions/{version_name(2)}/plan.json", b"{}")
    write_note(store, version_name(2), Stage.ENRICH, StageNote(seconds=3.0, spent={"vlm": Spent(calls=4, money=2.0)}))
    assert [row.money for row in history(store, version_names(store))] == [2.0, 1.5, 1.5]


def test_an_override_says_who_and_why(folder: Path) -> None:
    store = write_corpus(folder, "pumps", versions=1)
    publish_version(store, "pumps", write_version(store, "pumps", 1, gates=[REFUSES]), override="the documents moved")
    newest = history(store, version_names(store))[0]
    assert newest.state == "live"
    assert newest.override is not None
    assert newest.override.reason == "the documents moved"


def test_a_page_of_a_hundred_versions_reads_only_its_own(folder: Path, reads: Counter[str]) -> None:
    store = write_corpus(folder, "pumps", versions=100)
    reads.clear()
    names = version_names(store)
    assert len(names) == 100
    assert reads == {}
    assert len(history(store, names[20:40])) == 20
    assert reads == {"LIVE": 1, "manifest.json": 20}


@pytest.mark.slow
def test_any_two_versions_are_compared(published: Workspace, tmp_path: Path) -> None:
    for number, title in enumerate(("hand drill", "band saw"), start=7):
        write_manual(tmp_path / "pdfs" / f"{title}.pdf", title, seed=number)
        assert refresh(published).published
    last, middle, first = version_names(published.store)
    file = str(published.file)
    assert changes(file, published.store, middle, last).documents.added == ["band saw.pdf"]
    assert changes(file, published.store, first, last).documents.added == ["band saw.pdf", "hand drill.pdf"]
    assert changes(file, published.store, last, first).documents.removed == ["band saw.pdf", "hand drill.pdf"]
    with pytest.raises(UserError, match="there is no version"):
        changes(file, published.store, first, "20200101T000000Z-00000000")
