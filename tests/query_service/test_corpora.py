"""Which corpora the service serves: all whose files can be read."""

import logging
import os
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from query_service.serve import ServiceOptions
from schemas.errors import UserError


@pytest.fixture
def corpora(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "corpora"
    folder.mkdir()
    monkeypatch.setenv("INSET_CORPORA", str(folder))
    return folder


def test_a_broken_corpus_file_costs_its_own_corpus(corpora: Path, caplog: pytest.LogCaptureFixture) -> None:
    (corpora / "good.yaml").write_text("name: good\nsource: ../pdfs\n")
    (corpora / "copy.yaml").write_text("name: good\nsource: ../elsewhere\n")
    (corpora / "nested.yaml").write_text(f"name: nested\nsource: {'[' * 3000}\n")
    (corpora / "lost.yaml").write_text("name: lost\nsource: ../pdfs\nquestions: nowhere.jsonl\n")
    os.mkfifo(corpora / "f.yaml")
    with caplog.at_level(logging.ERROR), TestClient(ServiceOptions().open(), base_url="http://localhost") as client:
        assert [corpus["name"] for corpus in client.get("/v1/corpora").json()] == ["good"]
    for file in ("copy.yaml:", "nested.yaml:", "nowhere.jsonl;", "f.yaml:"):
        assert [file in line for line in caplog.messages].count(True) == 1
    with pytest.raises(UserError, match=r"nested\.yaml"):
        ServiceOptions(corpora=["good", "nested"]).open()


def test_without_a_corpus_that_can_be_read_there_is_nothing_to_serve(corpora: Path) -> None:
    (corpora / "m.yaml").write_text("name: [\n")
    with pytest.raises(UserError, match="no corpus to serve"):
        ServiceOptions().open()
