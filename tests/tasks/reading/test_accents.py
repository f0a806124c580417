"""Letters are read with the accents that are set over them."""

import pymupdf
import pytest

from backends.pdf.document import open_document
from tasks.reading.read import ParsedPage, read_page


def _read(text_array: str, turn: str = "1 0 0 1 72 700") -> ParsedPage:
    """Return a page that shows strings and kerns, in Helvetica: its accents are 333 thousandths wide, its u 556."""
    pdf = pymupdf.open()
    page = pdf.new_page()
    page.insert_text((72, 100), "x")
    pdf.update_stream(page.get_contents()[0], f"BT /helv 12 Tf {turn} Tm [{text_array}] TJ ET".encode("latin-1"))
    return read_page(open_document(pdf.tobytes()), 1)


def _text(content: ParsedPage) -> str:
    return "\n".join(line.text for line, _ in content.lines)


@pytest.mark.parametrize(
    ("text_array", "read"),
    [
        (r"(f) -111 (\250) 444 (ur)", "für"),
        (r"-111 (\250) 444 (uber)", "über"),
        (r"(C) 500 (\270) 0 (a)", "Ça"),
        (r"(caf) -111 (\264) 444 (e) ( ) -111 (`) 444 (a)", "café à"),
        (r"-111 (\264) 444 (x)", "x\N{COMBINING ACUTE ACCENT}"),
    ],
)
def test_an_accent_over_a_letter_is_one_letter_with_it(text_array: str, read: str) -> None:
    assert _text(_read(text_array)) == read


@pytest.mark.parametrize("turn", ["0 1 -1 0 300 300", "0 -1 1 0 300 300"])
def test_it_is_so_in_lines_that_run_up_or_down(turn: str) -> None:
    assert _text(_read(r"(f) -111 (\250) 444 (ur die Pumpe)", turn)) == "für die Pumpe"


@pytest.mark.parametrize("text", ["`note and ~user, a^b", "it´s", "90° C¸", "x ~ y"])
def test_one_with_a_place_of_its_own_stays_as_it_is(text: str) -> None:
    assert _text(_read(f"({text})")) == text


@pytest.mark.parametrize("text", ["V2.9~pre1", "x^2", "`halcmd`", "cd ~/pumps"])
def test_accents_in_programs_stay_as_they_are(text: str) -> None:
    assert _text(_read(f"({text})")) == text


def test_boxes_stay_beside_their_letters() -> None:
    content = _read(r"(f) -111 (\250) 444 (ur) -111 (\264) 444 (x)")
    text, boxes = content.letters(content.lines[0].line)
    assert text == "fürx\N{COMBINING ACUTE ACCENT}"
    assert len(boxes) == len(text)
    lefts = [box[0] for box in boxes]
    assert lefts == sorted(lefts)
