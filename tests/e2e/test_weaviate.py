"""A corpus on a real Weaviate: refreshed, searched, answered, rolled back, swept."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.weaviate_server import WeaviateServer
from pipeline.doctor import diagnose
from pipeline.publication import read_manifest, roll_back
from pipeline.published import PublishedCorpus
from pipeline.refresh import refresh
from pipeline.workspace import open_workspace
from schemas.evidence import MODES, FigurePart, Filters
from tests.manuals import write_manual
from tests.pipeline.conftest import write_corpus

pytestmark = pytest.mark.live


@pytest.fixture
def corpus_file(tmp_path: Path, weaviate: WeaviateServer) -> Iterator[Path]:
    """Two manuals, two versions kept; the collections that come of it are removed in the end."""
    write_manual(tmp_path / "pdfs" / "pump.pdf", "water pump", seed=1)
    write_manual(tmp_path / "pdfs" / "winch.pdf", "steel winch", seed=2)
    others = _collections(weaviate)
    yield _written(tmp_path, weaviate)
    for name in _collections(weaviate) - others:
        weaviate.client().collections.delete(name)


def _written(folder: Path, weaviate: WeaviateServer, more: str = "") -> Path:
    where = f"url: '{weaviate.url}', grpc_port: {weaviate.grpc_port}"
    return write_corpus(folder, f"index: {{engine: weaviate, {where}{more}}}\nretention: {{versions: 2}}\n")


def _collections(weaviate: WeaviateServer) -> set[str]:
    return {name for name in weaviate.client().collections.list_all() if name.startswith("Manuals_")}


def test_a_corpus_lives_on_a_server(corpus_file: Path, weaviate: WeaviateServer) -> None:
    workspace = open_workspace(str(corpus_file))
    others = _collections(weaviate)
    first = refresh(workspace)
    assert first.published
    assert [gate.message for gate in first.gates if not gate.passed] == []

    published = PublishedCorpus(workspace)
    try:
        for mode in MODES:
            hits = published.search("screws of the steel winch", mode=mode, k=3).hits
            assert {hit.source for hit in hits} == {"winch.pdf"}
        assert published.search("pump", filters=Filters(documents=["winch.pdf"], pages=[1])).hits[0].page == 1
        answer = published.answer("How many bar does the steel winch take?")
        assert any(isinstance(part, FigurePart) for part in answer.parts)
    finally:
        published.close()

    versions = [first.version]
    for number, subject in enumerate(("tower crane", "gear box", "oil filter"), 3):
        write_manual(corpus_file.parent.parent / "pdfs" / f"{number}.pdf", subject, seed=number)
        versions.append(refresh(workspace).version)
    kept = {manifest.collection for version in versions if (manifest := read_manifest(workspace.store, str(version)))}
    assert len(kept) == 3  # two newest when the last refresh began, and that one
    assert _collections(weaviate) - others == kept

    assert roll_back(workspace.store, "manuals").version == versions[-2]
    assert diagnose([str(corpus_file)]).ok


def test_a_version_is_searched_where_it_was_built(corpus_file: Path, weaviate: WeaviateServer) -> None:
    refresh(open_workspace(str(corpus_file)))
    write_corpus(corpus_file.parent.parent)  # LanceDB from now on
    workspace = open_workspace(str(corpus_file))
    published = PublishedCorpus(workspace)
    try:
        assert published.search("steel winch", k=1).hits[0].source == "winch.pdf"
        moved = refresh(workspace)
        assert moved.published
        result = published.search("steel winch", k=1)
        assert (result.version, result.hits[0].source) == (moved.version, "winch.pdf")
    finally:
        published.close()


def test_the_command_line_says_when_there_is_no_server(corpus_file: Path) -> None:
    corpus_file.write_text(
        corpus_file.read_text().partition("index:")[0] + "index: {engine: weaviate, url: 'http://127.0.0.1:9'}\n"
    )
    command = [sys.executable, "-m", "cli.main", "refresh", str(corpus_file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
    assert done.returncode != 0
    assert "Weaviate at http://127.0.0.1:9" in done.stderr
    assert "doesn't answer; start it" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_command_line_answers(corpus_file: Path) -> None:
    for arguments in (["refresh"], ["search"]):
        words = ["steel winch", "--mode", "bm25"] if arguments == ["search"] else []
        command = [sys.executable, "-m", "cli.main", *arguments, str(corpus_file), *words, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["hits"][0]["source"] == "winch.pdf"
    assert "ResourceWarning" not in done.stderr
