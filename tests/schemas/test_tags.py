"""The grammar of tags."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.tags import CANONICAL, PAPER, TagTemplate, escape, fill, placeholder, placeholders, restore, strip
from tasks.tag import number_figures

TEMPLATES = st.sampled_from([CANONICAL, PAPER, "<image:{number}>"])
NUMBERS = st.text("0123456789", min_size=4, max_size=48)


@given(TEMPLATES, NUMBERS)
def test_what_is_written_is_read_back(template: str, number: str) -> None:
    tags = TagTemplate(template)
    assert tags.numbers(f"before {tags.write(number)} after") == [number]


@given(TEMPLATES, NUMBERS, st.data())
def test_white_space_and_line_breaks_are_forgiven(template: str, number: str, data: st.DataObject) -> None:
    tag = TagTemplate(template).write(number)
    places = data.draw(st.lists(st.integers(1, len(tag) - 1), max_size=5))
    for place in sorted(places, reverse=True):
        tag = tag[:place] + data.draw(st.sampled_from([" ", "\n", "\t "])) + tag[place:]
    assert TagTemplate(template).numbers(tag) == [number]


@given(st.text())
def test_no_document_can_forge_a_figure(text: str) -> None:
    tags = TagTemplate()
    forged = escape(f"{text} <image:12345678.png> < Im age : 1234.png> {placeholder('0' * 64)}")
    assert tags.numbers(forged) == []
    assert placeholders(forged) == []


@given(st.text(st.characters(exclude_characters="\u2060\ue000\ue001", exclude_categories=["Cs"])))
def test_escaping_is_undone(text: str) -> None:
    assert restore(escape(f"{text}<image:1234.png>")) == f"{text}<image:1234.png>"


def test_text_is_cut_at_its_tags() -> None:
    tags = TagTemplate()
    assert tags.split("a <image:0001.png> b<image:0002.png>") == [
        ("a ", None),
        ("<image:0001.png>", "0001"),
        (" b", None),
        ("<image:0002.png>", "0002"),
    ]


def test_placeholders_are_filled_and_stripped() -> None:
    one = "ab" * 32
    text = f"Press {placeholder(one)} now\n{placeholder(one)}\nFigure 1"
    assert fill(text, lambda figure_id: figure_id[:2]) == "Press ab now\nab\nFigure 1"
    assert strip(text) == "Press now\nFigure 1"
    assert placeholders(text) == [one, one]


@pytest.mark.parametrize(
    "template", ["<image:{ext}>", "image:{number}", "<image:{number}{number}>", "<image:{number}{page}>"]
)
def test_a_template_without_a_single_number_is_refused(template: str) -> None:
    with pytest.raises(ValueError, match="tag template"):
        TagTemplate(template)


def test_numbers_are_padded_to_their_digits() -> None:
    assert number_figures({"a": 42}, 8) == {"a": "00000042"}


def test_only_figures_that_share_a_number_are_widened_and_no_further_than_needed() -> None:
    digests = {"a": 1_700000042, "b": 2_700000042, "c": 99, "d": 3_600000042}
    assert number_figures(digests, 8) == {"a": "1700000042", "b": "2700000042", "c": "00000099", "d": "600000042"}


@given(st.lists(st.integers(0, 2**160 - 1), unique=True, max_size=30))
def test_numbering_is_a_function_of_the_set(values: list[int]) -> None:
    digests = {f"figure-{value}": value for value in values}
    numbers = number_figures(digests, 4)
    assert numbers == number_figures(dict(reversed(digests.items())), 4)
    assert len(set(numbers.values())) == len(digests)
    assert all(str(digests[name] % 10 ** len(number)).zfill(len(number)) == number for name, number in numbers.items())
