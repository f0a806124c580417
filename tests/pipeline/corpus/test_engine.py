"""The engine that a corpus file names: what is written down of it, and what is said where it isn't there."""

import json
from pathlib import Path

import pytest

from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.published.corpus import PublishedCorpus
from pipeline.records.notes import read_notes
from pipeline.records.publication import read_pointer
from pipeline.run import refresh
from pipeline.upkeep.doctor import diagnose
from schemas.corpus import IndexOptions
from schemas.errors import TransientError
from schemas.retrieval import Query
from schemas.stages import Stage
from tests.pipeline.conftest import write_corpus
from tests.versions import ALWAYS

NOWHERE = "index: {engine: weaviate, url: 'http://127.0.0.1:9', replicas: 2}\n"


def test_no_server_is_told_before_anything_is_spent(corpus_file: Path) -> None:
    workspace = open_workspace(str(write_corpus(corpus_file.parent.parent, NOWHERE)))
    with pytest.raises(TransientError, match=r"Weaviate at http://127.0.0.1:9 .* doesn't answer; start it"):
        refresh(workspace)
    assert workspace.store.folders("parsed") == workspace.store.folders("versions") == []


def test_a_version_keeps_to_its_engine_whatever_the_file_says_since(corpus_file: Path) -> None:
    before = open_workspace(str(write_corpus(corpus_file.parent.parent, NOWHERE)))
    before.write_index_options("v1")
    after = open_workspace(str(write_corpus(corpus_file.parent.parent)))
    assert after.index_options("v1") == before.corpus.index
    assert after.index_options("from before any of this") == IndexOptions()


def test_how_a_server_is_reached_is_what_the_file_says_now(corpus_file: Path) -> None:
    folder = corpus_file.parent.parent
    open_workspace(str(write_corpus(folder, NOWHERE))).write_index_options("v1")
    reached = "index: {engine: weaviate, url: 'http://127.0.0.1:9', grpc_port: 7, api_key_env: KEY}\n"
    options = open_workspace(str(write_corpus(folder, reached))).index_options("v1")
    assert (options.grpc_port, options.api_key_env, options.replicas) == (7, "KEY", 2)
    changed_options = open_workspace(str(write_corpus(folder, reached.replace(":9'", ":8'")))).index_options("v1")
    assert (changed_options.url, changed_options.grpc_port, changed_options.api_key_env) == (
        "http://127.0.0.1:9",
        50051,
        None,
    )


def test_a_collection_of_an_earlier_release_is_found(corpus_file: Path) -> None:
    workspace = open_workspace(str(corpus_file))
    options = {"engine": "weaviate", "url": "http://h:8080", "weights": {"title": 2.0}, "rrf_k": 60, "chunk_tokens": 220}
    workspace.store.put("versions/v1/index.json", json.dumps(options).encode())
    assert workspace.index_options("v1").url == "http://h:8080"


@pytest.mark.slow
def test_a_live_version_that_lost_its_rows_is_built_again_out_of_finished_work(corpus_file: Path) -> None:
    folder = corpus_file.parent.parent
    (folder / "q.jsonl").write_text('{"id": "1", "question": "bar of the pump", "doc": "pump.pdf", "pages": [1]}\n')
    workspace = open_workspace(str(write_corpus(folder, "questions: ../q.jsonl\n")))
    lost = refresh(workspace)
    workspace.index(str(lost.version)).drop()
    finding = next(finding for finding in diagnose([str(workspace.file)]).findings if finding.subject.endswith(" index"))
    assert "doesn't hold its" in finding.message
    assert finding.remedy.startswith("inset refresh manuals")
    result = refresh(workspace)
    assert result.published
    assert result.version != lost.version
    assert any(gate.message.startswith(f"{lost.version} can't be searched") for gate in result.gates)
    notes = read_notes(workspace.store, str(result.version), (Stage.PARSE, Stage.ENRICH))
    assert (notes[Stage.PARSE].counts["parsed"], notes[Stage.ENRICH].counts["embedded"]) == (0, 0)
    assert not refresh(workspace).published, "the new one holds its rows"


def test_a_server_that_is_gone_for_good_stops_no_refresh_elsewhere(published: Workspace, tmp_path: Path) -> None:
    live = read_pointer(published.store)
    assert live is not None
    unreachable = open_workspace(str(write_corpus(tmp_path, NOWHERE)))
    unreachable.write_index_options(live.version)
    result = refresh(open_workspace(str(write_corpus(tmp_path, "chunks: {tokens: 64}\n"))))
    assert result.published


def test_pages_follow_each_other_without_gap_or_repeat(published: Workspace) -> None:
    opened = PublishedCorpus(published)
    for mode in ALWAYS:
        all_hits = opened.search(Query("screws of the steel winch", preset=mode, k=9)).hits
        pages = [
            opened.search(Query("screws of the steel winch", preset=mode, k=3, offset=offset)).hits for offset in (0, 3, 6)
        ]
        assert [hit for page in pages for hit in page] == all_hits
    opened.close()
