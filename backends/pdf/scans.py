"""Write scanned pages as PDFs: what OCR read, behind the picture, so that they are read as other pages with a text layer are."""

from bisect import bisect
from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from schemas.documents import NO_FONT, Page
from schemas.drawings import InkedRun
from schemas.geometry import BBox

if TYPE_CHECKING:
    import pymupdf

SIZE_SHARE = 0.7
"""Type size relative to the height of the box of a line that OCR read."""
STRETCHED = 1.4
"""Maximum ratio of the type size by a line's width in Helvetica to that by its height."""
SPACED_EM = 0.12
"""Maximum room between letters that is added to fill a line's box, in ems."""
ASCENT, DESCENT = 1.075, 0.3
"""How far Helvetica's letters are above and below their line, in ems."""
FEWEST_LETTERS = 6
"""Minimum letters of a line whose width says its size."""
BOLD, ITALIC, FEWEST_STYLED = 1.22, 1.3, 4
"""Minimum width of the strokes of bold letters, relative to those of the page's text; minimum slant of italic ones; minimum
letters of a line in bold or italics.
"""
USUAL_SHARE = 0.25
"""Share of the letters of a document whose strokes are thinner than those of its text."""
SAME_SIZE = 0.1
"""Maximum difference of two sizes that are one, relative to them."""
_LATIN, _WIDTH = range(32, 256), 1000
_UNICODE = b"""/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /Unicode def /CMapType 2 def
1 begincodespacerange <0000> <FFFF> endcodespacerange 1 beginbfrange <0000> <FFFF> <0000> endbfrange
endcmap end end"""


class ScannedLine(NamedTuple):
    """What OCR read on a line of a page in one font: the line's box in points, and how it is rotated, in degrees clockwise.

    ``size`` and ``bold`` are unknown at first.
    """

    bbox: BBox
    runs: tuple[InkedRun, ...]
    rotation: int
    size: float = 0.0
    bold: bool = False

    @property
    def stroke(self) -> float:
        """The mean width of its strokes, in points."""
        return sum(run.stroke * len(run.text) for run in self.runs) / max(1, self.letters)

    @property
    def italic(self) -> bool:
        """Whether its letters lean to the right."""
        slant = sum(run.slant * len(run.text) for run in self.runs)
        return self.letters >= FEWEST_STYLED and slant >= ITALIC * self.letters

    @property
    def letters(self) -> int:
        """The number of its letters."""
        return sum(len(run.text) for run in self.runs)

    @property
    def height(self) -> float:
        """The height of its box, as it is read."""
        return self.bbox.height if self.rotation % 180 == 0 else self.bbox.width


def scanned_page(
    page: Page, picture: bytes, box: BBox, rotation: int, lines: Sequence[ScannedLine], rules: Sequence[BBox]
) -> bytes:
    """Return a PDF of one page with a picture, invisible lines, and rules.

    Args:
        page: Its size, and the rotation in which it is read.
        picture: Its picture, encoded, as it is displayed.
        box: Where the picture is on the unrotated page.
        rotation: How the page is displayed, in degrees clockwise.
        lines: What OCR read.
        rules: Those in its pixels.
    """
    import pymupdf

    with pymupdf.open() as document:
        sheet = document.new_page(width=page.width_pt, height=page.height_pt)
        sheet.insert_image(pymupdf.Rect(box), stream=picture, rotate=rotation, keep_proportion=False)
        resources = int(document.xref_get_key(sheet.xref, "Resources")[1].split()[0])
        fonts = {"T": ("", "helv"), "B": ("-Bold", "hebo"), "I": ("-Italic", "helv")}
        font_entries = (f"/{key} {_font(document, NO_FONT + style, widths)} 0 R" for key, (style, widths) in fonts.items())
        document.xref_set_key(resources, "Font", f"<<{''.join(font_entries)}>>")
        words = "\n".join(_shown(line, page.height_pt) for line in lines)
        drawn = " ".join(f"{x0:.2f} {page.height_pt - y1:.2f} {x1 - x0:.2f} {y1 - y0:.2f} re f" for x0, y0, x1, y1 in rules)
        content = sheet.get_contents()[-1]
        document.update_stream(content, document.xref_stream(content) + f"\n{drawn}\nBT 3 Tr\n{words}\nET".encode())
        sheet.set_rotation(page.rotation)
        return bytes(document.tobytes())


