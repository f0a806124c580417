"""One page of a synthetic manual: things are put on it as they are read, and drawn as the PDF holds them."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from schemas.documents import Kind, Role
from schemas.geometry import BBox
from tests.synthetic.art import Pen, append, logo, watermark
from tests.synthetic.truth import TrueBlock, TrueFigure, TruePage, TruePlace, TrueRegion, TrueTable

if TYPE_CHECKING:
    import pymupdf

Fact = TrueBlock | TrueFigure | TrueTable
Draw = Callable[["pymupdf.Page"], Sequence[Fact]]
"""Draws something and says what is true of it, as it is read; boxes as the page's reader sees them."""

A4 = (595.0, 842.0)
CROP_PT = 40.0
SCAN_DPI = 130


@dataclass
class Column:
    """A column of a page: ``y`` is where the next thing goes, ``bottom`` where floats at the foot begin."""

    x: float
    width: float
    y: float
    bottom: float
    read: list[Draw] = field(default_factory=list)
    foot: list[Draw] = field(default_factory=list)


@dataclass
class Sheet:
    """A page in the making. ``turned`` is the page's rotation: it is laid out as it is read, and turned at the end.

    ``under`` is drawn behind all else; ``stream`` says when the pictures are drawn (see ``Options``).
    """

    page: int
    header: str
    footer: str
    width: float
    height: float
    columns: list[Column] = field(default_factory=list)
    over: list[Draw] = field(default_factory=list)
    under: list[Draw] = field(default_factory=list)
    turned: int = 0
    cropped: bool = False
    scanned: bool = False
    backed: bool = False
    stray: bool = False
    stream: str = "page"
    logo_seed: int | None = None

    def draw(self, document: "pymupdf.Document", pick: random.Random) -> tuple[TruePage, list[Fact]]:
        """Add the page to a document; return it and what is true of what stands on it."""
        page = self._new_page(document)
        canvas = self._scratch() if self.scanned else page
        drawings = [*self.over, *(drawing for column in self.columns for drawing in (*column.read, *column.foot))]
        facts: dict[int, Sequence[Fact]] = {}
        furniture = self._furniture(canvas)
        order = list(range(len(drawings)))
        if self.stray:
            pick.shuffle(order)
        for drawing in self.under:
            drawing(canvas)
        behind = frozenset(canvas.get_contents())
        pictures: list[list[int]] = []
        for index in order:
            streams_before = frozenset(canvas.get_contents())
            facts[index] = drawings[index](canvas)
            pictures += _pictures(canvas, streams_before, facts[index])
        if self.stream != "page":
            self._write_anew(canvas, behind, pictures)
        self._set_between(facts)
        on_page: list[Fact] = [*furniture, *(fact for index in range(len(drawings)) for fact in facts[index])]
        if self.scanned:
            canvas = _photographed(canvas, page)
            page_box = BBox(0, 0, self.width, self.height)
            on_page.insert(0, _figure(f"scan{self.page}", self.page, page_box, Role.PAGE_SCAN, "scan", Kind.SCAN))
        if self.turned:
            self._turn(page)
        width, height = (self.height, self.width) if self.turned in (90, 270) else (self.width, self.height)
        read = [fact.id for fact in on_page if not (isinstance(fact, TrueFigure) and fact.role in _UNREAD)]
        return (
            TruePage(
                page=self.page,
                width_pt=width,
                height_pt=height,
                rotation=self.turned,
                scanned=self.scanned,
                order=tuple(read),
                margins=() if self.scanned else tuple(text for text in (self.header, self.footer) if text),
            ),
            [self._turned_fact(fact) for fact in on_page],
        )

    def _new_page(self, document: "pymupdf.Document") -> "pymupdf.Page":
        import pymupdf

        if not self.cropped:
            return document.new_page(width=self.width, height=self.height)
        page = document.new_page(width=self.width + 2 * CROP_PT, height=self.height + 2 * CROP_PT)
        pen = Pen(page)
        for x in (CROP_PT, self.width + CROP_PT):
            pen.lines([(x, 0), (x, CROP_PT - 6)])
            pen.lines([(x, self.height + CROP_PT + 6), (x, self.height + 2 * CROP_PT)])
        pen.text((CROP_PT + 20, 16), "proof sheet, not for sale")
        pen.done()
        logo(page, BBox(self.width, 4, self.width + 90, 31), random.Random(self.page))
        page.set_cropbox(pymupdf.Rect(CROP_PT, CROP_PT, self.width + CROP_PT, self.height + CROP_PT))
        return page

    def _scratch(self) -> "pymupdf.Page":
        import pymupdf

        return pymupdf.open().new_page(width=self.width, height=self.height)

    def _furniture(self, page: "pymupdf.Page") -> list[Fact]:
        """Draw what stands on every page: header, footer, logo, and what lies behind."""
        facts: list[Fact] = []
        if self.backed:
            box = watermark(page, BBox(0, 0, self.width, self.height), random.Random(self.page))
            facts.append(_figure(f"back{self.page}", self.page, box, Role.BACKGROUND, "watermark", Kind.SCAN))
        pen = Pen(page)
        if self.header:
            pen.text((62, 42), self.header, size=8)
            pen.lines([(62, 48), (self.width - 62, 48)], width=0.5)
        if self.footer:
            pen.text((self.width / 2, self.height - 30), self.footer, size=8, centred=True)
        if self.header or self.footer:
            pen.done()
        if self.logo_seed is not None:
            box = logo(page, BBox(self.width - 122, 24, self.width - 62, 42), random.Random(self.logo_seed))
            facts.append(_figure(f"logo{self.page}", self.page, box, Role.DECORATIVE, "logo", Kind.RASTER))
        return facts if not self.scanned else []

    def _write_anew(self, page: "pymupdf.Page", behind: frozenset[int], pictures: list[list[int]]) -> None:
        """Set the content streams of pictures before all else but what lies behind, after it, or anywhere among it."""
        xrefs = list(page.get_contents())
        drawn = {xref for picture in pictures for xref in picture}
        groups: list[Sequence[int]] = [[xref] for xref in xrefs if xref not in drawn and xref not in behind]
        match self.stream:
            case "first":
                groups[:0] = pictures
            case "last":
                groups += pictures
            case _:
                pick = random.Random(f"{self.page} {self.header}")
                for picture in pictures:
                    groups.insert(pick.randint(0, len(groups)), picture)
        ordered_xrefs = [*(xref for xref in xrefs if xref in behind), *(xref for group in groups for xref in group)]
        page.parent.xref_set_key(page.xref, "Contents", f"[{' '.join(f'{xref} 0 R' for xref in ordered_xrefs)}]")

    def _set_between(self, facts: dict[int, Sequence[Fact]]) -> None:
        """Say of each picture that is alone between two blocks of its column that it is read between these."""
        at = len(self.over)
        for column in self.columns:
            for index in range(at + 1, at + len(column.read) - 1):
                over, under = facts[index - 1][0], facts[index + 1][0]
                match facts[index]:
                    case [TrueFigure(caption="", stands=None, role=Role.CONTENT) as figure] if _is_text(over) and _is_text(
                        under
                    ):
                        stands = TruePlace(after=over.id, before=under.id)
                        facts[index] = [figure.model_copy(update={"stands": stands})]
            at += len(column.read) + len(column.foot)

    def _turn(self, page: "pymupdf.Page") -> None:
        matrix = {
            90: f"0 1 -1 0 {self.height:g} 0",
            180: f"-1 0 0 -1 {self.width:g} {self.height:g}",
            270: f"0 -1 1 0 0 {self.width:g}",
        }[self.turned]
        append(page, b"Q", before=f"q {matrix} cm".encode())
        if self.turned in (90, 270):
            page.set_mediabox((0, 0, self.height, self.width))
        page.set_rotation(self.turned)

    def _turned_fact(self, fact: Fact) -> Fact:
        if isinstance(fact, TrueTable):
            regions = tuple(TrueRegion(page=region.page, bbox=self._turned_box(region.bbox)) for region in fact.regions)
            return fact.model_copy(update={"regions": regions})
        return fact.model_copy(update={"bbox": self._turned_box(fact.bbox)})

    def _turned_box(self, box: BBox) -> BBox:
        width, height = self.width, self.height
        match self.turned:
            case 90:
                box = BBox(box.y0, width - box.x1, box.y1, width - box.x0)
            case 180:
                box = BBox(width - box.x1, height - box.y1, width - box.x0, height - box.y0)
            case 270:
                box = BBox(height - box.y1, box.x0, height - box.y0, box.x1)
        return box.rounded()


