"""Tables that go on over pages."""

from collections.abc import Sequence

import pymupdf
import pytest

from schemas.documents import BlockKind, StructuredDocument
from schemas.tags import placeholder, placeholders
from tests.manuals import picture
from tests.tasks.reading.pages import draw_table, of, one_figure, paragraph, structured

HEADER = ["Part", "Torque"]
PARTS = [[f"Screw M{number}", f"{number} Nm"] for number in range(1, 9)]


def _two_pages(
    first: Sequence[Sequence[str]],
    second: Sequence[Sequence[str]],
    *,
    above: str = "Table 1: Torques",
    again: str = "",
    foot: str = "",
    top: float = 90,
    bottom: float = 740,
) -> StructuredDocument:
    """Structure two pages: a table at the foot of one, a table at the head of the next, page numbers, running text."""
    document = pymupdf.open()
    page = document.new_page(width=595, height=842)
    paragraph(page, "First", 72)
    start = bottom - 24 * len(first)
    if above:
        page.insert_text((72, start - 8), above, fontsize=9)
    draw_table(page, first, start)
    page.insert_text((72, 762), foot, fontsize=9)
    page.insert_text((290, 825), "1", fontsize=9)
    page = document.new_page(width=595, height=842)
    if again:
        page.insert_text((72, top - 8), again, fontsize=9)
    draw_table(page, second, top)
    paragraph(page, "Second", top + 24 * len(second) + 30)
    page.insert_text((290, 825), "2", fontsize=9)
    return structured(document)


@pytest.mark.parametrize(
    ("header", "above", "again", "foot"),
    [
        (True, "Table 1: Torques", "", ""),
        (False, "Table 1: Torques", "", ""),
        (True, "", "", ""),
        (True, "Table 1: Torques", "Table 1: (continued)", ""),
        (False, "Table 1: Torques", "Table 1 (Continued from previous page)", ""),
        (True, "Table 1: Torques", "Table 1: Torques", ""),
        (True, "Table 1: Torques", "Table 1: (continued)", "1) Measured on the cold pump."),
        (True, "Table 1: Torques", "", "(continued on next page)"),
    ],
)
def test_a_table_over_two_pages_is_one(header: bool, above: str, again: str, foot: str) -> None:
    structure = _two_pages(
        [HEADER, *PARTS[:4]], [*([HEADER] if header else []), *PARTS[4:]], above=above, again=again, foot=foot
    )
    (table,) = of(structure, BlockKind.TABLE)
    assert table.rows == tuple(map(tuple, [HEADER, *PARTS]))
    assert [(part.page, part.rows) for part in table.parts] == [(1, 5), (2, 4)]
    assert table.page == 1
    assert table.parts[1].bbox.y0 == pytest.approx(90, abs=2)
    lines = table.text.splitlines()
    assert lines[: 1 if above else 0] == ([above] if above else [])
    assert len(lines) == len(PARTS) + 2 + bool(above)
    text = [block.text.split()[0] for block in of(structure, BlockKind.TEXT)]
    assert text == ["First", *(["1)"] if foot.startswith("1)") else []), "Second"]
    all_text = " ".join(block.text for block in structure.blocks)
    assert all(words in all_text for words in (again, foot)), "what says that a table goes on is kept as margin"


def test_a_table_over_three_pages_is_one() -> None:
    document = pymupdf.open()
    for rows in (PARTS[:3], PARTS[3:6], PARTS[6:]):
        page = document.new_page(width=595, height=842)
        draw_table(page, [HEADER, *rows], 700 if rows == PARTS[:3] else 80)
    (table,) = of(structured(document), BlockKind.TABLE)
    assert table.rows == tuple(map(tuple, [HEADER, *PARTS]))
    assert [(part.page, part.rows) for part in table.parts] == [(1, 4), (2, 3), (3, 2)]


@pytest.mark.parametrize("why", ["another caption", "text between", "three columns"])
def test_two_tables_on_two_pages_stay_two(why: str) -> None:
    first, second = [HEADER, *PARTS[:4]], PARTS[4:]
    match why:
        case "another caption":
            structure = _two_pages(first, [HEADER, *second], again="Table 2: More torques")
        case "text between":
            structure = _two_pages(first, [HEADER, *second], foot="The valve is opened last of all.")
        case _:
            document = pymupdf.open()
            draw_table(document.new_page(width=595, height=842), first, 620)
            page = document.new_page(width=595, height=842)
            draw_table(page, second, 80)
            page.draw_line((372, 80), (372, 80 + 24 * len(second)))
            structure = structured(document)
    assert [(table.page, len(table.parts)) for table in of(structure, BlockKind.TABLE)] == [(1, 1), (2, 1)]


def test_a_picture_on_the_second_page_of_a_table_is_tagged_in_its_cell() -> None:
    document = pymupdf.open()
    page = document.new_page(width=595, height=842)
    draw_table(page, [HEADER, *PARTS[:4]], 620)
    page = document.new_page(width=595, height=842)
    draw_table(page, [HEADER, ["Danger", ""], *PARTS[4:]], 80)
    page.insert_image((300, 107, 330, 125), stream=picture(1, 60, 36))
    structure = structured(document)
    (table,) = structure.blocks
    figure = one_figure(structure)
    assert table.rows[5] == ("Danger", placeholder(figure.placement.figure_id or ""))
    assert (figure.placement.page, figure.block) == (2, table.order)


def test_a_repeated_header_with_a_picture_keeps_it() -> None:
    document = pymupdf.open()
    for number, top in enumerate((620, 80)):
        page = document.new_page(width=595, height=842)
        draw_table(page, [["Part", ""], *PARTS[number * 4 : number * 4 + 4]], top)
        page.insert_image((300, top + 3, 330, top + 21), stream=picture(1, 60, 36))
    structure = structured(document)
    (table,) = structure.blocks
    assert len(table.rows) == 10
    assert len(placeholders(table.text)) == len(structure.figures) == 2


def test_pictures_that_fill_the_cells_of_a_column_are_one_each() -> None:
    document = pymupdf.open()
    page = document.new_page(width=595, height=842)
    for at, part in enumerate(["Part", "Lamp", "Key", "Fuse"]):
        page.insert_text((76, 90 + 48 * at), part, fontsize=10)
        page.insert_text((380, 90 + 48 * at), "Order no." if at == 0 else f"40-{at}", fontsize=10)
        if at:
            page.insert_image(
                (250, 76.3 + 48 * at, 322, 123.7 + 48 * at), stream=picture(at, 72, 47), keep_proportion=False
            )
    for at in range(5):
        page.draw_line((72, 76 + 48 * at), (500, 76 + 48 * at), width=0.5)
    for x in (72, 230, 370, 500):
        page.draw_line((x, 76), (x, 76 + 48 * 4), width=0.5)
    structure = structured(document)
    (table,) = of(structure, BlockKind.TABLE)
    names = [figure.placement.figure_id or "" for figure in structure.figures]
    assert table.rows == (
        ("Part", "", "Order no."),
        *(
            (part, placeholder(name), f"40-{at}")
            for at, part, name in zip((1, 2, 3), ("Lamp", "Key", "Fuse"), names, strict=True)
        ),
    )
