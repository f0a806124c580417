"""What keys cover, and what they leave as it was."""

from pathlib import Path

import pytest

from backends.models import endpoint, local_model
from pipeline.corpus.workspace import Workspace, open_workspace
from schemas.errors import UserError
from schemas.ids import key
from tasks.enriching.prompts import PROMPT_VERSION

CORPUS = """
name: manuals
source: ../pdfs
models:
  far: {kind: vlm, model: acme/vlm, revision: "1", endpoint: {url: "http://localhost:1/v1"}}
  near: {kind: local, model: acme/vlm, revision: "1"}
  reads: {kind: llm, model: acme/llm, revision: "1", endpoint: {url: "http://localhost:1/v1"}}
captions:
  captioner: far
  summaries: near
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
    settings = {"kind": "vlm", "temperature": 0.0, "top_p": 1.0, "max_tokens": 300, "max_side_px": 1024, "language": None}
    model = {"name": "acme/vlm", "revision": "1", "dimension": None}
    assert first["far"] == key(model=model, asked=settings, prompt=used.prompt.digest, step=PROMPT_VERSION)
    file = tmp_path / "manuals.yaml"
    file.write_text(CORPUS.replace("captioner: far", "captioner: reads"))
    reads = open_workspace(str(file)).captioners["reads"]
    named_as_before = settings | {"kind": "ocr_llm"}
    card = model | {"name": "acme/llm"}
    assert reads.captions.key == key(model=card, asked=named_as_before, prompt=reads.prompt.digest, step=PROMPT_VERSION), (
        "as release 0.2.0 had it"
    )
    monkeypatch.setattr(endpoint, "SETTINGS_VERSION", "2")
    raised = keys(tmp_path)
    assert (raised["far"] != first["far"], raised["near (texts)"]) == (True, first["near (texts)"])
    monkeypatch.setattr(local_model, "SETTINGS_VERSION", "2")
    assert keys(tmp_path)["near (texts)"] != first["near (texts)"]


def test_pages_have_their_captioner_whatever_their_source(tmp_path: Path) -> None:
    file = tmp_path / "manuals.yaml"
    file.write_text(f"{CORPUS}  pages: context\n")
    by_words = open_workspace(str(file))
    assert by_words.captioner_of("page") is None
    file.write_text(f"{CORPUS}  pages: far\n")
    by_model = open_workspace(str(file))
    assert by_model.captioner_of("page") == "far (pages)"
    assert [name for name, captioner in by_model.captioners.items() if captioner.subject == "page"] == ["far (pages)"]
    assert by_words.keys.assembled != by_model.keys.assembled
    assert by_words.keys.structured == by_model.keys.structured


def test_pages_need_a_captioner_that_is_defined(tmp_path: Path) -> None:
    file = tmp_path / "manuals.yaml"
    file.write_text(f"{CORPUS}  pages: absent\n")
    with pytest.raises(UserError, match="pages: there is no captioner 'absent'"):
        open_workspace(str(file))


def test_a_later_option_at_its_default_keeps_the_keys_of_chunks(tmp_path: Path) -> None:
    file = tmp_path / "manuals.yaml"
    structured = {}
    for chunks in ("{tokens: 100}", "{tokens: 100, by: sections}", "{tokens: 100, by: pages}"):
        file.write_text(f"{CORPUS}chunks: {chunks}\n")
        structured[chunks] = open_workspace(str(file)).keys.structured
    first, same, different = structured.values()
    assert first == same != different
