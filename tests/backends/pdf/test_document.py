"""Opening PDFs, and what MuPDF finds on their pages, through the port that steps read."""

from collections.abc import Callable
from unittest.mock import Mock

import pymupdf
import pytest

from backends.pdf.document import MuPdfDocument, open_document
from backends.pdf.text import read_letters
from schemas.documents import Line
from schemas.drawings import Letters
from schemas.errors import BadInputError, FailureCode
from schemas.geometry import BBox
from schemas.ports import PdfDocument, PdfPage
from tests.manuals import picture, sentence

BOX = BBox(150, 200, 350, 300)


def _pdf(*draw: Callable[[pymupdf.Page], object]) -> bytes:
    document = pymupdf.open()
    for draw_page in draw:
        draw_page(document.new_page(width=595, height=842))
    return bytes(document.tobytes(no_new_id=True))


def _page(draw: Callable[[pymupdf.Page], object]) -> PdfPage:
    document: PdfDocument = open_document(_pdf(draw))
    return document.read_page(1)


def _locked() -> bytes:
    document = pymupdf.open()
    document.new_page().insert_text((72, 100), "The torque is 40 Nm.")
    return bytes(document.tobytes(encryption=pymupdf.PDF_ENCRYPT_AES_256, user_pw="open", owner_pw="own"))


# Opening


def test_a_password_among_those_given_opens_the_document() -> None:
    page = open_document(_locked(), ["wrong", "open"]).read_page(1)
    assert [line.text for line, _ in page.lines] == ["The torque is 40 Nm."]


@pytest.mark.parametrize("passwords", [[], ["wrong"]])
def test_without_the_right_password_the_document_is_refused(passwords: list[str]) -> None:
    with pytest.raises(BadInputError) as refusal:
        open_document(_locked(), passwords)
    assert refusal.value.code is FailureCode.NEEDS_PASSWORD


def test_a_form_that_only_asks_for_another_viewer_is_refused() -> None:
    document = pymupdf.open(stream=_pdf(lambda page: page.insert_text((72, 100), "Please wait...")))
    document.xref_set_key(document.pdf_catalog(), "NeedsRendering", "true")
    with pytest.raises(BadInputError, match="XFA") as refusal:
        open_document(document.tobytes())
    assert refusal.value.code is FailureCode.NOT_CONVERTED


def test_the_letters_of_a_font_of_symbols_are_read_by_what_they_show() -> None:
    signs = _page(
        lambda page: [page.insert_text((72, 100 + 20 * at), code, fontname="zadb") for at, code in enumerate("nlu4o8")]
    )
    assert [line.text for line, _ in signs.lines] == [*"■●◆✔☐✘"]


def _truncated() -> bytes:
    """Return the first bytes of a document: one page object, no content, no cross-reference table."""
    return _pdf(lambda page: page.insert_text((72, 100), sentence(1)))[:60]


def _no_pages() -> bytes:
    body = b"%PDF-1.4\n1 0 obj\n<</Type/Catalog/Pages 2 0 R>>\nendobj\n2 0 obj\n<</Type/Pages/Kids[]/Count 0>>\nendobj\n"
    table = b"xref\n0 3\n0000000000 65535 f \n" + b"".join(
        b"%010d 00000 n \n" % body.index(b"%d 0 obj" % n) for n in (1, 2)
    )
    return body + table + b"trailer\n<</Size 3/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % len(body)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", FailureCode.EMPTY_FILE),
        (b"<!DOCTYPE html><html><body>Please log in.</body></html>", FailureCode.NOT_A_PDF),
        (_truncated(), FailureCode.UNREADABLE),
        (_no_pages(), FailureCode.NO_PAGES),
        (b"%PDF-1.7\nnothing of the kind", FailureCode.UNREADABLE),
    ],
    ids=["zero bytes", "a web page", "truncated", "zero pages", "a header alone"],
)
def test_a_file_that_is_empty_is_refused_and_says_why(data: bytes, code: FailureCode) -> None:
    with pytest.raises(BadInputError) as refusal:
        open_document(data)
    assert refusal.value.code is code


# The document


