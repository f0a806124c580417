"""Which words a language has."""

import pytest

from backends.models.languages import Simplemma, is_word


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Close the inlet before you open the valve, and wait until the gauge shows no pressure.", "en"),
        ("Steng ventilen før du åpner innløpet, og vent til trykket er borte fra måleren.", "no"),
        ("最初に給水を止め、圧力計の圧力がなくなるまで待ってください。", None),
    ],
)
def test_a_language_is_named_if_its_words_are_known(text: str, language: str | None) -> None:
    assert Simplemma().language_of(text) == language


@pytest.mark.parametrize(
    ("word", "language", "expected"),
    [
        ("valve", "en", True),
        ("va1ve", "en", False),
        ("ventil", "de", True),
        ("ventilen", "no", True),
        ("ventil", "en", False),
    ],
)
def test_a_word_is_known_in_its_language(word: str, language: str, *, expected: bool) -> None:
    assert Simplemma().is_word(word, language) is expected


def test_a_language_without_a_list_is_an_error() -> None:
    with pytest.raises(ValueError, match="zh"):
        is_word("valve", "zh")