def _font(document: "pymupdf.Document", name: str, widths_of: str) -> int:
    """Add a font with the characters of Unicode, Latin ones as wide as Helvetica's; return its number."""

    def added(content: str, stream: bytes | None = None) -> int:
        number = int(document.get_new_xref())
        document.update_object(number, content)
        if stream is not None:
            document.update_stream(number, stream, new=True)
        return number

    widths = " ".join(str(round(_WIDTH * width)) for width in _latin_widths(widths_of))
    descriptor = added(
        f"<</Type/FontDescriptor/FontName/{name}/Flags 4/FontBBox[0 -300 1000 1075]"
        "/ItalicAngle 0/Ascent 1075/Descent -300/CapHeight 720/StemV 80>>"
    )
    letters = added(
        f"<</Type/Font/Subtype/CIDFontType2/BaseFont/{name}/CIDSystemInfo<</Registry(Adobe)/Ordering(Identity)"
        f"/Supplement 0>>/FontDescriptor {descriptor} 0 R/DW {_WIDTH}/W[{_LATIN.start}[{widths}]]/CIDToGIDMap/Identity>>"
    )
    unicode = added("<<>>", _UNICODE)
    return added(
        f"<</Type/Font/Subtype/Type0/BaseFont/{name}/Encoding/Identity-H"
        f"/DescendantFonts[{letters} 0 R]/ToUnicode {unicode} 0 R>>"
    )


@cache
def _latin_widths(font: str) -> list[float]:
    import pymupdf

    return list(pymupdf.Font(font).char_lengths("".join(map(chr, _LATIN)), 1))


def with_type(lines: Sequence[ScannedLine]) -> list[ScannedLine]:
    """Return the lines of a document with the size of their letters; those with thicker strokes than its text are bold."""
    measured = [line._replace(size=size) for line, size in zip(lines, _measured_sizes(lines), strict=True)]
    inked = sorted((line.stroke / line.size, line.letters) for line in measured if line.stroke)
    sums = [*accumulate(letters for _, letters in inked)]
    # Strokes of headings and of small letters in pictures are thicker, none are thinner.
    usual = inked[bisect(sums, sums[-1] * USUAL_SHARE)][0] if inked else 0.0
    typed = [
        line._replace(bold=line.letters >= FEWEST_STYLED and line.stroke >= BOLD * usual * line.size > 0)
        for line in measured
    ]
    sizes = _same_sizes(typed, _measured_sizes(typed))
    return [line._replace(size=size) for line, size in zip(typed, sizes, strict=True)]


def _measured_sizes(lines: Sequence[ScannedLine]) -> list[float]:
    """Return the type size of each line by its width in Helvetica, from which all lines in one font differ alike.

    The height of a line's box depends on its letters, so it tells only the size of short ones.
    """
    share = _size_by_height(lines)
    return [
        min(max(_size_by_width(line), share * line.height / STRETCHED), share * line.height * STRETCHED)
        if line.letters >= FEWEST_LETTERS
        else share * line.height
        for line in lines
    ]


def _size_by_width(line: ScannedLine) -> float:
    return sum(run.end - run.start for run in line.runs) / max(0.1, sum(_width(run.text, line.bold) for run in line.runs))


