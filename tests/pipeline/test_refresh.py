"""A whole refresh, and what later ones do again: nothing."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pymupdf
import pytest

from backends.stores import sources
from backends.stores.object_store import FolderStore
from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.published.corpus import PublishedCorpus
from pipeline.records.evidence import evidence_parts, read_placements, row_files
from pipeline.records.notes import read_notes
from pipeline.records.publication import list_versions, publish_version, read_pointer, roll_back
from pipeline.records.tagged_copies import tagged_copies
from pipeline.run import RefreshRun, is_refused, refresh
from schemas.errors import FailureCode, NotFoundError, UserError
from schemas.filters import Filters, Modality
from schemas.gates import OF_ROWS
from schemas.geometry import BBox
from schemas.reports import RefreshResult, VersionDiff
from schemas.retrieval import AnswerQuery, Query
from schemas.stages import Stage
from schemas.tags import TagTemplate
from schemas.versions import RunOptions
from tests.manuals import write_layered_scan, write_manual, write_scan
from tests.pipeline.conftest import write_corpus
from tests.published_files import document_of, figure_of, page_of, tagged_document_of
from tests.versions import read_evidence
from workers.child_processes import Refused


def _work(workspace: Workspace, result: RefreshResult) -> dict[str, int]:
    """Return how much a refresh did, by what it counted."""
    notes = read_notes(workspace.store, result.version or "")
    counted = {name: count for note in notes.values() for name, count in note.counts.items()}
    return {name: counted.get(name, 0) for name in ("parsed", "structured", "embedded", "recognised")}


def _evidence(workspace: Workspace, version: str | None) -> list[str]:
    """Return the names of a version's parts of evidence, which are digests of their bytes."""
    return row_files(workspace.store, version or "", "evidence")


def test_the_first_refresh_publishes_and_answers(corpus_file: Path) -> None:
    workspace = open_workspace(str(corpus_file))
    result = refresh(workspace)
    assert result.published
    assert [gate.message for gate in result.gates if not gate.passed] == []
    assert (result.plan.new, result.counts.documents, result.counts.pages, result.counts.tags) == (2, 2, 4, 4)
    published = PublishedCorpus(workspace)
    try:
        _answers_with_figures(published, result.version)
        _filters_hold(published)
        _pages_and_documents_are_served(published, corpus_file.parent.parent / "pdfs" / "winch.pdf")
    finally:
        published.close()


@pytest.mark.slow
def test_the_figure_of_a_scanned_page_is_found_and_tagged(tmp_path: Path) -> None:
    write_scan(tmp_path / "pdfs" / "pump.pdf", "water pump")
    file = write_corpus(tmp_path)
    assert refresh(open_workspace(str(file))).counts.partly_read == 1, "OCR is off"
    file.write_text(file.read_text().replace("ocr: none", "ocr: rapidocr"))
    workspace = open_workspace(str(file))
    first = refresh(workspace)
    assert (first.published, first.counts.partly_read, first.counts.tags) == (True, 0, 1)
    placements = read_placements(workspace.store, first.version or "").to_pylist()
    assert [(placement["role"], placement["tag"] is None) for placement in placements] == [
        ("page_scan", True),
        ("content", False),
    ]
    figure = BBox(*placements[1]["bbox"])
    assert figure.iou(BBox(180, 300, 420, 460)) > 0.8
    assert workspace.store.get(f"figures/{placements[1]['figure_id']}.png").startswith(b"\x89PNG")
    file.write_text(file.read_text() + "chunks: {tokens: 64}\n")
    again = refresh(open_workspace(str(file)))
    counts = read_notes(workspace.store, again.version or "")[Stage.ENRICH].counts
    assert (counts["structured"], counts["recognised"]) == (1, 0), "a change behind it costs no OCR"