_UNREAD = frozenset({Role.DECORATIVE, Role.BACKGROUND, Role.PAGE_SCAN})


def _is_text(fact: Fact) -> bool:
    return isinstance(fact, TrueBlock) and fact.kind != "caption"


def _pictures(page: "pymupdf.Page", earlier_xrefs: frozenset[int], facts: Sequence[Fact]) -> list[list[int]]:
    """Return the content streams of each picture that was just drawn: a figure, its caption aside, or icons in a text."""
    xrefs = [xref for xref in page.get_contents() if xref not in earlier_xrefs]
    if any(isinstance(fact, TrueFigure) and fact.role is Role.CONTENT for fact in facts):
        return [xrefs[:-1] if any(isinstance(fact, TrueBlock) for fact in facts) else xrefs]
    return [[xref] for xref in xrefs if b" Do" in page.parent.xref_stream(xref)]


def _figure(name: str, page: int, box: BBox, role: Role, art: str, kind: Kind) -> TrueFigure:
    return TrueFigure(id=name, page=page, bbox=box, kind=kind, role=role, art=art)


def _photographed(scratch: "pymupdf.Page", page: "pymupdf.Page") -> "pymupdf.Page":
    import pymupdf

    pixels = scratch.get_pixmap(dpi=SCAN_DPI, colorspace=pymupdf.csGRAY)
    page.insert_image(page.rect, stream=pixels.tobytes("png"))
    return page
