"""What a source does while a refresh runs, and what can't be read of it: it costs what it touches, and nothing for good."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pymupdf
import pytest

from backends.pdf.document import MuPdfDocument, open_document
from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.records.evidence import evidence_parts
from pipeline.records.manifests import manifests
from pipeline.records.publication import read_pointer
from pipeline.run import RefreshRun, is_refused, refresh
from pipeline.stages.plan import plan
from pipeline.stages.publish import make_live
from ray_jobs import enrich
from schemas.documents import ParsedDocument
from schemas.errors import BadInputError, FailureCode, TransientError, UserError
from schemas.ids import sha256
from schemas.reports import RefreshResult
from schemas.stages import Report
from schemas.versions import RunOptions
from tests.manuals import write_manual, write_scan
from tests.pdf_makers import write_every_kind
from tests.pipeline.conftest import write_corpus


def _after_plan(do: Callable[[], object]) -> Report:
    def report(step: str, done: int, total: int, _spent: str = "") -> None:
        if (step, done) == ("plan", 1):
            do()

    return report


def _left_out(result: RefreshResult) -> dict[str, FailureCode]:
    return {failure.source: failure.code for failure in result.failures}


@pytest.fixture
def pdfs(published: Workspace) -> Path:
    return Path(published.corpus.source)


@pytest.mark.parametrize("ceiling", [0.1, 0.9], ids=["refused", "published"])
def test_a_file_that_was_missing_for_a_moment_is_back_with_the_next_refresh(
    published: Workspace, pdfs: Path, tmp_path: Path, ceiling: float
) -> None:
    workspace = open_workspace(str(write_corpus(tmp_path, f"gates: {{max_quarantined: {ceiling}}}\n")))
    crane, aside = write_manual(pdfs / "crane.pdf", "tower crane", seed=7), tmp_path / "crane.pdf"
    first = refresh(workspace, report=_after_plan(lambda: crane.rename(aside)))
    assert _left_out(first) == {"crane.pdf": FailureCode.SOURCE_CHANGED}
    assert is_refused(workspace, first) == (ceiling < 0.5)
    aside.rename(crane)
    second = refresh(workspace)
    assert second.published
    assert second.version != first.version
    assert (second.counts.documents, second.counts.quarantined) == (3, 0)
    assert refresh(workspace).version == second.version


def test_a_file_that_became_unreadable_is_in_quarantine_as_long_as_it_is(
    published: Workspace, pdfs: Path, tmp_path: Path
) -> None:
    workspace = open_workspace(str(write_corpus(tmp_path, "gates: {max_quarantined: 0.9}\n")))
    crane, aside = write_manual(pdfs / "crane.pdf", "tower crane", seed=7), tmp_path / "crane.pdf"

    def spoil() -> None:
        crane.rename(aside)
        crane.symlink_to(crane)

    disturbed = refresh(workspace, report=_after_plan(spoil))
    assert _left_out(disturbed) == {"crane.pdf": FailureCode.SOURCE_UNREADABLE}
    (pdfs / "nowhere.pdf").symlink_to("gone.pdf")
    planned = refresh(workspace)
    assert planned.published
    assert _left_out(planned) == dict.fromkeys(("crane.pdf", "nowhere.pdf"), FailureCode.SOURCE_UNREADABLE)
    assert (planned.counts.documents, planned.counts.quarantined) == (2, 2)
    for replay in (False, True):
        again = refresh(workspace, options=RunOptions(replay=replay))
        assert (again.version, again.published) == (planned.version, False), "nothing is new"
    crane.unlink()
    aside.rename(crane)
    (pdfs / "nowhere.pdf").unlink()
    assert _left_out(refresh(workspace)) == {}


def test_a_subfolder_that_can_not_be_listed_changes_nothing(published: Workspace, pdfs: Path) -> None:
    working_directory = Path.cwd()
    try:
        os.chdir(pdfs)
        for _ in range(20):  # deeper than a path may be long, which stops root too
            Path("d" * 250).mkdir()
            os.chdir("d" * 250)
    finally:
        os.chdir(working_directory)
    for run in (lambda: refresh(published), RefreshRun(published, "run-1").plan):
        with pytest.raises(TransientError, match="can't be listed: File name too long"):
            run()


def test_a_source_that_is_gone_is_an_outage_once_it_was_there(published: Workspace, pdfs: Path, corpus_file: Path) -> None:
    pdfs.rename(pdfs.with_name("unmounted"))
    for run in (lambda: refresh(published), RefreshRun(published, "run-1").plan):
        with pytest.raises(TransientError, match="is not a folder; put your PDFs there"):
            run()
    write_corpus(corpus_file.parent.parent, "store: ../new\n")
    with pytest.raises(UserError, match="is not a folder"):
        refresh(open_workspace(str(corpus_file)))


def test_an_empty_listing_builds_no_version_of_a_corpus_that_is_live(published: Workspace, pdfs: Path) -> None:
    before = published.store.names("")
    for file in pdfs.iterdir():
        file.rename(file.with_suffix(".aside"))
    with pytest.raises(TransientError, match="lists no document, but 2 are live"):
        refresh(published)
    assert published.store.names("") == before


def test_documents_that_vanish_from_the_source_refuse_a_version(published: Workspace, pdfs: Path) -> None:
    for number, name in enumerate(("belt", "crane", "drill"), 5):
        write_manual(pdfs / f"{name}.pdf", f"{name} drive", seed=number)
    live = refresh(published).version
    for name in ("belt", "crane", "drill"):
        (pdfs / f"{name}.pdf").unlink()
    result = refresh(open_workspace(str(write_corpus(pdfs.parent, "gates: {max_row_loss: 1}\n"))))
    (refusal,) = [gate for gate in result.gates if not gate.passed]
    assert refusal.gate == "documents not gone"
    assert "3 of 5 documents of the live version are gone from the source (60%)" in refusal.message
    assert "belt.pdf, crane.pdf, drill.pdf" in refusal.message
    pointer = read_pointer(published.store)
    assert pointer is not None
    assert pointer.version == live
    assert make_live(published, str(result.version), override="they are sold no longer").version == result.version


def test_what_nobody_foresaw_in_a_document_costs_that_document(
    published: Workspace, pdfs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = open_workspace(str(write_corpus(tmp_path, "gates: {max_quarantined: 0.9}\n")))
    real = enrich.structure_with

    def structure_with(parsed: ParsedDocument, *rest: object) -> object:
        if parsed.lines and any("crane" in line.text for line in parsed.lines):
            raise ZeroDivisionError("of no columns\n\x1b[31m")
        return real(parsed, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(enrich, "structure_with", structure_with)
    write_manual(pdfs / "crane.pdf", "tower crane", seed=7)
    result = refresh(workspace)
    assert result.published
    (failure,) = result.failures
    assert (failure.source, failure.step, failure.code) == ("crane.pdf", "structure", FailureCode.CRASHED)
    assert failure.message == r"structuring it failed: ZeroDivisionError: of no columns\n\x1b[31m"
    assert (result.counts.documents, result.counts.quarantined) == (2, 1)
    for replay in (False, True):
        again = refresh(workspace, options=RunOptions(replay=replay))
        assert (again.version, again.published) == (result.version, False)
    monkeypatch.undo()
    assert refresh(workspace, options=RunOptions(replay=True)).counts.quarantined == 0


def test_a_replay_that_changes_nothing_drops_nothing_that_is_new(published: Workspace, pdfs: Path, tmp_path: Path) -> None:
    workspace = open_workspace(str(write_corpus(tmp_path, "gates: {max_quarantined: 0.9}\n")))
    (pdfs / "page.pdf").write_bytes(b"<html>")
    assert refresh(workspace).published
    write_manual(pdfs / "crane.pdf", "tower crane", seed=7)
    replayed = refresh(workspace, options=RunOptions(replay=True))
    assert replayed.published
    assert (replayed.counts.documents, replayed.counts.quarantined) == (3, 1)


def test_a_corpus_whose_store_would_be_listed_is_refused(corpus_file: Path) -> None:
    write_corpus(corpus_file.parent.parent, "store: ../pdfs\n")
    with pytest.raises(UserError, match=r"manuals\.yaml: source .* and store .* overlap"):
        open_workspace(str(corpus_file))


def test_a_source_that_falls_back_to_an_earlier_version_is_compared_with_the_live_one(
    published: Workspace, pdfs: Path, tmp_path: Path
) -> None:
    added = [write_manual(pdfs / f"crane{number}.pdf", "tower crane", seed=10 + number) for number in range(3)]
    live = refresh(published)
    assert live.published
    for path in added:
        path.rename(tmp_path / path.name)
    fallen = refresh(published)
    assert is_refused(published, fallen), "though a version of the same documents was published before"
    (message,) = [gate.message for gate in fallen.gates if gate.gate == "documents not gone"]
    assert "crane0.pdf, crane1.pdf, crane2.pdf" in message
    pointer = read_pointer(published.store)
    assert pointer is not None
    assert pointer.version == live.version
    assert refresh(published).version == fallen.version, "refused once, and not built again"


def test_half_of_a_small_corpus_doesnt_vanish_unseen(published: Workspace, pdfs: Path) -> None:
    for number, name in enumerate(("belt", "crane"), 5):
        write_manual(pdfs / f"{name}.pdf", f"{name} drive", seed=number)
    assert refresh(published).published
    for name in ("belt", "crane"):
        (pdfs / f"{name}.pdf").unlink()
    result = refresh(open_workspace(str(write_corpus(pdfs.parent, "gates: {max_row_loss: 1}\n"))))
    (refusal,) = [gate for gate in result.gates if not gate.passed]
    assert "2 of 4 documents of the live version are gone from the source (50%)" in refusal.message


def _encrypted(path: Path) -> None:
    with pymupdf.open(path) as document:
        data = document.tobytes(encryption=pymupdf.PDF_ENCRYPT_AES_256, user_pw="secret", owner_pw="owner")
    path.write_bytes(data)


def _unreadable(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


_BAD_FILES: dict[FailureCode, Callable[[Path], object]] = {
    FailureCode.NEEDS_PASSWORD: _encrypted,
    FailureCode.NOT_A_PDF: lambda path: path.write_text("<html>moved</html>"),
    FailureCode.EMPTY_FILE: lambda path: path.write_bytes(b""),
    FailureCode.UNREADABLE: lambda path: path.write_bytes(b"%PDF-1.7\nnothing"),
    FailureCode.PAGE_LIMIT: lambda path: write_manual(path, "long belt", seed=9, pages=4),
    FailureCode.SOURCE_UNREADABLE: _unreadable,
    FailureCode.CRASHED: lambda path: write_manual(path, "unforeseen drill", seed=9),
}


@pytest.mark.slow
def test_a_bad_file_of_any_kind_keeps_the_last_good_reading(
    published: Workspace, pdfs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PASSWORDS", "")
    settings = "gates: {max_partly_read: 0.9, max_row_loss: 0.1}\n"
    parse = "parse: {workers: 2, layout: never, max_pages: 3, passwords_env: PASSWORDS}"
    file = write_corpus(tmp_path, settings)
    file.write_text(file.read_text().replace("parse: {workers: 2, layout: never}", parse))
    workspace, sources = open_workspace(str(file)), {f"{code}.pdf": code for code in _BAD_FILES}
    for number, source in enumerate(sources, 3):
        write_manual(pdfs / source, f"{source} drive", seed=number)
    good = refresh(workspace)
    assert good.published
    documents, real = _documents(workspace), enrich.structure_with

    def structure_with(parsed: ParsedDocument, *rest: object) -> object:
        if any("unforeseen drill" in line.text for line in parsed.lines):
            raise ZeroDivisionError
        return real(parsed, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(enrich, "structure_with", structure_with)
    for source, code in sources.items():
        _BAD_FILES[code](pdfs / source)
    result = refresh(workspace)
    assert result.published
    assert _left_out(result) == dict.fromkeys(sources, FailureCode.EARLIER_KEPT)
    assert all(f"({sources[failure.source]}: " in failure.message for failure in result.failures)
    assert (_documents(workspace), result.counts.partly_read) == (documents, len(sources))

    assert not refresh(workspace).published, "nothing is new"
    write_manual(pdfs / "belt.pdf", "belt drive", seed=30)
    parsed = plan(workspace, "plan").summary
    assert (parsed.to_parse, parsed.changed, parsed.new) == (1, 0, 1), "what failed isn't tried again by itself"
    assert _left_out(refresh(workspace)) == _left_out(result)
    monkeypatch.setenv("PASSWORDS", "secret")
    replayed = refresh(workspace, options=RunOptions(replay=True))
    assert _left_out(replayed) == {
        source: code for source, code in _left_out(result).items() if source != "needs_password.pdf"
    }
    accepted = refresh(workspace, options=RunOptions(accept=["not_a_pdf.pdf"]))
    assert _left_out(accepted)["not_a_pdf.pdf"] is FailureCode.NOT_A_PDF
    (pdfs / "source_unreadable.pdf").unlink()
    back = write_manual(pdfs / "source_unreadable.pdf", "drive that is back", seed=31)
    assert "source_unreadable.pdf" not in _left_out(refresh(workspace))
    assert sha256(back.read_bytes()) in _documents(workspace)


@pytest.mark.slow
def test_a_scan_without_words_waits_for_a_person(published: Workspace, pdfs: Path) -> None:
    before = _documents(published)
    write_scan(pdfs / "pump.pdf", "water pump")
    result = refresh(published)
    assert (result.published, _documents(published)) == (True, before)
    (failure,) = result.failures
    assert failure.code is FailureCode.EARLIER_KEPT
    assert re.match(
        r"the file has .*0 of \d+ words.* that it had: the document before, of 2 pages, is kept", failure.message
    )
    accepted = refresh(published, options=RunOptions(accept=["pump.pdf"]))
    assert accepted.published
    assert {failure.code for failure in accepted.failures} == {FailureCode.NEEDS_OCR}
    assert not refresh(published).published, "what was accepted stays"


@pytest.mark.slow
def test_no_cut_of_a_file_passes_for_the_whole(tmp_path: Path) -> None:
    files = write_every_kind(tmp_path)
    assert len(files) >= 20
    for file in files:
        data = file.read_bytes()
        parsed = _read(data)
        assert parsed is not None, file
        for percent in range(5, 100, 2):
            cut = _read(data[: len(data) * percent // 100])
            assert cut is None or set(cut.doubts()) - set(parsed.doubts()), f"{file.name} cut at {percent} %"


def _read(data: bytes) -> MuPdfDocument | None:
    """Return a PDF whose every page was read; None where one can't be."""
    try:
        document = open_document(data)
        for number in range(1, document.page_count + 1):
            document.read_page(number)
    except BadInputError:
        return None
    return document