def test_metadata_that_is_not_there_is_empty() -> None:
    document = pymupdf.open()
    document.new_page()
    empty = MuPdfDocument(document)
    assert (empty.title, empty.metadata("subject"), empty.dates) == ("", "", ("", ""))
    document.set_metadata({"title": "Pump P-200", "subject": "Service", "modDate": "D:20240301", "creationDate": "D:2023"})
    opened = open_document(document.tobytes())
    assert (opened.page_count, opened.title, opened.metadata("subject"), opened.is_repaired) == (
        1,
        "Pump P-200",
        "Service",
        False,
    )
    assert opened.dates == ("D:20240301", "D:2023")


def test_the_outline_has_pages_from_1_and_an_entry_that_points_nowhere_is_on_none() -> None:
    document = pymupdf.open()
    document.new_page()
    document.new_page()
    document.set_toc([[1, "Start", 1], [2, "Stop", 2], [1, "Gone", -1]])
    outline = open_document(document.tobytes()).outline()
    assert [(entry.level, entry.title) for entry in outline] == [(1, "Start"), (2, "Stop"), (1, "Gone")]
    assert [entry.page for entry in outline[:2]] == [1, 2]
    assert outline[2].page not in (1, 2)


def test_lost_content_is_reported_once() -> None:
    document = pymupdf.open()
    document.new_page().insert_text((72, 100), sentence(1))
    (xref,) = document[0].get_contents()
    document.update_stream(xref, b"not zlib at all", new=False, compress=False)
    document.xref_set_key(xref, "Filter", "/FlateDecode")
    opened = open_document(document.tobytes())
    assert opened.lost_content() == []
    opened.read_page(1)
    assert any("zlib" in warning for warning in opened.lost_content())
    assert opened.lost_content() == []


def test_a_page_that_is_not_there_is_refused() -> None:
    document = open_document(_pdf(lambda page: None))
    with pytest.raises(BadInputError, match="the page can't be read") as refusal:
        document.read_page(2)
    assert (refusal.value.code, refusal.value.page) == (FailureCode.PAGE_UNREADABLE, 2)


# Its pages


def test_a_rotated_page_is_read_as_it_is_drawn_unrotated() -> None:
    def draw(page: pymupdf.Page) -> None:
        page.insert_text((72, 100), "The torque is 40 Nm.")
        page.set_rotation(90)

    page = _page(draw)
    assert (page.rotation, page.box) == (90, (0, 0, 595, 842))
    ((line, _),) = page.lines
    assert line.bbox.x0 == 72


def test_text_that_is_not_painted_is_a_line_that_is_not_visible() -> None:
    def draw(page: pymupdf.Page) -> None:
        page.insert_text((72, 100), "Painted")
        page.insert_image(
            pymupdf.Rect(60, 180, 300, 220), pixmap=pymupdf.Pixmap(pymupdf.csGRAY, (0, 0, 8, 8), 0), keep_proportion=False
        )
        page.insert_text((72, 200), "Behind a scan", render_mode=3)
        page.insert_text((72, 300), "Found by nobody", render_mode=3)
        page.insert_text((72, 320), "White on white", color=(1, 1, 1))

    assert [(line.text, is_visible) for line, is_visible in _page(draw).lines] == [
        ("Painted", True),
        ("Behind a scan", False),
    ]


@pytest.mark.parametrize(("turn", "direction"), [(0, (1, 0)), (90, (0, -1)), (180, (-1, 0)), (270, (0, 1))])
def test_each_letter_of_a_line_has_its_box_along_the_way_the_line_is_written(turn: int, direction: tuple[int, int]) -> None:
    page = _page(lambda page: page.insert_text((300, 400), "Torque", rotate=turn))
    ((line, _),) = page.lines
    letters = page.letters(line)
    assert letters is not None
    assert (letters.text, letters.direction) == ("Torque", direction)
    along = [(box[0] + box[2]) * direction[0] + (box[1] + box[3]) * direction[1] for box in letters.boxes]
    assert along == sorted(along)
    assert len(along) == len(set(along)) == 6


def test_letters_along_no_side_of_the_page_have_no_direction_and_those_of_another_line_are_unknown() -> None:
    def draw(page: pymupdf.Page) -> None:
        at = pymupdf.Point(300, 400)
        page.insert_text(at, "Torque", morph=(at, pymupdf.Matrix(30)))

    page = _page(draw)
    ((line, _),) = page.lines
    letters = page.letters(line)
    assert isinstance(letters, Letters)
    assert letters.direction is None
    assert page.letters(line._replace(text="Force")) is None


