"""Cut text and tables into pieces of a maximum number of tokens.

Sentences, grapheme clusters and words follow Unicode (UAX #29): Chinese, Japanese and Khmer use no white space.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from typing import NamedTuple

import regex

from schemas.documents import CellSpan
from schemas.tags import fill, strip
from schemas.text import separate_superscripts, split_fenced
from tasks.tables.mark_up import head_rows, markdown, on_one_line, spans_in

CountTokens = Callable[[Sequence[str]], list[int]]

_NO_SPACES = r"[\p{Han}\p{Hiragana}\p{Katakana}]"
"""Scripts whose sentences aren't separated by white space."""
_CLOSING = r"[\p{Pe}\p{Pf}\"']"
_GOES_ON = r"[\p{SB=SContinue}\p{Pe}.!?]"
_SENTENCE = regex.compile(
    r"(?V1)\n\s*"
    # A full stop that lower case follows ends an abbreviation, as in "approx. 3 mm" (rule SB8); several are leaders.
    rf"|(?<!\.\s?)\.(?:{_CLOSING}|\p{{Pi}})*\s++(?!{_GOES_ON}|[^\p{{L}}\n.!?\ue000]*\p{{Ll}})"
    rf"|[!?](?:{_CLOSING}|\p{{Pi}})*\s++(?!{_GOES_ON})"
    rf"|(?:[\p{{SB=STerm}}--[!?]]+|．(?!\p{{Nd}})){_CLOSING}*\s*"
    rf"|(?<={_NO_SPACES})[.!?]+{_CLOSING}*(?={_NO_SPACES})"
)
_CLAUSE = regex.compile(rf"[、，；：､﹐﹑﹔﹕︐︑︓︔،؛]{_CLOSING}*\s*|[,;:–—…]{_CLOSING}*\s+")
_BLANK = regex.compile(r"[\s\u200b]+")
_CLUSTER = regex.compile("\ue000[0-9a-f]{64}\ue001|\\X(?:\u2060(?!\ue000)\\X)?")
"""What is never cut: a placeholder, a grapheme cluster, and what a word joiner joins."""
_FULL = 0.95
"""Share of its tokens that a piece cut anywhere holds at least."""
_BY_SENSE = (_SENTENCE, _CLAUSE, _BLANK)
_LEADERS = regex.compile(
    r"(?:[.\u2024-\u2026\u00b7\u22ef\u30fb\uff0e][ \t]?+){4,}+|([-_=*~\u2010-\u2015\u2500\u2501])\1{3,}+"
)
"""Leaders and rules: dots, spaced or not, and runs of one line-like character."""


def without_markup(text: str) -> str:
    """Return a text without placeholders and fences of code, with each leader as one token, and marks behind words apart."""
    if "```" not in text:
        return _searched(text)
    parts = split_fenced(text)
    return "\n\n".join(
        fill(_LEADERS.sub(" … ", part), lambda _: "") if is_code else _searched(part) for part, is_code in parts
    )


def _searched(text: str) -> str:
    return strip(separate_superscripts(_LEADERS.sub(" … ", text)))


def cut(text: str, count_tokens: CountTokens, max_tokens: int) -> list[str]:
    """Cut a text into pieces that fit; white space between them is dropped.

    A piece ends at the last sentence end in the second half of what fits, else at a clause mark there, else at white space,
    else between two characters. Placeholders stay whole. Only a single character may exceed the limit.
    """
    return list(_pieces(text.strip(), count_tokens, max_tokens, _BY_SENSE))


def cut_lines(text: str, count_tokens: CountTokens, max_tokens: int) -> list[str]:
    """Cut code into pieces of whole lines that fit; a line that is too long alone is cut as prose."""
    end = joining_tokens(count_tokens, "\n")
    lines = [
        piece
        for line, tokens in zip(text.split("\n"), count_tokens(text.split("\n")), strict=True)
        for piece in ([line] if tokens <= max_tokens else cut(line, count_tokens, max_tokens))
    ]
    pieces: list[list[str]] = [[]]
    total = 0
    for line, tokens in zip(lines, count_tokens(lines), strict=True):
        if pieces[-1] and total + end + tokens > max_tokens:
            pieces.append([])
            total = 0
        total += tokens + (end if pieces[-1] else 0)
        pieces[-1].append(line)
    return [code for piece in pieces if (code := "\n".join(piece).strip("\n"))]


def first_words(text: str, count_tokens: CountTokens, max_tokens: int) -> str:
    """Return as many of a text's first words as fit."""
    return next(_pieces(text.strip(), count_tokens, max_tokens, (_BLANK,)), "")


def joining_tokens(count_tokens: CountTokens, between: str) -> int:
    """Return the number of tokens that joining two texts adds."""
    alone, joined = count_tokens(["x", f"x{between}x"])
    return max(0, joined - 2 * alone)


