"""Models that come with Python code: it runs where the corpus file allows it, at a commit that can't change."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from backends.models.registry import TEXT_EMBEDDERS
from backends.models.sentence_transformer import SETTINGS_VERSION
from pipeline.corpus.models import Embedders, is_here, runs_no_other_code
from pipeline.corpus.workspace import open_workspace
from schemas.corpus.models import EmbeddingModels
from schemas.errors import UserError
from schemas.models import TextModel
from schemas.versions import ModelCard, VectorSpace
from tests.pipeline.conftest import named_models, write_corpus
from tests.tiny_models import write_bert

COMMIT = "0123456789abcdef0123456789abcdef01234567"
CODE = """from pathlib import Path

from transformers import BertConfig, BertModel


class OwnConfig(BertConfig):
    model_type = "own"


class OwnModel(BertModel):
    config_class = OwnConfig

    def __init__(self, *given, **named):
        super().__init__(*given, **named)
        Path({ran!r}).touch()
"""


@pytest.fixture
def ran(tmp_path: Path) -> Path:
    """A file that the model's code makes when it runs."""
    return tmp_path / "ran"


@pytest.fixture
def folder(tmp_path: Path, ran: Path) -> Path:
    """A sentence-transformers model whose encoder is code of its own."""
    model_folder = write_bert(tmp_path / "own")
    config = json.loads((model_folder / "config.json").read_text())
    classes = {"AutoConfig": "own_code.OwnConfig", "AutoModel": "own_code.OwnModel"}
    config |= {"model_type": "own", "architectures": ["OwnModel"], "auto_map": classes}
    (model_folder / "config.json").write_text(json.dumps(config))
    (model_folder / "own_code.py").write_text(CODE.format(ran=str(ran)))
    modules = [("0", "", "Transformer"), ("1", "1_Pooling", "Pooling")]
    types = "sentence_transformers.models"
    listed = [
        {"idx": index, "name": name, "path": path, "type": f"{types}.{kind}"}
        for index, (name, path, kind) in enumerate(modules)
    ]
    (model_folder / "modules.json").write_text(json.dumps(listed))
    (model_folder / "1_Pooling").mkdir()
    pooling = {"word_embedding_dimension": 32, "pooling_mode_mean_tokens": True}
    (model_folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    return model_folder


def _model(name: object, **options: Any) -> TextModel:
    return TEXT_EMBEDDERS.find(_models(model=str(name), **options).text_model)


def _models(tables: dict[str, Any] | None = None, **text: Any) -> EmbeddingModels:
    entries = {"text": {"revision": "1"} | text} | ({} if tables is None else {"tables": tables})
    return EmbeddingModels.model_validate({key: {"kind": "text_embedder", **entry} for key, entry in entries.items()})


@pytest.mark.slow  # importing sentence-transformers takes half a minute
def test_code_of_a_model_runs_where_it_is_trusted_and_nowhere_else(folder: Path, ran: Path) -> None:
    with pytest.raises(UserError, match=r"^embeddings\.text: .* comes with code of its own; .* trust_remote_code: true"):
        _model(folder).load(2)
    assert not ran.exists()
    embedder = _model(folder, trust_remote_code=True).load(2)
    assert ran.exists()
    assert np.linalg.norm(embedder.embed_query("a winch")) == pytest.approx(1, abs=1e-5)


def _served(then: EmbeddingModels, now: EmbeddingModels) -> Any:
    """Return the text embedder of a version as a service with another corpus file finds it."""
    card = ModelCard(
        name=then.text.model, revision=then.text.revision or "", dimension=32, settings_version=SETTINGS_VERSION
    )
    space = VectorSpace(model=card, key="k", settings=dict(then.text_model.settings))
    assert is_here("text", space, now) == runs_no_other_code(space, now)
    return Embedders({"text": space}, then, lambda: now)["text"]


@pytest.mark.parametrize(
    "now",
    [
        {},
        {"trust_remote_code": False},
        {"revision": "2"},
        {"model": "elsewhere"},
        {"code_revision": COMMIT},
        {"trust_remote_code": False, "tables": {"model": "x", "revision": "1", "trust_remote_code": True}},
    ],
)
def test_a_stored_version_alone_allows_no_code(folder: Path, ran: Path, now: dict[str, Any]) -> None:
    settings: dict[str, Any] = {"model": str(folder), "revision": "1", "trust_remote_code": True}
    then = _models(**settings)
    present = _models(**(settings | now)) if now else EmbeddingModels()
    with pytest.raises(
        UserError, match=r"brings code of its own; .* allow it in this corpus file: .* trust_remote_code: true"
    ):
        _served(then, present)
    assert not ran.exists()


@pytest.mark.slow
def test_a_service_whose_corpus_file_allows_the_code_runs_it(folder: Path, ran: Path) -> None:
    options = _models(model=str(folder), trust_remote_code=True)
    assert _served(options, options).embed_query("a winch").shape == (32,)
    assert ran.exists()


def test_a_name_on_the_hub_needs_a_commit() -> None:
    with pytest.raises(
        UserError, match=r"^embeddings\.text\.trust_remote_code: revision 'main' of acme/own may come to mean other"
    ):
        _model("acme/own", revision="main", trust_remote_code=True).card()


def test_code_in_another_repository_needs_a_commit_of_its_own(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    config["auto_map"]["AutoModel"] = "acme/code--own_code.OwnModel"
    (folder / "config.json").write_text(json.dumps(config))
    for wrong in ({}, {"code_revision": "main"}):
        with pytest.raises(UserError, match=r"code of .* lies in another repository; .* as code_revision"):
            _model(folder, trust_remote_code=True, **wrong).card()
    assert _model(folder, trust_remote_code=True, code_revision=COMMIT).card().dimension == 32


@pytest.mark.parametrize(
    ("entry", "line"),
    [
        ("{model: acme/own, trust_remote_code: true}", "trust_remote_code runs code .* needs its revision"),
        ("{model: acme/own, revision: '1', code_revision: '2'}", "set both, or neither"),
        ("{model: minilm, revision: '1', trust_remote_code: true}", "'minilm' is packaged .* takes no trust_remote_code"),
        (
            "{model: a/b, revision: '1', trust_remote_code: true, endpoint: {url: 'http://h/v1'}, dimension: 8}",
            "trust_remote_code runs code of a model that runs here",
        ),
    ],
)
def test_a_corpus_file_that_trusts_without_a_revision_is_refused(tmp_path: Path, entry: str, line: str) -> None:
    with pytest.raises(UserError, match=line) as raised:
        open_workspace(str(write_corpus(tmp_path, yaml.safe_dump(named_models({"text": yaml.safe_load(entry)})))))
    assert "\n" not in raised.value.message


def test_what_is_trusted_is_part_of_the_key_of_vectors() -> None:
    plain, trusted = (
        _models(model="acme/own", revision=COMMIT, trust_remote_code=trust).text_model for trust in (False, True)
    )
    assert plain.settings == ()
    assert trusted.settings == (("trust_remote_code", 1.0),)
