"""Give the columns of a table types: numbers if every cell of a column is certainly one, else text."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import takewhile
from typing import Any

import pyarrow as pa

from schemas.documents import CellSpan
from schemas.tags import restore, strip
from tasks.tables.mark_up import head_rows, on_one_line

MOST_DIGITS = 15
"""Maximum digits of a number: those of an article's number are more, and a float has no more."""

_BLANK = re.compile(r"(?:[-–—−.…]+|n\.?\s?/?\s?a\.?)?", re.IGNORECASE)
_PREFIX = r"[kKMGTcdmµμnp]?i?"
_BASE = (
    r"(?:mol|bit|bar|min|rpm|dB|eV|Hz|Pa|Wh|Ah|VA|Nm|lm|lx|cd|Bq|Sv|ppm|fps|dpi|px|pt|ft|lb|oz|psi|in|[ΩmgsAKVWNJFHlLBbht])"
)
_MEASURE = rf"{_PREFIX}{_BASE}[²³]?"
_UNIT = rf"[%‰$€£¥]|°\s?[CF]?|(?:USD|EUR|GBP|CHF|JPY)|{_MEASURE}(?:/{_MEASURE})?"
_NUMBER = re.compile(
    rf"(?P<open>\()?\s*(?P<sign>[-+−–])?\s*(?P<before>[$€£¥]|USD|EUR|GBP|CHF|JPY)?\s*(?P<sign2>[-+−–])?\s*"
    rf"(?P<digits>\d(?:[\d.,'’\u00a0\u2009\u202f ]*\d)?|\.\d+)\s*(?P<inner>{_UNIT})?\s*(?P<close>\))?\s*(?P<after>{_UNIT})?"
)
_SPACES = re.compile(r"[\u00a0\u2009\u202f ’']")


class DecimalMark(StrEnum):
    """What divides the whole part of a number from its fraction."""

    POINT = "."
    COMMA = ","


@dataclass(frozen=True, slots=True)
class _Number:
    """A number of a cell as it is written: its sign, its digits with their marks, and its unit."""

    negative: bool
    digits: str
    unit: str


def type_columns(
    rows: Sequence[Sequence[str]], spans: Sequence[CellSpan] = (), mark: DecimalMark | None = None
) -> pa.Table:
    """Return the body of a table with a column each, named by its header.

    A column is of integers or floats if each of its cells is a number or blank ("", a dash, "n.a."), and it is certain which
    value each has: "1,234" is one only if the column, the table or ``mark`` shows the decimal mark. Negative are "-1" and
    "(1)". Where numbers have a unit or a sign of per cent or of a currency, the column after it has that. All other columns are
    text. A label merged over rows is repeated in each.

    Args:
        rows: The cells, header first.
        spans: The cells over several columns or rows.
        mark: The decimal mark of the document's numbers; None if unknown.
    """
    width = max(map(len, rows))
    cells = [[on_one_line(restore(strip(cell))) for cell in (*row, *[""] * (width - len(row)))] for row in rows]
    heads = head_rows(rows, spans)
    for span in spans:
        # A group's name is that of each of its columns, a label that of each of its rows.
        text = cells[span.row][span.column]
        if span.row < heads:
            for column in range(span.column, span.column + span.colspan):
                cells[span.row][column] = text
        else:
            for row in cells[span.row : span.row + span.rowspan]:
                row[span.column] = text
    body = cells[heads:]
    within = decimal_mark(cell for row in body for cell in row) or mark
    columns: dict[str, pa.Array[Any]] = {}
    for column, name in enumerate(_names(cells[:heads])):
        texts = [row[column] for row in body]
        numbers = _numbers(texts, decimal_mark(texts) or within)
        if numbers is None:
            columns[name] = pa.array([text or None for text in texts], pa.string())
            continue
        values, units = numbers
        columns[name] = values
        if any(units):
            columns[_unused_name(f"{name} (unit)", columns)] = pa.array(units, pa.string())
    return pa.table(columns)


