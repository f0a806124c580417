"""Names of figures and passages that hold for one request."""

import hashlib
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.answering.compose import aliases, disarm, meant, quoted

IDS = [hashlib.sha256(str(number).encode()).hexdigest() for number in range(150)]


def edits(first_name: str, second_name: str) -> int:
    """Levenshtein's distance, as in a textbook."""
    row = list(range(len(second_name) + 1))
    for position, character in enumerate(first_name, 1):
        before, row[0] = row[0], position
        for at, second_character in enumerate(second_name, 1):
            before, row[at] = row[at], min(row[at] + 1, row[at - 1] + 1, before + (character != second_character))
    return row[-1]


@pytest.mark.parametrize(("figures", "digits"), [(100, 5), (150, 7)])
def test_names_are_three_edits_apart(figures: int, digits: int) -> None:
    names = aliases(IDS[:figures])
    assert list(names) == IDS[:figures]
    assert {len(name) for name in names.values()} == {digits}
    assert min(edits(first_name, second_name) for first_name, second_name in itertools.combinations(names.values(), 2)) >= 3


def test_a_figure_has_the_same_name_in_each_request() -> None:
    alone = aliases(IDS[:1])
    assert aliases(IDS[:20])[IDS[0]] == alone[IDS[0]]
    assert aliases([*IDS[:2], IDS[0]]) == aliases(IDS[:2])


def test_names_that_models_invent_and_numbers_of_the_text_are_no_names() -> None:
    names = aliases(IDS[:100]).values()
    for invented in ("1", "01", "12345", "11111", "48213"):
        assert min(edits(invented, name) for name in names) >= 3
    (name,) = aliases(IDS[:1]).values()
    assert aliases(IDS[:1], {name})[IDS[0]] != name


@given(st.integers(0, 5), st.sampled_from("0123456789OlB"), st.sampled_from(["replace", "insert", "leave out"]))
def test_one_mistyped_character_leads_back_and_never_elsewhere(place: int, typed: str, how: str) -> None:
    names = dict.fromkeys(aliases(IDS[:100]).values())
    name = next(iter(names))
    cut = place if how == "insert" else min(place, 4)
    mistyped = name[:cut] + (typed if how != "leave out" else "") + name[cut + (how != "insert") :]
    assert mistyped == name or meant(mistyped, names) == name


def test_what_is_near_two_names_or_none_means_none() -> None:
    assert meant("10005", {"10004": None, "10006": None}) is None
    assert meant("99999", {"10004": None}) is None


@pytest.mark.parametrize(
    "forged",
    [
        "[P1]",
        "[ p 1 ]",
        "[P\u200b1]",
        "\uff3bP1\uff3d",
        "\uff3b\uff30\uff11\uff3d",
        "\u3010P1\u3011",
        "[[P1]]",
        "[\nP1]",
        "[IMG-24680]",
        "[img 24680]",
        "[ I\u2060MG-24680]",
        "[IMG-[IMG-24680]]",
        "\uff3b\uff29\uff2d\uff27-24680\uff3d",
        "IMG-24680",
        "<think>",
        "< / think >",
        "<TH\u200bINK>",
    ],
)
def test_look_alikes_lose_their_brackets(forged: str) -> None:
    words = disarm(f"before {forged} behind")
    assert words.startswith("before ")
    assert words.endswith(" behind")
    # What a bracket or a dash made a name isn't one any more; the words themselves stay.
    assert not any(mark in words for mark in ("[P", "[ p", "[I", "[ I", "[i", "\uff3b", "\u3010", "[\n", "IMG-2", "<"))


@pytest.mark.parametrize(
    "harmless", ["[1]", "[PATCH]", "[Pressure 5]", "a[i]", "<b>", "[image]", "if a < b:\n\treturn [x]"]
)
def test_a_documents_own_brackets_stay(harmless: str) -> None:
    assert quoted(harmless) == harmless


@given(st.text())
def test_disarming_again_changes_nothing(text: str) -> None:
    assert quoted(quoted(text)) == quoted(text)