def _pieces(text: str, count_tokens: CountTokens, max_tokens: int, marks: "Sequence[regex.Pattern[str]]") -> Iterator[str]:
    if not text or count_tokens([text])[0] <= max_tokens:
        yield from filter(None, [text])
        return
    ends = [mark_match.end() for mark_match in _CLUSTER.finditer(text)]
    cluster_ends = set(ends)
    # A mark inside a placeholder or a grapheme cluster is not where a text may be cut.
    breaks = [[end for mark_match in mark.finditer(text) if (end := mark_match.end()) in cluster_ends] for mark in marks]
    start = first = 0
    while start < len(text):
        last = _largest_piece(text, start, ends, first, count_tokens, max_tokens)
        end = ends[last - 1]
        if last < len(ends):
            half = start + (end - start) // 2
            nearest = (_last_up_to(break_points, end) for break_points in breaks)
            end = next((cut_point for cut_point in nearest if cut_point > half), end)
        if piece := text[start:end].strip():
            yield piece
        start = end
        first = bisect_right(ends, start)


def _largest_piece(
    text: str, start: int, ends: Sequence[int], first: int, count_tokens: CountTokens, max_tokens: int
) -> int:
    """Return how many of ``ends`` the largest fitting piece after ``first`` covers, at least one; interpolated, else bisected."""
    low, high = first + 1, len(ends) + 1  # one fits, or can't be cut; the other doesn't
    guess = first + 4 * max_tokens
    # Each third guess halves the range, since interpolation alone creeps where tokens are uneven.
    for halve in cycle((False, False, True)):
        if high - low < 2:
            break
        if halve or not low < guess < high:
            guess = (low + min(high, low + 16 * max_tokens)) // 2
        tokens = count_tokens([text[start : ends[guess - 1]]])[0]
        if tokens > max_tokens:
            high = guess
        else:
            low = guess
            if tokens >= _FULL * max_tokens:
                break
        guess = first + int((guess - first) * (1 + _FULL) / 2 * max_tokens / max(1, tokens))
    return low


def _last_up_to(positions: Sequence[int], end: int) -> int:
    at = bisect_right(positions, end)
    return positions[at - 1] if at else -1


class TablePiece(NamedTuple):
    """A part of a table: its caption, and its cells, header first; () for the caption alone.

    ``rows`` are the indices of its rows in the table, the header being 0. ``spans`` are its cells over several columns or rows.
    """

    caption: str
    cells: Sequence[Sequence[str]]
    rows: range
    spans: tuple[CellSpan, ...] = ()

    @property
    def text(self) -> str:
        """The piece as Markdown, under its caption."""
        return "\n".join(filter(None, (self.caption, markdown(self.cells) if self.cells else "")))


def cut_table(
    caption: str, rows: Sequence[Sequence[str]], count_tokens: CountTokens, max_tokens: int, spans: Sequence[CellSpan] = ()
) -> list[TablePiece]:
    """Cut a table at its rows, each piece under caption and header.

    A row that is too long continues in the next piece, its short first cell repeated. If caption and header leave no room,
    a long caption stands alone before the table, and a header that is still too long is split into strips of columns: the
    first of its rows alone is the header then. Repeated cells have no placeholders.
    """
    flat_rows = [[on_one_line(cell) for cell in row] for row in rows]
    return list(_TableCutter(count_tokens, max_tokens).pieces(caption, flat_rows, spans))


_Row = tuple[int, Sequence[str]]


