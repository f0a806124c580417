"""What parts of drawings are, and what belongs together."""

from hypothesis import given
from hypothesis import strategies as st

from schemas.drawings import Mark
from schemas.geometry import BBox
from tasks.figures.parts import Part, clusters, near, same_sides

BOX = BBox(100, 100, 200, 160)


@given(st.lists(st.integers(0, 60), unique=True))
def test_clusters_are_what_steps_of_one_reach(numbers: list[int]) -> None:
    groups = clusters(numbers, lambda one, other: abs(one - other) == 1)
    assert sorted(number for group in groups for number in group) == sorted(numbers)
    for group in groups:
        assert sorted(group) == list(range(min(group), max(group) + 1))
        assert not {min(group) - 1, max(group) + 1}.intersection(numbers)


def test_sides_are_one_give_or_take_the_width_of_a_line() -> None:
    assert near(10, 11.5)
    assert not near(10, 11.6)
    assert same_sides(BOX, BOX.grown(1.5))
    assert not same_sides(BOX, BOX._replace(x1=202))


def test_a_thin_mark_shows_nothing_by_itself() -> None:
    rules = [
        Mark(BBox(100, 100 + 10 * row, 200, 100.5 + 10 * row), strokes=0, filled=True, white=False) for row in range(3)
    ]
    assert not Part(rules[0].bbox, (rules[0],)).is_visible
    assert Part(BOX, tuple(rules)).is_visible
    assert not Part(BBox(100, 100, 200, 111), tuple(rules)).is_visible
