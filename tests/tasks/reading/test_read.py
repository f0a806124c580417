"""Reading a page from facts about it, whatever reads the PDF."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from schemas.corpus import ParseOptions
from schemas.documents import Line, OutlineEntry
from schemas.drawings import Image, Letters, Mark, PageLine, Pixels, ReplacementText
from schemas.errors import BadInputError, FailureCode
from schemas.geometry import BBox
from schemas.ports import PdfDocument, PdfImage, PdfPage
from tasks.reading.parse import parse
from tasks.reading.read import read_page

SHEET = BBox(0, 0, 595, 842)
LETTER_PT = 6.0


@dataclass(frozen=True)
class _Picture:
    """An image of one colour a side, so that it is not blank."""

    shade: int

    def pixels(self) -> Pixels:
        pixels = np.full((20, 30, 3), self.shade, np.uint8)
        pixels[:, :15] = 0
        return pixels

    def stream(self) -> bytes:
        return bytes([self.shade])


@dataclass
class _Page:
    """A page that was written down, letter by letter."""

    number: int
    lines: Sequence[PageLine] = ()
    images: Sequence[Image] = ()
    texts: Sequence[ReplacementText] = ()
    unreadable_letters: bool = False
    rotation: int = 0
    box: BBox = SHEET
    marks: tuple[Mark, ...] = ()
    frames: tuple[BBox, ...] = ()

    def regions(self, rotation: int, *, is_scan: bool = False) -> None:
        """No layout model sees it."""

    def letters(self, line: Line) -> Letters:
        if self.unreadable_letters:
            raise BadInputError("the page can't be read: a broken font", FailureCode.PAGE_UNREADABLE, self.number)
        step = line.bbox.width / len(line.text)
        lefts = [line.bbox.x0 + step * at for at in range(len(line.text))]
        if any(letter > "\u0590" for letter in line.text):
            lefts.reverse()
        return Letters(line.text, [(left_x, line.bbox.y0, left_x + step, line.bbox.y1) for left_x in lefts], (1, 0))

    def replacement_texts(self) -> list[ReplacementText]:
        return list(self.texts)

    def embedded(self, image: Image) -> PdfImage:
        return _Picture(image.number + 100)

    def draw(self, box: BBox, *, dpi: int, max_pixels: int) -> Pixels:
        return np.tile(np.arange(int(box.width) % 250 + 2, dtype=np.uint8)[None, :, None], (9, 1, 3))


@dataclass
class _Document:
    pages: Mapping[int, PdfPage]
    entries: list[OutlineEntry] = field(default_factory=list)
    title: str = ""
    dates: tuple[str, str] = ("", "")
    is_repaired: bool = False

    @property
    def page_count(self) -> int:
        return len(self.pages)

    def page_labels(self) -> list[str]:
        return []

    def attachments(self) -> list[str]:
        return []

    def read_page(self, number: int) -> PdfPage:
        return self.pages[number]

    def outline(self) -> list[OutlineEntry]:
        return self.entries

    def lost_content(self) -> list[str]:
        return []

    def doubts(self) -> tuple[str, ...]:
        return ()

    def free_memory(self) -> None:
        pass


def _line(text: str, x: float, y: float, *, block: int = 0, page: int = 1) -> PageLine:
    return PageLine(Line(page, block, BBox(x, y, x + LETTER_PT * len(text), y + 10), text, 10.0, bold=False), True)


def _texts(*pages: _Page) -> list[str]:
    document: PdfDocument = _Document({page.number: page for page in pages})
    return [line.text for page in pages for line in read_page(document, page.number).texts]


def test_right_to_left_pieces_of_one_row_are_one_line_in_logical_order() -> None:
    assert _texts(_Page(1, [_line("שלום ", 200, 100), _line("עולם", 176, 100, block=1)])) == ["שלום עולם"]


def test_right_to_left_pieces_apart_or_of_two_rows_stay_lines() -> None:
    lines = [_line("שלום", 200, 100), _line("עולם", 100, 100, block=1), _line("פה", 212, 112, block=2)]
    content = read_page(_Document({1: _Page(1, lines)}), 1)
    assert [line.text for line in content.texts] == ["שלום", "עולם", "פה"]


def test_right_to_left_lines_of_one_paragraph_are_one_block() -> None:
    lines = [_line("שלום", 200, 100), _line("עולם", 200, 112, block=1), _line("פה", 212, 150, block=2)]
    content = read_page(_Document({1: _Page(1, lines)}), 1)
    assert [line.block for line in content.texts] == [0, 0, 1]


def test_left_to_right_lines_are_left_as_they_are_and_their_letters_not_read() -> None:
    assert _texts(_Page(1, [_line("Torque", 72, 100), _line("Größe", 120, 100)], unreadable_letters=True)) == [
        "Torque",
        "Größe",
    ]


def test_a_page_whose_letters_cannot_be_read_is_a_failure_and_the_others_are_read() -> None:
    pages = {1: _Page(1, [_line("שלום", 200, 100)], unreadable_letters=True), 2: _Page(2, [_line("Pump", 72, 100, page=2)])}
    parsed = parse(_Document(pages), "d", ParseOptions(layout="never"), keep_figure=lambda _name, _picture: None)
    assert [line.text for line in parsed.lines] == ["Pump"]
    assert [(failure.page, failure.code) for failure in parsed.failures] == [(1, FailureCode.PAGE_UNREADABLE)]


def _painted(number: int, x0: float, x1: float, y: float = 100.0) -> tuple[Image, BBox]:
    box = BBox(x0, y, x1, y + 20)
    return Image(number, number, box, 2, 2, (x1 - x0, 0, 0, 20), mask_px=(400, 40)), box


def test_words_that_images_show_are_joined_by_how_far_they_overlap() -> None:
    images = [_painted(0, 72, 152), _painted(1, 143, 205), _painted(2, 203, 283), _painted(3, 72, 172, y=122)]
    words = ["Politi", "cal", "parties", "abroad"]
    texts = [ReplacementText(box, word) for (_, box), word in zip(images, words, strict=True)]
    page = _Page(1, images=[image for image, _ in images], texts=texts)
    content = read_page(_Document({1: page}), 1)
    assert [(line.text, line.block) for line in content.texts] == [("Political parties", 0), ("abroad", 0)]
    assert [is_visible for _, is_visible in content.lines] == [False, False]


def test_an_image_that_is_written_over_or_has_no_replacement_text_shows_no_words() -> None:
    (over, box), (plain, _) = _painted(0, 72, 152), _painted(1, 300, 380)
    page = _Page(1, [_line("Politics", 90, 105)], [over, plain], [ReplacementText(box, "Politics")])
    assert _texts(page) == ["Politics"]


def test_letters_of_words_that_images_show_are_evenly_spread() -> None:
    image, box = _painted(0, 100, 140)
    content = read_page(_Document({1: _Unlettered(1, images=[image], texts=[ReplacementText(box, "Pump")])}), 1)
    text, boxes = content.letters(content.texts[0])
    assert (text, [(box[0], box[2]) for box in boxes]) == ("Pump", [(100, 110), (110, 120), (120, 130), (130, 140)])
    assert content.letters.direction(content.texts[0]) is None


class _Unlettered(_Page):
    def letters(self, line: Line) -> None:  # type: ignore[override]
        return None


def test_an_image_on_two_pages_is_decoded_and_kept_once() -> None:
    image = Image(0, 0, BBox(150, 200, 350, 300), 30, 20, (200, 0, 0, 100))
    kept_names: list[str] = []
    pages = {number: _Page(number, images=[image]) for number in (1, 2)}
    parsed = parse(_Document(pages), "d", ParseOptions(), keep_figure=lambda name, _: kept_names.append(name))
    assert len(kept_names) == 1
    assert [placement.page for placement in parsed.placements] == [1, 2]
    assert len({placement.raw_sha1 for placement in parsed.placements}) == 1


def test_an_outline_keeps_what_points_to_a_page_and_heights_that_are_on_it() -> None:
    entries = [
        OutlineEntry(1, "Start", 1, 100.004),
        OutlineEntry(1, "Above", 1, -3.0),
        OutlineEntry(1, "Gone", 3, 100.0),
        OutlineEntry(1, "Nowhere", 0, 100.0),
        OutlineEntry(1, "", 1, 100.0),
        OutlineEntry(2, "Turned", 2, 100.0),
    ]
    document = _Document({1: _Page(1), 2: _Page(2, rotation=90)}, entries)
    parsed = parse(document, "d", ParseOptions(), keep_figure=lambda _name, _picture: None)
    assert [(entry.title, entry.page, entry.y) for entry in parsed.outline] == [
        ("Start", 1, 100.0),
        ("Above", 1, None),
        ("Turned", 2, None),
    ]
