"""Running heads apart from headings and text, and headings found by the PDF's outline, on pages made for the purpose."""

from collections.abc import Sequence

import pymupdf
import pytest

from schemas.documents import BlockKind, OutlineEntry, StructuredDocument
from tasks.reading.margins import find_margins
from tests.tasks.reading.pages import parsed, structured

CHAPTERS = ("Unpacking the pump", "Filters and valves", "Electric drive", "Cleaning", "Spare parts", "Disposal")
_TEXT = "The pump is stopped before the valve is opened and the filter is taken out with both hands. " * 6


def _texts(document: StructuredDocument, kind: BlockKind) -> list[str]:
    return [" ".join(block.text.split()) for block in document.blocks if block.kind is kind]


def _page(document: pymupdf.Document, *, head: str = "", title: Sequence[str] = ()) -> pymupdf.Page:
    """Add a page of running text, with a running head over it, or the lines of a title."""
    page = document.new_page(width=595, height=842)
    if head:
        page.insert_text((72, 50), head, fontsize=10)
    for number, line in enumerate(title):
        page.insert_text((72, 130 + 22 * number), line, fontsize=20)
    page.insert_textbox((72, 180, 520, 600), f"{len(document)} {_TEXT}", fontsize=10)
    return page


def _book(*, pages: int, form: str = "{}") -> tuple[pymupdf.Document, list[OutlineEntry]]:
    """Return a book whose chapters' titles are their running heads, which a chapter's first page does without."""
    document = pymupdf.open()
    outline = []
    for chapter in CHAPTERS:
        outline.append(OutlineEntry(1, chapter, len(document) + 1, 130))
        _page(document, title=[chapter])
        for _ in range(pages - 1):
            _page(document, head=form.format(chapter, page=len(document) + 1))
    return document, outline


# Running heads


@pytest.mark.parametrize(
    ("form", "pages", "outlined"),
    [
        ("{}", 2, True),
        ("{}", 2, False),
        ("{}     {page}", 2, True),
        ("{page} | {}", 2, False),
        ("Service manual P-200: {}", 2, True),
        ("{}", 3, False),
    ],
)
def test_the_title_of_a_chapter_over_its_pages_is_a_margin(form: str, pages: int, outlined: bool) -> None:
    document, outline = _book(pages=pages, form=form)
    structure = structured(document, outline if outlined else ())
    assert _texts(structure, BlockKind.HEADING) == list(CHAPTERS), "on its first page it is the heading"
    assert len(_texts(structure, BlockKind.MARGIN)) == len(CHAPTERS) * (pages - 1)
    assert all(text[0].isdigit() for text in _texts(structure, BlockKind.TEXT))


def test_chapters_on_the_left_and_sections_on_the_right_are_margins_at_the_foot_as_well() -> None:
    document = pymupdf.open()
    outline = []
    for number, chapter in enumerate(CHAPTERS, 1):
        outline += [
            OutlineEntry(1, chapter, len(document) + 1, 130),
            OutlineEntry(2, f"Tools for {chapter}", len(document) + 2, 130),
        ]
        feet = (f"Chapter {number}. {chapter}", f"{number}.1. Tools for {chapter}")
        for foot, title in zip(feet, ([chapter], ["Tools for", chapter]), strict=True):
            _page(document, title=title).insert_text((72, 800), foot, fontsize=10)
    structure = structured(document, outline)
    margins = _texts(structure, BlockKind.MARGIN)
    assert margins[:2] == ["Chapter 1. Unpacking the pump", "1.1. Tools for Unpacking the pump"]
    assert len(margins) == 2 * len(CHAPTERS)
    assert _texts(structure, BlockKind.HEADING)[:2] == ["Unpacking the pump", "Tools for Unpacking the pump"]


def test_running_heads_that_alternate_are_margins_though_nothing_else_says_their_words() -> None:
    document = pymupdf.open()
    for chapter in CHAPTERS:
        for _ in range(2):
            _page(document, head=chapter)
            _page(document, head=f"Tools for {chapter}")
    assert len(_texts(structured(document), BlockKind.MARGIN)) == 4 * len(CHAPTERS)


def test_a_running_head_near_what_all_pages_have_is_a_margin() -> None:
    document = pymupdf.open()
    for chapter in CHAPTERS:
        for _ in range(2):
            _page(document, head=chapter).insert_text((72, 66), "Service manual P-200", fontsize=9)
    structure = structured(document)
    assert sum(text.count("Service manual") for text in _texts(structure, BlockKind.MARGIN)) == 2 * len(CHAPTERS)
    assert not any("Service manual" in block.text for block in structure.blocks if block.kind is not BlockKind.MARGIN)