@pytest.mark.slow
def test_a_picture_may_be_a_scanned_page_in_another_document(tmp_path: Path) -> None:
    scan = write_scan(tmp_path / "scan.pdf", "water pump")
    (tmp_path / "pdfs").mkdir()
    with pymupdf.open(scan) as scanned, pymupdf.open() as document:
        picture = scanned.extract_image(scanned[0].get_images()[0][0])["image"]
        page = document.new_page()
        page.insert_textbox((72, 72, 520, 300), "The manual of the pump had a page with a drawing. " * 20)
        page.insert_image((150, 320, 450, 720), stream=picture)
        document.save(tmp_path / "pdfs" / "history.pdf")
    file = write_corpus(tmp_path)
    file.write_text(file.read_text().replace("ocr: none", "ocr: rapidocr"))
    corpus_file = str(file)
    assert refresh(open_workspace(corpus_file)).counts.tags == 1
    scan.rename(tmp_path / "pdfs" / "scan.pdf")
    workspace = open_workspace(corpus_file)
    placements = read_placements(workspace.store, refresh(workspace).version or "").to_pylist()
    assert sorted(placement["role"] for placement in placements) == ["content", "content", "page_scan"]
    shared = {placement["figure_id"] for placement in placements if placement["role"] == "page_scan"}
    assert sum(placement["figure_id"] in shared for placement in placements) == 2, "both documents hold the same picture"


@pytest.mark.slow
def test_ocr_replaces_a_poor_text_layer_once(tmp_path: Path) -> None:
    misread = str.maketrans({"e": "c", "m": "rn", "l": "1", "a": "o"})
    write_layered_scan(tmp_path / "pdfs" / "good.pdf", "steel winch", str)
    write_layered_scan(tmp_path / "pdfs" / "poor.pdf", "water pump", lambda words: words.translate(misread))
    file = write_corpus(tmp_path)
    file.write_text(file.read_text().replace("ocr: none", "ocr: rapidocr"))
    workspace = open_workspace(str(file))
    version = refresh(workspace).version or ""
    assert read_notes(workspace.store, version)[Stage.ENRICH].counts["layers_replaced"] == 1
    placements = read_placements(workspace.store, version).to_pylist()
    scans = [placement for placement in placements if placement["role"] == "page_scan"]
    assert [placement["page"] for placement in scans] == [1, 2]
    assert all("whose text layer OCR replaces" in placement["reason"] for placement in scans)
    texts = "\n".join(row["text"] for part in evidence_parts(workspace.store, version) for row in part.to_pylist())
    assert "The water pump takes 02 bar." in texts
    assert "purnp" not in texts
    file.write_text(file.read_text() + "chunks: {tokens: 64}\n")
    again = refresh(open_workspace(str(file)))
    counts = read_notes(workspace.store, again.version or "")[Stage.ENRICH].counts
    assert (counts["recognised"], counts["layers_replaced"]) == (0, 1), "the pages aren't read again"


def _answers_with_figures(published: PublishedCorpus, version: str | None) -> None:
    answer = published.answer(AnswerQuery("What does the steel winch look like from side 2?"))
    assert answer.version == version
    assert not answer.abstained
    figures = [part for part in answer.parts if part.type == "figure"]
    assert any("steel winch seen from side 2" in part.caption for part in figures)
    assert {n for part in answer.parts for n in part.citations} == {citation.n for citation in answer.citations}
    assert figure_of(published, figures[0].figure_id).startswith(b"\x89PNG")


def _filters_hold(published: PublishedCorpus) -> None:
    for mode in ("bm25", "dense", "hybrid"):
        hits = published.search(Query("screws of the pump", preset=mode, filters=Filters(documents=["winch.pdf"]))).hits
        assert hits
        assert {hit.source for hit in hits} == {"winch.pdf"}
    figures = published.search(Query("pump", filters=Filters(modalities=[Modality.FIGURE], pages=[2]))).hits
    assert {(hit.modality, hit.page) for hit in figures} == {(Modality.FIGURE, 2)}


def _pages_and_documents_are_served(published: PublishedCorpus, file: Path) -> None:
    (hit, *_) = published.search(Query("steel winch screws", k=1)).hits
    assert page_of(published, hit.doc_id, hit.page, highlight=[hit.bbox], dpi=50).startswith(b"\x89PNG")
    data, name = document_of(published, hit.doc_id)
    assert (data, name) == (file.read_bytes(), "winch.pdf")


