"""Read a page of an open PDF: lines in logical order, words set as images, drawings."""

import re
import unicodedata
from bisect import bisect
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import compress, pairwise
from operator import itemgetter
from statistics import median

from schemas.corpus import Layout
from schemas.documents import LayoutLabel, Line, OutlineEntry, Page, PageRegion
from schemas.drawings import MAX_SIDE_PT, PAGE_SHARE, Image, Letters, Mark, PageLine, ReplacementText
from schemas.errors import FailureCode, rejecting
from schemas.geometry import BBox, is_level, turned, union
from schemas.ports import PdfDocument, PdfPage
from schemas.tags import escape, strip
from schemas.text import RAISED_SIZE, as_superscript, may_be_raised
from tasks.figures.pixel_rules import rules_in
from tasks.reading.bidi import LineLetters, has_right_to_left, in_logical_order
from tasks.reading.blocks import SURE_MARKER, regroup_lines
from tasks.reading.margins import line_numbers
from tasks.reading.outline import body_size
from tasks.tables.promised import tables_under_titles, with_forms
from tasks.tables.rows import rotation_of

_MARKS = dict(
    zip(
        "`´^ˆ~˜¨˚ˇ˘¯˙˝¸˛",
        "\u0300\u0301\u0302\u0302\u0303\u0303\u0308\u030a\u030c\u0306\u0304\u0307\u030b\u0327\u0328",
        strict=True,
    )
)
"""The combining mark of each spacing accent."""

_DOTLESS = {"ı": "i", "ȷ": "j"}
_WRITTEN = "`^~"
"""Accents that occur in programs, paths and versions, too: they count only over a letter that Unicode has with them."""

_OVERLAP = 0.6
"""Minimum share of the narrower one's width that an accent and its letter have in common. Of 13,148 accents on the first pages
of 146 documents of TeX none has 0.15 to 0.6, and none has more than 0.28 in common with the letter on its other side.
"""

LEAST_EM, MOST_EM = 0.15, 0.7
"""Size of a bullet, in ems of the line behind it."""
BOX_EM = 1.4
"""Maximum size of a box to tick."""
SQUARE = 1.35
"""Maximum ratio of a bullet's sides."""
REACH_EM = 2.5
"""Maximum gap between a bullet and the line behind it, in ems."""
BELOW_EM = 0.2
"""Maximum distance of an underline below the box of its line, in ems."""
BESIDE_EM = 0.5
"""Maximum distance of the ends of an underline from those of its words, in ems."""
FEWEST = 2
"""Minimum bullets below each other."""

MARK_GAP_EM = 0.3
"""Maximum gap between a raised mark and the text that it stands behind, in ems of the text."""
MARK_RISE_EM = (0.05, 0.8)
"""How far the base line of a raised mark is above that of its text, in ems of the text; an index is below it."""
_DESCENT_EM = 0.3
"""How far the box of a line extends below its base line, in ems."""

_PAINT_PX = 8
"""Maximum side of an image that is only the colour painted through a larger mask."""

_SAME_SHARE = 0.9
"""Minimum overlap, over union, of an image and the box of its replacement text."""

_SIZE_SHARE = 0.85
"""Type size relative to the height of the image."""

_OVERHANG_SHARE = 0.35
"""Minimum overlap, relative to the height, of two images of one word; with a blank in between they overlap less."""

_SAME_HEIGHT_SHARE = 0.1
_LEADING_SHARE = 0.5
"""Maximum gap, relative to the height, between two lines of one paragraph."""

SCAN_DPI, MAX_SCAN_PIXELS = 150, 4_000_000
"""Resolution at which rules are searched on a scanned page, and maximum pixels."""
EDGE_EM = 0.3
"""Minimum distance of a rule that cuts a line from the ends of the line, in ems."""
FEWEST_SPACED, SPACED_SHARE = 4, 0.8
"""Minimum words of a line, and minimum share of them of one letter, if its letters are spaced out."""
FEWEST_LETTERS, FEWEST_STRANGE, STRANGE_SHARE = 12, 2, 0.05
"""Minimum letters of a line that tells, and how many of them, and which share, no text has, if its font gives wrong letters."""
_MAY_BE_STRANGE = frozenset({LayoutLabel.FORMULA, LayoutLabel.PICTURE})
"""Labels of regions whose signs may be of a font without letters."""
WORD_GAP, WORD_GAP_EM = 1.3, 0.1
"""Gap between the letters of two words: so many times the usual one, and more, in ems."""


