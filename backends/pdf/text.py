"""A page's text in MuPDF: lines, the letters of each, and the replacement texts of images."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from functools import cache, lru_cache
from itertools import compress
from typing import TYPE_CHECKING, Any

from schemas.documents import NO_FONT, Line
from schemas.drawings import Letters, PageLine, ReplacementText
from schemas.geometry import BBox
from schemas.tags import escape
from schemas.text import RAISED_SIZE, as_superscript, may_be_raised

if TYPE_CHECKING:
    import pymupdf

_FAR_PT = -1e9
_AROUND_PT = 1.0
"""Room around a line whose letters are read, since its box is rounded."""

_DIRECTION_PLACES = 2
"""Decimal places of the direction of a line: with more, float noise makes a horizontal line slanted; with one, a line that
rises by 5 % is horizontal.
"""

_SURROGATE = re.compile("[\ud800-\udfff]")
_BOLD = 16
"""The flag of a span in bold letters."""

_MONO = 8
"""The flag of a span whose letters are all as wide."""
_MONO_FONT = re.compile(
    r"mono|nimbusmon|cour|consol|menlo|monaco|typewriter|lettergothic|code|(?<![a-z])(?:(?:cm|sf|ec)(?:sl)?)?tti?\d",
    re.IGNORECASE,
)
"""Names of fonts that are so without the flag: DejaVu Sans Mono, Inconsolata, Latin Modern Mono, Letter Gothic, NimbusMonL,
Computer Modern Typewriter. In 80 pages of a manual in NimbusMonL 155 blocks become code, and 15 tables of code are none.
"""
FEWEST_TYPED, FEWEST_TYPED_LETTERS = 4, 8
"""Minimum letters of a piece of text, minimum pieces, and different letters on the page, that tell whether all are as wide."""
SAME_WIDTH_EM = 0.002
"""Maximum difference of their widths, in ems."""
BOLD_SHARE = 0.9
"""Minimum share of a line's letters in its font, and in bold."""
_CODE, _PRIVATE = re.compile("[!-\u00ff]"), re.compile("[\uf020-\uf0ff]")
"""Characters of fonts of symbols: their codes, with a map to Unicode or without."""
_BULLET = ord("•")
_BOXES = str.maketrans("❏❐❑❒", "☐☐☐☐")
"""Empty boxes with a shadow, which are read as boxes."""
_WINGDINGS = str.maketrans("FJlnoqruwx§¨µØàèðûüýþ", "☞☺●■☐☐☐◆◆☒▪☐µ➢→➔⇨✗✓☒☑")
_SYMBOLS = {
    "wingdings2": str.maketrans("*OPQRST¢£", "☐✗✓☒☑☒☒●■☐"),
    "webdings": str.maketrans("4=acginr~", "▸■✓☐■ℹ●✗⚠"),
    "wingdings": _WINGDINGS,
    "": _WINGDINGS | str.maketrans("-Wm£¬®°±³´Þ", "–Ωµ≤←→°±≥×⇒"),
}
"""What fonts of symbols show by their codes, written as letters of Latin-1, by a part of their name; others are bullets."""
MONO_SHARE = 0.9
"""Minimum share of a line's letters and digits in such a font; others, such as "<", are often of a mathematical one."""
_WRITTEN = re.compile(r"\w")
_SUBSET = re.compile(r"^[A-Z]{6}\+")
"""The tag of a subset before the name of a font (ISO 32000-2, 9.9.2)."""

RAISED_EM = (0.15, 0.8)
"""How far such digits are above the line, in ems of it."""

_VISIBLE = 16 | 32
"""The flags of characters that are filled, or stroked."""
_WHITE = 247
"""Minimum red, green and blue of white letters."""


def text_page(listing: "pymupdf.DisplayList") -> "pymupdf.TextPage":
    """Return the text and the images of a page, in the order of its content."""
    import pymupdf

    flags = (
        pymupdf.TEXT_PRESERVE_WHITESPACE
        | pymupdf.TEXT_PRESERVE_IMAGES
        | pymupdf.TEXT_MEDIABOX_CLIP
        | pymupdf.TEXT_USE_CID_FOR_UNKNOWN_UNICODE
    )
    return pymupdf.TextPage(listing.get_textpage(flags))


def image_blocks(text: "pymupdf.TextPage") -> tuple[list[tuple[int, Any]], list[int]]:
    """Return the image blocks with their indices among all blocks, and the indices of the others."""
    from pymupdf import mupdf

    images: list[tuple[int, Any]] = []
    text_blocks: list[int] = []
    block, number = text.this.m_internal.first_block, 0
    while block:
        if block.type == mupdf.FZ_STEXT_BLOCK_IMAGE:
            images.append((number, mupdf.FzStextBlock(block)))
        else:
            text_blocks.append(number)
        block, number = block.next, number + 1
    return images, text_blocks


def move_off_page(images: Sequence[tuple[int, Any]]) -> None:
    """Move image blocks off the page, where ``extractDICT`` skips them: it would copy their bytes."""
    for _, block in images:
        box = block.m_internal.bbox
        box.x0 = box.y0 = box.x1 = box.y1 = _FAR_PT