def _tagged(workspace: Workspace) -> dict[str, list[str]]:
    """Return the tags on the pages of each document's tagged copy, by the name of the copy."""
    published = PublishedCorpus(workspace)
    template = TagTemplate(workspace.corpus.tags.template)
    try:
        hits = published.search(Query("screws", k=50)).hits
        citations = published.answer(AnswerQuery("How many screws has the water pump?")).citations
        assert all([*(hit.tagged_pdf for hit in hits), *(citation.tagged_pdf for citation in citations)])
        copies = [tagged_document_of(published, hit.doc_id) for hit in hits]
    finally:
        published.close()
    return {
        name: [number for page in pymupdf.open(stream=data, filetype="pdf") for number in template.numbers(page.get_text())]
        for data, name in copies
    }


def test_tagged_copies_are_made_where_they_are_asked_for_and_carried_over(corpus_file: Path) -> None:
    folder = corpus_file.parent.parent
    write_corpus(folder, "tags: {pdf: true, template: '<image: {title}({number}.{ext})|{page}|{bbox}>'}\n")
    workspace = open_workspace(str(corpus_file))
    first = refresh(workspace)
    assert first.published
    (pump, winch) = (_tagged(workspace)[f"{name}.tagged.pdf"] for name in ("pump", "winch"))
    placements = read_placements(workspace.store, first.version or "").to_pylist()
    assert sorted(pump + winch) == sorted(row["number"] for row in placements)
    write_times = {name: _written(workspace, name) for name in workspace.store.names("tagged")}
    assert len(write_times) == 2

    write_manual(folder / "pdfs" / "winch.pdf", "iron winch", seed=3)
    assert refresh(workspace).published
    assert _tagged(workspace)["pump.tagged.pdf"] == pump
    now = {name: _written(workspace, name) for name in workspace.store.names("tagged")}
    assert len(now) == 3, "one more, for the changed document"
    assert now.items() >= write_times.items()


def test_only_tagged_copies_that_are_missing_are_written(corpus_file: Path) -> None:
    write_corpus(corpus_file.parent.parent, "tags: {pdf: true}\n")
    workspace = open_workspace(str(corpus_file))
    run = RefreshRun(workspace, "run-1")
    version = run.plan().version
    run.parse(version)
    for stage in (Stage.ENRICH, Stage.ASSEMBLE, Stage.CHECK):
        run.work(stage, version)
    written = {name: _written(workspace, name) for name in workspace.store.names("tagged")}
    assert len(written) == 2
    lost = min(written)
    (Path(workspace.store.root) / lost).unlink()
    for stage in (Stage.CHECK, Stage.BUILD, Stage.EVALUATE):
        run.work(stage, version)
    assert run.publish(version)
    run.release()
    assert sorted((tagged_copies(workspace.store, version) or {}).values()) == sorted(written)
    unchanged = {name: _written(workspace, name) for name in written if name != lost}
    assert unchanged.items() <= written.items(), "what is stored isn't made again"


def _written(workspace: Workspace, name: str) -> int:
    return (Path(workspace.store.root) / name).stat().st_mtime_ns


