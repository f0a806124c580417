"""Code between fences."""

from hypothesis import given
from hypothesis import strategies as st

from schemas.text import fenced, split_fenced

_CODE = st.lists(st.sampled_from(["```", "````", "  x = 1", "", "`a`", "```sh"]), min_size=1, max_size=6).map("\n".join)


@given(before=_CODE.map(lambda text: text.replace("`", "")), code=_CODE)
def test_what_is_fenced_is_found_again_whatever_is_in_it(before: str, code: str) -> None:
    parts = [*split_fenced(f"{before}\n\n{fenced(code)}\n\nThen wait.")]
    assert parts[-2:] == [(code, True), ("Then wait.", False)]
    assert [text for text, _ in parts[:-2]] == ([before.strip()] if before.strip() else [])


def test_text_without_fences_is_one_part() -> None:
    assert [*split_fenced("Use ``` and `x`.")] == [("Use ``` and `x`.", False)]