class _TableCutter:
    def __init__(self, count_tokens: CountTokens, max_tokens: int) -> None:
        self._count_all = count_tokens
        self._max = max_tokens
        self._line_end = joining_tokens(count_tokens, "\n")

    def pieces(self, caption: str, rows: Sequence[Sequence[str]], spans: Sequence[CellSpan] = ()) -> Iterator[TablePiece]:
        width = max(map(len, rows))
        even = [[*row, *[""] * (width - len(row))] for row in rows]
        heads = head_rows(even, spans)
        if heads > 1 and 2 * self._count(_head(caption, even[:heads])) > self._max:
            heads = 1
        head, numbered = even[:heads], list(enumerate(even))[heads:]
        tokens = self._count(_head(caption, head))
        longest = max(self._lines([row for _, row in numbered]), default=0)
        # Either every row fits below the header whole, or half of a piece is left for its parts.
        if tokens + longest <= self._max or 2 * tokens <= self._max:
            yield from self._packed(caption, head, numbered, spans)
            return
        if 8 * self._count(caption) > self._max:
            yield from (TablePiece(piece, (), range(1)) for piece in cut(caption, self._count_all, self._max))
            caption = ""
        if 2 * self._count(_head(caption, head)) <= self._max:
            yield from self._packed(caption, head, numbered, spans)
        else:
            yield from self._strips(caption, head[0], numbered)

    def _packed(
        self, caption: str, head: Sequence[Sequence[str]], rows: Sequence[_Row], spans: Sequence[CellSpan] = ()
    ) -> Iterator[TablePiece]:
        room = self._max - self._count(_head(caption, head))
        piece_rows: list[Sequence[str]] = []
        heads = range(len(head))
        numbers: list[int] = []
        first_number = total = 0
        for number, row, tokens in self._fitting(rows, room):
            if piece_rows and total + tokens > room:
                cells = (*head, *piece_rows)
                yield TablePiece(caption, cells, range(first_number, numbers[-1] + 1), spans_in(spans, (*heads, *numbers)))
                caption, head = strip(caption), [list(map(strip, line)) for line in head]
                first_number, piece_rows, numbers, total = number, [], [], 0
            piece_rows.append(row)
            numbers.append(number)
            total += tokens
        last = max((*heads, *numbers[-1:]))
        yield TablePiece(caption, (*head, *piece_rows), range(first_number, last + 1), spans_in(spans, (*heads, *numbers)))

    def _fitting(self, rows: Sequence[_Row], room: int) -> Iterator[tuple[int, Sequence[str], int]]:
        for (number, row), tokens in zip(rows, self._lines([row for _, row in rows]), strict=True):
            if tokens <= room:
                yield number, row, tokens
            else:
                parts = self._parts(row, room)
                yield from ((number, part, count) for part, count in zip(parts, self._lines(parts), strict=True))

    def _parts(self, row: Sequence[str], room: int) -> list[Sequence[str]]:
        """Split a long row into rows that each hold some of its cells, or a part of one."""
        name = strip(row[0])
        blank = [""] * len(row)
        if 2 * self._lines([_with_cell(blank, 0, name)])[0] > room:
            name = ""
        parts: list[Sequence[str]] = []
        pending_row: Sequence[str] = blank
        for column, cell in enumerate(row):
            if not cell:
                continue
            if self._lines([_with_cell(pending_row, column, cell)])[0] > room and any(pending_row):
                parts.append(pending_row)
                pending_row = _with_cell(blank, 0, name)

            def count(texts: Sequence[str], pending_row: Sequence[str] = pending_row, column: int = column) -> list[int]:
                return self._lines([_with_cell(pending_row, column, text) for text in texts])

            *full, last = cut(cell, count, room)
            parts += [_with_cell(pending_row, column, piece) for piece in full]
            pending_row = _with_cell(pending_row, column, last)
        return [*parts, pending_row]

    def _strips(self, caption: str, header: Sequence[str], rows: Sequence[_Row]) -> Iterator[TablePiece]:
        """Split a table by columns, so that the header takes half of a piece; the first column is repeated."""
        short = [first_words(cell, self._count_all, self._max // 5) for cell in header]
        name = strip(header[0])
        repeats_name = 8 * self._lines([[name]])[0] <= self._max
        columns: list[int] = []
        strips = [columns]
        for column in range(len(header)):
            wider = _head(caption, [[name] * (repeats_name and len(strips) > 1) + [short[at] for at in (*columns, column)]])
            if columns and 2 * self._count(wider) > self._max:
                columns = []
                strips.append(columns)
            columns.append(column)
        for number, columns in enumerate(strips):
            again = repeats_name and number > 0
            full_header = [header[at] for at in columns]
            head = [short[at] for at in columns]
            strip_rows = [(at, cells) for at, row in rows if any(cells := [row[column] for column in columns])]
            if head != full_header:
                # The full text of a shortened header follows it as a row.
                strip_rows.insert(0, (0, full_header))
                head = list(map(strip, head))
            if again:
                names = {at: row[0] for at, row in rows}
                strip_rows = [(at, [self._name(names.get(at, "")), *cells]) for at, cells in strip_rows]
                head = [name, *head]
            yield from self._packed(caption if number == 0 else strip(caption), [head], strip_rows)

    def _name(self, cell: str) -> str:
        name = strip(cell)
        return name if 8 * self._lines([[name]])[0] <= self._max else ""

    def _count(self, text: str) -> int:
        return self._count_all([text])[0] + self._line_end * text.count("\n")

    def _lines(self, rows: Sequence[Sequence[str]]) -> list[int]:
        return [count + self._line_end for count in self._count_all([markdown([row]).split("\n", 1)[0] for row in rows])]


def _head(caption: str, rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(filter(None, (caption, markdown(rows))))


def _with_cell(row: Sequence[str], column: int, cell: str) -> list[str]:
    return [cell if at == column else row_cell for at, row_cell in enumerate(row)]