def test_an_image_that_is_drawn_again_is_the_same_and_another_one_is_not() -> None:
    def draw(page: pymupdf.Page) -> None:
        page.insert_image(BOX, stream=picture(1))
        page.insert_image((150, 400, 350, 500), stream=picture(2))

    opened = open_document(_pdf(draw, draw))
    images = [page.embedded(image) for page in (opened.read_page(1), opened.read_page(2)) for image in page.images]
    first, second, again, other_again = images
    assert first == again
    assert second == other_again
    assert first != second
    assert len(set(images)) == 2


def test_an_image_has_its_size_its_mask_and_its_bytes() -> None:
    def draw(page: pymupdf.Page) -> None:
        page.insert_image(BOX, stream=picture(1, 120, 80))
        mask = pymupdf.Pixmap(pymupdf.csGRAY, pymupdf.IRect(0, 0, 60, 40), False)
        mask.clear_with(128)
        page.insert_image((150, 400, 270, 480), stream=picture(2, 24, 24), mask=mask.tobytes("png"), keep_proportion=False)

    page = _page(draw)
    plain, masked = page.images
    assert [(image.width, image.height, image.mask_px, image.is_mask) for image in page.images] == [
        (120, 80, None, False),
        (24, 24, (60, 40), False),
    ]
    assert page.embedded(plain).pixels().shape == (80, 120, 3)
    assert page.embedded(masked).pixels().shape == (40, 60, 3), "the finer of image and mask"
    assert page.embedded(plain).stream()


def test_an_image_mask_is_one() -> None:
    def draw(page: pymupdf.Page) -> None:
        xref = page.insert_image(BOX, stream=picture(1, 24, 24))
        document = page.parent
        document.xref_set_key(xref, "ColorSpace", "null")
        document.xref_set_key(xref, "ImageMask", "true")
        document.xref_set_key(xref, "BitsPerComponent", "1")

    (image,) = _page(draw).images
    assert image.is_mask


def test_an_image_mask_of_one_pixel_is_the_rectangle_that_it_paints() -> None:
    def draw(page: pymupdf.Page) -> None:
        page.draw_rect(BOX, fill=(0, 0, 1), color=None)
        document = page.parent
        (xref,) = page.get_contents()
        mask = b"cm BI /W 1 /H 1 /IM true /BPC 1 /D [0 1] /F /AHx ID 00> EI Q "
        painted = b"q 1 1 0 rg 200 0 0 100 150 342 " + mask + b"q 0 g 200 0 0 .5 150 300 " + mask
        document.update_stream(
            xref, document.xref_stream(xref) + b" " + painted + b"q 1 0 0 rg 70 70 -70 70 300 100 " + mask
        )

    page = _page(draw)
    slanted = page.images[0]
    assert len(page.images) == 1
    assert slanted.is_mask
    drawn, area, rule = page.marks
    assert (drawn.bbox, drawn.colour) == (BOX, (0, 0, 1))
    assert (area.bbox.rounded(), area.filled, area.colour) == (BBox(150, 400, 350, 500), True, (1, 1, 0))
    assert rule.is_rule
    assert (rule.bbox.x0, rule.bbox.x1) == pytest.approx((150, 350), abs=0.1)


@pytest.mark.parametrize(
    ("side", "message"),
    [
        pytest.param("60000", "60000 x 60000 pixels, more than", id="more than is decoded"),
        pytest.param("9000", "9000 x 9000 pixels but holds", id="more than its bytes hold"),
    ],
)
def test_an_image_that_declares_too_many_pixels_is_refused_before_it_is_decoded(side: str, message: str) -> None:
    def draw(page: pymupdf.Page) -> None:
        xref = page.insert_image(BOX, stream=picture(1))
        page.parent.xref_set_key(xref, "Width", side)
        page.parent.xref_set_key(xref, "Height", side)

    page = _page(draw)
    with pytest.raises(BadInputError, match=message) as refusal:
        page.embedded(page.images[0]).pixels()
    assert refusal.value.code is FailureCode.IMAGE_REJECTED


