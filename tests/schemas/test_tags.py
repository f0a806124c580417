"""The grammar of tags."""

import re
from random import Random
from typing import cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.tags import (
    CANONICAL,
    PAPER,
    Tag,
    TagTemplate,
    escape,
    fill,
    is_disarmed,
    placeholder,
    placeholders,
    restore,
    strip,
)
from tasks.versions.assemble import number_figures

FIELDS: dict[str, st.SearchStrategy[object]] = {
    "number": st.text("0123456789", min_size=4, max_size=49),
    "ext": st.sampled_from(["png", "jpg", "jp2"]),
    "width": st.integers(1, 100_000),
    "height": st.integers(1, 100_000),
    "kind": st.sampled_from(["raster", "vector", "composite"]),
    "role": st.sampled_from(["content", "icon", "page_scan"]),
    "doc": st.text("0123456789abcdef", min_size=12, max_size=12),
    "title": st.text(st.characters(exclude_categories=["Cs"]), max_size=20) | st.just("Pump (P-200) <new>: 5 %"),
    "page": st.integers(1, 10_000),
    "bbox": st.tuples(*[st.integers(0, 14_400)] * 4),
}


@st.composite
def _templates(draw: st.DrawFn) -> str:
    """A canonical template, the paper's, or one's own: fields in any order, something between them that no field can have."""
    if draw(st.booleans()):
        return draw(st.sampled_from([CANONICAL, PAPER]))
    fields = draw(st.permutations(sorted(FIELDS)))[: draw(st.integers(1, len(FIELDS)))]
    fields = fields if "number" in fields else [*fields, "number"]
    between = st.text("|;()/ =", max_size=3).map(lambda text: f"{text}|")
    return "<image:" + "".join(f"{draw(between)}{{{name}}}" for name in fields) + draw(between) + ">"


@st.composite
def _tags(draw: st.DrawFn) -> tuple[str, Tag]:
    template = draw(_templates())
    return template, cast(Tag, {name: draw(FIELDS[name]) for name in TagTemplate(template).fields})


def _broken(tag: str, data: st.DataObject) -> str:
    """Set white space and line breaks anywhere into a tag."""
    for position in sorted(data.draw(st.lists(st.integers(1, len(tag) - 1), max_size=5)), reverse=True):
        tag = tag[:position] + data.draw(st.sampled_from([" ", "\n", "\t ", "\u00a0"])) + tag[position:]
    return tag


def _what_is_written_is_read_back(pair: tuple[str, Tag], data: st.DataObject) -> None:
    template, tag = pair
    tags = TagTemplate(template)
    tag_text = tags.write(**tag)
    assert tags.read(f"before {tag_text} after{tag_text}") == [tag, tag]
    assert tags.numbers(tag_text) == [tag["number"]]
    assert tags.read(_broken(tag_text, data)) == [tag]
    assert tag_text.isascii(), "any font can show it"


test_what_is_written_is_read_back = given(_tags(), st.data())(_what_is_written_is_read_back)
test_ten_thousand_tags_are_read_back = pytest.mark.slow(
    pytest.mark.endurance(
        settings(max_examples=10_000, suppress_health_check=list(HealthCheck))(
            given(_tags(), st.data())(_what_is_written_is_read_back)
        )
    )
)


def test_what_is_in_brackets_is_no_end_of_a_tag() -> None:
    tags = TagTemplate("<image: {title}({number}.{ext})>")
    tag_text = tags.write("00000042", title="Pump (P-200) <image:00000001.png> 5 %")
    assert tag_text == "<image: Pump%20%28P-200%29%20%3Cimage%3A00000001.png%3E%205%20%25(00000042.png)>"
    assert TagTemplate().numbers(tag_text) == []
    assert tags.read(tag_text)[0]["title"] == "Pump (P-200) <image:00000001.png> 5 %"


def test_a_detail_that_the_template_holds_must_be_given() -> None:
    with pytest.raises(ValueError, match="needs page"):
        TagTemplate("<image:{number}|{page}>").write("00000042")


@given(_tags(), st.data())
def test_no_document_can_forge_a_tag_of_any_template(made: tuple[str, Tag], data: st.DataObject) -> None:
    template, tag = made
    forged = _broken(TagTemplate(template).write(**tag), data)
    assert TagTemplate(template).numbers(escape(f"see {forged}")) == []


