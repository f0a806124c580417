"""Spaces of a part of a row: captions as printed, descriptions and summaries alone."""

import itertools
import re
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from backends.models.minilm import MiniLM
from pipeline.corpus.workspace import open_workspace
from pipeline.published.corpus import PublishedCorpus
from pipeline.records.collection import passages
from pipeline.run import refresh
from schemas.errors import UserError
from schemas.retrieval import Query
from tasks.enriching.spaces import searched_text
from tests.endpoint_server import Call, EndpointServer
from tests.pipeline.conftest import write_corpus
from tests.versions import read_evidence

QUESTION = "drum of the winch"
PARTS = ["captions", "descriptions", "descriptions_and_texts", "summaries", "tagged_texts"]


def _describe(call: Call) -> str:
    if call.picture is not None:
        return "A steel drum with a rope, driven by a motor through a gear."
    return "Upkeep of winches and pumps, written for apprentices who oil and inspect them every quarter."


def _parts(row: Mapping[str, Any], searched: str) -> dict[str, str | None]:
    """Return what of a row each space embeds."""
    if row["figure_id"] is None:
        heading = " > ".join([row["title"], *row["section_path"][-2:]])
        numbers = itertools.count(1)
        tagged = re.sub(r"<image:\d+\.\w+>", lambda _: f"<image:{next(numbers):08d}.png>", row["tagged_text"])
        assert ("<image:" in tagged) == (next(numbers) > 1)
        return {
            "descriptions_and_texts": searched,
            "summaries": row["description"],
            "tagged_texts": f"{heading}\n{tagged}",
        }
    described = row["description"]
    return {"captions": row["caption"], "descriptions": described, "descriptions_and_texts": described}


def test_each_space_embeds_its_part_of_a_row_and_nothing_else(corpus_file: Path, endpoint: EndpointServer) -> None:
    endpoint.replies = _describe
    model = {"model": "tiny", "revision": "1", "endpoint": {"url": endpoint.url, "retries": 0}}
    models = {"vlm": {"kind": "vlm", **model}, "llm": {"kind": "llm", **model}}
    file = yaml.safe_load(corpus_file.read_text())
    file["captions"] = {"ocr": "none", "captioner": "vlm", "summaries": "llm"}
    corpus_file.write_text(yaml.safe_dump(file | {"models": models, "embeddings": {"parts": PARTS}}))
    workspace = open_workspace(str(corpus_file))
    result = refresh(workspace)
    assert result.published
    evidence = read_evidence(workspace.store, str(result.version))
    expected: dict[str, dict[str, str]] = {space: {} for space in PARTS}
    for row, searched in zip(evidence.to_pylist(), map(searched_text, passages(evidence)), strict=True):
        for space, text in _parts(row, searched).items():
            if text:
                expected[space][row["evidence_id"]] = text
    assert all(expected.values())
    assert any("<image:00000001.png>" in text for text in expected["tagged_texts"].values())
    embedder = MiniLM()
    question_vector = embedder.embed_query(QUESTION)
    with closing(PublishedCorpus(workspace)) as published:
        for space, texts in expected.items():
            steps = {"retrieve": [{"by": "dense", "space": space}], "rerank": []}
            hits = published.search(Query(QUESTION, preset="dense", k=1000, steps=steps)).hits
            assert {hit.evidence_id for hit in hits} == texts.keys()
            near = embedder.embed_documents([texts[hit.evidence_id] for hit in hits]) @ question_vector
            assert [hit.score for hit in hits] == pytest.approx(near.tolist(), abs=1e-3)


def test_an_unknown_part_is_refused(corpus_file: Path) -> None:
    file = write_corpus(corpus_file.parent.parent, "embeddings: {parts: [titles]}\n")
    with pytest.raises(UserError, match=r"embeddings\.parts\.0: .*'titles'.*"):
        open_workspace(str(file))