def _size_by_height(lines: Sequence[ScannedLine]) -> float:
    """Return the size of the letters of most lines, relative to the height of their boxes."""
    shares = [_size_by_width(line) / line.height for line in lines if line.letters >= FEWEST_LETTERS and line.height > 0]
    return median(shares) if shares else SIZE_SHARE


def _same_sizes(lines: Sequence[ScannedLine], sizes: Sequence[float]) -> list[float]:
    """Return type sizes, those that differ by little made equal to that of most letters."""
    letters: Counter[tuple[bool, float]] = Counter()
    for line, size in zip(lines, sizes, strict=True):
        letters[line.bold, round(size, 1)] += line.letters
    share = _size_by_height(lines)
    sizes_by_line: dict[int, float] = {}
    for (bold, size), _ in letters.most_common():
        for at, (line, measured) in enumerate(zip(lines, sizes, strict=True)):
            # Words in another font make a line of the text wider or narrower, but no higher.
            candidates = [measured] if bold else [measured, share * line.height]
            if (
                at not in sizes_by_line
                and line.bold == bold
                and any(abs(candidate - size) <= SAME_SIZE * size for candidate in candidates)
            ):
                sizes_by_line[at] = size
    return [sizes_by_line[at] for at in range(len(lines))]


def _width(text: str, bold: bool) -> float:
    widths = _latin_widths("hebo" if bold else "helv")
    return sum(widths[ord(letter) - _LATIN.start] if ord(letter) in _LATIN else 1.0 for letter in text)


def scanned_lines(bbox: BBox, rotation: int, runs: Sequence[InkedRun]) -> list[ScannedLine]:
    """Return what OCR read on a line, cut where its strokes become thicker or thinner.

    Args:
        bbox: The line's box.
        rotation: How it is rotated, in degrees clockwise.
        runs: Its ink, relative to the length of the box.
    """
    length = bbox.width if rotation % 180 == 0 else bbox.height
    lines: list[ScannedLine] = []
    for run in runs:
        on_page = run._replace(start=length * run.start, end=length * run.end, stroke=length * run.stroke)
        line = ScannedLine(bbox, (on_page,), rotation)
        before = lines[-1] if lines else None
        if before is None or _differ(before, line):
            lines.append(line)
        else:
            lines[-1] = before._replace(runs=(*before.runs, on_page))
    return lines


def _differ(before: ScannedLine, line: ScannedLine) -> bool:
    thinner, thicker = sorted((before.stroke, line.stroke))
    return thicker >= BOLD * thinner and min(before.letters, line.letters) >= FEWEST_STYLED


def _shown(line: ScannedLine, page_height: float) -> str:
    """Return the operators that show the runs of a line in its box."""
    across, down = {0: (1, 0), 90: (0, 1), 180: (-1, 0), 270: (0, -1)}[-line.rotation % 360]
    x0, y0, x1, y1 = line.bbox
    length, base = x1 - x0 if line.rotation % 180 == 0 else y1 - y0, line.size * (ASCENT - DESCENT) / 2
    operators = [f"/{'B' if line.bold else 'I' if line.italic else 'T'} {line.size:.2f} Tf"]
    for run in line.runs:
        # From the middle of the box back to the start of the run, and down to its base line.
        back = length / 2 - run.start
        x = (x0 + x1) / 2 - back * across - base * down
        y = page_height - (y0 + y1) / 2 + back * down - base * across
        text = "".join(letter for letter in run.text if ord(letter) <= 0xFFFF)
        # With more room between them, letters would be words.
        spacing = min(
            (run.end - run.start - line.size * _width(text, line.bold)) / max(1, len(text)), SPACED_EM * line.size
        )
        operators.append(f"{across} {-down} {down} {across} {x:.2f} {y:.2f} Tm")
        # A blank far away keeps readers from joining the run with the one beside it.
        operators.append(f"{spacing:.3f} Tc <{text.encode('utf-16-be').hex()}> Tj 1 0 0 1 0 0 Tm <0020> Tj")
    return " ".join(operators)