def with_accents(lines: Iterable[PageLine], letters: LineLetters) -> list[PageLine]:
    """Return lines with each accent composed with its letter."""
    return [
        read if _MARKS.keys().isdisjoint(read.line.text) else PageLine(_composed(read.line, letters), read.is_visible)
        for read in lines
    ]


def _composed(line: Line, letters: LineLetters) -> Line:
    level = letters.direction(line)
    text, boxes = letters(line)
    if level is None or len(boxes) != len(text):
        return line
    level_boxes = [turned(box, level) for box in boxes]
    characters, is_kept, character_boxes = list(text), [True] * len(text), [*map(BBox._make, boxes)]
    for at, accent in enumerate(text):
        if accent not in _MARKS:
            continue
        # TeX draws the accent first, and a cedilla last.
        for over in (at + 1, at - 1):
            if not (0 <= over < len(text) and text[over].isalpha()):
                continue
            composed = unicodedata.normalize("NFC", _DOTLESS.get(characters[over], characters[over]) + _MARKS[accent])
            if _share(level_boxes[at], level_boxes[over]) >= _OVERLAP and (len(composed) == 1 or accent not in _WRITTEN):
                characters[over] = composed
                character_boxes[over], is_kept[at] = union((character_boxes[over], character_boxes[at])), False
                break
    if all(is_kept):
        return line
    words = [*compress(characters, is_kept)]
    # A letter without a composed form in Unicode is two characters in one box.
    spread = [box for word, box in zip(words, compress(character_boxes, is_kept), strict=True) for _ in word]
    return letters.respelled(line, Letters("".join(words), spread, level))


def _share(accent_box: BBox, letter_box: BBox) -> float:
    """Return the share of the narrower box's width that two boxes have in common."""
    narrower = min(accent_box.width, letter_box.width)
    return -accent_box.gap_x(letter_box) / narrower if narrower > 0 else 0.0


def with_raised_marks(lines: Sequence[PageLine], letters: LineLetters) -> list[PageLine]:
    """Return lines, with each raised number that was drawn by itself, such as a footnote's mark in a cell, behind its text."""
    visible = [line for line, is_visible in lines if is_visible]
    raised = {
        mark: text for mark in visible if may_be_raised(mark.text) and (text := _raised_over(mark, visible)) is not None
    }
    mark_by_text = {text: mark for mark, text in raised.items() if text not in raised}
    joined_marks = set(mark_by_text.values())
    return [
        PageLine(_with_mark(line, mark_by_text[line], letters) if line in mark_by_text else line, is_visible)
        for line, is_visible in lines
        if line not in joined_marks
    ]


def _raised_over(mark: Line, lines: Sequence[Line]) -> Line | None:
    """Return the line behind whose last letter a smaller one stands raised."""
    for line in lines:
        rise = line.bbox.y1 - mark.bbox.y1 - _DESCENT_EM * (line.size - mark.size)
        if (
            mark.size <= RAISED_SIZE * line.size
            and abs(mark.bbox.x0 - line.bbox.x1) <= MARK_GAP_EM * line.size
            and MARK_RISE_EM[0] * line.size <= rise <= MARK_RISE_EM[1] * line.size
        ):
            return line
    return None


def _with_mark(line: Line, mark: Line, letters: LineLetters) -> Line:
    (text, boxes), (mark_text, mark_boxes) = letters(line), letters(mark)
    text, mark_text = text.rstrip(), as_superscript(mark_text.strip())
    marked = Letters(text + mark_text, [*boxes[: len(text)], *mark_boxes[: len(mark_text)]], (1, 0))
    return letters.respelled(line, marked, line.bbox | mark.bbox)


