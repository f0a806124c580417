"""Documents in other formats go the way of PDFs: cited, drawn, kept, converted again and forgotten."""

import io
import os
from pathlib import Path

import pytest
from PIL import Image

from backends.conversion import office
from pipeline.corpus.workspace import open_workspace
from pipeline.published.corpus import PublishedCorpus
from pipeline.records.converted import read_converted
from pipeline.run import refresh
from pipeline.stages.plan import plan
from pipeline.upkeep.discard import find_damage
from pipeline.upkeep.forget import forget
from schemas.errors import FailureCode
from schemas.ids import original_file, sha256
from schemas.retrieval import AnswerQuery
from schemas.versions import RunOptions
from tests.manuals import write_manual
from tests.office_files import word
from tests.pipeline.conftest import write_corpus

MARKDOWN = (
    b"---\nauthor: Ada Berg\nlang: en\n---\n"
    b"# Winch\n\nThe winch drum is greased with lithium soap every spring.\n\n![A drum](drum.png)\n\nFigure 1: The drum.\n"
)


def _sources(folder: Path) -> Path:
    write_manual(folder / "pdfs" / "pump.pdf", "water pump", seed=1)
    (folder / "pdfs/notes").mkdir()
    (folder / "pdfs/notes/winch.md").write_bytes(MARKDOWN)
    picture = io.BytesIO()
    Image.linear_gradient("L").convert("RGB").save(picture, "PNG")
    (folder / "pdfs/notes/drum.png").write_bytes(picture.getvalue())
    return write_corpus(folder)


def test_a_markdown_file_is_cited_by_its_name_and_drawn_from_its_pdf(tmp_path: Path) -> None:
    corpus_file, doc_id = _sources(tmp_path), sha256(MARKDOWN)
    with corpus_file.open("a") as appended:
        appended.write("fields: {author: {pdf: author}, language: {pdf: language}}\n")
    workspace = open_workspace(str(corpus_file))
    result = refresh(workspace)
    assert (result.published, result.counts.documents) == (True, 2), "the picture belongs to the page"
    published = PublishedCorpus(workspace)
    try:
        answer = published.answer(AnswerQuery(question="What is the winch drum greased with?"))
        cited = answer.citations[0]
        assert (cited.source, cited.page, cited.doc_id) == ("notes/winch.md", 1, doc_id)
        assert cited.fields == {"author": "Ada Berg", "language": "en"}
        assert cited.original_link.startswith(f"/v1/corpora/manuals/documents/{doc_id}/original?version=")
        with published.opened() as opened:
            pdf, name = opened.document(doc_id)
            assert (pdf[:5], name) == (b"%PDF-", "winch.md.pdf")
            assert opened.original(doc_id) == (MARKDOWN, "winch.md")
            assert published.drawer.draw(opened.drawing(doc_id, 1)).startswith(b"\x89PNG")
    finally:
        published.close()
    assert find_damage(workspace, deep=True) == {}
    assert refresh(open_workspace(str(corpus_file))).version == result.version, "nothing is converted again"


def test_another_release_of_a_converter_changes_nothing_until_it_is_asked_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace, doc_id = open_workspace(str(_sources(tmp_path))), sha256(MARKDOWN)
    first = refresh(workspace)
    before = read_converted(workspace.store, first.version or "")[doc_id]
    for module in ("pipeline.records.converted", "workers.parse_shard"):
        monkeypatch.setattr(f"{module}.converter_of", lambda source: "weasyprint-99-1" if source.endswith(".md") else None)
    planned = plan(workspace, "run-2")
    assert planned.outcome == "unchanged"
    assert any("1 documents stay as weasyprint-" in advice and "--reconvert" in advice for advice in planned.summary.advice)
    # The child that converts has the real release, so the PDF keeps its name; that the document is made again is what counts.
    again = refresh(workspace, options=RunOptions(reconvert=True))
    assert (again.published, again.plan.to_parse) == (True, 1)
    assert workspace.store.exists(before), "the version before still draws its pages"


def test_a_forgotten_document_leaves_neither_its_original_nor_its_pdf(tmp_path: Path) -> None:
    workspace, doc_id = open_workspace(str(_sources(tmp_path))), sha256(MARKDOWN)
    version = refresh(workspace).version or ""
    names = [read_converted(workspace.store, version)[doc_id], original_file(doc_id)]
    assert all(map(workspace.store.exists, names))
    forget(workspace, "notes/winch.md", dry_run=False, reason="a test")
    assert not any(map(workspace.store.exists, names))
    assert doc_id not in str(read_converted(workspace.store, version))
    assert find_damage(workspace, deep=True) == {}


def test_what_needs_libreoffice_waits_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus_file = _sources(tmp_path)
    (tmp_path / "pdfs/gear.docx").write_bytes(word("The gear oil is changed every 500 hours."))
    path = os.environ["PATH"]
    monkeypatch.setenv("PATH", str(tmp_path))
    for cached in (office.program, office.release):
        cached.cache_clear()
    workspace = open_workspace(str(corpus_file))
    assert any("1 of the source's files need LibreOffice" in advice for advice in plan(workspace, "run-1").summary.advice)
    first = refresh(workspace)
    assert [(failure.source, failure.code) for failure in first.failures] == [("gear.docx", FailureCode.NEEDS_LIBREOFFICE)]
    monkeypatch.setenv("PATH", path)
    for cached in (office.program, office.release):
        cached.cache_clear()
    if office.program() is None:
        pytest.skip("LibreOffice isn't installed")
    second = refresh(open_workspace(str(corpus_file)))
    assert (second.failures, second.counts.documents) == ([], 3)
