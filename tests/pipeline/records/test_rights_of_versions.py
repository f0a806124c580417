"""Rights hold at once for every kept version, rows carry those of their build, and refreshes bring rows up to date."""

from pathlib import Path

import pytest

from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.records.access import access_report, read_current, read_rights, update_rights
from pipeline.records.columns import rights_of_rows
from pipeline.records.ledger import indexed_sources, read_ledger
from pipeline.run import refresh
from pipeline.stages.publish import roll_back_version
from schemas.errors import UserError
from schemas.filters import NO_FILTERS, ReaderFilters
from tests.manuals import write_manual


def seen(workspace: Workspace, version: str | None, *mine: str) -> set[str]:
    """Return the sources whose rows a reader finds, by the index alone."""
    assert version is not None
    sources = indexed_sources(read_ledger(workspace.store, version))
    now = read_rights(workspace.store, read_current(workspace.store).digest)
    allowed = now.seen_by(frozenset(mine), rights_of_rows(workspace.store, version), sources)
    index = workspace.index(version)
    names = [name for name, _ in index.bm25("screws the of pump winch drill", 99, ReaderFilters.of(NO_FILTERS, allowed))]
    return {str(source) for row in index.fetch(names) for source in row["sources"]}  # type: ignore[attr-defined]


@pytest.mark.slow
def test_a_right_withdrawn_holds_for_every_version_and_a_refresh_brings_rows_up_to_date(corpus_file: Path) -> None:
    table = corpus_file.parent / "access.csv"
    table.write_text("source,principals\n*,group:service\nwinch.pdf,everyone\n")
    plain = corpus_file.read_text()
    before = refresh(open_workspace(str(corpus_file)))
    corpus_file.write_text(f"{plain}access: {{table: access.csv}}\n")
    workspace = open_workspace(str(corpus_file))
    # A version of before has no rights in its rows, so the next refresh builds another at once.
    first = refresh(workspace)
    assert (first.published, first.version != before.version) == (True, True)
    for version in (before.version, first.version):
        assert seen(workspace, version) == {"winch.pdf"}
        assert seen(workspace, version, "group:service") == {"pump.pdf", "winch.pdf"}
    write_manual(corpus_file.parent.parent / "pdfs" / "drill.pdf", "Drill", seed=9)
    for number in range(9):
        write_manual(corpus_file.parent.parent / "pdfs" / f"more{number}.pdf", f"More {number}", seed=20 + number)
    second = refresh(open_workspace(str(corpus_file)))
    assert seen(workspace, second.version, "group:service") > {"drill.pdf"}
    table.write_text("source,principals\n*,group:service\nwinch.pdf,\n")
    assert update_rights(workspace, by="ada")[1] == 1
    for version in (before.version, first.version, second.version):
        assert seen(workspace, version) == set()
    roll_back_version(workspace, None)
    assert seen(workspace, first.version, "group:service") == {"pump.pdf"}
    assert "winch.pdf" not in seen(workspace, second.version, "group:service")
    report = access_report(workspace, None, ["w*"])
    assert [(row.source, row.principals, row.why) for row in report.sources] == [("winch.pdf", [], f"{table}: line 3")]


@pytest.mark.slow
def test_one_changed_right_waits_for_a_build_and_more_than_a_tenth_don_t(corpus_file: Path) -> None:
    pdfs, table = corpus_file.parent.parent / "pdfs", corpus_file.parent / "access.csv"
    for number in range(10):
        write_manual(pdfs / f"more{number}.pdf", f"More {number}", seed=20 + number, pages=1)
    table.write_text("source,principals\n*,everyone\n")
    corpus_file.write_text(f"{corpus_file.read_text()}access: {{table: access.csv}}\n")
    first = refresh(open_workspace(str(corpus_file)))
    table.write_text("source,principals\n*,everyone\nmore1.pdf,group:a\n")
    unchanged = refresh(open_workspace(str(corpus_file)))
    assert unchanged.version == first.version
    workspace = open_workspace(str(corpus_file))
    assert "more1.pdf" not in seen(workspace, first.version)
    write_manual(pdfs / "drill.pdf", "Drill", seed=9)
    derived = refresh(open_workspace(str(corpus_file)))
    rows = rights_of_rows(workspace.store, str(derived.version))
    assert rows is not None
    assert rows.changed_since(read_rights(workspace.store, read_current(workspace.store).digest)) == []
    assert "more1.pdf" not in seen(workspace, derived.version)
    assert "more1.pdf" in seen(workspace, derived.version, "group:a")
    table.write_text("source,principals\n*,everyone\nmore1.pdf,group:a\nmore2.pdf,group:a\nmore3.pdf,group:a\n")
    assert refresh(open_workspace(str(corpus_file))).version != derived.version
    table.write_text("source,principals\n*,nobody at all\n")
    with pytest.raises(UserError, match="line 2: 'nobody at all' names nobody"):
        refresh(open_workspace(str(corpus_file)))


def test_the_narrowest_right_of_a_document_s_places_counts(corpus_file: Path) -> None:
    pdfs, table = corpus_file.parent.parent / "pdfs", corpus_file.parent / "access.csv"
    (pdfs / "secret").mkdir()
    (pdfs / "secret" / "copy.pdf").write_bytes((pdfs / "winch.pdf").read_bytes())
    table.write_text("source,principals\n*,everyone\nsecret/*,group:service\n")
    corpus_file.write_text(f"{corpus_file.read_text()}access: {{table: access.csv}}\n")
    result = refresh(open_workspace(str(corpus_file)))
    workspace = open_workspace(str(corpus_file))
    assert seen(workspace, result.version) == {"pump.pdf"}
    assert seen(workspace, result.version, "group:service") == {"pump.pdf", "winch.pdf", "secret/copy.pdf"}
