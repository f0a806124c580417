"""How a search ranks is decided when a question comes: no version depends on it, and none is built for it."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from backends.models.minilm import MiniLM
from pipeline.corpus.presets import default_preset
from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.published.corpus import PublishedCorpus
from pipeline.records.manifests import read_manifest
from pipeline.run import refresh
from pipeline.stages.plan import plan
from pipeline.stages.publish import roll_back_version
from schemas.ports import Vector
from schemas.retrieval import AnswerQuery, Query
from tasks.answering.presets import steps_of
from tests.manuals import write_manual
from tests.pipeline.conftest import write_corpus

BY_TITLE = "retrieval: {preset: titles, presets: ../presets}\n"
"""No title speaks of screws."""
TITLES = "label: Titles\nsentence: words of titles\nretrieve: [{by: bm25, weights: {title: 1}}]\n"


@pytest.fixture(autouse=True)
def own_preset(tmp_path: Path) -> None:
    """The preset of one's own that ``BY_TITLE`` names."""
    (tmp_path / "presets").mkdir()
    (tmp_path / "presets" / "titles.yaml").write_text(TITLES)


@pytest.fixture
def serving(published: Workspace) -> Iterator[PublishedCorpus]:
    """A service that was started before anybody changed anything."""
    with closing(PublishedCorpus(published)) as corpus:
        assert _screws(corpus)
        yield corpus


def _screws(corpus: PublishedCorpus) -> int:
    return len(corpus.search(Query("screws")).hits)


def test_another_ranking_is_used_at_once_and_builds_nothing(serving: PublishedCorpus, tmp_path: Path) -> None:
    changed = open_workspace(str(write_corpus(tmp_path, BY_TITLE)))
    assert plan(changed, "run").outcome == "unchanged"
    assert not refresh(changed).published
    with closing(PublishedCorpus(changed)) as opened:
        assert _screws(opened) == _screws(serving) == 0
        assert opened.search(Query("winch")).hits

    write_manual(tmp_path / "pdfs" / "gate.pdf", "iron gate", seed=3)
    newer = refresh(changed)
    assert newer.published
    older = roll_back_version(changed).version
    assert older != newer.version
    assert serving.search(Query("winch")).version == older
    assert _screws(serving) == 0, "it holds for the older version too"
    write_corpus(tmp_path)
    assert _screws(serving) > 0
    assert _screws(serving) == len(serving.search(Query("screws", version=older)).hits)


def test_a_file_that_is_wrong_for_a_moment_leaves_the_ranking_as_it_was(serving: PublishedCorpus, tmp_path: Path) -> None:
    file = write_corpus(tmp_path, BY_TITLE)
    assert _screws(serving) == 0
    file.write_text("name: manuals\nretrieval: [")
    assert _screws(serving) == 0
    file.unlink()
    assert _screws(serving) == 0


@pytest.mark.slow
def test_a_version_says_which_ranking_it_was_judged_by_and_is_judged_again_by_another(corpus_file: Path) -> None:
    folder = corpus_file.parent.parent
    (folder / "q.jsonl").write_text('{"id": "1", "question": "bar of the pump", "doc": "pump.pdf", "pages": [9]}\n')
    judged = "questions: ../q.jsonl\ngates: {min_recall_at_10: 1}\n"
    workspace = open_workspace(str(write_corpus(folder, judged)))
    refused = refresh(workspace)
    assert not refused.published
    assert plan(workspace, "run").outcome == "refused"
    reweighted = open_workspace(str(write_corpus(folder, judged + BY_TITLE)))
    assert plan(reweighted, "run").outcome == "build"
    again = refresh(reweighted)
    for result, opened in ((refused, workspace), (again, reweighted)):
        manifest = read_manifest(opened.store, str(result.version))
        assert manifest is not None
        assert manifest.parameters["judged_by"] == steps_of(default_preset(opened.corpus.retrieval))
    assert plan(workspace, "run").outcome == "refused", "by that ranking it was judged before"


@pytest.mark.parametrize(
    ("first_settings", "second_settings"),
    [
        ("", "retrieval: {preset: hybrid}\n"),
        ("", "index: {replicas: 3}\n"),
        (
            "index: {engine: weaviate, url: 'http://h:1'}\n",
            "index: {engine: weaviate, url: 'http://h:1', api_key_env: K}\n",
        ),
        ("index: {engine: weaviate, url: 'http://h:1'}\n", "index: {engine: weaviate, url: 'http://h:1', grpc_port: 7}\n"),
    ],
    ids=["ranking", "what another engine would do", "key", "port"],
)
def test_what_shapes_no_version_is_in_no_key(corpus_file: Path, first_settings: str, second_settings: str) -> None:
    folder = corpus_file.parent.parent
    keys = [open_workspace(str(write_corpus(folder, settings))).keys for settings in (first_settings, second_settings)]
    assert keys[0] == keys[1]


@pytest.mark.parametrize("settings", ["url: 'http://h:2'", "url: 'http://h:1', replicas: 2"])
def test_another_server_or_shape_is_another_collection(corpus_file: Path, settings: str) -> None:
    folder = corpus_file.parent.parent
    base_keys = open_workspace(str(write_corpus(folder, "index: {engine: weaviate, url: 'http://h:1'}\n"))).keys
    changed_keys = open_workspace(str(write_corpus(folder, f"index: {{engine: weaviate, {settings}}}\n"))).keys
    assert base_keys.settings != changed_keys.settings
    assert base_keys.assembled == changed_keys.assembled


def test_other_terms_are_another_collection_and_another_detector_other_rows(
    corpus_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base_keys = open_workspace(str(corpus_file)).keys
    with monkeypatch.context() as patch:
        patch.setattr("pipeline.corpus.keys.ANALYSIS_VERSION", "other")
        terms = open_workspace(str(corpus_file)).keys
    monkeypatch.setattr("pipeline.corpus.keys.DETECTION_VERSION", "other")
    rows = open_workspace(str(corpus_file)).keys
    assert (terms.settings != base_keys.settings, terms.assembled == base_keys.assembled) == (True, True)
    assert (rows.assembled != base_keys.assembled, rows.structured == base_keys.structured) == (True, True)


@pytest.mark.parametrize(
    "call",
    [
        lambda corpus, text: corpus.search(Query(text)),
        lambda corpus, text: corpus.answer(AnswerQuery(text)),
    ],
    ids=["search", "answer"],
)
def test_a_question_is_embedded_once(
    serving: PublishedCorpus, call: Callable[[PublishedCorpus, str], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    embedded: list[str] = []
    embed = MiniLM.embed_query

    def counted(model: MiniLM, text: str) -> Vector:
        embedded.append(text)
        return embed(model, text)

    monkeypatch.setattr(MiniLM, "embed_query", counted)
    question = f"Which screws hold winch {id(call)}?"
    call(serving, question)
    call(serving, question)
    assert embedded == [question]
