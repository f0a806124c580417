"""A law that some documents break costs those documents, and the version holds the law without them."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import tasks.enriching.chunk
from backends.stores.document_files import StructuredDocumentFile
from backends.stores.temporary_tables import TemporaryTables
from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.records import row_parts
from pipeline.records.ledger import read_ledger
from pipeline.records.manifests import refusals_of
from pipeline.records.publication import read_pointer
from pipeline.run import RefreshRun, is_refused, refresh
from pipeline.run_log import log_note
from pipeline.stages.plan import plan
from pipeline.upkeep.discard import find_damage
from ray_jobs import enrich
from schemas.documents import Chunk, Region, StructuredDocument
from schemas.errors import FailureCode
from schemas.evidence import EVIDENCE, VersionRows
from schemas.geometry import BBox
from schemas.ports import ObjectStore
from schemas.reports import RefreshResult
from schemas.stages import ON_A_VERSION, Stage
from schemas.tags import placeholder
from schemas.versions import RunOptions
from tests.manuals import write_manual
from tests.pipeline.conftest import write_corpus
from tests.versions import read_evidence

Spoil = Callable[[Chunk], list[Chunk]]


def _on(page: int, modality: str, spoil: Spoil) -> Spoil:
    """Spoil the chunks of one kind on one page."""
    return lambda piece: spoil(piece) if (piece.regions[0].page, piece.modality) == (page, modality) else [piece]


def _without_text(piece: Chunk) -> list[Chunk]:
    return [replace(piece, text=None)]  # type: ignore[arg-type]


_FAULTS: dict[str, tuple[Spoil, str]] = {
    "figure row": (_on(2, "figure", lambda _: []), "figures conserved: a figure has no row (page 2)"),
    "page": (
        lambda piece: [] if piece.regions[0].page == 1 else [piece],
        "pages conserved: a page has words and no row (page 1)",
    ),
    "tag": (_on(2, "text", lambda piece: [replace(piece, tagged_text=piece.text)]), "written 0 times (page 2)"),
    "mention": (
        _on(1, "text", lambda piece: [replace(piece, figure_refs=("f" * 64,))]),
        "tags resolve: figure ffffffffffff leads nowhere (page 1)",
    ),
    "stranger": (
        _on(2, "text", lambda piece: [replace(piece, tagged_text=piece.tagged_text + placeholder("e" * 64))]),
        "tags resolve: a tag is broken (page 2)",
    ),
    "box": (
        _on(1, "figure", lambda piece: [replace(piece, regions=(Region(1, BBox(9, 9, 1, 19)),))]),
        "rows: a box has a width: a row breaks it (page 1)",
    ),
    "place": (_on(2, "figure", lambda piece: [replace(piece, regions=())]), "rows: a row has a region: a row breaks it"),
}
"""What a bug of ours may make of a document's rows, and what is said of it."""


def _let_chunks_be_spoiled(monkeypatch: pytest.MonkeyPatch, faults: dict[str, Spoil]) -> None:
    """Bring a bug in: the chunks of a manual about something come out spoiled."""
    real = tasks.enriching.chunk.chunk

    def chunk(document: StructuredDocument, *rest: object, **options: object) -> Sequence[Chunk]:
        pieces: Sequence[Chunk] = real(document, *rest, **options)  # type: ignore[arg-type]
        name = document.title.lower().removesuffix(" manual")
        return [spoiled for piece in pieces for spoiled in faults[name](piece)] if name in faults else pieces

    monkeypatch.setattr(enrich, "chunk", chunk)


def _opened(folder: Path, ceiling: float, settings: str = "") -> Workspace:
    return open_workspace(str(write_corpus(folder, f"gates: {{max_quarantined: {ceiling}}}\n{settings}")))


def _refusals(result: RefreshResult) -> list[str]:
    return [gate.gate for gate in result.gates if not gate.passed]