def test_a_part_of_a_page_is_drawn_at_its_resolution_or_at_most_so_many_pixels() -> None:
    page = _page(lambda page: page.draw_rect(BOX, fill=(1, 0, 0), color=None))
    pixels = page.draw(BOX, dpi=144, max_pixels=1_000_000)
    assert pixels.shape == (200, 400, 3)
    assert pixels[100, 200].tolist() == [255, 0, 0]
    assert page.draw(BOX, dpi=144, max_pixels=20_000).shape == (100, 200, 3)


def test_paths_are_marks_cut_to_their_clip_and_the_clip_is_a_frame() -> None:
    def draw(page: pymupdf.Page) -> None:
        page.draw_line((72, 100), (272, 100))
        document = page.parent
        (xref,) = page.get_contents()
        clipped = b"q 150 542 200 100 re W n 1 0 0 rg 100 442 300 400 re f Q "
        document.update_stream(xref, document.xref_stream(xref) + b" " + clipped)

    page = _page(draw)
    assert page.frames == (BOX,)
    filled, rule = page.marks
    assert (filled.bbox, filled.frame, filled.colour) == (BOX, BOX, (1, 0, 0))
    assert rule.is_rule
    assert (rule.bbox.x0, rule.bbox.x1) == pytest.approx((71.5, 272.5), abs=1)


def test_the_text_that_replaces_an_image_is_in_no_line() -> None:
    def draw(page: pymupdf.Page) -> None:
        page.insert_image(BOX, stream=picture(1), keep_proportion=False)
        document = page.parent
        (xref,) = page.get_contents()
        before, _, after = document.xref_stream(xref).partition(b"/fzImg0 Do")
        document.update_stream(xref, before + b"/Span <</ActualText (Politics)>> BDC /fzImg0 Do EMC" + after)

    page = _page(draw)
    assert page.lines == []
    ((box, text),) = page.replacement_texts()
    assert (box.rounded(), text) == (BOX, "Politics")
    assert _page(lambda page: page.insert_image(BOX, stream=picture(1))).replacement_texts() == []


# What pages are called


@pytest.mark.parametrize(
    ("tree", "labels"),
    [
        ("/Nums [0 << /S /r >> 2 << /S /D >> 4 << /P (A-) /S /A /St 26 >>]", ["i", "ii", "1", "2", "A-Z", "A-AA"]),
        ("/Nums [0 << /S /R /St 1999 >> 1 << /P <FEFF00DC0034> >> 2 << >>]", ["MCMXCIX", "Ü4", "", "", "", ""]),
        ("/Kids [<< /Nums [0 << /S /D /St 7 >>] >> << /Nums [4 << /S /a /St 3 >>] >>]", ["7", "8", "9", "10", "c", "d"]),
        ("/Nums [1 << /S /r /St -3 >>]", ["1", "-3", "-2", "-1", "0", "i"]),
        ("/Nums [0 7 (x)]", ["", "", "", "", "", ""]),
        ("/Nums 5", []),
        ("/Kids [LOOP]", []),
    ],
    ids=["front matter", "capitals and Unicode", "a deep tree", "numbers below one", "no rule", "no list", "a loop"],
)
def test_pages_are_called_what_the_pdf_says(tree: str, labels: list[str]) -> None:
    document = pymupdf.open()
    for _ in range(6):
        document.new_page()
    xref = document.get_new_xref()
    document.update_object(xref, f"<< {tree.replace('LOOP', f'{xref} 0 R {xref} 0 R')} >>")
    document.xref_set_key(document.pdf_catalog(), "PageLabels", f"{xref} 0 R")
    assert open_document(document.tobytes()).page_labels() == labels


def test_pages_that_the_pdf_calls_nothing_have_no_labels() -> None:
    assert open_document(_pdf(lambda page: page)).page_labels() == []


def test_a_letter_beyond_unicodes_last_costs_no_document() -> None:
    page = Mock()  # of PyMuPDF's text page, which fails so where a broken font names such a letter
    page.extractRAWDICT.side_effect = SystemError("a letter that Python can't hold")
    assert read_letters(page, Line(1, 0, BBox(0, 0, 90, 10), "ffi", 10.0, False)) is None