def drawn_bullets(marks: Sequence[Mark], lines: Sequence[PageLine]) -> tuple[list[Mark], list[PageLine]]:
    """Return the marks of a page that aren't bullets or boxes to tick, and its lines with one for each that is.

    A letter in a box, which ticks it, is left out.
    """
    visible = [line for line, is_visible in lines if is_visible]
    squares = [mark for mark in marks if (mark.filled or not (mark.strokes or mark.white)) and _is_square(mark.bbox)]
    signed = [line.bbox for line in visible if SURE_MARKER.match(line.text)]
    behind = {
        mark: line
        for mark in squares
        if not any(map(mark.bbox.has_middle_of, signed)) and (line := _line_behind(mark, visible)) is not None
    }
    columns = Counter((round(mark.bbox.x0), mark.filled) for mark in behind)
    bullets = {mark: line for mark, line in behind.items() if columns[round(mark.bbox.x0), mark.filled] >= FEWEST}
    boxes = [mark.bbox for mark in bullets if not mark.filled]
    ticks = {mark for mark in marks if mark.strokes and any(box.has_middle_of(mark.bbox) for box in boxes)}
    letters = {line for line in visible if any(box.has_middle_of(line.bbox) for box in boxes)}
    inked = [*(tick.bbox for tick in ticks), *(letter.bbox for letter in letters)]
    drawn = [read for read in lines if read.line not in letters]
    for mark, line in bullets.items():
        box = mark.bbox
        is_ticked = any(map(box.has_middle_of, inked))
        sign = "•" if mark.filled else "☒" if is_ticked else "☐"
        drawn.append(
            PageLine(line._replace(bbox=line.bbox._replace(x0=box.x0, x1=box.x1).rounded(), text=sign, bold=False), True)
        )
    return [mark for mark in marks if mark not in bullets and mark not in ticks], drawn


def without_underlines(marks: Sequence[Mark], lines: Sequence[PageLine]) -> list[Mark]:
    """Return the marks of a page without the rules below or through the words of one line, which aren't a table's."""
    visible = [line for line, is_visible in lines if is_visible]
    return [mark for mark in marks if not (_is_level_rule(mark) and any(_underlines(mark.bbox, line) for line in visible))]


def with_strikes(lines: Sequence[PageLine], marks: Sequence[Mark], letters: LineLetters) -> Iterator[PageLine]:
    """Yield lines, with ``~~`` around whole words that a rule goes through, of the page or of an annotation."""
    rules = [mark.bbox for mark in marks if _is_level_rule(mark)]
    for line, is_visible in lines:
        through = [rule for rule in rules if _underlines(rule, line)]
        yield PageLine(reduce(lambda struck, rule: _struck_out(struck, rule, letters), through, line), is_visible)


def _struck_out(line: Line, rule: BBox, letters: LineLetters) -> Line:
    text, boxes = letters(line)
    struck = [
        at
        for at, (x0, y0, x1, y1) in enumerate(boxes)
        # An underline is in the lowest quarter of the boxes of its letters.
        if rule.x0 <= (x0 + x1) / 2 <= rule.x1 and 4 * abs(rule.centre_y - (y0 + y1) / 2) <= y1 - y0
    ]
    words = "".join([text[at] for at in struck]).strip()
    start = text.find(words, *struck[:1])
    end = start + len(words)
    before, after = text[:start], text[end:]
    if len(words) < 2 or re.search(r"\w$", before) or re.match(r"\w", after) or letters.direction(line) != (1, 0):
        return line
    first, last = boxes[start], boxes[end - 1]
    # The signs have no width, so that nothing takes them for letters.
    opening, closing = [(first[0], first[1], first[0], first[3])] * 2, [(last[2], last[1], last[2], last[3])] * 2
    marked_boxes = [*boxes[:start], *opening, *boxes[start:end], *closing, *boxes[end:]]
    return letters.respelled(line, Letters(f"{before}~~{words}~~{after}", marked_boxes, (1, 0)))


def _is_level_rule(mark: Mark) -> bool:
    return mark.is_rule and mark.bbox.width > mark.bbox.height


def _underlines(rule: BBox, line: Line) -> bool:
    x0, y0, x1, y1 = line.bbox
    beside, below = BESIDE_EM * line.size, BELOW_EM * line.size
    is_within = x0 - beside <= rule.x0 and rule.x1 <= x1 + beside
    return is_within and (y0 + y1) / 2 - below <= rule.centre_y <= y1 + below