def lines_of(blocks: Sequence[dict[str, Any]], page: int, indices: Sequence[int]) -> tuple[list[PageLine], list[Line]]:
    """Return the lines of a page, and those in white letters.

    Args:
        blocks: As ``extractDICT`` returns them, after the images were moved off the page.
        page: Its number.
        indices: Those of the blocks that aren't images.
    """
    lines: list[PageLine] = []
    white: list[Line] = []
    typed = _fonts_of_one_width(span for block in blocks for row in block["lines"] for span in row["spans"])
    for block in blocks:
        # PyMuPDF counts the blocks without images here; `indices` gives their numbers among all blocks.
        index = indices[block["number"]]
        for row in block["lines"]:
            spans = row["spans"]
            texts = _span_texts(row, [span["text"] for span in spans])
            words = "".join(texts)
            if not words or words.isspace():
                continue
            mono = _is_mono(spans, typed)
            # The span with most letters gives the line its size; its font and weight are those of nearly all letters.
            inked = [*map(len, map(str.strip, texts))]
            if not mono:  # words of code in a sentence don't say how it is set
                inked = [0 if _is_typed(span, typed) else letters for span, letters in zip(spans, inked, strict=True)]
            main = spans[inked.index(max(inked))]
            fonts: Counter[str] = Counter()
            for span, letters in zip(spans, inked, strict=True):
                fonts[span["font"]] += letters
            font, main_letters = fonts.most_common(1)[0]
            font = font if main_letters >= BOLD_SHARE * sum(inked) else ""
            bold = sum(compress(inked, map(_is_bold, spans))) >= BOLD_SHARE * sum(inked)
            box, size = BBox(*row["bbox"]).rounded(), round(main["size"], 2)
            line = Line(page, index, box, escape(words), size, bold, mono=mono, font=_SUBSET.sub("", font))
            lines.append(PageLine(line, bool(main["char_flags"] & _VISIBLE) and main["alpha"] > 0))
            if all(part >= _WHITE for part in main["color"].to_bytes(3, "big")):
                white.append(line)
    return lines, white


def _is_bold(span: dict[str, Any]) -> bool:
    return bool(span["flags"] & _BOLD)


def _fonts_of_one_width(spans: Iterable[dict[str, Any]]) -> frozenset[str]:
    """Return the fonts whose letters are all as wide, by what is written in them: Type 3 fonts don't say so."""
    widths: dict[tuple[str, float], dict[str, float]] = defaultdict(dict)
    for span in spans:
        words = span["text"]
        if len(words) >= FEWEST_TYPED and words.isascii() and not span["flags"] & _MONO:
            widths[span["font"], round(span["size"], 1)][words] = (span["bbox"][2] - span["bbox"][0]) / len(words)
    return frozenset(
        font
        for (font, size), width_by_word in widths.items()
        if len(width_by_word) >= FEWEST_TYPED
        and len(set("".join(width_by_word))) >= FEWEST_TYPED_LETTERS
        and max(width_by_word.values()) - min(width_by_word.values()) <= SAME_WIDTH_EM * size
    )


def _span_texts(row: dict[str, Any], texts: list[str]) -> list[str]:
    """Return the texts of a line's spans, raised digits as superscripts: of the same length."""
    spans = row["spans"]
    texts = [_with_symbols(text, span) for text, span in zip(texts, spans, strict=True)]
    # Raised digits are told by their height above the baseline, which is one number in level lines only.
    if len(spans) < 2 or row["dir"][0] != 1 or not any(map(may_be_raised, texts)):
        return texts
    main = spans[max(range(len(texts)), key=lambda at: len(texts[at].strip()))]
    size, base = main["size"], main["origin"][1]
    lowest, highest = RAISED_EM[0] * size, RAISED_EM[1] * size
    return [
        as_superscript(text)
        if may_be_raised(text) and span["size"] <= RAISED_SIZE * size and lowest <= base - span["origin"][1] <= highest
        else text
        for span, text in zip(spans, texts, strict=True)
    ]


def _is_mono(spans: Sequence[dict[str, Any]], typed: Collection[str]) -> bool:
    """Return whether a line is in a monospace font, but for the number before it in a listing."""
    spans = [span for span in spans if not span["text"].isspace()]
    if len(spans) > 1 and spans[0]["text"].strip().isdecimal():
        spans = spans[1:]
    mono = [_is_typed(span, typed) for span in spans]
    if all(mono) or not any(mono):
        return mono[0]
    letters = [len(_WRITTEN.findall(span["text"])) for span in spans]
    return sum(compress(letters, mono)) >= MONO_SHARE * sum(letters) > 0


def _is_typed(span: dict[str, Any], typed: Collection[str]) -> bool:
    return span["font"] in typed or _is_mono_font(span["font"], span["flags"])


