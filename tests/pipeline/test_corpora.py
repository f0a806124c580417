"""Corpus files: read, resolved, and explained when wrong."""

import json
from pathlib import Path

import pytest

from pipeline.corpora import load_corpus, write_corpus_file
from schemas.corpus import json_schema
from schemas.errors import UserError


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("INSET_CORPORA", raising=False)
    (tmp_path / "corpora").mkdir()
    return tmp_path / "corpora"


def test_name_and_source_are_enough(folder: Path) -> None:
    (folder / "manuals.yaml").write_text("name: manuals\nsource: ../pdfs\n")
    corpus = load_corpus("manuals")
    assert corpus.source == str(folder.parent / "pdfs")
    assert corpus.store == str(folder.parent / ".inset" / "store")
    assert corpus == load_corpus(str(folder / "manuals.yaml"))


def test_s3_addresses_stay_as_they_are(folder: Path) -> None:
    (folder / "m.yaml").write_text("name: m\nsource: s3://b/pdfs\nstore: s3://b/store\n")
    corpus = load_corpus("m")
    assert (corpus.source, corpus.store) == ("s3://b/pdfs", "s3://b/store")


@pytest.mark.parametrize(
    ("named", "spelled"),
    [
        ("canonical", "<image:{number}.{ext}>"),
        ("paper", "<image: filename({number}.{ext})>"),
        ("'<image:{page}/{number}>'", "<image:{page}/{number}>"),
    ],
)
def test_a_template_has_a_name_or_is_spelled_out(folder: Path, named: str, spelled: str) -> None:
    (folder / "m.yaml").write_text(f"name: m\nsource: x\ntags: {{template: {named}}}\n")
    assert load_corpus("m").tags.template == spelled


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: m\n", "m.yaml: source: this key is required"),
        ("name: m\nsource: x\nsorce: y\n", "m.yaml: sorce: unknown key; did you mean 'source'?"),
        ("name: m\nsource: x\nparse: {timeout: 3}\n", "parse.timeout: unknown key; did you mean 'timeout_s'?"),
        ("name: Bad-Name\nsource: x\n", "name: use a-z, 0-9 and _ only"),
        (
            "name: m\nsource: x\ngates: {max_quarantined: 2}\n",
            "gates.max_quarantined: Input should be less than or equal to 1",
        ),
        ("name: m\nsource: x\nembeddings: {text: BAAI/bge-m3}\n", "needs a revision"),
        ("name: m\nsource: x\nindex: {engine: weaviate}\n", "index: engine weaviate needs a url"),
        ("name: m\nsource: x\nindex: {engine: weaviate, url: 'localhost:8080'}\n", "index.url: use http://host:port"),
        ("name: m\nsource: x\nindex: {engine: weaviate, url: 'http://h:50051'}\n", "name the same port"),
        ("name: m\nsource: x\nindex: {weights: {titel: 2}}\n", "BM25 can't look in titel; known here: search_text"),
        ("name: m\nsource: x\ntags: {template: '<img>'}\n", "tags.template: a tag template holds"),
        ("name: m\nsource: x\nschedule: sometimes\n", "schedule: use a cron expression"),
        ("name: [\n", "m.yaml: line 2 this is not YAML"),
        ("just words", "this is not a corpus file"),
    ],
)
def test_mistakes_name_file_key_and_remedy(folder: Path, text: str, said: str) -> None:
    (folder / "m.yaml").write_text(text)
    with pytest.raises(UserError) as caught:
        load_corpus("m")
    assert said in caught.value.message
    assert "m.yaml" in caught.value.message


def test_an_unknown_name_lists_the_known_ones(folder: Path) -> None:
    (folder / "m.yaml").write_text("name: m\nsource: x\n")
    with pytest.raises(UserError, match="known here: m"):
        load_corpus("n")


def test_init_writes_a_file_that_loads(folder: Path) -> None:
    path = write_corpus_file("handbooks", "pdfs")
    assert load_corpus("handbooks").source == str(folder.parent / "pdfs")
    assert json.loads((folder / "corpus.schema.json").read_text()) == json_schema()
    with pytest.raises(UserError, match="is there already"):
        write_corpus_file("handbooks", "pdfs")
    assert path == folder / "handbooks.yaml"
