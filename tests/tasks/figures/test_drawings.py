"""Which marks make one drawing."""

from hypothesis import given
from hypothesis import strategies as st

from schemas.drawings import Mark
from tests.tasks.figures.pages import box_at, rule_at, search


def _near(side: int) -> st.SearchStrategy[float]:
    return st.integers(0, 2 * side).map(lambda halves: halves / 2)


@given(
    st.lists(
        st.builds(lambda x, y, w, h: box_at(x, y, x + w, y + h), *map(_near, (90, 90, 30, 30))), min_size=1, max_size=16
    )
)
def test_a_few_marks_are_grouped_as_they_are_among_many(marks: list[Mark]) -> None:
    far = [rule_at(100, 110, 400 + 16 * number) for number in range(20)]
    assert search([*marks, *far], []) == search(marks, [])
