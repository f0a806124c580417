"""A corpus whose texts are embedded by a server: refreshed, searched, and searched when the server moves."""

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import yaml

from pipeline.corpus.models import loaded
from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.published.corpus import PublishedCorpus
from pipeline.records.collection import passages
from pipeline.records.manifests import read_manifest
from pipeline.run import refresh
from pipeline.stages.plan import plan
from schemas.errors import TransientError, UserError
from schemas.retrieval import Query
from schemas.versions import in_words
from tasks.enriching.spaces import searched_text
from tests import endpoint_server
from tests.endpoint_server import EndpointServer, by_words, status
from tests.manuals import write_manual
from tests.pipeline.conftest import named_models, write_corpus
from tests.versions import read_evidence

QUESTION = "Service of the steel winch"


def _write(folder: Path, server: EndpointServer, **options: object) -> str:
    server_options = {"url": server.url, "retries": 0, **options}
    text = {"model": "acme/embed", "revision": "1", "dimension": 16, "endpoint": server_options}
    return str(write_corpus(folder, yaml.safe_dump(named_models({"text": text}))))


def test_rows_and_questions_are_embedded_by_the_server(corpus_file: Path, endpoint: EndpointServer) -> None:
    loaded.cache_clear()
    folder = corpus_file.parent.parent
    workspace = open_workspace(_write(folder, endpoint))
    result = refresh(workspace)
    assert result.published
    evidence = read_evidence(workspace.store, str(result.version))
    texts = dict(
        zip(map(str, evidence.column("evidence_id").to_pylist()), map(searched_text, passages(evidence)), strict=True)
    )
    embedded = [text for call in endpoint.calls for text in call.texts]
    assert sorted(set(texts.values())) == sorted(embedded), "each text once"
    question_vector = np.array(by_words(QUESTION))
    with closing(PublishedCorpus(workspace)) as published:
        hits = published.search(Query(QUESTION, preset="dense", k=1000)).hits
    assert {hit.evidence_id for hit in hits} == texts.keys()
    rows = np.array([by_words(texts[hit.evidence_id]) for hit in hits])
    near = rows @ question_vector / np.linalg.norm(rows, axis=1) / np.linalg.norm(question_vector)
    assert [hit.score for hit in hits] == pytest.approx(near.tolist(), abs=1e-3)
    assert endpoint.calls[-1].texts == [QUESTION]

    with endpoint_server.running() as second_server:
        moved = open_workspace(_write(folder, second_server, timeout_s=30))
        assert plan(moved, "plan").outcome == "unchanged", "no vector depends on where the server is"
        with closing(PublishedCorpus(moved)) as published:
            assert published.search(Query(QUESTION, preset="dense", k=1000)).hits == hits
        assert [call.texts for call in second_server.calls] == [[QUESTION]]

    write_manual(folder / "pdfs" / "pump.pdf", "gear pump", seed=3)
    endpoint.script(status(503))
    with pytest.raises(TransientError, match=r"^models\.text: http://.*: it answered 503"):
        refresh(workspace)
    assert refresh(workspace).published


def test_calls_of_the_server_count_against_the_budget(corpus_file: Path, endpoint: EndpointServer) -> None:
    folder = corpus_file.parent.parent
    server = {"url": endpoint.url, "retries": 0, "concurrency": 1}
    text = {"model": "acme/priced", "revision": "1", "batch": 1, "dimension": 16, "endpoint": server}
    sections = named_models({"text": text | {"price": {"call": 0.5, "input": 1000}}})

    def corpus(**budget: object) -> Workspace:
        return open_workspace(str(write_corpus(folder, yaml.safe_dump(sections | {"budget": budget}))))

    short = corpus(calls=4)
    expected = plan(short, "plan").summary.captions["vectors text"]
    assert (expected.work, expected.estimated, expected.affordable) == ("embed", expected.items, min(4, expected.items))
    assert f"{expected.items:,} texts to embed, " in in_words(expected)
    with pytest.raises(
        UserError, match=r"^budget: it doesn't hold the calls of embeddings\.text: \d+ rows have no vector text"
    ):
        refresh(short)
    embedded = [text for call in endpoint.calls for text in call.texts]
    assert (len(endpoint.calls), len(embedded)) == (4, 4)
    endpoint.calls.clear()
    result = refresh(corpus(calls=1000))
    assert result.published
    manifest = read_manifest(short.store, str(result.version))
    assert manifest is not None
    later = [text for call in endpoint.calls for text in call.texts]
    assert not set(later) & set(embedded), "what was embedded before the budget ended is kept"
    calls, tokens = len(endpoint.calls), 10 * len(later)
    spent = manifest.spent["vectors text"]
    assert (spent.calls, spent.input_tokens) == (calls, tokens)
    assert spent.money == pytest.approx(calls * 0.5 + tokens / 1000)
    again = plan(corpus(calls=1000), "plan")
    assert (again.outcome, again.summary.captions) == ("unchanged", {})


@pytest.mark.parametrize(
    ("entry", "line"),
    [
        ({"model": "acme/x", "endpoint": {"url": "http://h/v1"}, "dimension": 8}, "it needs a revision"),
        ({"model": "acme/x", "revision": "1", "endpoint": {"url": "http://h/v1"}}, r"models\.text: .* needs a dimension"),
        (
            {"model": "minilm", "revision": "1", "endpoint": {"url": "http://h/v1"}, "dimension": 8},
            "'minilm' is packaged .* takes no",
        ),
    ],
)
def test_a_mistake_is_one_line(corpus_file: Path, entry: dict[str, object], line: str) -> None:
    with pytest.raises(UserError, match=line):
        open_workspace(str(write_corpus(corpus_file.parent.parent, yaml.safe_dump(named_models({"text": entry})))))
