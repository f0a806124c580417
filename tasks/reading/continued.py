"""Join tables that go on over a page's end."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from schemas.documents import BlockKind, Page
from schemas.geometry import BBox
from schemas.tags import placeholders, strip
from tasks.reading.pieces import Piece, letters_of_text
from tasks.tables.mark_up import markdown

SAME_WIDTH_PT = 6.0
"""How far the widths of two parts of one table differ. Of 1,014 pages none changes at 4.02 or 9."""
NOTICE_CHARACTERS = 80
"""Longest notice that a table is continued. Of 1,014 pages none changes at 54 or 120."""
FOOT_SHARE = 0.75
"""How far down its page a table reaches that goes on without header or caption. Of 1,014 pages none change at 0.45, 36
at 0.875 (parts of one table are two).
"""
HEAD_SHARE = 0.25
"""How far down the next page such a table begins. Of 1,014 pages none changes at 0.168 or 0.375."""
_NOTICE = re.compile(
    r"\W*(?:(?:table|tab|tabelle|tableau|tabla)\b\W*(?:[A-Z]{1,2}[.–-]?)?[\d.–-]*)?\W*"
    r"(?:continue[ds]|cont['’]?d|cont|fortsetzung|suite|continuación)\b"
    r"(?:\s+(?:on|from|the|next|following|previous|page|auf|von|der|nächsten|vorherigen|seite))*\W*",
    re.IGNORECASE,
)


def join_continued(pieces: Sequence[Piece], pages: Mapping[int, Page]) -> list[Piece]:
    """Join each table that goes on at the head of the next page. What is only a notice that it goes on becomes margin."""
    made: list[Piece] = []
    for piece in pieces:
        at = _begun(made, piece) if piece.kind is BlockKind.TABLE else None
        if at is None or not _goes_on(made[at], piece, pages):
            made.append(piece)
            continue
        made[at + 1 :] = [
            replace(between, kind=BlockKind.MARGIN, label=None) if _is_aside(between) else between
            for between in made[at + 1 :]
        ]
        if piece.label is not None:
            made.append(Piece(BlockKind.MARGIN, piece.page, _beside(piece), text=piece.caption))
        made[at] = _joined(made[at], piece)
    return made


def _begun(made: Sequence[Piece], piece: Piece) -> int | None:
    """Return which piece ends the page before, if it is a table; footnotes may follow one that has a notice."""
    for at in reversed(range(len(made))):
        if made[at].kind is BlockKind.TABLE:
            return at
        if not _is_aside(made[at]) and (made[at].page == piece.page or not _is_notice(piece.caption)):
            return None
    return None


def _is_aside(piece: Piece) -> bool:
    """Return whether a piece may stand between the parts of one table: a margin, or "continued on the next page"."""
    return piece.kind is BlockKind.MARGIN or (piece.kind in (BlockKind.TEXT, BlockKind.CAPTION) and _is_notice(piece.words))


def _is_notice(text: str) -> bool:
    return len(text) <= NOTICE_CHARACTERS and _NOTICE.fullmatch(text) is not None


def _goes_on(table: Piece, piece: Piece, pages: Mapping[int, Page]) -> bool:
    """Return whether a table that ends a page is continued by the one that begins the next.

    The caption repeated shows it, and so does the header. Without either, the table must reach down to the foot of its page.
    """
    before, after = table.parts[-1], piece.parts[0]
    alike = abs(before.bbox.width - after.bbox.width) <= SAME_WIDTH_PT and _width(table.rows) == _width(piece.rows)
    if not alike or after.page != before.page + 1:
        return False
    if piece.label is not None:
        noted = _is_notice(piece.caption)
        return noted if table.label is None else piece.label == table.label and (noted or piece.label.number != "")
    if _same_row(table.rows[0], piece.rows[0]):
        return True
    first, second = pages[before.page], pages[after.page]
    return (
        first.rotation == second.rotation == 0
        and not _has_header(piece)
        and before.bbox.y1 >= FOOT_SHARE * first.height_pt
        and after.bbox.y0 <= HEAD_SHARE * second.height_pt
    )


def _joined(table: Piece, piece: Piece) -> Piece:
    # A header with a picture is kept where it is repeated: a tag stands once for each placement.
    again = _same_row(table.rows[0], piece.rows[0]) and not any(map(placeholders, piece.rows[0]))
    rows = piece.rows[1:] if again else piece.rows
    whole = (*table.rows, *rows)
    part = replace(piece.parts[0], rows=len(rows))
    text = "\n".join(filter(None, (table.caption, markdown(whole))))
    return replace(table, text=text, rows=whole, parts=(*table.parts, part))


def _beside(table: Piece) -> BBox:
    """Return the part of a table's box that its cells leave to the caption, over or under them."""
    whole, cells = table.bbox, table.parts[0].bbox
    over = cells.y0 - whole.y0 > whole.y1 - cells.y1
    return whole._replace(y1=cells.y0) if over else whole._replace(y0=cells.y1)


def _width(rows: Sequence[Sequence[str]]) -> int:
    return max(map(len, rows))


def _same_row(one: Sequence[str], other: Sequence[str]) -> bool:
    one_words, other_words = ([" ".join(strip(cell).split()) for cell in row] for row in (one, other))
    return one_words == other_words and any(one_words)


def _has_header(table: Piece) -> bool:
    """Return whether a table's first row is set like a header: bold, and the rest not."""
    words = {letters_of_text(line) for cell in table.rows[0] for line in cell.split("\n")}
    first = [line for line in table.lines if letters_of_text(line.text) in words]
    return bool(first) and all(line.bold for line in first) and not all(line.bold for line in table.lines)