@pytest.mark.slow
def test_each_document_that_breaks_a_law_costs_itself_and_comes_back_with_the_fix(
    published: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = _opened(tmp_path, 0.9)
    for seed, name in enumerate(_FAULTS, 10):
        write_manual(tmp_path / "pdfs" / f"{name}.pdf", name, seed=seed)
    _let_chunks_be_spoiled(monkeypatch, {name: spoil for name, (spoil, _) in _FAULTS.items()})
    result = refresh(workspace)
    assert result.published
    assert _refusals(result) == []
    assert (result.counts.documents, result.counts.quarantined) == (2, len(_FAULTS))
    failures_by_name = {failure.source.removesuffix(".pdf"): failure for failure in result.failures}
    assert failures_by_name.keys() == _FAULTS.keys()
    for name, (_, message) in _FAULTS.items():
        failure = failures_by_name[name]
        assert (failure.code, failure.step, failure.page) == (FailureCode.LAW_BROKEN, "check", None)
        assert message in failure.message
        assert failure.message.endswith("this is a fault of Inset: please report it")
        assert (failure.doc_id or "")[:12] not in failure.message
    rows = read_evidence(workspace.store, result.version or "")
    assert {row["sources"][0] for row in rows.to_pylist()} == {"pump.pdf", "winch.pdf"}

    assert plan(workspace, "plan").outcome == "unchanged"
    for replay in (False, True):
        again = refresh(workspace, options=RunOptions(replay=replay))
        assert (again.version, again.published) == (result.version, False), "nothing is new, nor does trying again help"
    assert workspace.store.folders("versions")[-1] == result.version
    monkeypatch.undo()
    assert refresh(workspace).version == result.version, "it is tried again when it changes, or on replay"
    fixed = refresh(workspace, options=RunOptions(replay=True))
    assert (fixed.published, fixed.counts.documents, fixed.counts.quarantined) == (True, 2 + len(_FAULTS), 0)
    anew = _opened(tmp_path, 0.9, "store: ../other\n")
    assert read_evidence(anew.store, refresh(anew).version or "") == read_evidence(workspace.store, fixed.version or "")


@pytest.mark.slow
def test_only_the_ceiling_refuses_and_it_names_the_source(
    published: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    workspace = _opened(tmp_path, 0.0)
    write_manual(tmp_path / "pdfs" / "crane.pdf", "tower crane", seed=7)
    _let_chunks_be_spoiled(monkeypatch, {"tower crane": _FAULTS["figure row"][0]})
    run = RefreshRun(workspace, "run-1")
    planned = run.plan()
    run.parse(planned.version, [0])
    with caplog.at_level(logging.INFO):
        for stage in ON_A_VERSION:
            log_note(stage, run.work(stage, planned.version))
    warned = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert [message[:33] for message in warned] == ["quarantine: crane.pdf: law_broken"]
    again = run.work(Stage.CHECK, planned.version)
    assert [(failure.source, failure.code) for failure in again.failures] == [("crane.pdf", FailureCode.LAW_BROKEN)]
    assert not run.publish(planned.version)
    run.release()
    (reason,) = refusals_of(run.finish(planned.version))
    run.release()
    assert (
        "quarantine ceiling: 1 of 3 documents are in quarantine (33%); the ceiling is 0%: crane.pdf (law_broken)" in reason
    )
    assert "inset quarantine manuals" in reason

    result = refresh(workspace)
    assert (result.version, is_refused(workspace, result)) == (planned.version, True), "it is not built again"
    assert _refusals(result) == ["quarantine ceiling"]
    monkeypatch.undo()
    fixed = refresh(workspace, options=RunOptions(replay=True))
    assert (fixed.published, fixed.counts.documents) == (True, 3)
    assert find_damage(workspace, deep=True) == {}


@pytest.mark.slow
def test_a_document_of_the_live_version_that_breaks_a_law_leaves_it_and_comes_back(
    published: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = _opened(tmp_path, 0.5, "tags: {template: paper}\n")
    (winch,) = (row.doc_id for row in read_ledger(published.store, _live(published)) if row.source == "winch.pdf")
    real = vars(StructuredDocumentFile)["chunks"].__get__

    def chunks(document: StructuredDocumentFile) -> tuple[Chunk, ...]:
        pieces = real(document, StructuredDocumentFile)
        return tuple(piece for piece in pieces if winch not in document.file or piece.modality != "figure")

    monkeypatch.setattr(StructuredDocumentFile, "chunks", property(chunks), raising=False)
    result = refresh(workspace)
    assert result.published
    assert [(failure.source, failure.code) for failure in result.failures] == [("winch.pdf", FailureCode.LAW_BROKEN)]
    assert "a figure has no row (pages 1, 2)" in result.failures[0].message
    monkeypatch.undo()
    fixed = refresh(workspace, options=RunOptions(replay=True))
    assert (fixed.published, fixed.counts.quarantined) == (True, 0)
    assert find_damage(workspace, deep=True) == {}, "what earlier versions need is still there"


@pytest.mark.slow
def test_a_changed_document_that_breaks_a_law_keeps_the_reading_before_it(
    published: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = read_evidence(published.store, _live(published))
    write_manual(tmp_path / "pdfs" / "winch.pdf", "place", seed=9)
    _let_chunks_be_spoiled(monkeypatch, {"place": _FAULTS["place"][0]})
    result = refresh(published)
    assert result.published
    (failure,) = result.failures
    assert (failure.source, failure.code) == ("winch.pdf", FailureCode.EARLIER_KEPT)
    assert "it breaks a law (" in failure.message
    assert read_evidence(published.store, _live(published)) == before


def test_a_row_that_is_lost_from_a_part_refuses_the_version(
    published: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = row_parts.read_part_rows

    def lose_a_row(store: ObjectStore, part: row_parts.RowPart) -> VersionRows:
        rows = real(store, part)
        return VersionRows(rows.evidence.slice(1), rows.placements)

    monkeypatch.setattr(row_parts, "read_part_rows", lose_a_row)
    write_manual(tmp_path / "pdfs" / "crane.pdf", "tower crane", seed=7)
    result = refresh(published)
    assert not result.published
    assert any(gate.gate == "documents taken over" and not gate.passed for gate in result.gates)


def test_a_row_that_can_not_be_stored_costs_its_document(
    published: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = _opened(tmp_path, 0.5)
    write_manual(tmp_path / "pdfs" / "crane.pdf", "tower crane", seed=7)
    _let_chunks_be_spoiled(monkeypatch, {"tower crane": _on(1, "text", _without_text)})
    result = refresh(workspace)
    assert result.published
    assert [(failure.source, failure.code) for failure in result.failures] == [("crane.pdf", FailureCode.CRASHED)]


@pytest.mark.slow
@pytest.mark.parametrize("spoil", [Path.unlink, lambda path: path.write_bytes(b"\x89PNG")], ids=["missing", "damaged"])
def test_figures_that_never_come_right_cost_their_documents(
    published: Workspace, tmp_path: Path, spoil: Callable[[Path], object]
) -> None:
    workspace = _opened(tmp_path, 0.5)
    write_manual(tmp_path / "pdfs" / "crane.pdf", "tower crane", seed=7)
    figures = Path(workspace.store.root) / "figures"
    before = set(figures.iterdir())

    def report(step: str, done: int, _total: int, _spent: str = "") -> None:
        if (step, done) == ("check", 1):
            for figure in set(figures.iterdir()) - before:
                spoil(figure)

    result = refresh(workspace, report=report)
    assert result.published
    (failure,) = result.failures
    assert (failure.source, failure.code) == ("crane.pdf", FailureCode.LAW_BROKEN)
    assert "figures are their names: figure" in failure.message
    assert "(page 1)" in failure.message
    assert refresh(workspace).version == result.version
    assert refresh(workspace, options=RunOptions(replay=True)).counts.quarantined == 0, "made again from its source"
    assert find_damage(workspace, deep=True) == {}


def test_a_corpus_whose_every_document_breaks_a_law_is_refused_for_that(
    corpus_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = open_workspace(str(corpus_file))
    _let_chunks_be_spoiled(monkeypatch, dict.fromkeys(("water pump", "steel winch"), _FAULTS["figure row"][0]))
    result = refresh(workspace)
    assert _refusals(result) == ["quarantine ceiling"]
    assert read_pointer(workspace.store) is None


def _live(workspace: Workspace) -> str:
    pointer = read_pointer(workspace.store)
    assert pointer is not None
    return pointer.version


def test_rows_of_a_document_that_was_taken_over_are_checked_where_they_changed(
    published: Workspace, tmp_path: Path
) -> None:
    """``assemble`` may write them again, such as for longer numbers of tags; here a bug changes a page too."""
    write_manual(tmp_path / "pdfs" / "crane.pdf", "tower crane", seed=7)
    store, run = published.store, RefreshRun(published, "run")
    planned = run.plan()
    run.parse(planned.version)
    for stage in (Stage.ENRICH, Stage.ASSEMBLE):
        run.work(stage, planned.version)
    parts, documents = row_parts.read_parts(store, planned.version), row_parts.read_documents(store, planned.version)
    assert planned.parent is not None
    assert parts is not None
    doc_id = min(row_parts.read_documents(store, planned.parent))
    ((_, rows),) = row_parts.rows_of_documents(store, planned.version, {doc_id})
    pages = pa.array([0] * rows.evidence.num_rows, pa.int32())
    evidence = rows.evidence.set_column(EVIDENCE.get_field_index("page"), EVIDENCE.field("page"), pages)
    spoiled = row_parts.new_rows([(doc_id, VersionRows(evidence, rows.placements))])
    with TemporaryTables() as tables:
        facts = row_parts.Facts(store, parts, tables)
        row_parts.write_version_rows(store, planned.version, parts, documents, {doc_id}, [spoiled], facts)
    note = run.work(Stage.CHECK, planned.version)
    run.release()
    assert all(gate.passed for gate in note.gates)
    assert note.failures == []
    assert 0 not in read_evidence(store, planned.version).column("page").to_pylist(), "made again from finished work"