@pytest.mark.slow
@pytest.mark.parametrize(
    ("share", "lost"),
    [(0.7, "1 pages can't be read any more"), (0, "the file gives no document (empty_file: the file is empty)")],
)
def test_a_half_copied_file_keeps_its_last_good_reading_until_it_is_whole(
    published: Workspace, pdfs: Path, share: float, lost: str
) -> None:
    pump = pdfs / "pump.pdf"
    original_pdf = pump.read_bytes()
    before = manifests(published.store)[0].counts
    replacement_pdf = write_manual(pdfs.parent / "pump.pdf", "water pump with a filter", seed=9).read_bytes()
    pump.write_bytes(replacement_pdf[: int(len(replacement_pdf) * share)])
    write_manual(pdfs / "crane.pdf", "tower crane", seed=7)
    first = refresh(published)
    assert first.published
    (failure,) = first.failures
    assert (failure.source, failure.code) == ("pump.pdf", FailureCode.EARLIER_KEPT)
    assert failure.message == f"{lost}: the document before, of 2 pages, is kept"
    assert (first.counts.documents, first.counts.partly_read, first.counts.quarantined) == (3, 1, 0)
    assert first.counts.figures == before.figures + 2, "those of the crane are added, and none is lost"
    assert sha256(original_pdf) in _documents(published)

    assert not refresh(published).published, "nothing is new"
    write_manual(pdfs / "belt.pdf", "belt drive", seed=8)
    second = refresh(published)
    assert _left_out(second) == {"pump.pdf": FailureCode.EARLIER_KEPT}, "it stays kept while others change"
    assert sha256(original_pdf) in _documents(published)

    pump.write_bytes(replacement_pdf)
    third = refresh(published)
    assert (_left_out(third), third.counts.partly_read) == ({}, 0)
    assert sha256(replacement_pdf) in _documents(published)
    assert sha256(original_pdf) not in _documents(published)


