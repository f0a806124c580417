"""The tagged PDF: every tag inside its box, every word still there, tables as they were."""

from collections import Counter
from collections.abc import Callable, Sequence

import pymupdf
import pytest

from backends.pdf.inscribe import Inscription, inscribe
from schemas.errors import BadInputError, FailureCode
from schemas.geometry import BBox
from schemas.tags import CANONICAL, PAPER, TagTemplate
from tests.manuals import picture, sentence

BOX = BBox(150, 200, 350, 300)
TAG = "<image:23523473.png>"

Draw = Callable[[pymupdf.Page], None]


def _document(draw: Draw, rotation: int = 0, crop: Sequence[float] | None = None) -> bytes:
    document = pymupdf.open()
    page = document.new_page(width=595, height=842)
    draw(page)
    if crop is not None:
        page.set_cropbox(crop)
    page.set_rotation(rotation)
    return bytes(document.tobytes(no_new_id=True))


def _words(page: pymupdf.Page) -> Counter[str]:
    return Counter(word[4] for word in page.get_text("words"))


def _opened(data: bytes) -> pymupdf.Page:
    return pymupdf.open(stream=data, filetype="pdf")[0]


def _spans(page: pymupdf.Page, tag: str = TAG) -> list[dict[str, object]]:
    """Return the spans that hold a tag, as the unrotated page has them."""
    blocks = page.get_text("dict")["blocks"]
    return [
        span | {"dir": line["dir"]}
        for block in blocks
        for line in block.get("lines", ())
        for span in line["spans"]
        if tag in span["text"]
    ]


def _manual(page: pymupdf.Page) -> None:
    page.insert_text((72, 100), sentence(1), fontsize=11)
    page.insert_image(BOX, stream=picture(1, 200, 100))
    page.insert_text((150, 316), "Figure 1: The pump", fontsize=10)


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
@pytest.mark.parametrize("crop", [None, (100, 150, 500, 700)], ids=["whole", "cropped"])
def test_a_tag_is_in_its_box_and_upright_however_the_page_is_turned(
    rotation: int, crop: tuple[float, float, float, float] | None
) -> None:
    original = _document(_manual, rotation, crop)
    left_edge, top = crop[:2] if crop else (0, 0)
    box = BBox(BOX.x0 - left_edge, BOX.y0 - top, BOX.x1 - left_edge, BOX.y1 - top)
    before, after = _opened(original), _opened(inscribe(original, [Inscription(1, box, TAG)]))
    assert after.rotation == rotation
    assert TagTemplate().numbers(after.get_text()) == ["23523473"]
    assert _words(after) - _words(before) == {TAG: 1}
    assert not _words(before) - _words(after)
    (span,) = _spans(after)
    assert BBox(*span["bbox"]) & box.grown(0.5) == BBox(*span["bbox"])  # type: ignore[misc]
    assert span["size"] == pytest.approx(8, abs=0.1)
    upright = pymupdf.Point(*span["dir"]) * pymupdf.Matrix(rotation)  # type: ignore[misc]
    assert (round(upright.x), round(upright.y)) == (1, 0)


def test_the_original_is_the_beginning_of_its_copy() -> None:
    original = _document(_manual)
    copy = inscribe(original, [Inscription(1, BOX, TAG)])
    assert copy.startswith(original)
    assert copy == inscribe(original, [Inscription(1, BOX, TAG)])
    pixels = [_opened(data).get_pixmap(clip=(0, 301, 595, 842)).samples for data in (original, copy)]
    assert pixels[0] == pixels[1], "beside the box the page looks as it did"
    assert pymupdf.open(stream=copy, filetype="pdf").is_repaired is False