def _is_square(box: BBox) -> bool:
    return box.width > 0 and box.height > 0 and 1 / SQUARE <= box.width / box.height <= SQUARE


def _line_behind(mark: Mark, lines: Sequence[Line]) -> Line | None:
    """Return the line that a shape of a bullet's or a box's size is in front of, with nothing in front of the shape."""
    box, (smallest, largest) = mark.bbox, (LEAST_EM, MOST_EM) if mark.filled else (MOST_EM, BOX_EM)
    level = [line for line in lines if is_level(box, line.bbox)]
    behind = [
        line
        for line in level
        if 0 < line.bbox.x0 - box.x1 <= REACH_EM * line.size and smallest * line.size <= box.height <= largest * line.size
    ]
    if not behind or any(-line.size < line.bbox.gap_x(box) < line.size and line.bbox.x0 < box.x0 for line in level):
        return None
    return min(behind, key=lambda line: line.bbox.x0)


def has_words_as_images(images: Sequence[Image]) -> bool:
    """Return whether one of a page's images is a few pixels painted through a mask."""
    return any(
        image.mask_px is not None and max(image.width, image.height) <= _PAINT_PX < max(image.mask_px) for image in images
    )


def spelled_lines(texts: Sequence[ReplacementText], images: Sequence[Image], page: int) -> list[Line]:
    """Return the words of a page's images that have replacement texts.

    Source:
        ISO 32000-2, 14.9.4.
    """
    lines: list[Line] = []
    for image in images:
        box = image.bbox
        text = next((text for text_box, text in texts if box.iou(text_box) >= _SAME_SHARE), "")
        if not text.strip():
            continue
        line = Line(page, image.block, box, escape(text), round(_SIZE_SHARE * box.height, 2), bold=False)
        last = lines[-1] if lines else None
        if last is None or abs(box.height - last.bbox.height) > _SAME_HEIGHT_SHARE * last.bbox.height:
            lines.append(line)
        elif box.y0 == last.bbox.y0 and last.bbox.x0 < box.x0 <= last.bbox.x1 + last.bbox.height:
            # The letters of one word may be two images: larger than their letters, they overlap, less so at a blank.
            is_apart = last.bbox.x1 - box.x0 < _OVERHANG_SHARE * last.bbox.height
            blank = " " if is_apart and not last.text.endswith((" ", "-")) else ""
            lines[-1] = last._replace(bbox=last.bbox | box, text=last.text + blank + line.text)
        else:
            is_under = abs(box.y0 - last.bbox.y1) <= _LEADING_SHARE * last.bbox.height
            lines.append(line._replace(block=last.block if is_under else line.block))
    return lines


@dataclass(frozen=True, slots=True)
class ParsedPage:
    """A page's content: ``lines`` derive from ``drawn``; ``letters`` locates the letters of each; ``marks`` have no bullets.

    ``rotation`` is that of most of the text. ``is_scan``: it is a picture over invisible lines, which stand for what it shows;
    ``pictures`` are those that the layout model sees in it.
    """

    page: Page
    drawn: PdfPage
    lines: tuple[PageLine, ...]
    letters: LineLetters
    marks: Sequence[Mark]
    regions: Sequence[PageRegion] | None
    rotation: int = 0
    layout_failed: bool = False
    is_scan: bool = False
    pictures: Sequence[Image] = ()

    @property
    def texts(self) -> list[Line]:
        """All lines, visible or not."""
        return [line for line, _ in self.lines]