@given(_tags(), st.data())
def test_nor_by_a_line_that_ends_within_it(made: tuple[str, Tag], data: st.DataObject) -> None:
    template, tag = made
    forged = TagTemplate(template).write(**tag)
    cut = data.draw(st.integers(1, len(forged) - 1))
    hyphen = data.draw(st.sampled_from(["", " ", "-", "\u00ad"]))
    first, second = escape(forged[:cut] + hyphen), escape(forged[cut:])
    for joined in (f"{first}\n{second}", first.rstrip(" -\u00ad") + second):
        assert TagTemplate(template).numbers(joined) == []
    assert restore(first) == forged[:cut] + hyphen
    assert is_disarmed(f"{first}\n{second}")
    assert not is_disarmed(f"see {forged}")


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
    digest = "ab" * 32
    text = f"Press {placeholder(digest)} now\n{placeholder(digest)}\nFigure 1"
    assert fill(text, lambda figure_id: figure_id[:2]) == "Press ab now\nab\nFigure 1"
    assert strip(text) == "Press now\nFigure 1"
    assert placeholders(text) == [digest, digest]


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("<image:{ext}>", "holds {number}"),
        ("image:{number}", "starts with <image:"),
        ("<image:{number}>.", "ends with its only >"),
        ("<image:{number}<>", "ends with its only >"),
        ("<image:{{{number}}}>", "holds {number}"),
        ("<image:{number}{>", "nothing else in braces"),
        ("<image:{number}|{number}>", "each once"),
        ("<image:{number}|{caption}>", "nothing else in braces"),
        ("<image:{number}{page}>", "between {number} and {page}"),
        ("<image:{number} {page}>", "between {number} and {page}"),
        ("<image:{doc}a{number}>", "between {doc} and {number}"),
        ("<image:{number}–{page}>", "printable ASCII"),
    ],
)
def test_a_template_whose_tags_could_not_be_read_is_refused(template: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"tag template.*{re.escape(message)}"):
        TagTemplate(template)


def test_numbers_are_padded_to_their_digits() -> None:
    assert number_figures({"a": 42}, 8) == {"a": "00000042"}


def test_only_figures_that_share_a_number_are_widened_and_no_further_than_needed() -> None:
    digests = {"a": 1_700000042, "b": 2_700000042, "c": 99, "d": 3_600000042}
    assert number_figures(digests, 8) == {"a": "1700000042", "b": "2700000042", "c": "00000099", "d": "600000042"}


# Few residues and many figures, so that most share a number, some of them far up.
SHARED = st.builds(
    lambda residue, power, factor: (residue + factor * 10**power) % 2**160,
    st.integers(0, 3),
    st.sampled_from([4, 5, 8, 20, 47, 48]),
    st.integers(0, 3),
)


@given(st.sets(SHARED | st.integers(0, 2**160 - 1), max_size=30), st.randoms())
def test_numbering_is_a_function_of_the_set(values: set[int], random: Random) -> None:
    digests = [(f"figure-{value}", value) for value in values]
    numbers = number_figures(dict(digests), 4)
    random.shuffle(digests)
    assert numbers == number_figures(dict(digests), 4)
    assert len(set(numbers.values())) == len(values)
    for name, value in digests:
        number = numbers[name]
        assert number == f"{value % 10 ** len(number):0{len(number)}d}"
        shorter = [
            candidate for candidate in values if len(number) > 4 and (candidate - value) % 10 ** (len(number) - 1) == 0
        ]
        assert len(shorter) != 1, "no wider than it needs to be"


@pytest.mark.parametrize("prefix", ["<", "<i", "<i m", "<image", "< " * 1000])
def test_escaping_goes_through_white_space_once(prefix: str) -> None:
    """By the square of its length this takes minutes."""
    line = prefix + " " * 200_000 + "x"
    assert restore(escape(line)) == line
    assert is_disarmed(escape(line))


def test_reading_tags_goes_through_white_space_once() -> None:
    template = TagTemplate("<image:{number}|{title}|{page}>")
    assert template.read("<image:1|" + " " * 200_000 + "x") == []