def test_a_copy_that_can_not_be_made_stops_nothing(corpus_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_corpus(corpus_file.parent.parent, "tags: {pdf: true}\n")
    workspace = open_workspace(str(corpus_file))

    def run_all(_work: Any, orders: Any, _limits: Any) -> Any:
        yield from ((order, Refused(FailureCode.TIME_LIMIT, "it was stopped")) for order in orders)

    monkeypatch.setattr("workers.tag_shard.run_all", run_all)
    result = refresh(workspace)
    assert (result.published, result.counts.documents, result.counts.quarantined) == (True, 2, 0)
    assert [(failure.source, failure.step, failure.code) for failure in result.failures] == [
        ("pump.pdf", "tag", FailureCode.TIME_LIMIT),
        ("winch.pdf", "tag", FailureCode.TIME_LIMIT),
    ]
    published = PublishedCorpus(workspace)
    hits = published.search(Query("steel winch", k=1)).hits
    assert not hits[0].tagged_pdf
    with pytest.raises(NotFoundError, match=r"has no tagged copy of winch\.pdf; to see why: inset quarantine"):
        tagged_document_of(published, hits[0].doc_id)
    published.close()


def test_a_version_without_tagged_copies_says_so_and_how_the_next_gets_them(corpus_file: Path) -> None:
    workspace = open_workspace(str(corpus_file))
    first = refresh(workspace).version
    write_corpus(corpus_file.parent.parent, "tags: {pdf: true}\n")
    assert refresh(open_workspace(str(corpus_file))).published
    published = PublishedCorpus(workspace)  # opened before its file asked for copies, as a running service is
    question = "How many screws has the water pump?"
    (live, *_), (pinned, *_) = (
        published.answer(AnswerQuery(question, version=version)).citations for version in (None, first)
    )
    assert (live.tagged_pdf, pinned.tagged_pdf) == (True, False)
    assert tagged_document_of(published, live.doc_id)[1] == "pump.tagged.pdf"
    with pytest.raises(NotFoundError, match=r"made without tagged copies; .*'tags: {pdf: true}'.* run: inset refresh"):
        tagged_document_of(published, pinned.doc_id, version=first)
    with pytest.raises(NotFoundError, match="has no document 0000"):
        tagged_document_of(published, "0" * 64)
    published.close()


def test_a_mention_elsewhere_carries_the_figure(published: Workspace) -> None:
    corpus = PublishedCorpus(published)
    hits = corpus.search(
        Query("As Figure 1 shows the water pump has 1 screws", filters=Filters(modalities=[Modality.TEXT]))
    ).hits
    corpus.close()
    assert hits[0].figure_refs


def test_an_unchanged_corpus_costs_nothing(corpus_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = open_workspace(str(corpus_file))
    first = refresh(workspace)

    def never(*_: Any) -> bytes:
        raise AssertionError("a document was read")

    for method in ("read", "digest"):
        monkeypatch.setattr(sources.FolderSource, method, never)
    again = refresh(workspace)
    assert (again.version, again.published) == (first.version, False)
    assert (again.plan.kept, again.plan.to_parse) == (2, 0)


def test_a_changed_document_is_redone_alone(corpus_file: Path) -> None:
    workspace = open_workspace(str(corpus_file))
    first = refresh(workspace)
    write_manual(corpus_file.parent.parent / "pdfs" / "winch.pdf", "iron winch", seed=3)
    second = refresh(workspace)
    assert second.published
    assert (second.plan.changed, second.plan.kept) == (1, 1)
    counts = _work(workspace, second)
    assert (counts["parsed"], counts["structured"]) == (1, 1)
    assert 0 < counts["embedded"] < _work(workspace, first)["embedded"]
    published = PublishedCorpus(workspace)
    assert not [hit for hit in published.search(Query("steel winch", k=50)).hits if "steel" in hit.text]
    published.close()
    version_diff = VersionDiff.model_validate_json(workspace.store.get(f"versions/{second.version}/diff.json"))
    assert (version_diff.base, version_diff.documents.changed) == (first.version, ["winch.pdf"])
    assert {figure.source for figure in version_diff.figures_gained} == {"winch.pdf"}
    assert version_diff.work["parsed"].now == 1
    note = workspace.store.get(f"versions/{second.version}/release_note.md").decode()
    assert "## Documents changed: 1\n\n- winch.pdf\n" in note

    again = open_workspace(str(write_corpus(corpus_file.parent.parent, "store: ../other\n")))
    rebuilt = refresh(again)
    assert _evidence(again, rebuilt.version) == _evidence(workspace, second.version), "as if made from nothing"
    assert rebuilt.counts == second.counts
    of_rows = [
        {gate.gate: gate.value for gate in result.gates if gate.gate.startswith(OF_ROWS)} for result in (rebuilt, second)
    ]
    assert of_rows[0] == of_rows[1] != {}


def test_a_source_that_goes_away_goes_out_of_the_next_version(published: Workspace) -> None:
    (Path(published.corpus.source) / "winch.pdf").unlink()
    second = refresh(published)
    assert (second.published, second.plan.gone, second.counts.documents) == (True, 1, 1)
    assert _work(published, second) == {"parsed": 0, "structured": 0, "embedded": 0, "recognised": 0}


def test_bad_input_goes_to_quarantine_and_the_rest_goes_on(corpus_file: Path) -> None:
    pdfs = corpus_file.parent.parent / "pdfs"
    (pdfs / "empty.pdf").write_bytes(b"")
    (pdfs / "page.pdf").write_bytes(b"<html><body>404</body></html>")
    write_corpus(corpus_file.parent.parent, "gates: {max_quarantined: 0.6}\n")
    workspace = open_workspace(str(corpus_file))
    result = refresh(workspace)
    assert result.published
    codes = {failure.source: failure.code for failure in result.failures}
    assert codes == {"empty.pdf": FailureCode.EMPTY_FILE, "page.pdf": FailureCode.NOT_A_PDF}
    assert (result.counts.documents, result.counts.quarantined) == (2, 2)

    again = refresh(workspace)
    assert (again.version, again.published) == (result.version, False)
    replayed = refresh(workspace, options=RunOptions(replay=True))
    assert (replayed.version, replayed.published) == (result.version, False)

    write_manual(pdfs / "empty.pdf", "belt drive", seed=5)
    mended = refresh(workspace)
    assert (mended.published, mended.counts.quarantined) == (True, 1)


def test_two_sources_of_the_same_bytes_are_one_document(corpus_file: Path) -> None:
    pdfs = corpus_file.parent.parent / "pdfs"
    (pdfs / "copy").mkdir()
    (pdfs / "copy" / "pump.pdf").write_bytes((pdfs / "pump.pdf").read_bytes())
    result = refresh(open_workspace(str(corpus_file)))
    assert (result.counts.sources, result.counts.documents) == (3, 2)


def test_too_much_quarantine_is_refused_and_not_built_again(corpus_file: Path) -> None:
    for number in range(3):
        (corpus_file.parent.parent / "pdfs" / f"bad{number}.pdf").write_bytes(b"no PDF %d" % number)
    workspace = open_workspace(str(corpus_file))
    result = refresh(workspace)
    assert not result.published
    assert is_refused(workspace, result)
    assert read_pointer(workspace.store) is None
    assert list_versions(workspace.store, "manuals").versions[0].state == "refused"
    again = refresh(workspace)
    assert (again.version, again.published) == (result.version, False)
    write_corpus(corpus_file.parent.parent, "gates: {max_quarantined: 0.9}\n")
    assert refresh(open_workspace(str(corpus_file))).published


def test_a_rollback_holds_and_publish_lets_go(published: Workspace) -> None:
    first = read_pointer(published.store)
    write_manual(Path(published.corpus.source) / "crane.pdf", "tower crane", seed=7)
    second = refresh(published)
    roll_back(published.store, "manuals")
    result = refresh(published)
    assert (result.version, result.published) == (second.version, False)
    live = read_pointer(published.store)
    assert first is not None
    assert live is not None
    assert (live.version, live.held) == (first.version, True)
    publish_version(published.store, "manuals", second.version or "")
    assert refresh(published).version == second.version


@pytest.mark.slow
def test_the_result_does_not_depend_on_the_number_of_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evidence_tables = []
    for few in ("embed.FEW_TEXTS", "enrich.FEW_DOCUMENTS"):  # so that Ray does the work, and not this process
        monkeypatch.setattr(f"ray_jobs.{few}", 0)
    for workers in (1, 2):
        folder = tmp_path / str(workers)
        for number in range(3):
            write_manual(folder / "pdfs" / f"{number}.pdf", f"machine {number}", seed=number)
        write_corpus(
            folder,
            f"models: {{text: {{kind: text_embedder, model: minilm, workers: {workers}, batch: {workers * 3}}}}}\n"
            "embeddings: {text: text}\n",
        )
        workspace = open_workspace(str(folder / "corpora" / "manuals.yaml"))
        evidence_tables.append(_evidence(workspace, refresh(workspace).version))
    assert evidence_tables[0] == evidence_tables[1]


def test_the_result_does_not_depend_on_how_many_rows_are_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refreshed(rows: int) -> tuple[pa.Table, pa.Table, list[tuple[int, int]]]:
        monkeypatch.setattr("pipeline.stages.enrich.embedding.ROWS_AT_ONCE", rows)
        monkeypatch.setattr("pipeline.stages.enrich.stage.DOCUMENTS_AT_ONCE", rows // 3)
        monkeypatch.setattr("pipeline.records.row_parts.ROWS_A_PART", rows)
        folder = tmp_path / str(rows)
        for number in range(2):
            write_manual(folder / "pdfs" / f"{number}.pdf", f"machine {number}", seed=number)
        write_corpus(folder)
        workspace = open_workspace(str(folder / "corpora" / "manuals.yaml"))
        embedded: list[tuple[int, int]] = []
        structured: list[tuple[int, int]] = []
        progress = {"embed": embedded, "structure": structured}
        result = refresh(workspace, report=lambda step, *done: progress.get(step, []).append(done))
        assert structured == [(1, 2), (2, 2)]
        version = str(result.version)
        count = read_notes(workspace.store, version)[Stage.ENRICH].counts["embedded"]
        assert embedded[-1] == (count, count)
        return read_evidence(workspace.store, version), read_placements(workspace.store, version), embedded

    (*many, once), (*few, often) = refreshed(1_000), refreshed(3)
    assert many == few
    assert often == sorted(often), "progress goes on from group to group"
    assert len(often) > len(once)


def test_golden_questions_are_asked_and_judged(corpus_file: Path) -> None:
    folder = corpus_file.parent.parent
    question = {"id": "q1", "question": "How many bar does the steel winch take?", "doc": "winch.pdf", "pages": [1, 2]}
    (folder / "questions.jsonl").write_text(json.dumps(question))
    write_corpus(folder, "questions: ../questions.jsonl\ngates: {min_recall_at_10: 1.0}\n")
    workspace = open_workspace(str(corpus_file))
    result = refresh(workspace)
    assert result.published
    gates = {gate.gate: gate.value for gate in result.gates}
    assert gates["recall at 10"] == 1.0

    (folder / "questions.jsonl").write_text(json.dumps(question | {"doc": "pump.pdf", "pages": [77]}))
    refused = refresh(open_workspace(str(corpus_file)))
    assert not refused.published
    assert "recall at 10" in [gate.gate for gate in refused.gates if not gate.passed]


def test_a_source_without_pdfs_is_the_users_mistake(tmp_path: Path) -> None:
    (tmp_path / "pdfs").mkdir()
    with pytest.raises(UserError, match="holds no document"):
        refresh(open_workspace(str(write_corpus(tmp_path))))


def test_a_refresh_of_one_new_document_reads_what_it_wrote_once(
    published: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_manual(tmp_path / "pdfs" / "crane.pdf", "tower crane", seed=7)
    read = FolderStore._read
    reads: Counter[str] = Counter()

    def counted(store: FolderStore, name: str) -> bytes:
        reads[name] += 1
        return read(store, name)

    monkeypatch.setattr(FolderStore, "_read", counted)
    version = refresh(published).version
    assert reads["LEASE"] <= 6
    for name, limit in (
        ("plan.json", 1),
        ("plan.parquet", 1),
        ("ledger.parquet", 2),
        ("files.parquet", 1),
        ("index.json", 3),
    ):
        assert reads[f"versions/{version}/{name}"] <= limit, name
    reads.clear()
    assert not refresh(published).published
    assert reads.total() <= 30, "nothing changed"
