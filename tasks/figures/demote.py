"""Demote pictures that the rest of their document shows to be no content: page furniture, ornaments, logos.

Counts below are of 90 documents: 2,758 pages with 1,845 pictures.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from schemas.documents import Kind, Line, Page, Placement, Role, largest
from schemas.drawings import EDGE_SHARE
from schemas.geometry import BBox
from tasks.figures.classify import CAPTIONED, is_small

_REPEATED_PAGES = 3
"""Pages that may have a picture that is not furniture, in a document of any length ..."""

_REPEATED_SHARE = 0.05
"""... and the share of all pages. All 18 pictures that are furniture by their position are on 5 to 20 pages."""

_SAME_POSITION_PT = 4.0
"""Step to which sides are rounded before they are compared."""

_HEAD_SHARE = 0.2
"""Share of a first page, from the top, in which a logo may be if there is no title."""

_LOGO_SHARE = 0.03
"""Maximum share of its page that a logo covers; the largest of 11 covers 0.02."""


def without_repeats(placements: Sequence[Placement], pages: Sequence[Page]) -> list[Placement]:
    """Return placements with their final role: those on many pages are logos, bands, page furniture or ornaments.

    A picture at the same position isn't content; nor is one at the edge of a rotated page, or one of another size. The band
    above or below the text may have another chapter's name on each page. A small picture of one size without a caption is an
    icon wherever it is: a quotation mark, a warning symbol.
    """
    by_number = {page.page: page for page in pages}
    occurrences = _Occurrences(placements, by_number)
    most_pages = max(_REPEATED_PAGES, _REPEATED_SHARE * len(pages))
    decided: list[Placement] = []
    for placement in placements:
        repeated = _role_of_repeated(placement, by_number[placement.page], occurrences, most_pages)
        decided.append(placement if repeated is None else _as_repeated(placement, *repeated))
    return decided


def _as_repeated(placement: Placement, role: Role, reason: str) -> Placement:
    """Return a placement with its role on many pages; a background, such as a template, loses its figure."""
    if role is Role.BACKGROUND:
        placement = replace(placement, figure_id=None, raw_sha1=None)
    return replace(placement, role=role, reason=reason)


class _Occurrences:
    """The pages with the same figure at the same position, with a figure of the same size, with a band at the same position."""

    def __init__(self, placements: Iterable[Placement], by_number: dict[int, Page]) -> None:
        self._positions: dict[str, dict[tuple[int, ...], set[int]]] = {}
        self._sizes: dict[tuple[str, int, int], set[int]] = {}
        self._bands: dict[tuple[int, ...], set[int]] = {}
        for placement in placements:
            if placement.figure_id is not None:
                positions = self._positions.setdefault(placement.figure_id, {})
                positions.setdefault(_position(placement.bbox), set()).add(placement.page)
                self._sizes.setdefault(_size(placement), set()).add(placement.page)
            if _is_band(placement, by_number[placement.page]):
                self._bands.setdefault(_position(placement.bbox), set()).add(placement.page)

    def at_its_position(self, placement: Placement) -> int:
        """Return the pages that have its figure at its position."""
        return len(self._positions.get(placement.figure_id or "", {}).get(_position(placement.bbox), ()))

    def at_one_position(self, placement: Placement) -> int:
        """Return the most pages that have its figure at one position."""
        return max(map(len, self._positions.get(placement.figure_id or "", {}).values()), default=0)

    def of_its_size(self, placement: Placement) -> int:
        """Return the pages that have its figure in its size."""
        return len(self._sizes.get(_size(placement), ()))

    def of_its_band(self, placement: Placement) -> int:
        """Return the pages that have any band at its position."""
        return len(self._bands.get(_position(placement.bbox), ()))


def _role_of_repeated(
    placement: Placement, page: Page, occurrences: _Occurrences, most_pages: float
) -> tuple[Role, str] | None:
    """Return the role of a placement on more than ``most_pages`` pages, and the reason; None if it keeps its own role."""
    if (pages := occurrences.at_its_position(placement)) > most_pages:
        role = Role.BACKGROUND if placement.kind is Kind.SCAN else Role.DECORATIVE
        return role, f"at the same place of {pages} pages"
    if (pages := occurrences.at_one_position(placement)) > most_pages and _is_at_edge(placement.bbox, page):
        return Role.DECORATIVE, f"at the edge, as on {pages} other pages"
    if _is_band(placement, page) and (pages := occurrences.of_its_band(placement)) > most_pages:
        return Role.DECORATIVE, f"at the edge of {pages} pages, one like the other"
    if _is_ornament(placement, page) and (pages := occurrences.of_its_size(placement)) > most_pages:
        role = Role.DECORATIVE if _is_at_edge(placement.bbox, page) else Role.ICON
        return role, f"small, and on {pages} pages"
    return None


def without_logos(placements: Sequence[Placement], pages: Sequence[Page], lines: Sequence[Line]) -> list[Placement]:
    """Return placements, with small pictures above the title of a first page, as in a letterhead, as decoration.

    A stamp may be larger than the title, and above everything; nor are pictures in the margin figures of the text.
    """
    words = [line for line in lines if line.page == 1 and line.inside is None]
    if len(pages) < 2 or not words:
        return list(placements)
    title = min(line.bbox.y0 for line in largest(words))
    lowest, area = min(title, _HEAD_SHARE * pages[0].height_pt), _LOGO_SHARE * pages[0].width_pt * pages[0].height_pt
    return [
        replace(placement, role=Role.DECORATIVE, reason="over the title of the first page, or in its margin")
        if placement.page == 1
        and _has_weak_claim(placement)
        and (placement.bbox.y1 <= lowest or _is_at_edge(placement.bbox, pages[0]))
        and placement.bbox.area <= area
        else placement
        for placement in placements
    ]


def _has_weak_claim(placement: Placement) -> bool:
    """Return whether a placement is content only by default."""
    return placement.role is Role.CONTENT and placement.reason != CAPTIONED


def _is_band(placement: Placement, page: Page) -> bool:
    """Return whether a picture is where pages have their running head and foot."""
    box, margin = placement.bbox, EDGE_SHARE * page.height_pt
    return (box.y1 <= margin or box.y0 >= page.height_pt - margin) and _has_weak_claim(placement)


def _is_ornament(placement: Placement, page: Page) -> bool:
    return _has_weak_claim(placement) and is_small(placement.bbox, page)


def _is_at_edge(box: BBox, page: Page) -> bool:
    across, down = EDGE_SHARE * page.width_pt, EDGE_SHARE * page.height_pt
    inner = BBox(across, down, page.width_pt - across, page.height_pt - down)
    return (box & inner).area == 0


def _position(box: BBox) -> tuple[int, ...]:
    return tuple(round(side / _SAME_POSITION_PT) for side in box)


def _size(placement: Placement) -> tuple[str, int, int]:
    box = placement.bbox
    return placement.figure_id or "", round(box.width / _SAME_POSITION_PT), round(box.height / _SAME_POSITION_PT)