@pytest.mark.parametrize("template", [CANONICAL, PAPER, "<image: {title}({number}.{ext})|{bbox}>"])
@pytest.mark.parametrize("side", [5, 12, 30, 200])
def test_no_box_is_too_small_for_a_tag(template: str, side: int) -> None:
    tags = TagTemplate(template)
    tag = tags.write("235234730001", title="Pump (P-200) \\ manual", bbox=(150, 200, 150 + side, 200 + side))
    box = BBox(150, 200, 150 + side, 200 + side)

    def draw(page: pymupdf.Page) -> None:
        page.insert_text((72, box.y1 - 1), "Press the", fontsize=11)
        page.insert_text((box.x1 + 1, box.y1 - 1), "key twice", fontsize=11)
        page.insert_image(box, stream=picture(1))

    original = _document(draw)
    after = _opened(inscribe(original, [Inscription(1, box, tag)]))
    assert tags.read(after.get_text()) == tags.read(tag)
    assert not _words(_opened(original)) - _words(after)
    (span,) = _spans(after, tag)
    assert BBox(*span["bbox"]) & box.grown(1) == BBox(*span["bbox"])  # type: ignore[misc]


def _cells(page: pymupdf.Page) -> list[list[list[str]]]:
    return [
        [[cell or "" for cell in row] for row in table.extract()] for table in page.find_tables(use_layout=False).tables
    ]


def _untagged(cells: list[list[list[str]]]) -> list[list[list[str]]]:
    def plain(cell: str) -> str:
        return " ".join("".join(words for words, number in TagTemplate().split(cell) if number is None).split())

    return [[[plain(cell) for cell in row] for row in table] for table in cells]


def _table(page: pymupdf.Page, width: float, lines: int = 1) -> list[BBox]:
    """Draw three rows of two cells; the right ones hold a picture. Return the pictures' boxes."""
    boxes = []
    for row in range(3):
        top = 100 + 40 * row
        for column in range(2):
            left_edge = 72 + width * column
            page.draw_rect((left_edge, top, left_edge + width, top + 40))
        for line in range(lines):
            page.insert_text((75, top + 9 + 5 * line), f"Key{row}{line}", fontsize=4 if lines > 1 else 8)
        box = BBox(75 + width, top + 3, 69 + 2 * width, top + 37)
        page.insert_image(box, stream=picture(row + 1), keep_proportion=False)
        page.insert_text((77 + width, top + 20), f"Go{row}", fontsize=6)
        boxes.append(box)
    return boxes


@pytest.mark.parametrize("rotation", [0, 90])
@pytest.mark.parametrize(("width", "lines"), [(30, 1), (200, 1), (60, 6)])
def test_the_cells_of_a_table_say_what_they_said(width: float, lines: int, rotation: int) -> None:
    boxes: list[BBox] = []
    original = _document(lambda page: boxes.extend(_table(page, width, lines)), rotation)
    before = _opened(original)
    after = _opened(inscribe(original, [Inscription(1, box, TAG) for box in boxes]))
    assert len(_cells(before)) == 1
    assert "Go1" in str(_cells(before))
    assert _untagged(_cells(after)) == _untagged(_cells(before))
    cells = [cell for table in _cells(after) for row in table for cell in row]
    numbers = [TagTemplate().numbers(cell) for cell in cells if "Go" in cell]
    assert numbers == [["23523473"]] * 3, "each tag stands in its cell"


def test_a_tag_is_where_a_drawing_has_no_words() -> None:
    def draw(page: pymupdf.Page) -> None:
        page.draw_rect(BOX)
        for line in range(3):
            page.insert_text((155, 210 + 11 * line), sentence(line, 4), fontsize=9)

    original = _document(draw)
    copy = _opened(inscribe(original, [Inscription(1, BOX, TAG)]))
    (span,) = _spans(copy)
    tag = BBox(*span["bbox"])  # type: ignore[misc]
    assert span["size"] == pytest.approx(8, abs=0.1)
    assert all((BBox(*word[:4]) & tag).area == 0 for word in _opened(original).get_text("words"))


def test_where_words_leave_no_place_neither_they_nor_the_tag_are_lost() -> None:
    def draw(page: pymupdf.Page) -> None:
        for line in range(40):
            page.insert_text((150, 202 + 2.5 * line), sentence(line, 14), fontsize=4)

    original = _document(draw)
    after = _opened(inscribe(original, [Inscription(1, BBox(150, 200, 250, 300), TAG)]))
    assert TAG in after.get_text()
    assert not _words(_opened(original)) - _words(after)


