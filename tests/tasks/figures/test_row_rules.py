"""Tables whose rows rules separate, and whose columns only words show."""

from collections.abc import Sequence

import pymupdf
import pytest

from schemas.documents import BlockKind, FoundBy
from tests.tasks.reading.pages import of, structured

XS = (76, 190, 360)
FAULTS = [
    ["Problem", "Possible cause", "What to do"],
    [
        "The pump does\nnot run.",
        "The plug is not in its socket, or\nthe fuse has blown.",
        "Put in the plug, and replace\nthe fuse.",
    ],
    ["It is loud.", "The pump is not level, or it\ntouches the wall.", "Move it, and level its feet."],
    ["It leaks.", "The seal is worn.", "Replace the seal. See chapter 4\nfor the part number, and\norder it from us."],
]


def _page(
    rows: Sequence[Sequence[str]], *, top: bool = True, bottom: bool = True, border: bool = False
) -> pymupdf.Document:
    document = pymupdf.open()
    page = document.new_page()
    page.insert_text(
        (72, 80), "If the pump fails, look for its cause here before you call the service of the maker.", fontsize=9
    )
    edges = [90.0]
    for row in rows:
        first = edges[-1] + 12
        for number in range(1 + max(text.count("\n") for text in row)):
            for x, text in zip(XS, row, strict=True):
                page.insert_text((x, first + 12 * number), "".join(text.split("\n")[number : number + 1]), fontsize=9)
        edges.append(first + 12 * max(text.count("\n") for text in row) + 6)
    for y in edges[0 if top else 1 : None if bottom else -1]:
        page.draw_line((72, y), (520, y))
    if border:
        page.draw_rect((72, edges[0], 520, edges[-1]))
    return document


@pytest.mark.parametrize(
    "drawn", [{}, {"top": False}, {"bottom": False}, {"top": False, "bottom": False, "border": True}], ids=str
)
def test_a_table_of_wrapped_cells_between_rules_has_a_row_for_each_two_rules(drawn: dict[str, bool]) -> None:
    (table,) = of(structured(_page(FAULTS, **drawn)), BlockKind.TABLE)
    assert list(map(list, table.rows)) == FAULTS
    assert [part.found_by for part in table.parts] == [FoundBy.RULED_LAYOUT]


def test_notes_between_rules_are_no_table() -> None:
    note = "Note that the computation is cheap. It is done for a file,\nand its result is kept, so that\nno file is read twice."
    assert not of(structured(_page([[note, "", ""]] * 4)), BlockKind.TABLE)
