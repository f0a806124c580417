"""What the last refresh left out, by document and by code."""

from pathlib import Path

from pipeline.operations.quarantine import REMEDIES, quarantine
from pipeline.records.ledger import quarantine_file
from schemas.errors import FailureCode
from tests.pipeline.operations.corpora import REFUSES, version_name, write_corpus, write_version
from tests.pipeline.operations.sheets import failure, write_quarantine


def test_every_code_has_a_remedy() -> None:
    assert set(REMEDIES) == set(FailureCode)


def test_failures_of_one_document_that_differ_in_their_page_are_one_entry(folder: Path) -> None:
    store = write_corpus(folder, "pumps", versions=1)
    broken = [failure("b.pdf", page=page, message="the page is damaged") for page in (9, 3, 4)]
    locked = failure("z.pdf", FailureCode.NEEDS_PASSWORD)
    write_quarantine(store, version_name(0), [*broken, locked], left_out=["z.pdf"])
    quarantined = quarantine(store)
    assert quarantined is not None
    assert quarantined.documents is not None
    assert [(entry.source, entry.left_out, entry.pages) for entry in quarantined.documents] == [
        ("z.pdf", True, []),
        ("b.pdf", False, [3, 4, 9]),
    ]
    assert "parse.passwords_env" in quarantined.documents[0].remedy
    assert quarantined.codes == {FailureCode.NEEDS_PASSWORD: 1, FailureCode.DAMAGED: 1}


def test_a_document_that_failed_on_a_page_may_be_left_out_all_the_same(folder: Path) -> None:
    store = write_corpus(folder, "pumps", versions=1)
    write_quarantine(store, version_name(0), [failure("a.pdf", FailureCode.CRASHED, page=7)], left_out=["a.pdf"])
    quarantined = quarantine(store)
    assert quarantined is not None
    assert quarantined.documents is not None
    assert [(entry.left_out, entry.pages) for entry in quarantined.documents] == [(True, [7])]


def test_the_last_refresh_counts_even_if_its_version_was_refused(folder: Path) -> None:
    store = write_corpus(folder, "pumps", versions=1)
    write_quarantine(store, version_name(0), [failure("old.pdf")])
    write_quarantine(store, write_version(store, "pumps", 1, gates=[REFUSES]), [failure("new.pdf")])
    quarantined = quarantine(store)
    assert quarantined is not None
    assert quarantined.version == version_name(1)
    assert [entry.source for entry in quarantined.matching(None, "")] == ["new.pdf"]


def test_entries_are_found_by_code_and_by_part_of_the_source(folder: Path) -> None:
    store = write_corpus(folder, "pumps", versions=1)
    some = [failure("Pumps/One.pdf"), failure("pumps/two.pdf", FailureCode.CRASHED), failure("valves/one.pdf")]
    write_quarantine(store, version_name(0), some)
    quarantined = quarantine(store)
    assert quarantined is not None
    assert [entry.source for entry in quarantined.matching(FailureCode.DAMAGED, "pumps")] == ["Pumps/One.pdf"]
    assert [entry.source for entry in quarantined.matching(None, "ONE")] == ["Pumps/One.pdf", "valves/one.pdf"]


def test_an_empty_quarantine_isn_t_one_that_is_gone(folder: Path) -> None:
    store = write_corpus(folder, "pumps")
    assert quarantine(store) is None
    write_version(store, "pumps", 0)
    write_quarantine(store, version_name(0), [])
    quarantined = quarantine(store)
    assert quarantined is not None
    assert quarantined.documents == []
    store.delete(quarantine_file("run-0"))
    missing = quarantine(store)
    assert missing is not None
    assert missing.documents is None
