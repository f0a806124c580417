"""Rows of whole pages: the page's picture and its words."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import regex

from schemas.documents import Block, BlockKind, Chunk, Page, PlacedFigure, Region
from schemas.filters import Modality
from schemas.geometry import BBox
from schemas.tags import strip

PAGES_VERSION = "1"


@dataclass(frozen=True)
class PageWords:
    """The words of a page without running heads.

    Attributes:
        order: Order of the page's first block; without one, that of the block before it.
        section_path: The section that the page begins in.
        text: Its words in reading order, without placeholders.
        printed: The printed page number; "" if none is recognised.
    """

    order: int
    section_path: tuple[str, ...]
    text: str
    printed: str


def words_of_pages(pages: Iterable[Page], blocks: Iterable[Block]) -> dict[int, PageWords]:
    """Return the words of each page, by its number."""
    running: dict[int, list[Block]] = {}
    margins: dict[int, list[str]] = {}
    for block in blocks:
        if block.kind is BlockKind.MARGIN:
            margins.setdefault(block.page, []).append(block.text)
        else:
            running.setdefault(block.page, []).append(block)
    words_by_page = {}
    order = 0
    section: tuple[str, ...] = ()
    for page in sorted(page.page for page in pages):
        page_blocks = running.get(page, [])
        if page_blocks:
            order, section = page_blocks[0].order, page_blocks[0].section_path
        text = "\n".join(filter(None, (strip(block.text).strip() for block in page_blocks)))
        words_by_page[page] = PageWords(order, section, text, _printed(margins.get(page, ())))
        if page_blocks:
            order, section = page_blocks[-1].order, page_blocks[-1].section_path
    return words_by_page


_NUMBER = regex.compile(r"\W*(?:\p{L}+\W+)?(\p{Nd}{1,4})(?:\W+(?:\p{L}+\W+)?\p{Nd}{1,4})?\W*")
"""A printed page number: "12", "- 12 -", "Page 12", "12 / 40", "Seite 12 von 40"."""


def _printed(margins: Iterable[str]) -> str:
    lines = (line for text in margins for line in text.splitlines())
    printed_numbers = {match[1] for line in lines if (match := _NUMBER.fullmatch(line))}
    return printed_numbers.pop() if len(printed_numbers) == 1 else ""


def rows_of_pages(
    pages: Iterable[Page], words: Mapping[int, PageWords], pictures: Mapping[int, str], figures: Sequence[PlacedFigure]
) -> list[Chunk]:
    """Return a row for each page with a picture; its words are in ``tagged_text`` until ``describe`` composes them.

    ``pictures`` are figure ids by page; a blank page has none.
    """
    page_rows = []
    for page in pages:
        if (picture := pictures.get(page.page)) is None:
            continue
        page_words = words[page.page]
        standing = (figure.placement.figure_id for figure in figures if figure.placement.page == page.page)
        page_rows.append(
            Chunk(
                order=page_words.order,
                modality=Modality.PAGE,
                regions=(Region(page.page, BBox(0, 0, page.width_pt, page.height_pt)),),
                section_path=page_words.section_path,
                text="",
                tagged_text=page_words.text,
                figure_refs=tuple(dict.fromkeys(name for name in standing if name is not None)),
                figure_id=picture,
            )
        )
    return page_rows