def test_a_name_written_at_both_ends_of_a_row_is_a_margin_though_it_is_on_one_page() -> None:
    document = pymupdf.open()
    for chapter in CHAPTERS:
        page = _page(document, head=f"{chapter}(1)")
        page.insert_text((250, 50), "Tools of the pump", fontsize=10)
        page.insert_text((400, 50), f"{chapter}(1)", fontsize=10)
    assert len(find_margins(parsed(document).lines, parsed(document).pages)) == 3 * len(CHAPTERS)


@pytest.mark.parametrize("rotation", [90, 180, 270])
def test_running_heads_are_those_of_the_page_as_it_is_read(rotation: int) -> None:
    document = pymupdf.open()
    outline = []
    for chapter in CHAPTERS:
        outline.append(OutlineEntry(1, chapter, len(document) + 1, None))
        for head, size in (("", 20), (chapter, 10)):
            page = document.new_page(width=595, height=842)
            page.set_rotation(rotation)
            point, matrix = pymupdf.Point(72, 50 if head else 150), page.derotation_matrix
            page.insert_text(point * matrix, chapter, fontsize=size, rotate=rotation)
            page.insert_text(
                pymupdf.Point(72, 250) * matrix, f"The pump is stopped first: {head}.", fontsize=10, rotate=rotation
            )
    structure = structured(document, outline)
    assert _texts(structure, BlockKind.MARGIN) == list(CHAPTERS)


def test_a_heading_at_the_height_of_the_running_heads_stays_one() -> None:
    document, outline = _book(pages=3)
    _page(document, head="Addresses").insert_text((72, 650), "Addresses", fontsize=8)
    _page(document, head="Addresses")
    outline.append(OutlineEntry(1, "Addresses", len(document) - 1, 40))
    structure = structured(document, outline)
    assert _texts(structure, BlockKind.HEADING) == [*CHAPTERS, "Addresses"]
    assert _texts(structure, BlockKind.MARGIN).count("Addresses") == 1
    assert [block.section_path for block in structure.blocks][-1] == ("Addresses",)


def test_headings_at_the_head_of_pages_stay_headings_though_the_outline_names_them() -> None:
    document = pymupdf.open()
    for chapter in CHAPTERS:
        _page(document, head=chapter)
    outline = [OutlineEntry(1, chapter, number, 40) for number, chapter in enumerate(CHAPTERS, 1)]
    structure = structured(document, outline)
    assert _texts(structure, BlockKind.HEADING) == list(CHAPTERS)
    assert _texts(structure, BlockKind.MARGIN) == []


def test_text_that_begins_at_one_height_stays_though_some_of_it_is_repeated() -> None:
    document = pymupdf.open()
    for number, word in enumerate(list(dict.fromkeys(_TEXT.casefold().split()))[:12]):
        page = document.new_page(width=595, height=842)
        first = "You agree to this:" if number in {4, 5} else f"Here begins with the word {word} what is said of it"
        for row, line in enumerate((first, f"and then it goes on with {word * 2}", f"which is the end of {word}.")):
            page.insert_text((72, 50 + 12 * row), line, fontsize=10)
        for row in range(40):
            page.insert_text(
                (72, 110 + 12 * row), f"The pump {word} is stopped before its valve {row} is opened.", fontsize=10
            )
    assert _texts(structured(document), BlockKind.MARGIN) == []


def test_a_title_in_larger_letters_than_the_text_stays_though_the_next_page_has_the_same() -> None:
    document = pymupdf.open()
    for chapter in CHAPTERS:
        for _ in range(2):
            _page(document).insert_text((72, 50), chapter, fontsize=11.2)
    assert _texts(structured(document), BlockKind.MARGIN) == []


def test_a_line_on_two_pages_is_a_running_head_if_the_layout_model_says_so() -> None:
    document = pymupdf.open()
    for number in range(3):
        _page(document, head=CHAPTERS[0] if number else "")
    assert _texts(structured(document), BlockKind.MARGIN) == [CHAPTERS[0]] * 2
    assert _texts(structured(document, layout="never"), BlockKind.MARGIN) == []


def test_an_entry_that_only_a_running_head_says_counts_from_where_it_points_to() -> None:
    document, outline = _book(pages=4)
    outline.insert(1, OutlineEntry(2, CHAPTERS[0], 3, 100))
    structure = structured(document, outline)
    assert _texts(structure, BlockKind.HEADING) == list(CHAPTERS)
    paths = {block.page: block.section_path for block in structure.blocks if block.kind is BlockKind.TEXT}
    assert (paths[2], paths[3]) == ((CHAPTERS[0],), (CHAPTERS[0], CHAPTERS[0]))


# Headings by the outline


def _outlined(entry: str, *lines: tuple[str, int], y: float | None = 85) -> list[str]:
    """Return the headings of a page of running text whose outline has one entry, given its further lines and their sizes."""
    document = pymupdf.open()
    page = document.new_page(width=595, height=842)
    for number, (line, size) in enumerate(lines):
        page.insert_text((72, 100 + 120 * number), line, fontsize=size)
        page.insert_textbox((72, 115 + 120 * number, 520, 200 + 120 * number), _TEXT[:250], fontsize=10)
    return _texts(structured(document, [OutlineEntry(1, entry, 1, y)]), BlockKind.HEADING)


