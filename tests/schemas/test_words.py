"""Words as people compare them."""

import pytest

from schemas.text import folded, section_names, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Oil\n  FILTER,", "oil filter"),
        ("the ﬁlter’s soft\u00adly", "the filter s softly"),
        ("Straße cafe\u0301", "strasse café"),
        ("油圧 Filter", "油 圧 filter"),
        ("M3.2-x_1", "m3 2 x_1"),
        ("?! —", ""),
    ],
)
def test_case_forms_and_punctuation_do_not_matter(text: str, expected: str) -> None:
    assert folded(text) == expected


def test_a_word_knows_its_place() -> None:
    text = "The ﬁne-mesh\tFILTER."
    assert [(word.folded, text[word.start : word.end]) for word in words(text)] == [
        ("the", "The"),
        ("fine", "ﬁne"),
        ("mesh", "mesh"),
        ("filter", "FILTER"),
    ]


def test_a_section_goes_by_its_title_its_number_and_its_path() -> None:
    assert set(section_names(["3 Service", "3.2) Oil > filter"])) == {
        "3",
        "3 2",
        "3 service",
        "service",
        "3 2 oil filter",
        "oil filter",
        "3 service 3 2 oil filter",
        "service oil filter",
    }
    assert section_names([]) == []
    assert section_names(["2024"]) == ["2024"]
