"""The prompt of questions is decided when a question comes: no vector of a row depends on it, and nothing is embedded for it."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import yaml

from pipeline.corpus.corpora import load_corpus
from pipeline.corpus.models import loaded
from pipeline.corpus.workspace import open_workspace
from pipeline.published.corpus import PublishedCorpus
from pipeline.run import refresh
from pipeline.stages.plan import plan
from schemas.errors import UserError
from schemas.ids import key
from schemas.models import ModelName, TextModel
from schemas.ports import Vector
from schemas.retrieval import Query
from schemas.versions import ModelCard
from tasks.enriching.spaces import TEXT
from tests.pipeline.conftest import named_models, write_corpus
from tests.pipeline.records.test_spaces import Hashed

QUESTION = "Service of the steel winch"


class Prompted(Hashed):
    """An embedder with a prompt for questions."""

    def __init__(self, named: ModelName) -> None:
        self.prompt = str(named.setting("query_prompt") or "")

    def embed_query(self, text: str) -> Vector:
        return super().embed_query(self.prompt + text)

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        return np.stack([super(Prompted, self).embed_query(text) for text in texts])


@pytest.fixture(autouse=True)
def of_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have it stand for every model that is not packaged."""

    def model(named: ModelName) -> TextModel:
        card = ModelCard(name=named.name, revision=str(named.revision), dimension=16)
        return TextModel(
            card=lambda: card, load=lambda _batch: Prompted(named), token_counter=lambda: Prompted(named).count_tokens
        )

    monkeypatch.setattr("backends.models.sentence_transformer.model", model)
    loaded.cache_clear()


def write(folder: Path, prompt: str | None, extra: str = "", **options: str) -> Path:
    entry = {"model": "acme/hashed", "revision": "1"} | options | ({} if prompt is None else {"query_prompt": prompt})
    return write_corpus(folder, f"{yaml.safe_dump(named_models({'text': entry}))}{extra}")


def scores(corpus: PublishedCorpus) -> dict[str, float]:
    return {hit.evidence_id: hit.score for hit in corpus.search(Query(QUESTION, preset="dense", k=1000)).hits}


def test_another_prompt_is_used_at_once_and_embeds_nothing(corpus_file: Path) -> None:
    folder = corpus_file.parent.parent
    workspace = open_workspace(str(write(folder, None)))
    version = str(refresh(workspace).version)
    vectors = workspace.index(version)
    with closing(PublishedCorpus(workspace)) as serving:
        plain = scores(serving)
        changed = open_workspace(str(write(folder, "pump pump pump: ")))
        assert changed.keys == workspace.keys
        assert plan(changed, "run").outcome == "unchanged"
        prompted = scores(serving)
        assert prompted != plain
        query = Hashed().embed_query(f"pump pump pump: {QUESTION}")
        near = {name: float(query @ vector) for name, vector in vectors.vectors([*prompted], TEXT.name).items()}
        assert prompted == pytest.approx(near, abs=1e-4)
        write(folder, "load load: ", model="acme/other")
        assert scores(serving) == plain, "the prompt of a model that is to come is not that of the live version's"
        write(folder, "pump: ", model="minilm")
        assert scores(serving) == plain, "a file that is wrong for a moment leaves things as they were"


def test_a_version_of_another_model_is_asked_as_it_was_built(corpus_file: Path) -> None:
    folder = corpus_file.parent.parent
    workspace = open_workspace(str(write(folder, "pump pump pump: ")))
    assert refresh(workspace).published
    with closing(PublishedCorpus(workspace)) as serving:
        prompted = scores(serving)
        write(folder, None, revision="2")
        assert scores(serving) == prompted
        write(folder, None)
        assert scores(serving) != prompted


def test_a_version_that_was_refused_is_judged_again_by_another_prompt(corpus_file: Path) -> None:
    folder = corpus_file.parent.parent
    (folder / "q.jsonl").write_text('{"id": "1", "question": "bar of the pump", "doc": "pump.pdf", "pages": [9]}\n')
    judged = "questions: ../q.jsonl\ngates: {min_recall_at_10: 1}\n"
    workspace = open_workspace(str(write(folder, None, judged)))
    assert not refresh(workspace).published
    assert plan(workspace, "run").outcome == "refused"
    assert plan(open_workspace(str(write(folder, "pump: ", judged))), "run").outcome == "build"


def test_the_key_of_a_space_without_prompts_is_what_it_was(corpus_file: Path) -> None:
    folder = corpus_file.parent.parent
    for prompt in (None, "pump: "):
        space = open_workspace(str(write(folder, prompt))).spaces[TEXT.name]
        assert space.key == key(model=space.model.model_dump(), step=TEXT.version, layout="documents")
        assert space.settings == {}
    prefix = open_workspace(str(write(folder, "pump: ", document_prompt="text: "))).spaces[TEXT.name]
    assert prefix.key == key(
        model=space.model.model_dump(), step=TEXT.version, layout="documents", settings={"document_prompt": "text: "}
    )


def test_the_packaged_model_takes_no_prompt(corpus_file: Path) -> None:
    file = write(corpus_file.parent.parent, "Q: ", model="minilm")
    with pytest.raises(UserError, match=r"models\.text: 'minilm' is packaged .* takes no query_prompt"):
        load_corpus(str(file))