def test_a_person_accepts_what_can_be_read(published: Workspace, pdfs: Path) -> None:
    pump = pdfs / "pump.pdf"
    cut = pump.read_bytes()[: int(pump.stat().st_size * 0.7)]
    pump.write_bytes(cut)
    assert _left_out(refresh(published)) == {"pump.pdf": FailureCode.EARLIER_KEPT}
    with pytest.raises(UserError, match=r"no earlier document is kept for winch\.pdf"):
        refresh(published, options=RunOptions(accept=["winch.pdf"]))
    accepted = refresh(published, options=RunOptions(accept=["pump.pdf"]))
    assert accepted.published
    assert _left_out(accepted) == {"pump.pdf": FailureCode.DAMAGED}
    assert accepted.counts.partly_read == 1
    assert sha256(cut) in _documents(published)
    write_manual(pdfs / "belt.pdf", "belt drive", seed=8)
    assert _left_out(refresh(published)) == {"pump.pdf": FailureCode.DAMAGED}, "what was accepted stays"


def test_a_kept_document_is_read_again_when_parsing_changes(published: Workspace, pdfs: Path) -> None:
    pump = pdfs / "pump.pdf"
    original_pdf = pump.read_bytes()
    pump.write_bytes(original_pdf[: int(len(original_pdf) * 0.7)])
    assert _left_out(refresh(published)) == {"pump.pdf": FailureCode.EARLIER_KEPT}
    published.file.write_text(published.file.read_text().replace("layout: never", "layout: every_page"))
    later = open_workspace(str(published.file))
    assert refresh(later).published
    assert sha256(original_pdf) in _documents(later)


def test_partly_read_documents_refuse_a_version_above_a_bound(published: Workspace, pdfs: Path) -> None:
    for number, subject in enumerate(("belt", "crane", "drill"), 5):
        file = write_manual(pdfs / f"{subject}.pdf", f"{subject} drive", seed=number)
        file.write_bytes(file.read_bytes()[: int(file.stat().st_size * 0.7)])
    result = refresh(published)
    assert is_refused(published, result)
    (refusal,) = [gate for gate in result.gates if not gate.passed]
    assert (refusal.gate, refusal.value) == ("documents read in full", 0.6)
    assert "3 of 5 documents are partly read (60%), 50% allowed; to see which: inset quarantine manuals" in refusal.message
    assert refresh(open_workspace(str(write_corpus(pdfs.parent, "gates: {max_partly_read: 0.6}\n")))).published


def _documents(workspace: Workspace) -> set[str]:
    """Return the ids of the documents in the live version's rows."""
    pointer = read_pointer(workspace.store)
    assert pointer is not None
    return {str(name) for part in evidence_parts(workspace.store, pointer.version) for name in part["doc_id"].to_pylist()}
