"""Turn what pages hold into what a reader takes in: reading order, sections, captions, mentions, tables. Pure."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise, takewhile
from types import MappingProxyType

from schemas.documents import (
    TAGGED,
    Block,
    BlockKind,
    Kind,
    Line,
    Page,
    ParsedDocument,
    PlacedFigure,
    Placement,
    RecognisedLine,
    Role,
    Segment,
    StructuredDocument,
    TablePart,
    TableRegion,
)
from schemas.geometry import BBox, distance, gap, is_level, union
from schemas.labels import Label, LabelKind, caption_label, mentions
from schemas.tags import escape, placeholder, placeholders, strip
from tasks.figures.anchor import anchor, begins_anew, running_text
from tasks.figures.callouts import callouts, explain, find_keys, stray_callouts
from tasks.figures.segment import fills, with_segments
from tasks.reading.bidi import runs_leftward
from tasks.reading.join import join_lines
from tasks.reading.margins import find_margins
from tasks.reading.order import Standing, leaps, mended
from tasks.reading.outline import Headings, letters_by_size
from tasks.reading.place import Passage, Place, places
from tasks.reading.recognise import with_words
from tasks.tables.align import align
from tasks.tables.mark_up import markdown
from tasks.tables.rows import upright
from tasks.tables.tabulate import holds

STRUCTURE_VERSION = "11"

_TABLE_CAPTION_PT = 48.0
_INNER_CHARACTERS = 600
_BESIDE_PT = 40.0
_SAME_WIDTH_PT = 6.0
_NOTICE_CHARACTERS = 80
_ROW_HEIGHT = 2.0
"""Most height of a picture that makes one row with the text beside it, by the text's: a taller one spans more than that row."""
_PROSE_ROWS = 3
_PROSE_CHARACTERS = 25
_CONTINUED = re.compile(
    r"\W*(?:(?:table|tab|tabelle|tableau|tabla)\b\W*(?:[A-Z]{1,2}[.–-]?)?[\d.–-]*)?\W*"
    r"(?:continue[ds]|cont['’]?d|cont|fortsetzung|suite|continuación)\b"
    r"(?:\s+(?:on|from|the|next|following|previous|page|auf|von|der|nächsten|vorherigen|seite))*\W*",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class _Piece:
    """A block in the making. ``text`` is set where something else than ``lines`` makes it."""

    kind: BlockKind
    page: int
    bbox: BBox
    lines: tuple[Line, ...] = ()
    text: str = ""
    placement: Placement | None = None
    caption: str = ""
    label: Label | None = None
    rows: tuple[tuple[str, ...], ...] = ()
    parts: tuple[TablePart, ...] = ()
    level: int | None = None
    step: tuple[Line, ...] = ()

    @property
    def words(self) -> str:
        """The text, its wrapped lines joined; a heading is one line, its number included."""
        text = self.text or join_lines(self.lines)
        return " ".join(text.split()) if self.kind is BlockKind.HEADING else text


@dataclass(frozen=True, slots=True)
class _Sheet:
    """One page's share of a parsed document."""

    page: Page
    lines: tuple[Line, ...]
    placements: tuple[Placement, ...]
    tables: tuple[TableRegion, ...]


def structure(
    parsed: ParsedDocument,
    recognised: Mapping[str, Sequence[RecognisedLine]],
    segments: Mapping[str, Sequence[Segment]] = MappingProxyType({}),
) -> StructuredDocument:
    """Return a document as a reader takes it in.

    MuPDF's order of blocks is kept, since it follows columns, but for blocks that the page shows to be out of place; a
    figure, the words inside it and its caption are set into that order as one unit.

    Args:
        parsed: What its pages hold.
        recognised: Lines read off figures and scanned pages, by figure id; boxes in pixels.
        segments: Figures cut out of pages that are a picture, by the picture's id.
    """
    parsed = with_segments(with_words(parsed, recognised), segments)
    sheets = [_with_callouts(_within(sheet)) for sheet in _sheets(parsed)]
    lines = tuple(line for sheet in sheets for line in sheet.lines)
    margins = find_margins(lines, parsed.pages, parsed.outline)
    headings = Headings(lines, parsed.outline, margins)
    pieces = [
        replace(piece, level=headings.level_of(piece.lines)) if piece.kind is BlockKind.HEADING else piece
        for sheet in sheets
        for piece in _pieces(sheet, margins, headings)
    ]
    pages = {page.page: page for page in parsed.pages}
    return _document(replace(parsed, lines=lines), _continued(pieces, pages), headings, recognised)


def _sheets(parsed: ParsedDocument) -> Iterator[_Sheet]:
    lines: dict[int, list[Line]] = defaultdict(list)
    placements: dict[int, list[Placement]] = defaultdict(list)
    tables: dict[int, list[TableRegion]] = defaultdict(list)
    for line in parsed.lines:
        lines[line.page].append(line)
    for placement in parsed.placements:
        placements[placement.page].append(placement)
    for table in parsed.tables:
        tables[table.page].append(table)
    for page in parsed.pages:
        yield _Sheet(page, tuple(lines[page.page]), tuple(placements[page.page]), tuple(tables[page.page]))


def _pieces(sheet: _Sheet, margins: frozenset[Line], headings: Headings) -> list[_Piece]:
    """Return the blocks of one page in reading order."""
    tagged = [place for place in sheet.placements if place.role in TAGGED and place.figure_id is not None]
    pictured = {place.order for place in tagged}
    # What is written inside a picture that gets no tag is text like any other.
    inner = {order: [line for line in sheet.lines if line.inside == order] for order in pictured}
    free = [line for line in sheet.lines if line.inside not in pictured]
    tables = [table for table in sheet.tables if not any(holds(place.bbox, table.bbox) for place in tagged)]
    in_tables = [name for table in tables for row in table.rows for cell in row for name in placeholders(cell)]
    standing: list[Placement] = []
    for place in tagged:
        if place.figure_id in in_tables:
            in_tables.remove(place.figure_id)
        else:
            standing.append(place)
    free, standing = _with_icons(free, standing, sheet.page.rotation)
    framed = [(table, frozenset(line for line in free if holds(table.bbox, line.bbox))) for table in tables]
    taken = margins.union(*(held for _, held in framed))
    open_ = [line for line in free if line not in taken]
    leftward = runs_leftward("".join([line.text for line in sheet.lines]))
    aligned = align(
        open_,
        lambda line: caption_label(line.text) is not None or headings.stands_out(line),
        right_to_left=leftward,
    )
    framed += [(found.table, found.lines) for found in aligned]
    pieces = _with_tables(_paragraphs(free, margins, headings), framed)
    ordered = _as_they_stand(pieces, standing, sheet.page, leftward=leftward)
    return _with_figures(ordered, standing, inner, sheet.page, leftward=leftward)


def _paragraphs(lines: Sequence[Line], margins: frozenset[Line], headings: Headings) -> list[_Piece]:
    """Group lines by MuPDF's blocks; captions and headings begin pieces of their own, margins are set apart."""
    pieces: list[_Piece] = []
    held: list[Line] = []
    kind, label = BlockKind.TEXT, None

    def end() -> None:
        if held:
            pieces.append(_Piece(kind, held[0].page, union([line.bbox for line in held]), tuple(held), label=label))
            held.clear()

    previous: Line | None = None
    for line in lines:
        found = caption_label(line.text)
        if found is not None and not begins_anew(line, previous):
            found = None
        now = (
            BlockKind.MARGIN
            if line in margins
            else BlockKind.CAPTION
            if found
            else BlockKind.HEADING
            if headings.is_heading(line)
            else BlockKind.TEXT
        )
        beside = previous is not None and (previous.block == line.block or headings.goes_on(previous, line))
        goes_on = beside and bool(held)
        if kind is BlockKind.CAPTION and now is BlockKind.TEXT and goes_on and _same_face(held[0], line):
            now = BlockKind.CAPTION
        if not goes_on or found is not None or now is not kind:
            end()
            kind, label = now, found
        held.append(line)
        previous = line
    end()
    return pieces


def _as_they_stand(pieces: list[_Piece], pictures: Sequence[Placement], page: Page, *, leftward: bool) -> list[_Piece]:
    """Mend the order of pieces that contradicts where they stand; margins and text that runs up or down stay put.

    On a turned page all text does. What makes a row with a picture stands over what is under the picture, too.
    """
    if page.rotation or not leaps([piece.bbox for piece in pieces], leftward=leftward):
        return pieces
    at = [number for number, piece in enumerate(pieces) if piece.kind is not BlockKind.MARGIN and not _is_turned(piece)]
    passages = [_passage(pieces[number], page) for number in at]
    boxes = [pieces[number].bbox for number in at]
    found = places([place.bbox for place in pictures], passages, right_to_left=leftward) if pictures else []
    rows: list[tuple[int, BBox]] = []
    for picture, place in zip(pictures, found, strict=True):
        beside = {number for number, _ in place.step} if place is not None and place.is_level else set()
        if len(beside) == 1 and picture.bbox.height <= _ROW_HEIGHT * pieces[at[min(beside)]].bbox.height:
            rows.append((min(beside), picture.bbox))
    for number, box in rows if len(rows) > 1 else ():  # one row is none: a picture and a title stand level by chance
        boxes[number] |= box
    standing = [
        Standing(box, _head(pieces[number]) if box == pieces[number].bbox else box, _prose(pieces[number]))
        for number, box in zip(at, boxes, strict=True)
    ]
    order = mended(standing, leftward=leftward)
    made = list(pieces)
    for place_of, number in zip(at, order, strict=True):
        made[place_of] = pieces[at[number]]
    return made


def _is_turned(piece: _Piece) -> bool:
    return any(line.bbox.height > max(2 * line.size, line.bbox.width) for line in piece.lines[:1])


def _head(piece: _Piece) -> BBox:
    """Return the first row of a piece; all of a table, whose cells may be written in any order."""
    if piece.kind is BlockKind.TABLE:
        return piece.bbox
    first = piece.lines[0].bbox
    return union(line.bbox for line in takewhile(lambda line: is_level(first, line.bbox), piece.lines))


def _prose(piece: _Piece) -> float:
    """Return the size of a piece's type if it is text of several rows, as long as those of paragraphs are; else 0."""
    if piece.kind is not BlockKind.TEXT or len(piece.lines) < _PROSE_ROWS:
        return 0.0
    rows = 1 + sum(not is_level(line.bbox, following.bbox) for line, following in pairwise(piece.lines))
    characters = sum(len(line.text) for line in piece.lines)
    if rows < _PROSE_ROWS or characters < _PROSE_CHARACTERS * rows:
        return 0.0
    return letters_by_size(piece.lines).most_common(1)[0][0]


def _same_face(one: Line, other: Line) -> bool:
    return abs(one.size - other.size) <= 0.5


def _with_icons(
    lines: Sequence[Line], placements: Sequence[Placement], rotation: int
) -> tuple[list[Line], list[Placement]]:
    """Set each icon that stands on a line into the line's text, where it stands; return the placements that don't."""
    texts = list(lines)
    standing: list[Placement] = []
    cuts: dict[int, list[tuple[int, int, str]]] = defaultdict(list)
    for place in sorted(placements, key=lambda place: (place.bbox.y0, place.bbox.x0)):
        at = _line_of(place, texts) if place.role is Role.ICON else None
        if at is None:
            standing.append(place)
            continue
        texts = _mended(place.bbox, texts)
        cuts[at].append((_word_break(texts[at], place.bbox, rotation), len(cuts[at]), placeholder(place.figure_id or "")))
    for at, marks in cuts.items():
        text = texts[at].text
        for cut, _, mark in sorted(marks, reverse=True):  # from the end on, so that no place moves
            text = f"{text[:cut].rstrip()} {mark} {text[cut:].lstrip()}".strip()
        texts[at] = texts[at]._replace(text=text)
    return texts, standing


def _mended(icon: BBox, lines: list[Line]) -> list[Line]:
    """Give the text behind an icon to the block of the text before it: MuPDF begins a new block after every image."""
    level = [line for line in lines if is_level(icon, line.bbox)]
    before = [line for line in level if 0 <= icon.x0 - line.bbox.x1 + 1 <= 2 * line.size]
    after = [line for line in level if 0 <= line.bbox.x0 - icon.x1 + 1 <= 2 * line.size]
    if len(before) != 1 or len(after) != 1:
        return lines
    return [line._replace(block=before[0].block) if line.block == after[0].block else line for line in lines]


def _line_of(icon: Placement, lines: Sequence[Line]) -> int | None:
    box = icon.bbox
    near = [
        (max(0.0, gap(box.x0, box.x1, line.bbox.x0, line.bbox.x1)), number)
        for number, line in enumerate(lines)
        if is_level(box, line.bbox) and gap(box.x0, box.x1, line.bbox.x0, line.bbox.x1) <= 2 * line.size
    ]
    return min(near)[1] if near else None


def _word_break(line: Line, icon: BBox, rotation: int) -> int:
    """Return the place between two words of a line that is nearest to where something in it begins."""
    written, box = upright(line.bbox, rotation), upright(icon, rotation)
    before = written.x1 - box.x1 if runs_leftward(line.text) else box.x0 - written.x0
    if before >= written.width - 1:
        return len(line.text)
    share = before / max(1.0, written.width)
    near = round(len(line.text) * min(1.0, max(0.0, share)))
    breaks = [0, *(found.start() for found in re.finditer(r"\s", line.text)), len(line.text)]
    return min(breaks, key=lambda place: abs(place - near))


def _with_tables(pieces: Sequence[_Piece], tables: Sequence[tuple[TableRegion, frozenset[Line]]]) -> list[_Piece]:
    """Put each table, with its caption, at the place of the first line that it holds, in place of those lines."""
    made = list(pieces)
    for table, held in tables:
        kept: list[_Piece] = []
        inside: list[Line] = []
        place: int | None = None
        for piece in made:
            if piece.kind in (BlockKind.TABLE, BlockKind.CAPTION) or held.isdisjoint(piece.lines):
                kept.append(piece)
                continue
            outside = [line for line in piece.lines if line not in held]
            # A block may begin before the table: what it says over the table is read first.
            over = [line for line in outside if line.bbox.y0 + line.bbox.y1 <= 2 * table.bbox.y0]
            if place is None:
                place = len(kept)
            if over:
                kept.insert(place, _of_lines(piece, over))
                place += 1
            inside.extend(line for line in piece.lines if line in held)
            if len(over) < len(outside):
                kept.append(_of_lines(piece, [line for line in outside if line not in over]))
        if place is None:
            place = _place(kept, table.bbox)
        part = TablePart(table.page, table.bbox, len(table.rows))
        whole = _Piece(BlockKind.TABLE, table.page, table.bbox, tuple(inside), markdown(table.rows))
        kept.insert(place, replace(whole, rows=table.rows, parts=(part,)))
        made = kept
    return _with_table_captions(made)


def _of_lines(piece: _Piece, lines: Sequence[Line]) -> _Piece:
    """Return the part of a piece that some of its lines make."""
    return replace(piece, lines=tuple(lines), bbox=union(line.bbox for line in lines))


def _with_table_captions(pieces: list[_Piece]) -> list[_Piece]:
    captions = [piece for piece in pieces if piece.label is not None and piece.label.kind is LabelKind.TABLE]
    tables = [piece for piece in pieces if piece.kind is BlockKind.TABLE]
    pairs = sorted(
        (gap(caption.bbox.y0, caption.bbox.y1, table.bbox.y0, table.bbox.y1), one, other)
        for one, caption in enumerate(captions)
        for other, table in enumerate(tables)
        if gap(caption.bbox.x0, caption.bbox.x1, table.bbox.x0, table.bbox.x1) < 0
    )
    made = list(pieces)
    for apart, one, other in pairs:
        caption, table = captions[one], tables[other]
        if apart > _TABLE_CAPTION_PT or caption not in made or table not in made:
            continue
        made.remove(caption)
        text = f"{' '.join(caption.words.split())}\n{table.text}"
        made[made.index(table)] = replace(table, text=text, bbox=table.bbox | caption.bbox, label=caption.label)
    return made


def _continued(pieces: Sequence[_Piece], pages: Mapping[int, Page]) -> list[_Piece]:
    """Join each table that goes on at the head of the next page. What only says that it goes on becomes margin."""
    made: list[_Piece] = []
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
            made.append(_Piece(BlockKind.MARGIN, piece.page, _beside(piece), text=_caption(piece)))
        made[at] = _joined(made[at], piece)
    return made


def _begun(made: Sequence[_Piece], piece: _Piece) -> int | None:
    """Return which piece ends the page before, if it is a table; footnotes may follow one that is said to be continued."""
    for at in reversed(range(len(made))):
        if made[at].kind is BlockKind.TABLE:
            return at
        if not _is_aside(made[at]) and (made[at].page == piece.page or not _says_continued(_caption(piece))):
            return None
    return None


def _is_aside(piece: _Piece) -> bool:
    """Say whether a piece may stand between the parts of one table: a margin, or "continued on the next page"."""
    return piece.kind is BlockKind.MARGIN or (
        piece.kind in (BlockKind.TEXT, BlockKind.CAPTION) and _says_continued(piece.words)
    )


def _says_continued(text: str) -> bool:
    return len(text) <= _NOTICE_CHARACTERS and _CONTINUED.fullmatch(text) is not None


def _goes_on(table: _Piece, piece: _Piece, pages: Mapping[int, Page]) -> bool:
    """Say whether a table that ends a page is continued by the one that begins the next.

    The caption said again says so, and so does the header. Without either, the table must reach down to the foot of its page.
    """
    before, after = table.parts[-1], piece.parts[0]
    alike = abs(before.bbox.width - after.bbox.width) <= _SAME_WIDTH_PT and _width(table.rows) == _width(piece.rows)
    if not alike or after.page != before.page + 1:
        return False
    if piece.label is not None:
        said = _says_continued(_caption(piece))
        return said if table.label is None else piece.label == table.label and (said or piece.label.number != "")
    if _same_row(table.rows[0], piece.rows[0]):
        return True
    first, second = pages[before.page], pages[after.page]
    return (
        first.rotation == second.rotation == 0
        and not _has_header(piece)
        and before.bbox.y1 >= 0.75 * first.height_pt
        and after.bbox.y0 <= 0.25 * second.height_pt
    )


def _joined(table: _Piece, piece: _Piece) -> _Piece:
    # A header with a picture is kept where it is said again: a tag stands once for each placement.
    again = _same_row(table.rows[0], piece.rows[0]) and not any(map(placeholders, piece.rows[0]))
    rows = piece.rows[1:] if again else piece.rows
    whole = (*table.rows, *rows)
    part = replace(piece.parts[0], rows=len(rows))
    text = "\n".join(filter(None, (_caption(table), markdown(whole))))
    return replace(table, text=text, rows=whole, parts=(*table.parts, part))


def _caption(table: _Piece) -> str:
    return table.text.split("\n", 1)[0] if table.label is not None else ""


def _beside(table: _Piece) -> BBox:
    """Return the part of a table's box that its cells leave to the caption, over or under them."""
    whole, cells = table.bbox, table.parts[0].bbox
    over = cells.y0 - whole.y0 > whole.y1 - cells.y1
    return whole._replace(y1=cells.y0) if over else whole._replace(y0=cells.y1)


def _width(rows: Sequence[Sequence[str]]) -> int:
    return max(map(len, rows))


def _same_row(one: Sequence[str], other: Sequence[str]) -> bool:
    said, again = ([" ".join(strip(cell).split()) for cell in row] for row in (one, other))
    return said == again and any(said)


def _has_header(table: _Piece) -> bool:
    """Say whether a table's first row is set like a header: bold, and the rest not."""
    words = {_letters(line) for cell in table.rows[0] for line in cell.split("\n")}
    first = [line for line in table.lines if _letters(line.text) in words]
    return bool(first) and all(line.bold for line in first) and not all(line.bold for line in table.lines)


def _with_figures(
    pieces: list[_Piece],
    placements: Sequence[Placement],
    inner: Mapping[int, Sequence[Line]],
    page: Page,
    *,
    leftward: bool,
) -> list[_Piece]:
    """Set each figure beside its caption, or else by the text that it stands beside or between."""
    if not placements:
        return pieces
    linked = _linked(pieces, placements)
    units = {id(caption): _captioned(place, caption, inner) for place in placements if (caption := linked.get(place.order))}
    lone = _as_read([place for place in placements if place.order not in linked], page, leftward=leftward)
    # A figure with its caption is two passages: what stands beside it is level with the figure, not with both.
    parts = [
        (number, part)
        for number, piece in enumerate(pieces)
        for part in units.get(id(piece), [piece])[:2]
        if piece.kind is not BlockKind.MARGIN
    ]
    found = places(
        [upright(place.bbox, page.rotation) for place in lone],
        [_passage(part, page) for _, part in parts],
        right_to_left=leftward,
    )
    before: dict[tuple[int, int], list[_Piece]] = defaultdict(list)
    last: list[_Piece] = []
    # Of pictures between the same words, those read after what is before come first, those read before what follows last.
    for place, where in sorted(zip(lone, found, strict=True), key=_belongs):
        step = tuple(held for one, other in where.step for held in _lines_at(parts[one][1], other)) if where else ()
        figure = _figure(place, inner, step)
        number = where.at[0] if where else len(parts)
        if number and number < len(parts) and parts[number][0] == parts[number - 1][0]:
            number += 1  # nothing parts a figure from its caption
        if number == len(parts):
            last.extend(figure)
        else:
            before[parts[number][0], where.at[1] if where else 0].extend(figure)
    made: list[_Piece] = []
    for number, piece in enumerate(pieces):
        lines = len(piece.lines) if _may_be_cut(piece) else 1
        cuts = {line for one, line in before if one == number}
        for start, end in pairwise(sorted({0, *cuts, lines})):
            whole = end - start == lines
            made.extend(before[number, start])
            made.extend(units.get(id(piece), [piece]) if whole else [_of_lines(piece, piece.lines[start:end])])
    foot = next((at + 1 for at in reversed(range(len(made))) if made[at].kind is not BlockKind.MARGIN), 0)
    return made[:foot] + last + made[foot:]


def _belongs(pair: tuple[Placement, Place | None]) -> int:
    """Return where a picture goes among those between the same words: 0 for after the first ones, 2 for before the others."""
    where = pair[1]
    return 1 if where is None or not where.is_level else 0 if where.is_behind else 2


def _passage(piece: _Piece, page: Page) -> Passage:
    lines = (
        tuple(line._replace(bbox=upright(line.bbox, page.rotation)) for line in piece.lines) if _may_be_cut(piece) else ()
    )
    return Passage(upright(piece.bbox, page.rotation), lines, piece.kind is BlockKind.HEADING)


def _may_be_cut(piece: _Piece) -> bool:
    return piece.kind is BlockKind.TEXT and not piece.text


def _lines_at(piece: _Piece, number: int) -> Sequence[Line]:
    """Return a line of a piece; all of a piece that is never parted; of a table none, whose rows are too many to go by."""
    if piece.kind is BlockKind.TABLE:
        return ()
    return piece.lines[number : number + 1] if _may_be_cut(piece) else piece.lines


def _as_read(placements: Sequence[Placement], page: Page, *, leftward: bool) -> list[Placement]:
    """Return figures row by row, those of a row in reading direction."""
    boxes = {place.order: upright(place.bbox, page.rotation) for place in placements}
    rows: list[list[Placement]] = []
    for place in sorted(placements, key=lambda place: (boxes[place.order].y0, boxes[place.order].x0)):
        if rows and all(is_level(boxes[place.order], boxes[other.order]) for other in rows[-1]):
            rows[-1].append(place)
        else:
            rows.append([place])
    sign = -1 if leftward else 1
    return [place for row in rows for place in sorted(row, key=lambda place: sign * boxes[place.order].x0)]


def _captioned(place: Placement, caption: _Piece, inner: Mapping[int, Sequence[Line]]) -> list[_Piece]:
    """Return a figure and its caption, as they stand one under the other."""
    figure, *aside = _figure(place, inner)
    pair = [replace(figure, caption=" ".join(caption.words.split())), replace(caption, placement=place)]
    return [*(pair if place.bbox.y0 <= caption.bbox.y0 else pair[::-1]), *aside]


def _figure(place: Placement, inner: Mapping[int, Sequence[Line]], step: tuple[Line, ...] = ()) -> list[_Piece]:
    """Return a figure: its tag, and the words inside it as text of their own where they are too many to be labels."""
    tag = placeholder(place.figure_id or "")
    figure = _Piece(BlockKind.FIGURE, place.page, place.bbox, text=tag, placement=place, step=step)
    lines = tuple(inner.get(place.order, ()))
    words = join_lines(lines, keep=True)
    if len(words) <= _INNER_CHARACTERS:
        return [figure]
    return [figure, _Piece(BlockKind.TEXT, place.page, place.bbox, lines, text=words)]


def _linked(pieces: Sequence[_Piece], placements: Sequence[Placement]) -> dict[int, _Piece]:
    """Link figures to captions, by the order of the placement: each caption to the nearest figure that it stands with."""
    content = [place for place in placements if place.role is Role.CONTENT]
    captions = [
        piece
        for piece in pieces
        if piece.kind is BlockKind.CAPTION and piece.label is not None and piece.label.kind is LabelKind.FIGURE
    ]
    body = running_text([line for piece in pieces if piece.kind is BlockKind.TEXT for line in piece.lines])
    boxes = [place.bbox for place in content]
    anchors = anchor([piece.bbox for piece in captions], boxes, [line.bbox for line in body])
    linked = {content[members[0]].order: captions[number] for number, members in anchors.by_caption.items()}
    lone = [piece for piece in captions if piece not in linked.values()]
    beside = sorted(
        (distance(place.bbox, piece.bbox), place.order, number)
        for place in content
        for number, piece in enumerate(lone)
        if place.order not in linked
    )
    for apart, order, number in beside:
        if apart <= _BESIDE_PT and order not in linked and lone[number] not in linked.values():
            linked[order] = lone[number]
    return linked


def _place(pieces: Sequence[_Piece], box: BBox) -> int:
    """Return where in reading order something stands that has no place of its own: before the first text below it."""
    middle = (box.y0 + box.y1) / 2
    after: int | None = None
    for number, piece in enumerate(pieces):
        if piece.kind is BlockKind.MARGIN or gap(box.x0, box.x1, piece.bbox.x0, piece.bbox.x1) >= 0:
            continue
        if (piece.bbox.y0 + piece.bbox.y1) / 2 >= middle:
            return number
        after = number + 1
    return len(pieces) if after is None else after


def _within(sheet: _Sheet) -> _Sheet:
    """Say of the lines of a page that is a picture in which figure cut out of it they stand.

    A block that is only partly in a figure stays text, and so does a caption: a layout model's boxes reach too far. A figure
    that fills its page, as on a slide, leaves the page all its text.
    """
    whole = BBox(0, 0, sheet.page.width_pt, sheet.page.height_pt)
    cut = sorted(
        (
            place
            for place in sheet.placements
            if place.kind is Kind.SCAN and place.role is Role.CONTENT and not fills(place.bbox, whole)
        ),
        key=lambda place: place.bbox.area,
    )
    if not cut:
        return sheet
    holders: dict[int, int] = {}
    for number, block in groupby(sheet.lines, key=lambda line: line.block):
        members = list(block)
        if all(line.inside is None for line in members) and caption_label(members[0].text) is None:
            around = [place for place in cut if all(place.bbox.has_middle_of(line.bbox) for line in members)]
            if around:
                holders[number] = around[0].order
    inside = (line._replace(inside=holders[line.block]) if line.block in holders else line for line in sheet.lines)
    return replace(sheet, lines=tuple(inside))


def _with_callouts(sheet: _Sheet) -> _Sheet:
    """Take the numbers that stand on a picture or right beside it, and point into it, for words inside it."""
    held: dict[Line, int] = {}
    free = [line for line in sheet.lines if line.inside is None]
    for place in sheet.placements:
        if place.role is Role.CONTENT and place.figure_id is not None:
            held |= dict.fromkeys(stray_callouts(place.bbox, free), place.order)
    if not held:
        return sheet
    return replace(sheet, lines=tuple(line._replace(inside=held.get(line, line.inside)) for line in sheet.lines))


def _document(
    parsed: ParsedDocument,
    pieces: Sequence[_Piece],
    headings: Headings,
    recognised: Mapping[str, Sequence[RecognisedLine]],
) -> StructuredDocument:
    named = _named(pieces)
    inner: dict[int, list[str]] = defaultdict(list)
    for line in parsed.lines:
        if line.inside is not None:
            inner[line.inside].append(line.text)
    path = headings.path()
    holders = {line: order for order, piece in enumerate(pieces) for line in piece.lines}
    keys = _keys(pieces, inner, recognised)
    blocks: list[Block] = []
    placed: list[PlacedFigure] = []
    for order, piece in enumerate(pieces):
        words = piece.words
        section = path.at(piece.page, piece.bbox, words if piece.kind is BlockKind.HEADING else None, piece.level)
        own = piece.placement.figure_id if piece.placement is not None else None
        spoken_of = (named.get(label) or named.get(_whole(label)) for label in mentions(words))
        blocks.append(
            Block(
                order=order,
                page=piece.page,
                kind=piece.kind,
                bbox=piece.bbox,
                text=words,
                section_path=section,
                level=piece.level,
                placement=piece.placement.order if piece.placement is not None else None,
                mentions=tuple(dict.fromkeys(name for name in spoken_of if name is not None and name != own)),
                rows=piece.rows,
                parts=piece.parts,
            )
        )
        if piece.kind is BlockKind.FIGURE and piece.placement is not None:
            inside = _inner_text(inner[piece.placement.order], recognised.get(piece.placement.figure_id or "", ()))
            lines = (*piece.step, *keys.get(piece.placement.order, ()))
            stands_by = tuple(dict.fromkeys(holders[line] for line in lines if line in holders))
            step = "\n".join(map(join_lines, filter(None, (piece.step, keys.get(piece.placement.order)))))
            placed.append(PlacedFigure(piece.placement, piece.caption, section, inside, order, step, stands_by))
    for place, holder, step in _set_in_text(parsed.placements, placed, blocks):
        inside = _inner_text(inner[place.order], recognised.get(place.figure_id or "", ()))
        placed.append(PlacedFigure(place, "", holder.section_path, inside, holder.order, step, (holder.order,)))
    placed.sort(key=lambda figure: figure.placement.order)
    return StructuredDocument(
        doc_id=parsed.doc_id,
        title=parsed.title,
        pages=parsed.pages,
        blocks=tuple(blocks),
        figures=tuple(placed),
        placements=parsed.placements,
        pictures=parsed.figures,
        failures=parsed.failures,
    )


def _keys(
    pieces: Sequence[_Piece], inner: Mapping[int, Sequence[str]], recognised: Mapping[str, Sequence[RecognisedLine]]
) -> dict[int, tuple[Line, ...]]:
    """Return the lines of the key that explains a figure's callouts, by the order of its placement."""
    pointed: dict[int, dict[int, tuple[BBox, frozenset[str]]]] = defaultdict(dict)
    for piece in pieces:
        if piece.kind is BlockKind.FIGURE and (place := piece.placement) is not None:
            read = (line.text for line in recognised.get(place.figure_id or "", ()))
            if names := callouts([*inner.get(place.order, ()), *read]):
                pointed[place.page][place.order] = place.bbox, names
    keys: dict[int, tuple[Line, ...]] = {}
    for page, figures in pointed.items():
        text = (piece for piece in pieces if piece.page == page and piece.kind in (BlockKind.TEXT, BlockKind.TABLE))
        found = explain(figures, find_keys([line for piece in text for line in piece.lines]))
        keys |= {order: key.lines for order, key in found.items()}
    return keys


def _named(pieces: Sequence[_Piece]) -> dict[Label, str]:
    """Return the figure that each label names; the first where two claim one number."""
    named: dict[Label, str] = {}
    for piece in pieces:
        if piece.label is not None and piece.label.number and piece.placement is not None and piece.placement.figure_id:
            named.setdefault(piece.label, piece.placement.figure_id)
    return named


def _whole(label: Label) -> Label:
    """Return the label of the figure that a part such as ``3a`` belongs to."""
    return replace(label, number=label.number.rstrip("abcdefghij"))


def _inner_text(written: Sequence[str], read: Sequence[RecognisedLine]) -> str:
    """Join the words that a figure holds as text with those that were read off its pixels, each line once."""
    known = {_letters(line) for line in written}
    further = [escape(line.text) for line in read if _letters(line.text) not in known]
    return "\n".join(line.strip() for line in (*written, *further))


def _letters(text: str) -> str:
    return re.sub(r"\W+", "", text).casefold()


def _set_in_text(
    placements: Sequence[Placement], placed: Sequence[PlacedFigure], blocks: Sequence[Block]
) -> Iterator[tuple[Placement, Block, str]]:
    """Yield the figures that stand in a line of text or in a table, with the block, and the text of block or row."""
    standing = {figure.placement.order for figure in placed}
    holders: dict[tuple[int, str], list[tuple[Block, str]]] = defaultdict(list)
    for block in blocks:
        pages = {block.page, *(part.page for part in block.parts)}
        for text in [" ".join(row) for row in block.rows] or [block.text]:
            for name in placeholders(text):
                for page in pages:
                    holders[page, name].append((block, " ".join(strip(text).split())))
    for place in placements:
        held = holders.get((place.page, place.figure_id or ""))
        if place.role in TAGGED and place.order not in standing and held:
            yield place, *(held.pop(0) if len(held) > 1 else held[0])  # one figure may stand in several rows
