"""Rows of whole pages, where the corpus file asks for them: through a whole refresh, searched, shown, copied and mended."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pymupdf
import pytest
import yaml
from PIL import Image

from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.published.corpus import PublishedCorpus
from pipeline.records.manifests import read_manifest
from pipeline.records.notes import read_notes
from pipeline.run import refresh
from pipeline.stages.plan import plan
from pipeline.upkeep.doctor import diagnose
from pipeline.upkeep.prune import prune
from schemas.filters import Filters, Modality
from schemas.ids import figure_file, figure_id
from schemas.ports import ObjectStore
from schemas.reports import RefreshResult
from schemas.retrieval import AnswerQuery, Query
from schemas.stages import Stage
from tests.endpoint_server import Call, EndpointServer
from tests.manuals import picture
from tests.pipeline.conftest import named_models
from tests.published_files import figure_of
from tests.tiny_models import write_clip, write_colqwen2
from tests.versions import read_evidence

Corpus = Callable[..., Workspace]

PAGES = Filters(modalities=[Modality.PAGE])


@pytest.fixture
def corpus(published: Workspace, endpoint: EndpointServer) -> Corpus:
    """Open the published corpus with pages described by ``pages``, and other settings as they are given."""

    def opened(pages: str | None, *, budget: dict[str, Any] | None = None, **options: Any) -> Workspace:
        endpoint_options = {"url": endpoint.url, "concurrency": 2, "retries": 0}
        seeing = {"kind": "vlm", "model": "tiny-vlm", "revision": "1", "endpoint": endpoint_options}
        file = yaml.safe_load(published.file.read_text())
        file["captions"] = {"ocr": "none"} | ({"pages": pages} if pages else {})
        other_sections = {name: section for name, section in options.items() if name in ("retention", "tags")}
        embeddings = {name: entry for name, entry in options.items() if name not in other_sections}
        sections = other_sections | named_models(embeddings, {"vlm": seeing})
        published.file.write_text(yaml.safe_dump(file | {"budget": budget or {}} | sections))
        return open_workspace(str(published.file))

    endpoint.replies = _by_its_section
    return opened


def _by_its_section(call: Call) -> str:
    """Describe a page in words that no document has."""
    assert call.picture
    section = next(line for line in call.prompt.splitlines() if line.startswith("Section: "))
    return f"- The sheet explains {section.partition(': ')[2]} to apprentices.\n- A photograph stands in its middle."


def _rows(workspace: Workspace, result: RefreshResult, modality: str = "page") -> list[dict[str, Any]]:
    rows = read_evidence(workspace.store, str(result.version)).to_pylist()
    return [row for row in rows if row["modality"] == modality]


def test_without_them_nothing_is_another(published: Workspace, corpus: Corpus) -> None:
    same = corpus(None)
    assert same.keys == published.keys
    assert refresh(same).version == same.store.folders("versions")[0]
    assert not same.store.folders("drawn")


def test_pages_are_rows_with_their_words_and_their_picture_and_nothing_is_done_again(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = corpus("context")
    listed: list[str] = []
    names = type(workspace.store).names

    def counted(self: ObjectStore, prefix: str) -> list[str]:
        listed.append(prefix)
        return names(self, prefix)

    monkeypatch.setattr(type(workspace.store), "names", counted)
    result = refresh(workspace)
    assert result.published
    opened = [name for name in listed if name.startswith("drawn/")]
    assert len(opened) == 5, "once by draw, embed, assemble (rows, failures) and check, not once a document"
    notes = read_notes(workspace.store, str(result.version))
    counts = notes[Stage.ENRICH].counts
    assert (notes[Stage.PARSE].counts["parsed"], counts["structured"], counts["drawn"]) == (0, 0, 4)
    rows = _rows(workspace, result)
    assert sorted((row["sources"][0], row["page"]) for row in rows) == [
        ("pump.pdf", 1),
        ("pump.pdf", 2),
        ("winch.pdf", 1),
        ("winch.pdf", 2),
    ]
    for row in rows:
        subject = "water pump" if row["sources"] == ["pump.pdf"] else "steel winch"
        assert f"The {subject} takes" in row["text"]
        assert row["text"] == row["tagged_text"]
        assert (row["description"], row["described_by"], row["flags"]) == (None, "context", [])
        assert row["section_path"] == [f"{row['page']} Service of the {subject}, part {row['page']}"]
        assert row["regions"] == [{"page": row["page"], "bbox": [0.0, 0.0, 595.0, 842.0]}]
        assert len(row["figure_refs"]) == 1
        with Image.open(io.BytesIO(workspace.store.get(figure_file(row["figure_id"])))) as image:
            pixels = np.asarray(image.convert("RGB"))
        assert pixels.shape == (1287, 910, 3)
        assert figure_id(910, 1287, pixels.tobytes()) == row["figure_id"]
    again = refresh(open_workspace(str(workspace.file)))
    assert again.version == result.version


@pytest.mark.slow
def test_a_search_in_words_leaves_them_out_unless_it_asks_for_them(corpus: Corpus, tmp_path: Path) -> None:
    clip = {"model": str(write_clip(tmp_path / "clip")), "revision": "1"}
    late = {"model": str(write_colqwen2(tmp_path / "late")), "revision": "1"}
    workspace = corpus("context", image=clip, unified="mean", late=late)
    result = refresh(workspace)
    assert result.published
    version = str(result.version)
    pages = {row["evidence_id"]: row for row in _rows(workspace, result)}
    published = PublishedCorpus(workspace)
    try:
        assert Modality.PAGE in published.overview().modalities
        for mode in ("hybrid", "dense", "bm25"):
            hits = published.search(Query("what the steel winch takes", preset=mode, k=50)).hits
            assert hits
            assert all(hit.modality != Modality.PAGE for hit in hits)
            page_hits = published.search(Query("what the steel winch takes", preset=mode, k=50, filters=PAGES)).hits
            assert page_hits
            assert {hit.evidence_id for hit in page_hits} <= pages.keys()
        for mode in ("image", "unified", "late"):
            evidence_ids = {hit.evidence_id for hit in published.search(Query("a sheet of paper", preset=mode, k=50)).hits}
            assert evidence_ids == pages.keys() | {row["evidence_id"] for row in _rows(workspace, result, "figure")}
        best = published.search(Query("what the steel winch takes", k=1, filters=PAGES)).hits[0]
        assert best.source == "winch.pdf"
        assert figure_of(published, str(best.figure_id)) == workspace.store.get(
            figure_file(pages[best.evidence_id]["figure_id"])
        )
        answer = published.answer(AnswerQuery("What takes the steel winch?"))
        cited = {citation.evidence_id for citation in answer.citations}
        assert cited
        assert cited.isdisjoint(pages)
    finally:
        published.close()
    for space in ("image", "unified", "late"):
        assert workspace.index(version).vectors(list(pages), space).keys() == pages.keys()


def test_a_model_describes_each_page_by_its_picture(corpus: Corpus, endpoint: EndpointServer) -> None:
    workspace = corpus("vlm")
    expected = plan(workspace, "test").summary.captions["vlm (pages)"]
    assert (expected.subject, expected.items, expected.estimated) == ("page", 4, 4)
    result = refresh(workspace)
    assert result.published
    rows = _rows(workspace, result)
    assert len(endpoint.calls) == len(rows) == 4
    for row in rows:
        assert row["described_by"] == "vlm"
        assert f"The sheet explains {row['section_path'][0]} to apprentices." in row["description"]
        assert row["text"] == row["tagged_text"] == row["description"]
        assert set(row["flags"]) <= {"numbers_missing"}
    manifest = read_manifest(workspace.store, str(result.version))
    assert manifest is not None
    assert manifest.spent["vlm (pages)"].calls == 4
    assert manifest.captioners["vlm (pages)"].subject == "page"
    published = PublishedCorpus(workspace)
    try:
        best = published.search(Query("explains the winch to apprentices", preset="bm25", k=1, filters=PAGES)).hits[0]
        assert best.source == "winch.pdf"
        assert best.figure_id in {row["figure_id"] for row in rows}
    finally:
        published.close()
    assert refresh(open_workspace(str(workspace.file))).version == result.version
    assert len(endpoint.calls) == 4


def test_what_is_refused_or_left_by_the_budget_says_its_own_words(corpus: Corpus, endpoint: EndpointServer) -> None:
    endpoint.replies = lambda call: (
        "I'm sorry, but I can't help with that page." if "part 1" in call.prompt else _by_its_section(call)
    )
    workspace = corpus("vlm", budget={"calls": 3})
    result = refresh(workspace)
    assert result.published
    rows = _rows(workspace, result)
    flags = sorted(flag for row in rows for flag in row["flags"] if flag in ("refusal", "not_described"))
    assert flags.count("not_described") == 1
    assert "refusal" in flags
    for row in rows:
        if row["described_by"] == "context":
            assert row["description"] is None
            assert "takes" in row["text"]
    assert [failure.message.partition(":")[0] for failure in result.failures] == ["a page has no description yet"]
    full = refresh(open_workspace(str(corpus("vlm").file)))
    assert full.published
    assert len(endpoint.calls) == 4
    assert {tuple(sorted(set(row["flags"]) - {"numbers_missing"})) for row in _rows(workspace, full)} == {(), ("refusal",)}


def test_a_blank_page_has_no_row_and_one_of_lines_alone_has(corpus: Corpus, tmp_path: Path) -> None:
    document = pymupdf.open()
    document.new_page().insert_text((72, 100), "The first page says what the bracket carries.")
    document.new_page()
    document.new_page().insert_image((100, 100, 220, 180), stream=picture(9))
    document.save(tmp_path / "pdfs" / "blank.pdf", no_new_id=True)
    workspace = corpus("context")
    result = refresh(workspace)
    assert result.published
    rows = {row["page"]: row for row in _rows(workspace, result) if row["sources"] == ["blank.pdf"]}
    assert rows.keys() == {1, 3}
    assert rows[3]["text"] == "Page without words"


def test_a_page_that_cannot_be_drawn_is_a_failure_of_its_document(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = pymupdf.open()
    document.new_page(width=14_000, height=14_000).insert_text((72, 100), "The poster shows the crane.")
    document.new_page().insert_text((72, 100), "The crane lifts two tons.")
    document.save(tmp_path / "pdfs" / "poster.pdf", no_new_id=True)
    workspace = corpus("context")
    result = refresh(workspace)
    assert result.published
    assert [(failure.source, failure.page, failure.code) for failure in result.failures] == [
        ("poster.pdf", 1, "page_too_large")
    ]
    assert [row["page"] for row in _rows(workspace, result) if row["sources"] == ["poster.pdf"]] == [2]
    assert any("poster shows" in row["text"] for row in _rows(workspace, result, "text"))
    (tmp_path / "pdfs" / "winch.pdf").unlink()
    assert [failure.source for failure in refresh(workspace).failures] == ["poster.pdf"]  # as long as it stands there


@pytest.mark.slow
def test_their_pictures_are_kept_and_made_again(corpus: Corpus) -> None:
    workspace = corpus("context")
    result = refresh(workspace)
    prune(workspace, dry_run=False)
    names = sorted(figure_file(row["figure_id"]) for row in _rows(workspace, result))
    assert all(workspace.store.exists(name) for name in names)
    assert workspace.store.folders("drawn") == [workspace.keys.drawn]
    (Path(workspace.store.root) / names[0]).unlink()
    diagnose([str(workspace.file)], deep=True)
    mended = refresh(open_workspace(str(workspace.file)))
    assert mended.published
    assert workspace.store.exists(names[0])
    assert [row["figure_id"] for row in _rows(workspace, mended)] == [row["figure_id"] for row in _rows(workspace, result)]


@pytest.mark.slow
def test_they_go_when_nobody_asks_for_them_any_more(corpus: Corpus) -> None:
    workspace = corpus("context")
    pictures = {figure_file(row["figure_id"]) for row in _rows(workspace, refresh(workspace))}
    without = corpus(None, retention={"versions": 2})
    assert not _rows(without, refresh(without))
    for digits in (9, 10):
        refresh(corpus(None, retention={"versions": 2}, tags={"digits": digits}))
    assert prune(without, dry_run=False).objects["drawn"]
    assert not any(without.store.exists(name) for name in pictures)