@pytest.mark.parametrize(
    "content",
    [b"0.1 0 0 0.1 300 300 cm", b"q 0.1 0 0 0.1 0 0 cm q", b"Q Q", b"/F0 3 Tf 50 Tz 9 Tc 20 Ts 3 Tr"],
    ids=["scaled and left so", "saved and never restored", "restored and never saved", "invisible text"],
)
def test_what_a_page_leaves_behind_does_not_move_its_tags(content: bytes) -> None:
    document = pymupdf.open()
    page = document.new_page(width=595, height=842)
    xref = document.get_new_xref()
    document.update_object(xref, "<<>>")
    document.update_stream(xref, content, new=True)
    page.set_contents(xref)
    (span,) = _spans(_opened(inscribe(document.tobytes(), [Inscription(1, BOX, TAG)])))
    assert BBox(*span["bbox"]) & BOX.grown(0.5) == BBox(*span["bbox"])  # type: ignore[misc]
    assert span["size"] == pytest.approx(8, abs=0.1)


@pytest.mark.parametrize(
    ("key", "value", "size"),
    [
        ("Contents", "null", (595, 842)),
        ("Resources", "null", (595, 842)),
        ("UserUnit", "2", (1190, 1684)),
        ("MediaBox", "[-100 -50 495 792]", (595, 842)),
    ],
)
def test_whatever_a_page_lacks_or_counts_from(key: str, value: str, size: tuple[float, float]) -> None:
    document = pymupdf.open()
    page = document.new_page(width=595, height=842)
    document.xref_set_key(page.xref, key, value)
    after = _opened(inscribe(document.tobytes(), [Inscription(1, BOX, TAG)]))
    assert (after.rect.width, after.rect.height) == size
    (span,) = _spans(after)
    assert BBox(*span["bbox"]) & BOX.grown(0.5) == BBox(*span["bbox"])  # type: ignore[misc]


def test_fonts_that_pages_inherit_stay_theirs() -> None:
    document = pymupdf.open()
    for number in range(2):
        document.new_page().insert_text((72, 100), f"Torque {number}")
    resources = document.xref_get_key(document[0].xref, "Resources")[1]
    parent = int(document.xref_get_key(document[0].xref, "Parent")[1].split()[0])
    document.xref_set_key(parent, "Resources", resources)
    for page in document:
        document.xref_set_key(page.xref, "Resources", "null")
    original = document.tobytes(garbage=0)
    assert "Torque 1" in pymupdf.open(stream=original, filetype="pdf")[1].get_text()
    copy = pymupdf.open(stream=inscribe(original, [Inscription(1, BOX, TAG)]), filetype="pdf")
    assert [page.get_text().split() for page in copy] == [["Torque", "0", TAG], ["Torque", "1"]]


def test_a_damaged_file_has_a_copy_too() -> None:
    original = _document(_manual)
    torn = original[: original.rindex(b"xref")]
    after = _opened(inscribe(torn, [Inscription(1, BOX, TAG)]))
    assert TAG in after.get_text()
    assert sentence(1) in after.get_text()


def test_an_encrypted_document_stays_encrypted() -> None:
    document = pymupdf.open()
    _manual(document.new_page(width=595, height=842))
    locked = document.tobytes(encryption=pymupdf.PDF_ENCRYPT_AES_256, user_pw="open", owner_pw="own")
    copy = pymupdf.open(stream=inscribe(locked, [Inscription(1, BOX, TAG)], passwords=["open"]), filetype="pdf")
    assert copy.needs_pass
    assert copy.authenticate("open")
    assert TAG in copy[0].get_text()
    with pytest.raises(BadInputError) as refusal:
        inscribe(locked, [Inscription(1, BOX, TAG)])
    assert refusal.value.code is FailureCode.NEEDS_PASSWORD


def test_a_tag_that_can_not_be_read_back_is_refused() -> None:
    outside = BBox(700, 200, 800, 300)
    with pytest.raises(BadInputError, match=f"page 1 of the copy lacks the tag {TAG}") as refusal:
        inscribe(_document(_manual), [Inscription(1, outside, TAG)])
    assert (refusal.value.code, refusal.value.page) == (FailureCode.TAGGING_FAILED, 1)
