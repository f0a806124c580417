"""Keys and passwords are used, and found nowhere: not in the store, logs, metrics or reports."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pymupdf
import pytest
import yaml
from fastapi.testclient import TestClient

from backends.stores.objects import read_table
from pipeline.corpus.workspace import open_workspace
from pipeline.published.corpus import PublishedCorpus
from pipeline.run import refresh
from pipeline.stages.plan import plan
from pipeline.upkeep.doctor import diagnose
from query_service.access import Access
from query_service.app import create_app
from query_service.keys import Key, KeyFile, digest
from schemas.ports import ObjectStore
from tests.endpoint_server import EndpointServer, status
from tests.manuals import write_manual
from tests.pipeline.conftest import write_corpus

SECRETS = {
    "AWS_SECRET_ACCESS_KEY": "made-up-bucket-secret-81c7",
    "AWS_SESSION_TOKEN": "made-up-session-token-d204",
    "VLM_KEY": "made-up-model-key-5f3a",
    "PDF_PASSWORDS": "made-up-pdf-password-77be",
}
SERVICE_KEY = "inset_made-up-service-key-0b9d"


def _stored(store: ObjectStore) -> Iterator[tuple[str, str]]:
    """Yield the name and content of all that is stored, as bytes and, of tables, as rows."""
    for name in store.names(""):
        with store.open(name) as file:
            yield name, file.read().decode("latin-1")
        if name.endswith(".parquet"):
            yield name, json.dumps(read_table(store, name).to_pylist(), default=repr)


def test_secrets_are_used_and_found_nowhere(
    s3_bucket: str,
    tmp_path: Path,
    endpoint: EndpointServer,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    for name, secret in SECRETS.items():
        monkeypatch.setenv(name, secret)
    caplog.set_level(logging.DEBUG, "inset")
    with pymupdf.open(write_manual(tmp_path / "plain.pdf", "steel winch", seed=2)) as pdf:
        (tmp_path / "pdfs").mkdir()
        pdf.save(tmp_path / "pdfs" / "locked.pdf", encryption=pymupdf.PDF_ENCRYPT_AES_256, user_pw=SECRETS["PDF_PASSWORDS"])
    write_manual(tmp_path / "pdfs" / "pump.pdf", "water pump", seed=1)
    file = write_corpus(tmp_path)
    corpus = yaml.safe_load(file.read_text())
    server = {"url": endpoint.url, "retries": 0, "api_key_env": "VLM_KEY"}
    corpus["models"] = {"vlm": {"kind": "vlm", "model": "tiny-vlm", "revision": "1", "endpoint": server}}
    corpus["captions"] |= {"captioner": "vlm"}
    corpus |= {"store": f"s3://{s3_bucket}/inset", "parse": {"workers": 2, "passwords_env": "PDF_PASSWORDS"}}
    file.write_text(yaml.safe_dump(corpus))
    # A server that repeats the key in its error.
    endpoint.script(status(400, f"the key {SECRETS['VLM_KEY']} may not ask about this picture"))

    workspace = open_workspace(str(file))
    result = refresh(workspace)
    assert result.published
    assert result.counts.documents == 2, "the password opened the second"
    sent = {call.headers.get("authorization") or call.headers.get("Authorization") for call in endpoint.calls}
    assert sent == {f"Bearer {SECRETS['VLM_KEY']}"}

    keys = tmp_path / "keys.jsonl"
    keys.write_text(
        Key.model_validate(
            {"name": "team", "sha256": digest(SERVICE_KEY), "corpora": ["*"], "metrics": True}
        ).model_dump_json()
        + "\n"
    )
    published = PublishedCorpus(workspace)
    with TestClient(
        create_app({"manuals": published}, access=Access(KeyFile(keys))), base_url="http://localhost"
    ) as client:
        headers = {"authorization": f"Bearer {SERVICE_KEY}"}
        replies = [
            client.post("/v1/corpora/manuals/search", json={"query": "winch screws"}, headers=headers),
            client.get("/metrics", headers=headers),
            client.get("/v1/corpora/manuals", headers=headers),
            client.post(
                "/v1/corpora/manuals/search", json={"query": "x"}, headers={"authorization": f"Bearer {SERVICE_KEY}x"}
            ),
        ]
    published.close()
    assert [reply.status_code for reply in replies] == [200, 200, 200, 401]

    printed = capfd.readouterr()
    outputs = {
        "standard output": printed.out,
        "standard error": printed.err,
        "logs": caplog.text,
        "keys": keys.read_text(),
        "result": result.model_dump_json(),
        "plan": plan(workspace, "look").model_dump_json(),
        "doctor": diagnose([str(file)]).model_dump_json(),
        **{str(reply.request.url): reply.text + repr(reply.headers) for reply in replies},
    }
    stored = list(_stored(workspace.store))
    assert len(stored) > 50
    for secret in (*SECRETS.values(), SERVICE_KEY):
        assert [name for name, text in outputs.items() if secret in text] == []
        assert [name for name, text in stored if secret in text] == []