def read_page(document: PdfDocument, number: int, layout: Layout = "never", *, is_scan: bool = False) -> ParsedPage:
    """Read one page, counted from 1, and run the layout model on it if ``layout`` says so.

    ``is_scan``: it is known to be a picture with hidden words.

    Raises:
        BadInputError: The page can't be read.
        MemoryError: It would take more memory than there is.
    """
    drawn = document.read_page(number)
    letters = LineLetters(drawn)
    with rejecting("the page can't be read", FailureCode.PAGE_UNREADABLE, number):
        lines = list(with_strikes(_lines(drawn, letters), drawn.marks, letters))
        is_drawn = max(drawn.box.width, drawn.box.height) <= MAX_SIDE_PT
        asks_model = layout == "every_page" and is_drawn
        is_scan = is_scan or (is_drawn and _is_scan(drawn, lines))
        visible = [line for line, is_visible in lines if is_visible or is_scan]
        rotation = rotation_of(visible, drawn.rotation)
        # Numbers of lines would be markers of items, or a table's column.
        numbers = line_numbers(visible, body_size(visible)) if not rotation else []
        regions = drawn.regions(rotation, is_scan=is_scan) if asks_model else None
        if regions and not rotation:
            regions = tables_under_titles(regions, [line for line in visible if line not in numbers])
        # Bullets and underlines belong to the text, and must not be taken for drawings or rules of tables.
        pictures = [_cut_out(region.bbox) for region in regions or () if is_scan and region.label is LayoutLabel.PICTURE]
        drawn_marks = _rules_of_scan(drawn, pictures, visible) if is_scan else drawn.marks
        if is_scan:
            lines = _in_order([*_cut_at_rules(lines, drawn_marks, letters)], regions or ())
        marks, lines = drawn_bullets(without_underlines(drawn_marks, lines), lines)
        frames = [mark.bbox for mark in marks if not (mark.filled or mark.strokes or mark.is_rule)]
        regions = regions and with_forms(regions, frames, visible)
        text = [read for read in lines if read.line not in numbers]
        lines = [*regroup_lines(text, regions or (), rotation, frames), *(PageLine(line, True) for line in numbers)]
    characters = sum([len(line.text.strip()) for line, _ in lines])
    page = Page(number, drawn.box.width, drawn.box.height, drawn.rotation, characters)
    layout_failed = asks_model and regions is None
    return ParsedPage(page, drawn, tuple(lines), letters, marks, regions, rotation, layout_failed, is_scan, pictures)


def _is_scan(page: PdfPage, lines: Sequence[PageLine]) -> bool:
    """Return whether a page is a picture, and all its words are behind it."""
    is_covered = any(image.bbox.area >= PAGE_SHARE * page.box.area for image in page.images)
    return is_covered and bool(lines) and not any(is_visible for _, is_visible in lines)


def _in_order(lines: Sequence[PageLine], regions: Sequence[PageRegion]) -> list[PageLine]:
    """Return the lines of a scan, which OCR reads across columns, in the order of the regions.

    Others stay behind the line before.
    """
    order: list[int] = []
    for line, _ in lines:
        region_numbers = (at for at, region in enumerate(regions) if region.bbox.has_middle_of(line.bbox))
        order.append(next(region_numbers, order[-1] if order else -1))
    return [line for _, line in sorted(zip(order, lines, strict=True), key=itemgetter(0))]


def _cut_out(box: BBox) -> Image:
    """Return a part of a page's picture as an image of its own."""
    return Image(-1, 0, box, 0, 0, (box.width, 0, 0, box.height), cut=True)


def _rules_of_scan(page: PdfPage, pictures: Sequence[Image], lines: Sequence[Line]) -> list[Mark]:
    """Return the rules of a scanned page, drawn or in its pixels, without those of pictures on it, and strokes of letters."""
    rules = list(page.marks)
    if not rules:
        pixels = page.draw(page.box, dpi=SCAN_DPI, max_pixels=MAX_SCAN_PIXELS)
        points = page.box.width / pixels.shape[1]
        rules = [Mark(BBox(*(side * points for side in rule)), 0, filled=True, white=False) for rule in rules_in(pixels)]
    boxes = [*(picture.bbox for picture in pictures), *(line.bbox for line in lines)]
    return [rule for rule in rules if not any(box.contains(rule.bbox) for box in boxes)]


