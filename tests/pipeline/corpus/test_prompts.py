"""The prompt that a corpus file names."""

from pathlib import Path

import pytest

from pipeline.corpus.prompts import find_prompt
from schemas.corpus.models import EntryKind
from schemas.errors import UserError
from tasks.enriching.prompts import presets


def test_a_preset_by_name_and_the_default() -> None:
    assert find_prompt("figure-summary-paper", subject="figure", kind=EntryKind.VLM) == presets()["figure-summary-paper"]
    assert find_prompt(None, subject="figure", kind=EntryKind.LLM) == presets()["ocr-caption"]
    assert find_prompt(None, subject="page", kind=EntryKind.LOCAL) == presets()["page"]


def test_a_file_of_ones_own_beside_the_corpus_file(tmp_path: Path) -> None:
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "mine.txt").write_text("Décris $caption", encoding="utf-8")
    prompt = find_prompt("prompts/mine.txt", tmp_path, subject="page", kind=EntryKind.VLM)
    assert (prompt.body, prompt.words, prompt.name) == ("Décris $caption", None, "mine.txt")
    absolute = str(tmp_path / "prompts" / "mine.txt")
    assert find_prompt(absolute, subject="figure", kind=EntryKind.LOCAL).digest == prompt.digest


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("figur", "there is no prompt 'figur'; use figure, "),
        ("text-summary", "asks for a text, not for a figure; presets that fit: figure"),
        ("none.md", "there is no file .*none.md; presets are figure"),
        ("./", "there is no file"),
        ("bad.md", r"bad.md: there is no placeholder \$kaption"),
        ("latin.md", "not text in UTF-8"),
        ("large.md", "more than 64 KiB"),
    ],
)
def test_a_mistake_names_the_setting_and_what_to_do(name: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "bad.md").write_text("Describe $kaption")
    (tmp_path / "latin.md").write_bytes("Décris".encode("latin-1"))
    (tmp_path / "large.md").write_text("Describe it. " * 6000)
    with pytest.raises(UserError, match=f"^models.x.prompt: .*{says}") as raised:
        find_prompt(name, tmp_path, subject="figure", kind=EntryKind.VLM, setting="models.x.prompt")
    assert "\n" not in raised.value.message


def test_a_language_model_sees_no_page_and_no_picture() -> None:
    with pytest.raises(UserError, match=r"figure asks about the picture, .* presets that fit: ocr-caption"):
        find_prompt("figure", subject="figure", kind=EntryKind.LLM)
    with pytest.raises(UserError, match="can't describe a page"):
        find_prompt(None, subject="page", kind=EntryKind.LLM)
