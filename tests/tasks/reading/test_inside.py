"""Which words stand inside a figure."""

import pymupdf

from tests.tasks.reading.pages import paragraph, structured


def _diagram() -> pymupdf.Document:
    """Return a page of 200 by 80 points: boxes that curves join, with their labels, and 8 points of room at the foot."""
    document = pymupdf.open()
    page = document.new_page(width=200, height=80)
    for at in range(4):
        page.draw_circle((32.5 + 45 * at, 30), 14)
        page.insert_text((26 + 45 * at, 32), f"mem{at}", fontsize=5)
        if at:
            page.draw_bezier((1.5 + 45 * at, 30), (6 + 45 * at, 10), (12 + 45 * at, 50), (18.5 + 45 * at, 30))
    page.draw_circle((100, 66), 6)
    return document


def _page(*names: tuple[str, float, float]) -> list[str]:
    """Return what is read of two diagrams between paragraphs: a name, where it begins across, and how far under its diagram."""
    document = pymupdf.open()
    page = document.new_page()
    paragraph(page, "Introduction: ", 72)
    for number, (name, size, down) in enumerate(names):
        foot = 280 + 150 * number
        page.show_pdf_page(pymupdf.Rect(200, foot - 80, 400, foot), _diagram())
        width = pymupdf.get_text_length(name, fontsize=size)
        page.insert_text((300 - width / 2, foot + down), name, fontsize=size)
    paragraph(page, "Conclusion: ", 560)
    blocks = structured(document).blocks
    return ["FIGURE" if block.text.startswith("\ue000") else block.text.split()[0].rstrip(":") for block in blocks]


def test_a_name_in_the_room_at_a_drawings_foot_is_read_under_it_as_another_drawings_name_is() -> None:
    read = _page(("memdemo", 9, 9), ("outstage", 9, 0))
    assert read == ["Introduction", "FIGURE", "memdemo", "FIGURE", "outstage", "Conclusion"]


def test_words_at_a_drawings_foot_are_labels_unless_another_drawings_name_is_set_like_them() -> None:
    assert _page(("memdemo", 12, 11), ("seconds", 9, 0)) == ["Introduction", "FIGURE", "memdemo", "FIGURE", "Conclusion"]


def test_words_at_a_drawings_foot_in_the_size_of_its_labels_are_labels() -> None:
    assert _page(("memdemo", 5, 6), ("mem9", 5, -1)) == ["Introduction", "FIGURE", "memdemo", "FIGURE", "Conclusion"]