def _with_symbols(text: str, span: dict[str, Any]) -> str:
    """Return a text in a font of symbols with what it shows; of the same length."""
    name = span["font"].lower().replace(" ", "").replace("-", "")
    if "dingbats" in name:
        x0, _, x1, _ = span["bbox"]
        readings = [[table.get(ord(letter), (letter, 0.0)) for letter in text] for table in _dingbats()]
        nearest = min(readings, key=lambda signs: abs(sum(width for _, width in signs) * span["size"] - (x1 - x0)))
        return "".join([sign for sign, _ in nearest]).translate(_BOXES)
    table = next(symbols for part, symbols in _SYMBOLS.items() if part in name)
    if "dings" in name:
        # Without a map to Unicode, the letters are the codes.
        text = _CODE.sub(lambda code: chr(table.get(ord(code[0]), _BULLET)), text)
    return _PRIVATE.sub(lambda private: chr(table.get(ord(private[0]) - 0xF000, _BULLET)), text)


@cache
def _dingbats() -> tuple[dict[int, tuple[str, float]], dict[int, tuple[str, float]]]:
    """Return the signs of Zapf Dingbats and their widths in ems: by the number in a glyph's name, "a73", and by code.

    MuPDF takes the number for the code, unless the font has an encoding. The widths of both signs differ.
    """
    import pymupdf
    from pymupdf import mupdf

    font = pymupdf.Font("zadb")
    by_number: dict[int, tuple[str, float]] = {}
    by_code: dict[int, tuple[str, float]] = {}
    for letter in font.valid_codepoints():
        glyph = font.has_glyph(letter)
        sign = chr(letter), mupdf.fz_advance_glyph(font.this, glyph, 0)
        by_code[ord(" ") + glyph - 1] = sign  # the font has its glyphs in the order of their codes
        if (name := mupdf.fz_get_glyph_name2(font.this, glyph))[1:].isdecimal():
            by_number[int(name[1:])] = sign
    return by_number, by_code


@lru_cache(maxsize=1024)
def _is_mono_font(name: str, flags: int) -> bool:
    return bool(flags & _MONO or _MONO_FONT.search(name)) and NO_FONT not in name


def read_letters(text: "pymupdf.TextPage", line: Line) -> Letters | None:
    """Return the letters of one of a page's lines; None if the page has no such line, or a broken font hides them.

    The area is restricted to the line: reading all letters takes as long as reading the page.
    """
    text_area, (x0, y0, x1, y1) = text.this.m_internal.mediabox, line.bbox.grown(_AROUND_PT)
    text_area.x0, text_area.y0, text_area.x1, text_area.y1 = x0, y0, x1, y1
    try:
        blocks = text.extractRAWDICT()["blocks"]
    except SystemError:  # PyMuPDF fails on a letter beyond Unicode's last, which a broken font may name
        return None
    for row in (row for block in blocks for row in block["lines"]):
        letters = [letter for span in row["spans"] for letter in span["chars"]]
        texts = ["".join([letter["c"] for letter in span["chars"]]) for span in row["spans"]]
        words = _SURROGATE.sub("\ufffd", "".join(_span_texts(row, texts)))
        # The area of a line may reach into its neighbours, so text and box must both be the line's.
        if escape(words) == line.text and BBox(*row["bbox"]).rounded() == line.bbox:
            across, down = (round(part, _DIRECTION_PLACES) for part in row["dir"])
            direction = (int(across), int(down)) if abs(across) + abs(down) == 1 else None
            return Letters(words, [letter["bbox"] for letter in letters], direction)
    return None


def replacement_texts(listing: "pymupdf.DisplayList") -> list[ReplacementText]:
    """Return the replacement texts of images; MuPDF leaves such words out of the text if it returns images."""
    from pymupdf import mupdf

    image_texts: list[ReplacementText] = []
    # Marked content may be nested: an image has the text of the innermost.
    open_texts: list[str] = []

    class Reader(mupdf.FzDevice2):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.use_virtual_begin_metatext()
            self.use_virtual_end_metatext()
            self.use_virtual_fill_image()

        def begin_metatext(self, _context: Any, kind: int, text: str) -> None:
            open_texts.append(text if kind == mupdf.FZ_METATEXT_ACTUALTEXT else "")

        def end_metatext(self, _context: Any) -> None:
            del open_texts[-1:]

        def fill_image(self, _context: Any, _image: Any, matrix: Any, _alpha: float, _colours: Any) -> None:
            if open_texts and open_texts[-1]:
                image_texts.append(ReplacementText(unit_square(matrix), open_texts[-1]))

    reader = Reader()
    mupdf.fz_run_display_list(
        listing.this, reader, mupdf.FzMatrix(), mupdf.FzRect(mupdf.FzRect.Fixed_INFINITE), mupdf.FzCookie()
    )
    mupdf.fz_close_device(reader)
    return image_texts


def unit_square(matrix: Any) -> BBox:
    """Return the box of the unit square transformed by a matrix: that of the image drawn with it."""
    xs = [matrix.e + x for x in (0.0, matrix.a, matrix.c, matrix.a + matrix.c)]
    ys = [matrix.f + y for y in (0.0, matrix.b, matrix.d, matrix.b + matrix.d)]
    return BBox(min(xs), min(ys), max(xs), max(ys))