@pytest.mark.parametrize(
    ("entry", "heading"),
    [
        ("4.2 The filter", "The filter"),
        ("The filter", "4.2 The filter"),
        ("Chapter 4: The filter", "The filter"),
        ("A Templates", "Appendix A Templates"),
        ("Appendix A. Templates", "A Templates"),
        ("II Usage", "Usage"),
        ("4 The filter", "Chapter 4. THE FILTER"),
    ],
)
def test_a_heading_is_found_though_only_it_or_only_the_outline_has_the_number(entry: str, heading: str) -> None:
    assert _outlined(entry, (heading, 14)) == [heading]


def test_a_heading_with_another_number_is_another() -> None:
    assert _outlined("4.2 The filter", ("4.3 The filter", 10)) == []


def test_a_heading_that_has_the_number_goes_before_one_that_has_not() -> None:
    assert _outlined("4.2 The filter", ("The filter", 10), ("4.2 The filter", 10)) == ["4.2 The filter"]


def test_a_title_in_the_size_of_the_text_is_a_heading_by_the_outline() -> None:
    assert _outlined("4.2 Filter", ("The pump", 10), ("Filter", 10), y=205) == ["Filter"]


@pytest.mark.parametrize(
    ("headings", "entries"),
    [
        (("The pump", "The filter"), ("1 The pump", "2 The filter")),
        (("2.6.1 X Axis", "2.6.2 Z Axis"), ("X Axis", "Z Axis")),
    ],
    ids=["number in the outline", "letter that looks like a number"],
)
def test_the_sections_of_text_follow_headings_with_other_numbers_than_the_outline(
    headings: Sequence[str], entries: Sequence[str]
) -> None:
    document = pymupdf.open()
    page = document.new_page(width=595, height=842)
    for top, title in zip((100, 400), headings, strict=True):
        page.insert_text((72, top), title, fontsize=14)
        page.insert_textbox((72, top + 15, 520, top + 150), _TEXT, fontsize=10)
    outline = [OutlineEntry(1, entry, 1, y) for entry, y in zip(entries, (85, 385), strict=True)]
    paths = [block.section_path for block in structured(document, outline).blocks if block.kind is BlockKind.TEXT]
    assert paths == [(entry,) for entry in entries]


def test_a_chapters_number_over_its_title_is_one_heading_with_it() -> None:
    document = pymupdf.open()
    page = document.new_page(width=595, height=842)
    page.insert_text((72, 100), "Chapter 2", fontsize=18)
    page.insert_text((72, 160), "The filter", fontsize=22)
    page.insert_textbox((72, 200, 520, 400), _TEXT, fontsize=10)
    structure = structured(document, [OutlineEntry(1, "The filter", 1, 80)])
    assert [(block.text, block.section_path) for block in structure.blocks[:1]] == [
        ("Chapter 2 The filter", ("The filter",))
    ]


def test_a_chapters_number_goes_with_the_title_below_it_and_not_with_the_first_section() -> None:
    document = pymupdf.open()
    for number, chapter in enumerate(("The pump", "Setting the valve", "Oil"), 1):
        page = document.new_page(width=595, height=842)
        page.insert_text((72, 160), f"Chapter {number}", fontsize=15)
        page.insert_text((72, 182), chapter, fontsize=18)
        for at, title in enumerate(("aptitude", "(How) is it cleaned?", "Filter")):
            page.insert_text((72, 230 + 190 * at), f"{number}.{at + 1}. {title}", fontsize=13)
            page.insert_textbox((72, 240 + 190 * at, 520, 400 + 190 * at), _TEXT, fontsize=10)
    headings = [(block.text, block.level) for block in structured(document).blocks if block.kind is BlockKind.HEADING]
    assert headings[:4] == [
        ("Chapter 1 The pump", 1),
        ("1.1. aptitude", 2),
        ("1.2. (How) is it cleaned?", 2),
        ("1.3. Filter", 2),
    ]
    assert {level for _, level in headings} == {1, 2}


def test_a_number_on_a_line_of_its_own_is_none_of_the_lines_of_a_title() -> None:
    document = pymupdf.open()
    page = document.new_page(width=595, height=842)
    page.insert_text((72, 100), "5.4", fontsize=14)
    title = ("How does the filter", "of the second pump", "change the flow?")
    for number, line in enumerate(title):
        page.insert_text((110, 100 + 17 * number), line, fontsize=14)
    page.insert_textbox((72, 200, 520, 400), _TEXT, fontsize=10)
    structure = structured(document, [OutlineEntry(1, " ".join(("5.4", *title)), 1, 85)])
    assert _texts(structure, BlockKind.HEADING) == [" ".join(("5.4", *title))]
