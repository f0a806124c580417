"""Secrets that a run is given are in nothing that it leaves: objects, logs, notes, messages."""

import io
import logging
from pathlib import Path

import pyarrow.parquet as pq
import pymupdf
import pytest

from backends.stores.s3_store import s3_client
from pipeline.corpus.workspace import open_workspace
from pipeline.run import RefreshRun, refresh
from pipeline.upkeep.doctor import diagnose
from tests.manuals import write_manual

SECRETS = {
    "PDF_SECRET": "rosebud-4711",
    "AWS_SECRET_ACCESS_KEY": "hunter2-hunter2",
    "AWS_SESSION_TOKEN": "token-0815-token",
}


def _locked(path: Path, password: str) -> Path:
    with pymupdf.open(write_manual(path, "tower crane", pages=1)) as document:
        data = document.tobytes(encryption=pymupdf.PDF_ENCRYPT_AES_256, user_pw=password, owner_pw=password)
    path.write_bytes(data)
    return path


def _objects(bucket: str) -> dict[str, bytes]:
    client = s3_client()
    listed = client.get_paginator("list_objects_v2").paginate(Bucket=bucket)
    names = [item["Key"] for page in listed for item in page.get("Contents", [])]
    return {name: client.get_object(Bucket=bucket, Key=name)["Body"].read() for name in names}


def _plain(name: str, data: bytes) -> bytes:
    """Return what an object holds, unpacked where it is packed."""
    if name.endswith(".parquet"):
        return str(pq.read_table(io.BytesIO(data)).to_pylist()).encode()
    return data


@pytest.mark.slow
def test_a_whole_run_leaves_no_secret_behind(
    s3_bucket: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    for name, secret in SECRETS.items():
        monkeypatch.setenv(name, f"wrong one\n{secret}" if name == "PDF_SECRET" else secret)
    caplog.set_level(logging.DEBUG)
    for theirs in ("botocore", "urllib3"):
        caplog.set_level(logging.INFO, theirs)  # their DEBUG shows requests as they are
    for file in (
        _locked(tmp_path / "open.pdf", SECRETS["PDF_SECRET"]),
        _locked(tmp_path / "locked.pdf", "nobody knows"),
        write_manual(tmp_path / "pump.pdf", "water pump", pages=1),
    ):
        s3_client().upload_file(str(file), s3_bucket, f"pdfs/{file.name}")
    (tmp_path / "corpora").mkdir()
    corpus = tmp_path / "corpora" / "m.yaml"
    corpus.write_text(
        f"name: m\nsource: s3://{s3_bucket}/pdfs\nstore: s3://{s3_bucket}/store\ncaptions: {{ocr: none}}\n"
        "parse: {workers: 1, passwords_env: PDF_SECRET}\ntags: {pdf: true}\ngates: {max_quarantined: 0.5}\n"
    )
    monkeypatch.setenv("INSET_CORPORA", str(corpus.parent))
    result = refresh(open_workspace(str(corpus)))
    assert result.published
    assert (result.counts.documents, result.counts.quarantined) == (2, 1)
    outputs = [
        result.model_dump_json(),
        diagnose([]).model_dump_json(),
        str(RefreshRun(open_workspace("m"), "run-1").plan()),
    ]
    captured = capfd.readouterr()
    outputs += [caplog.text, captured.out, captured.err]
    objects = {name: _plain(name, data) for name, data in _objects(s3_bucket).items()}
    assert len(objects) > 20
    for secret in SECRETS.values():
        assert [name for name, data in objects.items() if secret.encode() in data] == []
        assert [text for text in outputs if secret in text] == []
