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
captions:
  captioner: far
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


def test_pages_have_the_captioner_of_their_source(tmp_path: Path) -> None:
    file = tmp_path / "manuals.yaml"
    file.write_text(f"{CORPUS}  pages: context\n")
    one = open_workspace(str(file))
    assert one.captioner_of("page", "phones/a.pdf") is None
    file.write_text(f'{CORPUS}  pages: context\n  pages_by_source: {{"phones/**": far, "pumps/*": near, "**": context}}\n')
    other = open_workspace(str(file))
    found = [other.captioner_of("page", source) for source in ("phones/a/b.pdf", "pumps/c.pdf", "d.pdf")]
    assert found == ["far (pages)", "near (pages)", None]
    assert {name for name, used in other.captioners.items() if used.subject == "page"} == {"far (pages)", "near (pages)"}
    assert one.keys.assembled != other.keys.assembled
    assert one.keys.structured == other.keys.structured


@pytest.mark.parametrize(
    ("more", "line"),
    [
        ('pages_by_source: {"phones/**": far}', "pages_by_source: set pages too"),
        (
            'pages: far\n  pages_by_source: {"phones/**": absent}',
            r"pages_by_source\.phones/\*\*: there is no captioner 'absent'",
        ),
    ],
)
def test_pages_of_sources_need_a_captioner_that_is_there(tmp_path: Path, more: str, line: str) -> None:
    file = tmp_path / "manuals.yaml"
    file.write_text(f"{CORPUS}  {more}\n")
    with pytest.raises(UserError, match=line):
        open_workspace(str(file))


def test_a_later_option_at_its_default_keeps_the_keys_of_chunks(tmp_path: Path) -> None:
    file = tmp_path / "manuals.yaml"
    structured = {}
    for chunks in ("{tokens: 100}", "{tokens: 100, by: sections}", "{tokens: 100, by: pages}"):
        file.write_text(f"{CORPUS}chunks: {chunks}\n")
        structured[chunks] = open_workspace(str(file)).keys.structured
    first, same, other = structured.values()
    assert first == same != other
