"""A second vector space: declared in one place, it is embedded, checked, built, searched, copied, swept and repaired."""

import re
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from fastapi.testclient import TestClient

from backends.engines.weaviate_server import WeaviateServer
from backends.models.registry import TEXT_EMBEDDERS
from pipeline.corpus import workspace as workspace_module
from pipeline.corpus.models import loaded
from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.published.corpus import PublishedCorpus
from pipeline.records.collection import SpaceVectors, open_vectors, passages, vector_files
from pipeline.records.evidence import evidence_parts
from pipeline.records.manifests import read_manifest
from pipeline.records.notes import read_notes
from pipeline.run import refresh
from pipeline.upkeep.discard import find_damage
from pipeline.upkeep.prune import prune
from query_service.app import create_app
from schemas.errors import UserError
from schemas.ids import sha256
from schemas.models import ModelName, TextModel
from schemas.ports import Vector
from schemas.retrieval import Query
from schemas.stages import Stage
from schemas.versions import ModelCard
from tasks.enriching.spaces import SPACES, TEXT, EmbeddingInput, Space
from tests.memory_index import MemoryIndex
from tests.pipeline.conftest import write_corpus
from tests.versions import read_evidence

CARD = ModelCard(name="hashed", revision="1", dimension=16)
QUESTION = "Service of the steel winch"


class Hashed:
    """An embedder of a bag of words."""

    name, revision, dimension, max_tokens = CARD.name, CARD.revision, 16, 1000

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [len(text.split()) for text in texts]

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        return np.stack([self.embed_query(text) for text in texts])

    def embed_queries(self, texts: Sequence[str]) -> Vector:
        return self.embed_documents(texts)

    def embed_query(self, text: str) -> Vector:
        vector = np.full(16, 1e-3, np.float32)
        for word in re.findall(r"\w+", text.lower()):
            vector[int(sha256(word.encode())[:8], 16) % 16] += 1
        return np.asarray(vector / np.linalg.norm(vector), np.float32)


def model(_named: ModelName) -> TextModel:
    return TextModel(card=lambda: CARD, load=lambda _batch: Hashed(), token_counter=lambda: Hashed().count_tokens)


SECTIONS = Space(
    name="sections",
    version="1",
    content=lambda row: (
        EmbeddingInput(text=row.section_path[-1]) if row.section_path and row.modality != "figure" else None
    ),
    model=lambda _options: ModelName("hashed"),
)
BY_SECTION = "label: Section\nsentence: by the title of its section\nretrieve: [{by: dense, space: sections}]\n"
WITH_SECTION = """label: All
sentence: words, meaning and section
retrieve: [{by: bm25}, {by: dense}, {by: dense, space: sections}]
"""


@pytest.fixture
def declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line each: a model, and a space."""
    monkeypatch.setitem(TEXT_EMBEDDERS.modules, "hashed", __name__)
    monkeypatch.setitem(SPACES, SECTIONS.name, SECTIONS)


def with_presets(file: Path) -> str:
    """Add two presets in a folder of one's own to a corpus file."""
    folder = file.parent / "presets"
    folder.mkdir()
    (folder / "section.yaml").write_text(BY_SECTION)
    (folder / "all.yaml").write_text(WITH_SECTION)
    file.write_text(f"{file.read_text()}retrieval: {{presets: presets}}\n")
    return str(file)


@pytest.fixture(params=["lancedb", "memory", pytest.param("weaviate", marks=pytest.mark.live)])
def workspace(
    request: pytest.FixtureRequest, corpus_file: Path, monkeypatch: pytest.MonkeyPatch, declared: None
) -> Workspace:
    """A corpus that has never been refreshed, on each engine."""
    extra = ""
    if request.param == "weaviate":
        server: WeaviateServer = request.getfixturevalue("weaviate")
        extra = f"index: {{engine: weaviate, url: '{server.url}', grpc_port: {server.grpc_port}}}\n"
    if request.param == "memory":
        indexes: dict[str, MemoryIndex] = defaultdict(MemoryIndex)
        monkeypatch.setattr(workspace_module, "open_index", lambda _root, _corpus, version, *_: indexes[version])
    return open_workspace(with_presets(write_corpus(corpus_file.parent.parent, extra)))


def _sections(workspace: Workspace) -> SpaceVectors:
    _, sections = open_vectors(workspace.store, workspace.spaces)
    assert sections.space is SECTIONS
    return sections


def _section_files(workspace: Workspace, version: str) -> list[str]:
    return sorted(vector_files(evidence_parts(workspace.store, version), [_sections(workspace)]))


