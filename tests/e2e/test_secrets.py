"""Secrets of the environment turn up nowhere: not in the store, not in logs, not in what commands and the service say."""

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pymupdf
import pytest
from fastapi.testclient import TestClient

from pipeline.corpus.workspace import open_workspace
from pipeline.published.corpus import PublishedCorpus
from query_service.app import create_app
from tests.manuals import write_manual
from tests.pipeline.conftest import write_corpus

pytestmark = pytest.mark.slow

SECRETS = {
    "PDF_PASSWORDS": "planted-wombat",
    "INDEX_KEY": "planted-kiwi",
    "AWS_ACCESS_KEY_ID": "planted-emu",
    "AWS_SECRET_ACCESS_KEY": "planted-quokka",
    "AWS_SESSION_TOKEN": "planted-numbat",
}
MORE = """\
tags: {pdf: true}
parse: {workers: 2, passwords_env: PDF_PASSWORDS}
index: {url: "http://127.0.0.1:9", api_key_env: INDEX_KEY}
"""
COMMANDS = (["refresh"], ["quarantine", "--json"], ["doctor"])


def _locked(path: Path, subject: str, password: str) -> None:
    plain = write_manual(path.parent.parent / "plain.pdf", subject, seed=5)
    with pymupdf.open(plain) as pdf:
        pdf.save(path, encryption=pymupdf.PDF_ENCRYPT_AES_256, user_pw=password, owner_pw=password)


def _texts(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield every file's name and its bytes as text; of a table also its values, which are compressed there."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        yield str(path), path.read_bytes().decode("latin-1")
        if path.suffix == ".parquet":
            yield str(path), str(pq.read_table(path).to_pydict())


def _found(text: str) -> list[str]:
    return [secret for secret in SECRETS.values() if secret in text]


def test_planted_secrets_stay_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    write_manual(tmp_path / "pdfs" / "pump.pdf", "water pump", seed=1)
    _locked(tmp_path / "pdfs" / "opened.pdf", "steel winch", SECRETS["PDF_PASSWORDS"])
    _locked(tmp_path / "pdfs" / "closed.pdf", "tower crane", "another")
    file = write_corpus(tmp_path)
    file.write_text(
        file.read_text()
        .replace("parse: {workers: 2, layout: never}\n", MORE)
        .replace("captions", "gates: {max_quarantined: 0.5}\ncaptions")
    )
    for name, secret in SECRETS.items():
        monkeypatch.setenv(name, secret)

    for command, *options in COMMANDS:
        arguments = [sys.executable, "-m", "cli.main", command, str(file), *options]
        run = subprocess.run(arguments, capture_output=True, text=True, check=False)
        assert run.stdout + run.stderr
        assert _found(run.stdout + run.stderr) == [], command
    workspace = open_workspace(str(file))
    assert workspace.store.exists("LIVE"), "the refresh went through"
    assert [(name, secrets) for name, text in _texts(tmp_path) if (secrets := _found(text))] == []

    published = PublishedCorpus(workspace)
    client = TestClient(create_app({"manuals": published}), base_url="http://localhost")
    base = "/v1/corpora/manuals"
    hits = client.post(f"{base}/search", json={"query": "steel winch", "k": 50}).json()["hits"]
    locked = next(hit["doc_id"] for hit in hits if hit["source"] == "opened.pdf")
    answers = [
        client.get("/readyz"),
        client.get("/v1/corpora"),
        client.get(f"{base}/versions"),
        client.get(f"{base}/documents/{locked}.pdf"),
        client.get(f"{base}/documents/{locked}/pages/1.png"),
        client.get(f"{base}/documents/{locked}/pages/9.png"),
        client.post(f"{base}/answer", json={"question": "How many screws has the steel winch?"}),
    ]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 200, 200, 404, 200]
    (Path(workspace.store.root) / "LIVE").write_bytes(b"damaged")
    answers += [client.get("/readyz"), client.get(base)]
    published.close()
    assert [secrets for answer in answers if (secrets := _found(answer.text + str(answer.headers)))] == []
    assert _found(caplog.text) == []
    assert _found(str(os.environ)) != [], "they were there to be found"
