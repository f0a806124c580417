"""What keys cover, and what they leave as it was."""

from pathlib import Path

import pytest

from backends.models import endpoint, local_model
from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.records import near_duplicates
from pipeline.records.near_duplicates import near_duplicate_cache
from schemas.ids import key
from tasks.enriching.prompts import PROMPT_VERSION

CORPUS = """
name: manuals
source: ../pdfs
captions:
  captioner: far
  near_duplicates: 4
  models:
    far: {kind: vlm, model: acme/vlm, revision: "1", endpoint: {url: "http://localhost:1/v1"}}
    near: {kind: local, model: acme/vlm, revision: "1"}
  by_source: {"phones/**": near}
"""


def opened(folder: Path) -> Workspace:
    file = folder / "manuals.yaml"
    file.write_text(CORPUS)
    return open_workspace(str(file))


def keys(folder: Path) -> dict[str, str]:
    workspace = opened(folder)
    return {name: used.captions.key for name, used in workspace.captioners.items()}


def test_what_was_paid_for_keeps_its_key_until_how_models_are_used_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = keys(tmp_path)
    used = opened(tmp_path).captioners["far"]
    asked = {"kind": "vlm", "temperature": 0.0, "top_p": 1.0, "max_tokens": 300, "max_side_px": 1024, "language": None}
    model = {"name": "acme/vlm", "revision": "1", "dimension": None}
    assert first["far"] == key(model=model, asked=asked, prompt=used.prompt.digest, step=PROMPT_VERSION)
    monkeypatch.setattr(endpoint, "SETTINGS_VERSION", "2")
    raised = keys(tmp_path)
    assert (raised["far"] != first["far"], raised["near"]) == (True, first["near"])
    monkeypatch.setattr(local_model, "SETTINGS_VERSION", "2")
    assert keys(tmp_path)["near"] != first["near"]


def test_whose_description_serves_whom_is_decided_anew_once_hashes_are_made_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = opened(tmp_path)
    used = workspace.captioners["far"]
    first = near_duplicate_cache(workspace, used).folder
    assert first == f"likenesses/{key(captions=used.captions.key, bits=4, step='1')}"
    monkeypatch.setattr(near_duplicates, "HASH_VERSION", "2")
    assert near_duplicate_cache(workspace, used).folder != first