def _cut_at_rules(lines: Sequence[PageLine], marks: Sequence[Mark], letters: LineLetters) -> Iterator[PageLine]:
    """Yield the lines of a scan, cut where they go over an upright rule, which OCR may have read as a letter."""
    rules = [mark.bbox for mark in marks if mark.bbox.height > mark.bbox.width]
    for line, is_visible in lines:
        edge = EDGE_EM * line.size
        crossed = sorted(
            rule.centre_x
            for rule in rules
            if line.bbox.x0 + edge < rule.centre_x < line.bbox.x1 - edge and rule.y0 <= line.bbox.centre_y <= rule.y1
        )
        if not crossed or letters.direction(line) != (1, 0):
            yield PageLine(line, is_visible)
            continue
        text, boxes = letters(line)
        starts = [0, *(bisect(boxes, x, key=lambda box: (box[0] + box[2]) / 2) for x in crossed), len(text)]
        for start, end in pairwise(starts):
            inked = [at for at in range(start, end) if text[at] not in " |[]"]
            if inked:
                words, some = text[inked[0] : inked[-1] + 1], boxes[inked[0] : inked[-1] + 1]
                box = line.bbox._replace(x0=some[0][0], x1=some[-1][2]).rounded()
                yield PageLine(letters.respelled(line, Letters(words, some, (1, 0)), box), is_visible)


def _lines(page: PdfPage, letters: LineLetters) -> list[PageLine]:
    lines = with_accents(page.lines, letters)
    lines = [PageLine(_joined_letters(line, letters), is_visible) for line, is_visible in lines]
    lines = with_raised_marks(lines, letters)
    if any(has_right_to_left(line.text) for line, _ in lines):
        lines = list(in_logical_order(lines, letters))
    if has_words_as_images(page.images):
        spelled = spelled_lines(page.replacement_texts(), page.images, page.number)
        line_boxes = [line.bbox for line, _ in lines]
        lines += [PageLine(line, False) for line in spelled if not any(line.bbox.has_middle_of(box) for box in line_boxes)]
        # Blocks are numbered with the images among them, so the words of images come to their place in the content.
        lines.sort(key=lambda marked: marked.line.block)
    return lines


def _joined_letters(line: Line, letters: LineLetters) -> Line:
    """Return a line whose letters are spaced out with its words written as usual."""
    words = [word for word in line.text.split() if word.isalnum()]
    if len(words) < FEWEST_SPACED or sum(len(word) == 1 for word in words) < SPACED_SHARE * len(words):
        return line
    text, boxes = letters(line)
    inked = [at for at, letter in enumerate(text) if not letter.isspace()]
    gaps = [boxes[after][0] - boxes[before][2] for before, after in pairwise(inked)]
    widest = WORD_GAP * max(median(gaps), 0.0) + WORD_GAP_EM * line.size
    joined = text[inked[0]] + "".join(
        " " * (gap > widest) + text[after] for gap, after in zip(gaps, inked[1:], strict=True)
    )
    # Every letter needs a box, also a blank put between two words: any blank's of the line will do.
    blank = next((boxes[at] for at, letter in enumerate(text) if letter.isspace()), boxes[0])
    inked_in_order = iter(inked)
    joined_boxes = [blank if letter == " " else boxes[next(inked_in_order)] for letter in joined]
    return letters.respelled(line, Letters(joined, joined_boxes, (1, 0)))


def is_unreadable(lines: Sequence[PageLine]) -> bool:
    """Return whether a font of a page doesn't say which letters it shows: lines have control and private characters."""
    return any(
        is_visible and line.label not in _MAY_BE_STRANGE and _is_strange(strip(line.text).strip())
        for line, is_visible in lines
    )


def _is_strange(text: str) -> bool:
    strange = sum(
        (unicodedata.category(letter) in ("Cc", "Co", "Cn") and not letter.isspace()) or letter == "\ufffd"
        for letter in text
    )
    return len(text) >= FEWEST_LETTERS and strange >= max(FEWEST_STRANGE, STRANGE_SHARE * len(text))


def read_outline(document: PdfDocument, pages: Sequence[Page]) -> list[OutlineEntry]:
    """Return the PDF's own outline, restricted to its pages; [] if it has none, or a broken one."""
    outline: list[OutlineEntry] = []
    for entry in document.outline():
        if entry.title and 1 <= entry.page <= len(pages):
            page = pages[entry.page - 1]
            is_on_page = page.rotation == 0 and entry.y is not None and 0 <= entry.y <= page.height_pt
            y = round(entry.y, 2) if is_on_page and entry.y is not None else None
            outline.append(OutlineEntry(entry.level, escape(entry.title), page.page, y))
    return outline
