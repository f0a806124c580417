"""Summaries of texts and tables are searched in their place, and the originals are what is returned: a whole refresh."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.published.corpus import PublishedCorpus
from pipeline.records.manifests import read_manifest
from pipeline.records.notes import read_notes
from pipeline.run import refresh
from pipeline.stages.plan import plan
from pipeline.upkeep.prune import prune
from schemas.errors import UserError
from schemas.reports import RefreshResult
from schemas.retrieval import Query
from schemas.stages import Stage
from tests.endpoint_server import Call, EndpointServer, status
from tests.manuals import write_long_table, write_manual
from tests.versions import read_evidence

Corpus = Callable[..., Workspace]


@pytest.fixture
def corpus(published: Workspace, endpoint: EndpointServer) -> Corpus:
    """Open the published corpus with texts summarised by a model, ``llm``, and other settings as they are given."""

    def opened(*, budget: dict[str, Any] | None = None, **captions: Any) -> Workspace:
        endpoint_options = {"url": endpoint.url, "concurrency": 2, "retries": 0}
        reading = {"kind": "llm", "model": "tiny-llm", "revision": "1", "endpoint": endpoint_options}
        file = yaml.safe_load(published.file.read_text())
        file["models"] = {"llm": reading}
        file["captions"] = {"ocr": "none", "summaries": "llm"} | captions
        published.file.write_text(yaml.safe_dump(file | {"budget": budget or {}}))
        return open_workspace(str(published.file))

    endpoint.replies = _summary
    return opened


def _summary(call: Call) -> str:
    """Summarise a text in words that no document has."""
    assert call.picture is None
    kind = "torques" if "Torque" in call.prompt else "winches" if "winch" in call.prompt else "pumps"
    return f"Upkeep of {kind}, written for apprentices who tighten, oil and inspect them every quarter."


def _texts(workspace: Workspace, result: RefreshResult) -> list[dict[str, Any]]:
    rows = read_evidence(workspace.store, str(result.version)).to_pylist()
    return [row for row in rows if row["modality"] in ("text", "table")]


def test_words_of_a_summary_alone_find_the_row_and_return_the_original(
    published: Workspace, corpus: Corpus, endpoint: EndpointServer, tmp_path: Path
) -> None:
    before = read_evidence(published.store, published.store.folders("versions")[0]).to_pylist()
    originals = {row["evidence_id"]: row for row in before if row["modality"] == "text"}
    write_long_table(tmp_path / "pdfs" / "torques.pdf")
    workspace = corpus()
    result = refresh(workspace)
    assert result.published
    notes = read_notes(workspace.store, str(result.version))
    assert (notes[Stage.PARSE].counts["parsed"], notes[Stage.ENRICH].counts["structured"]) == (1, 1)
    rows = {row["evidence_id"]: row for row in _texts(workspace, result)}
    assert {row["modality"] for row in rows.values()} == {"text", "table"}
    assert len(endpoint.calls) == len({row["text"] for row in rows.values() if row["text"]})
    for row in rows.values():
        assert row["description"].startswith("Upkeep of ")
        assert (row["described_by"], row["flags"]) == ("llm", [])
        assert "apprentices" not in row["text"] + row["tagged_text"]
    for name, row in originals.items():
        assert (rows[name]["text"], rows[name]["tagged_text"]) == (row["text"], row["tagged_text"])
    published_now = PublishedCorpus(workspace)
    try:
        for mode in ("bm25", "hybrid", "dense"):
            hit = published_now.search(Query("apprentices inspect winches", preset=mode, k=1)).hits[0]
            assert hit.source == "winch.pdf"
            assert "apprentices" not in hit.text
            assert (hit.text, hit.tagged_text) == (rows[hit.evidence_id]["text"], rows[hit.evidence_id]["tagged_text"])
        hits = published_now.search(Query("apprentices", preset="bm25", k=50)).hits
        assert {hit.evidence_id for hit in hits} == rows.keys()
        table = next(
            hit for hit in published_now.search(Query("torques for apprentices", k=20)).hits if hit.modality == "table"
        )
        assert table.rows[0][:2] == ["Part", "Torque"]
        words = next(row["text"] for row in rows.values() if "takes 11 bar" in row["text"])
        assert "takes 11 bar" in words
        exact = published_now.search(Query("11 bar takes", preset="bm25", k=50)).hits
        assert not exact  # what is searched is the summary, not the original
    finally:
        published_now.close()
    assert refresh(open_workspace(str(workspace.file))).version == result.version
    assert len(endpoint.calls) == len({row["text"] for row in rows.values() if row["text"]})


def test_the_plan_counts_texts_and_the_manifest_what_they_cost(corpus: Corpus, endpoint: EndpointServer) -> None:
    workspace = corpus()
    expected = plan(workspace, "test").summary.captions["llm (texts)"]
    result = refresh(workspace)
    assert (expected.subject, expected.items, expected.estimated) == ("text", len(endpoint.calls), 0)
    manifest = read_manifest(workspace.store, str(result.version))
    assert manifest is not None
    assert manifest.spent["llm (texts)"].calls == len(endpoint.calls)
    assert prune(workspace, dry_run=False).records == {}


def test_one_text_in_two_documents_is_summarised_once(corpus: Corpus, endpoint: EndpointServer, tmp_path: Path) -> None:
    refresh(corpus())
    calls_before = len(endpoint.calls)
    pump = tmp_path / "pdfs" / "pump.pdf"
    (tmp_path / "pdfs" / "copy.pdf").write_bytes(pump.read_bytes() + b"\n% another file of the same words\n")
    workspace = corpus()
    result = refresh(workspace)
    assert result.published
    assert len(endpoint.calls) == calls_before
    assert all(row["described_by"] == "llm" for row in _texts(workspace, result))


def test_a_text_without_a_summary_is_searched_as_it_is(corpus: Corpus, endpoint: EndpointServer) -> None:
    def failing(call: Call) -> Any:
        if "winch" in call.prompt:
            return "I'm sorry, but I can't summarise that text."
        return status(400, "no") if "takes 11 bar" in call.prompt else _summary(call)

    endpoint.replies = failing
    workspace = corpus(budget={"calls": 100})
    result = refresh(workspace)
    assert result.published
    for row in _texts(workspace, result):
        if row["sources"] == ["winch.pdf"]:
            assert (row["description"], row["described_by"], row["flags"]) == (None, "context", ["refusal"])
        elif "takes 11 bar" in row["text"]:
            assert (row["description"], row["flags"]) == (None, ["failed"])
        else:
            assert row["description"]
    published = PublishedCorpus(workspace)
    try:
        assert published.search(Query("takes 21 bar", preset="bm25", k=1)).hits[0].source == "winch.pdf"
    finally:
        published.close()


def test_what_the_budget_leaves_is_summarised_by_the_next_refresh(corpus: Corpus, endpoint: EndpointServer) -> None:
    result = refresh(corpus(budget={"calls": 1}))
    workspace = corpus()
    assert len(endpoint.calls) == 1
    assert [row["flags"] for row in _texts(workspace, result)].count(["not_described"]) == len(
        _texts(workspace, result)
    ) - 1
    assert all(
        "texts have no description yet" in failure.message or "a text has" in failure.message for failure in result.failures
    )
    full = refresh(workspace)
    assert full.published
    assert all(row["description"] for row in _texts(workspace, full))
    assert len(endpoint.calls) == len(_texts(workspace, full))


def test_a_summary_longer_than_a_row_keeps_its_beginning(corpus: Corpus, endpoint: EndpointServer, tmp_path: Path) -> None:
    words = [f"word{number}" for number in range(200)]
    endpoint.replies = lambda _call: " ".join(words)
    write_manual(tmp_path / "pdfs" / "pump.pdf", "water pump", seed=1)
    workspace = corpus()
    rows = _texts(workspace, refresh(workspace))
    count = {len(row["description"].split()) for row in rows}
    assert max(count) < 200
    assert all(row["description"].split() == words[: len(row["description"].split())] for row in rows)


def test_a_prompt_for_figures_is_refused_with_its_setting(corpus: Corpus) -> None:
    workspace = corpus()
    file = yaml.safe_load(workspace.file.read_text())
    file["models"]["llm"]["prompt"] = "ocr-caption"
    workspace.file.write_text(yaml.safe_dump(file))
    with pytest.raises(UserError, match=r"models\.llm\.prompt: ocr-caption asks for a figure, not for a text"):
        open_workspace(str(workspace.file))