def test_a_space_that_is_declared_is_embedded_built_and_searched(workspace: Workspace) -> None:
    result = refresh(workspace)
    assert result.published
    version = str(result.version)
    manifest = read_manifest(workspace.store, version)
    assert manifest is not None
    assert {name: space.model for name, space in manifest.spaces.items()} == {
        TEXT.name: workspace.spaces[TEXT.name].model,
        SECTIONS.name: CARD,
    }
    evidence = read_evidence(workspace.store, version)
    rows = dict(zip(map(str, evidence.column("evidence_id").to_pylist()), passages(evidence), strict=True))
    titled = {name for name, row in rows.items() if SECTIONS.content(row) is not None}
    assert 0 < len(titled) < len(rows)
    assert workspace.index(version).vectors(list(rows), SECTIONS.name).keys() == titled
    assert workspace.index(version).vectors(list(rows), TEXT.name).keys() == rows.keys()
    assert any(gate.gate == "rows: a vector sections has length 1" for gate in result.gates)

    published = PublishedCorpus(workspace)
    try:
        assert [preset.name for preset in published.overview().presets][-2:] == ["all", "section"]
        hits = published.search(Query(QUESTION, preset="section", k=1000)).hits
        assert {hit.evidence_id for hit in hits} == titled, "rows without a vector are never found there"
        embedder = Hashed()
        near = [float(embedder.embed_query(hit.section_path[-1]) @ embedder.embed_query(QUESTION)) for hit in hits]
        assert [hit.score for hit in hits] == pytest.approx(near, abs=1e-4)
        fused = published.search(Query(QUESTION, preset="all", k=1000)).hits
        assert {hit.evidence_id for hit in fused} == rows.keys()
    finally:
        published.close()
    assert not refresh(workspace).published, "nothing is left to do"


def test_a_space_that_is_new_costs_its_vectors_alone(published: Workspace, declared: None) -> None:
    before = published.spaces
    workspace = open_workspace(with_presets(published.file))
    assert workspace.spaces[TEXT.name] == before[TEXT.name], "the others keep their keys"
    old = PublishedCorpus(published)
    assert "section" not in [preset.name for preset in old.overview().presets]
    with pytest.raises(UserError, match="preset section needs vectors sections"):
        old.search(Query(QUESTION, preset="section"))
    old.close()
    result = refresh(workspace)
    assert result.published
    notes = read_notes(workspace.store, str(result.version))
    contents = _sections(workspace).contents(passages(read_evidence(workspace.store, str(result.version))))
    assert notes[Stage.ENRICH].counts["embedded"] == len(contents)
    assert notes[Stage.ENRICH].counts["structured"] == 0


@pytest.mark.slow
def test_a_live_version_of_another_revision_is_neither_searched_nor_compared_with(
    corpus_file: Path, monkeypatch: pytest.MonkeyPatch, declared: None
) -> None:
    folder = corpus_file.parent.parent
    (folder / "q.jsonl").write_text('{"id": "1", "question": "bar of the pump", "doc": "pump.pdf", "pages": [1]}\n')
    file = str(
        write_corpus(
            folder,
            "models: {hashed: {kind: text_embedder, model: hashed}}\nembeddings: {text: hashed}\nquestions: ../q.jsonl\n",
        )
    )
    first = refresh(open_workspace(file))
    assert first.published
    monkeypatch.setattr(sys.modules[__name__], "CARD", CARD.model_copy(update={"revision": "2"}))
    loaded.cache_clear()  # another release of a model comes with another process
    workspace = open_workspace(file)
    published = PublishedCorpus(workspace)
    client = TestClient(create_app({"manuals": published}), base_url="http://localhost")
    answer = client.post("/v1/corpora/manuals/search", json={"query": QUESTION})
    assert (answer.status_code, "retry-after" in answer.headers) == (503, False)
    line = "the vectors are of hashed at revision 1, and here it has 2; refresh"
    assert answer.json()["detail"].startswith(line)
    with pytest.raises(UserError, match=line):
        published.search(Query(QUESTION))
    result = refresh(workspace)
    assert result.published
    assert any(gate.message.startswith(f"{first.version} can't be searched any more") for gate in result.gates)
    assert published.search(Query(QUESTION)).version == result.version
    published.close()


def test_sweeps_and_repairs_go_through_every_space(published: Workspace, declared: None) -> None:
    workspace = open_workspace(with_presets(published.file))
    version = str(refresh(workspace).version)

    assert prune(workspace, dry_run=False).records == {}, "what a version needs stays"
    assert find_damage(workspace, deep=True) == {}
    file, *_ = _section_files(workspace, version)
    workspace.store.delete(file)
    assert list(find_damage(workspace, deep=True)) == [file]
    workspace.index(version).drop()
    assert refresh(workspace).published
    assert workspace.store.exists(file)
