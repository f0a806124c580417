"""Drop caps begin the word beside them."""

from collections.abc import Sequence

import pymupdf
import pytest

from schemas.documents import BlockKind
from tests.tasks.reading.pages import paragraph, structured


def _read(cap: str, lines: Sequence[str], *, size: float = 30, left: float = 96) -> list[tuple[BlockKind, str]]:
    """Return the blocks of a page with a drop cap over two lines of 12 pt, and more text."""
    document = pymupdf.open()
    page = document.new_page(width=595, height=842)
    page.insert_text((72, 212), cap, fontsize=size)
    for number, line in enumerate(lines):
        page.insert_text((left if number < 2 else 72, 200 + 12 * number), line, fontsize=10)
    paragraph(page, "End", 400)
    return [(block.kind, " ".join(block.text.split())) for block in structured(document).blocks]


REST = ("of every week in the month, also", "where nobody has asked for it and where the filter is clean.")


@pytest.mark.parametrize(
    ("cap", "first", "wanted"),
    [
        ("T", "he pump is stopped at the end", "The pump is stopped"),
        ("B", "E IT ENACTED that the pump stops", "BE IT ENACTED"),
        ("A", "pump is stopped at the end of it", "A pump is stopped"),
        ("A", "fter the end the pump is stopped", "After the end"),
        ('"T', "he pump is stopped at the end", '"The pump is stopped'),
    ],
)
def test_a_drop_cap_begins_its_word_and_is_no_heading(cap: str, first: str, wanted: str) -> None:
    (kind, text), *_ = found = _read(cap, [first, *REST])
    assert (kind, text[: len(wanted)]) == (BlockKind.TEXT, wanted)
    assert "where nobody has asked" in " ".join(words for _, words in found)
    assert all(kind is BlockKind.TEXT for kind, _ in found)


@pytest.mark.parametrize(
    ("cap", "lines", "options"),
    [
        ("T", ["The pump is stopped at the end", *REST], {}),
        ("T", ["he pump is stopped at the end"], {}),
        ("T", ["he pump is stopped at the end", *REST], {"left": 130}),
        ("T", ["he pump is stopped at the end", *REST], {"size": 15}),
        ("X", ["inlet", "outlet", *REST], {}),
    ],
)
def test_other_large_letters_are_joined_with_nothing(cap: str, lines: Sequence[str], options: dict[str, float]) -> None:
    assert f"{cap}{lines[0]}" not in " ".join(text for _, text in _read(cap, lines, **options))