def decimal_mark(cells: Iterable[str]) -> DecimalMark | None:
    """Return the decimal mark that numbers show; None if none does, or if some show one and some the other.

    It is shown by a group of other than three digits after the only mark, by two different marks in one number, and by one
    that a number has twice.
    """
    marks_seen: set[DecimalMark] = set()
    for cell in cells:
        number = _number(cell)
        marks = [] if number is None else re.findall(r"[.,]", number.digits)
        if number is None or not marks:
            continue
        last = number.digits.rsplit(marks[-1], 1)
        # "1,234" may be either, but "0,125" is a fraction: groups don't begin with 0.
        grouped = len(last[1]) == 3 and 1 <= len(_SPACES.sub("", last[0])) <= 3 and not last[0].startswith("0")
        if len(set(marks)) == 2 or (len(marks) == 1 and not grouped):
            marks_seen.add(DecimalMark(marks[-1]))
        elif len(marks) > 1:
            # A mark that a number has twice groups its digits, so the other one is the decimal mark.
            marks_seen.add(DecimalMark.POINT if marks[0] == "," else DecimalMark.COMMA)
    return marks_seen.pop() if len(marks_seen) == 1 else None


def _numbers(texts: Sequence[str], mark: DecimalMark | None) -> "tuple[pa.Array[Any], list[str | None]] | None":
    """Return the numbers and units of a column's cells, None for a blank one; None if one is certainly no number."""
    values: list[float | int | None] = []
    units: list[str | None] = []
    for text in texts:
        number = None if _BLANK.fullmatch(text) else _number(text)
        value = None if number is None else _value(number, mark)
        if value is None and not _BLANK.fullmatch(text):
            return None
        values.append(value)
        units.append(None if number is None else number.unit or None)
    filled_values = [value for value in values if value is not None]
    if not filled_values:
        return None
    return pa.array(values, pa.int64() if all(isinstance(value, int) for value in filled_values) else pa.float64()), units


def _number(text: str) -> _Number | None:
    match = _NUMBER.fullmatch(text.strip())
    if match is None or (match["open"] is None) != (match["close"] is None):
        return None
    signs = [sign for sign in (match["sign"], match["sign2"]) if sign]
    units = [unit for unit in (match["before"], match["inner"], match["after"]) if unit]
    if len(signs) > 1 or len(units) > 1 or (match["open"] and signs):
        return None
    negative = bool(match["open"]) or bool(signs and signs[0] != "+")
    return _Number(negative, match["digits"], units[0] if units else "")


def _value(number: _Number, mark: DecimalMark | None) -> int | float | None:
    """Return the value of a number; None if it isn't certain, or if digits may be a name ("007")."""
    digits = number.digits
    marks = set(re.findall(r"[.,]", digits))
    if marks and mark is None:
        return None
    integer_part, *fraction = digits.split(mark) if mark else [digits]
    if len(fraction) > 1 or any(re.search(r"\D", part) for part in fraction):
        return None
    groups = re.split(r"[.,\u00a0\u2009\u202f ’']", integer_part)
    if len(groups) > 1 and (not 1 <= len(groups[0]) <= 3 or any(len(group) != 3 for group in groups[1:])):
        return None
    joined = "".join(groups)
    if (joined.startswith("0") and len(joined) > 1) or len(joined) + sum(map(len, fraction)) > MOST_DIGITS:
        return None
    value = float(f"{joined or 0}.{fraction[0]}") if fraction else int(joined)
    return -value if number.negative else value


def _names(heads: Sequence[Sequence[str]]) -> list[str]:
    """Return a name for each column: the texts of its header from the top, a number if it has none, all different."""
    names: list[str] = []
    for number, texts in enumerate(zip(*heads, strict=True), 1):
        parts = list(dict.fromkeys(filter(None, texts)))
        names.append(_unused_name(" / ".join(parts) or f"column {number}", names))
    return names


def _unused_name(name: str, names: Iterable[str]) -> str:
    existing = set(names)
    again = sum(1 for _ in takewhile(lambda count: _numbered_name(name, count) in existing, range(1, len(existing) + 2)))
    return _numbered_name(name, again + 1)


def _numbered_name(name: str, count: int) -> str:
    return name if count == 1 else f"{name} ({count})"
