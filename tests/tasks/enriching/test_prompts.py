"""What generative models are asked."""

import pickle

import pytest

from schemas.corpus.models import EntryKind
from schemas.tags import placeholder
from tasks.enriching.prompts import (
    PLACEHOLDERS,
    PromptError,
    Surroundings,
    default_prompt,
    presets,
    read_prompt,
)
from tests.conftest import CheckGolden

FULL = Surroundings(
    caption="Figure 3: The pressure relief valve",
    section="Maintenance > Valves",
    before="Close the inlet first.",
    after="Then turn the screw (4)\nby a quarter.",
    words="MAX 6 bar 4",
    title="Water pump WP-200",
    page="17",
    language="de",
)


@pytest.mark.parametrize("name", list(presets()))
def test_each_preset_is_what_it_was(name: str, golden: CheckGolden) -> None:
    prompt = presets()[name]
    full, bare = prompt.render(FULL), prompt.render(Surroundings())
    golden(f"prompts/{name}.txt", f"{full}\n\n===== nothing known =====\n\n{bare}\n")


def test_presets_say_where_they_come_from_and_what_they_describe() -> None:
    assert len(presets()) >= 7
    for prompt in presets().values():
        assert prompt.source
        assert prompt.subject is not None
        assert prompt.words is not None
        assert "$" not in prompt.render(FULL)


def test_a_line_whose_placeholder_has_no_value_vanishes() -> None:
    prompt = read_prompt("mine", "Describe it.\n\nCaption: $caption\n\nFrom $section, ${page}\n\nIt costs $$5.")
    assert (
        prompt.render(Surroundings(caption="A valve", section="Valves"))
        == "Describe it.\n\nCaption: A valve\n\nIt costs $5."
    )
    assert prompt.render(Surroundings()) == "Describe it.\n\nIt costs $5."


def test_values_are_one_line_and_never_placeholders() -> None:
    prompt = read_prompt("mine", "Before: $before\nCaption: $caption")
    around = Surroundings(before=f"Press\n\n{placeholder('ab' * 32)} twice", caption="costs $title")
    assert prompt.render(around) == "Before: Press twice\nCaption: costs $title"


def test_the_language_is_the_documents_where_none_is_named() -> None:
    prompt = read_prompt("mine", "Language: $language.")
    assert prompt.render(Surroundings()) == "Language: that of the document's own words."
    assert prompt.render(Surroundings(language="fr")) == "Language: fr."


def test_only_what_the_model_reads_is_in_the_digest() -> None:
    text = "---\nsource: me\nwords: [2, 6]\n---\nDescribe $caption"
    prompt = read_prompt("mine", text)
    assert prompt.digest == read_prompt("other", text.replace("[2, 6]", "[2, 9]").replace("me", "you")).digest
    assert prompt.digest != read_prompt("mine", text.replace("Describe", "describe")).digest
    assert prompt.expected == {"words": [2, 6], "bullets": False}
    assert prompt.digest == read_prompt("mine", text.replace("\n", "\r\n")).digest, "line ends of another system"
    assert len({preset.digest for preset in presets().values()}) == len(presets())


def test_the_instructions_are_what_holds_nothing_of_the_document() -> None:
    prompt = read_prompt("mine", "Describe it.\nCaption: $caption")
    assert prompt.instructions == "Describe it."
    assert prompt.names == ("caption",)


def test_a_prompt_travels() -> None:
    prompt = presets()["figure"]
    assert pickle.loads(pickle.dumps(prompt)) == prompt.model_copy()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Describe $kaption", r"no placeholder \$kaption; known are \$caption"),
        ("Costs $5", r"write \$\$"),
        ("---\nsource: x\nDescribe", "no end"),
        ("---\nsource: [x\n---\nDescribe", "not YAML"),
        ("---\n- x\n---\nDescribe", "front matter"),
        ("---\nsource: 2024-99-99\n---\nDescribe", "not YAML"),
        ("---\nwords: [1, " + "9" * 5000 + "]\n---\nDescribe", "not YAML"),
        ("---\nword: [1, 2]\n---\nDescribe", "word: .*known are source, subject, picture, words, bullets"),
        ("---\nwords: [6, 2]\n---\nDescribe", "the least and the most"),
        ("---\nsubject: photo\n---\nDescribe", "subject"),
        ("---\nsource: x\n---\n \n", "asks for nothing"),
        ("", "asks for nothing"),
    ],
)
def test_what_is_no_prompt_says_why(text: str, says: str) -> None:
    with pytest.raises(PromptError, match=says):
        read_prompt("mine", text)


def test_every_captioner_has_a_prompt_for_what_it_can_describe() -> None:
    for subject in ("figure", "page", "text"):
        for kind in (kind for kind in EntryKind if kind.writes):
            prompt = default_prompt(subject, kind)
            if prompt is None:
                assert (subject, kind) == ("page", EntryKind.LLM)
                continue
            assert prompt.subject == subject
            assert kind.sees or not prompt.picture
    for name in ("ocr-caption", "text-summary"):
        assert "words" in presets()[name].names
    assert set(presets()["figure"].names) == set(PLACEHOLDERS)
