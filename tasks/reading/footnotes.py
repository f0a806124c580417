"""Find the footnotes of a page: smaller text with a mark before it, below all other text of its column."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from schemas.documents import BlockKind, Line
from schemas.geometry import gap
from schemas.superscripts import SUPERSCRIPTS
from schemas.typography import is_same_size
from tasks.reading.draft_blocks import DraftBlock, is_divisible, with_lines

NOTE_SIZE = 0.95
"""Maximum size of a footnote, relative to the text."""
GAP_EM = 0.5
"""Maximum gap between two blocks of one footnote, in ems."""
_MARK = re.compile(rf"\s*(?:\(?{SUPERSCRIPTS}{{1,3}}\)?|[*†‡§¶]{{1,3}}(?=\s*\w))")


def with_footnotes(blocks: Sequence[DraftBlock], text_size: float) -> list[DraftBlock]:
    """Return blocks with each footnote as a block of its own; ``text_size`` is that of most of the document's letters."""
    lines_on: dict[int, list[Line]] = defaultdict(list)
    for block in blocks:
        if block.kind is not BlockKind.MARGIN:
            lines_on[block.page].extend(block.lines)
    separated: list[DraftBlock] = []
    for block in blocks:
        if is_divisible(block):
            separated.extend(
                _parts(block, separated[-1] if separated else None, lines_on[block.page], NOTE_SIZE * text_size)
            )
        else:
            separated.append(block)
    return separated


def _parts(block: DraftBlock, before: DraftBlock | None, page: Sequence[Line], most_size: float) -> Iterator[DraftBlock]:
    """Yield the text of a block, and its footnotes: from each mark to the next."""
    note = before.lines[-1] if before is not None and _goes_on(before, block) else None
    number, numbers = (1 if note is not None else 0), []
    for line in block.lines:
        if _may_begin(line, page, most_size):
            note, number = line, number + 1
        elif note is not None and not _is_alike(line, note):
            note, number = None, number + 1
        numbers.append((number, note is not None))
    if numbers[-1] == (0, False):  # no line begins a footnote or goes on one
        yield block
        return
    for (_, is_note), group in groupby(zip(numbers, block.lines, strict=True), key=lambda pair: pair[0]):
        part = with_lines(block, [line for _, line in group])
        yield replace(part, kind=BlockKind.FOOTNOTE, text=_with_blank(part.words)) if is_note else part


def _may_begin(line: Line, page: Sequence[Line], most_size: float) -> bool:
    if line.size > most_size or _MARK.match(line.text) is None:
        return False
    x0, _, x1, bottom = line.bbox
    below = (page_line for page_line in page if page_line.size > most_size and page_line.bbox.y0 >= bottom)
    return not any(gap(x0, x1, page_line.bbox.x0, page_line.bbox.x1) < 0 for page_line in below)


def _goes_on(before: DraftBlock, block: DraftBlock) -> bool:
    """Return whether a block goes on a footnote right above it."""
    last, first = before.lines[-1] if before.lines else None, block.lines[0]
    if before.kind is not BlockKind.FOOTNOTE or last is None or before.page != block.page:
        return False
    down = first.bbox.y0 - last.bbox.y1
    return _is_alike(first, last) and -GAP_EM * last.size <= down <= GAP_EM * last.size


def _is_alike(line: Line, note: Line) -> bool:
    return is_same_size(line.size, note.size) and line.bold == note.bold


def _with_blank(text: str) -> str:
    """Return a footnote with a blank behind its mark."""
    mark = _MARK.match(text)
    return f"{mark[0].strip()} {text[mark.end() :].lstrip()}" if mark is not None else text
