"""What is said of documents beside their bytes: who may read them, and the values of the corpus's own fields.

Everything is checked before anything runs: a mistake is a ``UserError`` with file and line.
"""

import contextlib
import csv
import io
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from fnmatch import translate
from typing import NamedTuple, TypeVar

import pyarrow as pa
import yaml

from pipeline.corpus.workspace import Workspace, read_own_file
from schemas.access import Principals, of_site
from schemas.base import extensions
from schemas.errors import TransientError, UserError
from schemas.filters import FieldType
from schemas.parquet import from_parquet
from schemas.printing import without_secrets

Value = str | float | bool | list[str]
"""The value of a field: of a date its day, such as 2024-03-31."""

BESIDE = ".meta.yaml"
"""End of the name of the file beside a document."""

ENTRY_POINTS = "inset.access"

_MOST_BYTES = 256 << 20
_MOST_MISTAKES = 10
_TRUTHS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_EXAMPLES: Mapping[FieldType, str] = {
    "keyword": "text, in quotes",
    "keywords": "texts: a; b",
    "number": "one such as 7 or 2.5",
    "date": "one such as 2024-03-31",
    "boolean": "true or false",
}
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_T = TypeVar("_T")


class AccessStatement(NamedTuple):
    """Who may read a source, None where nothing is said, and what says so."""

    principals: Principals | None
    where: str


class _Row(NamedTuple):
    """What a line of a table, or a file beside a document, says of the sources that fit a glob."""

    glob: str
    where: str
    cells: Mapping[str, object]


class Statements:
    """Reads what a corpus file's ``access`` and ``metadata`` name.

    Raises ``UserError`` for a mistake in them, and ``TransientError`` where a source of rights doesn't answer.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._corpus = workspace.corpus
        self._source = workspace.source()
        self._mistakes: list[str] = []

    def access(self, sources: Sequence[str]) -> dict[str, AccessStatement]:
        """Return who may read each source, and what says so. A table says it of every source, with a row or without."""
        options = self._corpus.access
        assert options is not None
        if options.entry_point is not None:
            stated = _asked(options.entry_point, sources, options.site)
        elif options.beside:
            stated = {row.glob: self._statement(row, "access") for row in self._beside(sources) if "access" in row.cells}
        else:
            assert options.table is not None
            table = self._table(options.table, "access.table", needed="principals")
            if not table:
                raise UserError(f"{options.table}: it has no rows, so rights stay as they are; write one at least")
            row_of = last_fitting([(row.glob, self._statement(row, "principals")) for row in table])
            unsaid = AccessStatement(frozenset(), f"{options.table}: no row fits")
            stated = {source: row_of(source) or unsaid for source in sources}
        self._raise_mistakes()
        nothing = AccessStatement(None, "nothing says it")
        return {source: stated.get(source, nothing) for source in sources}

    def values(self, sources: Sequence[str]) -> dict[str, dict[str, Value]]:
        """Return the values of each source's fields, without those that nothing says."""
        options, stated = self._corpus.metadata, {source: dict[str, Value]() for source in sources}
        if (pattern := options.path_pattern()) is not None:
            for source in sources:
                if match := pattern.fullmatch(source):
                    parts = _Row(source, f"{source}: metadata.path", match.groupdict())
                    stated[source] |= self._values(parts)
        if options.table is not None:
            rows = [(row.glob, self._values(row)) for row in self._table(options.table, "metadata.table")]
            # Of each field the last row counts that has a value for it.
            for name in self._corpus.fields:
                value_of = last_fitting([(glob, values[name]) for glob, values in rows if name in values])
                for source in sources:
                    if (value := value_of(source)) is not None:
                        stated[source][name] = value
        if options.beside:
            for row in self._beside(sources):
                stated[row.glob] |= self._values(row)
        self._raise_mistakes()
        return stated

    def _values(self, row: _Row) -> dict[str, Value]:
        values: dict[str, Value] = {}
        for name, raw in row.cells.items():
            if name not in self._corpus.fields or raw is None or raw == "":
                continue
            try:
                values[name] = parse_value(self._corpus.fields[name].type, raw)
            except ValueError as error:
                self._mistakes.append(f"{row.where}: {name}: {error}")
        return values

    def _statement(self, row: _Row, column: str) -> AccessStatement:
        raw, principals = row.cells[column], Principals()
        names = raw.split(";") if isinstance(raw, str) else [] if raw is None else raw
        try:
            if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
                raise ValueError("write principals such as group:service; user:4711")
            site = None if self._corpus.access is None else self._corpus.access.site
            principals = of_site((name.strip() for name in names if name.strip()), site)
        except ValueError as error:
            self._mistakes.append(f"{row.where}: {error}")
        return AccessStatement(principals, row.where)

    def _table(self, address: str, key: str, *, needed: str | None = None) -> list[_Row]:
        data = read_own_file(address, key, _MOST_BYTES)
        rows = _parquet_rows(address, data) if address.lower().endswith(".parquet") else _csv_rows(address, data)
        header = next(rows).cells
        columns = {"source": None, "principals": None} | dict.fromkeys(self._corpus.fields)
        if unknown := [name for name in header if name not in columns]:
            raise UserError(f"{address}: line 1: unknown column {unknown[0][:60]!r}; known here: {', '.join(columns)}")
        if absent := [name for name in ("source", needed) if name is not None and name not in header]:
            raise UserError(f"{address}: line 1: there is no column {absent[0]}; add one")
        return list(rows)

    def _beside(self, sources: Iterable[str]) -> Iterator[_Row]:
        keys = ("access", *self._corpus.fields)
        for source in sources:
            file = f"{source}{BESIDE}"
            try:
                for name, line, value in _entries(self._source.read(file)):
                    if name not in keys:
                        self._mistakes.append(
                            f"{file}: line {line}: unknown key {name[:60]!r}; known here: {', '.join(keys)}"
                        )
                    yield _Row(source, f"{file}: line {line}", {name: value})
            except FileNotFoundError:
                continue
            except ValueError as error:
                self._mistakes.append(f"{file}: {error}")

    def _raise_mistakes(self) -> None:
        mistakes, self._mistakes = list(dict.fromkeys(self._mistakes)), []
        if mistakes:
            rest_line = [f"{len(mistakes) - _MOST_MISTAKES} more mistakes"] if len(mistakes) > _MOST_MISTAKES else []
            raise UserError(*mistakes[:_MOST_MISTAKES], *rest_line)


def parse_value(kind: FieldType, raw: object) -> Value:
    """Return a field's value from text or YAML; raise ``ValueError`` with what to write if it is of another type."""
    match kind, raw:
        case "keyword", str():
            return raw.strip()
        case "keywords", str() | list():
            names = raw.split(";") if isinstance(raw, str) else raw
            return [str(parse_value("keyword", name)) for name in names if name != ""]
        case "number", (int() | float() | str()) if not isinstance(raw, bool):
            with contextlib.suppress(ValueError):
                if math.isfinite(number := float(raw)):
                    return number
        case "date", date():
            return raw.isoformat()[:10]
        case "date", str():
            with contextlib.suppress(ValueError):
                return date.fromisoformat(raw.strip()).isoformat()
        case "boolean", bool():
            return raw
        case "boolean", str() if raw.strip().casefold() in _TRUTHS:
            return _TRUTHS[raw.strip().casefold()]
    raise ValueError(f"{repr(raw)[:60]} is no {kind}; write {_EXAMPLES[kind]}")


def last_fitting(rows: Sequence[tuple[str, _T]]) -> Callable[[str], _T | None]:
    """Return a function that finds the last row whose glob fits a source; a glob also fits the source of that name."""
    by_name = {glob: number for number, (glob, _) in enumerate(rows)}
    globs = [(glob, number) for glob, number in by_name.items() if re.search(r"[*?\[]", glob)]
    globs.sort(key=lambda glob: -glob[1])
    # One pattern with an alternative a glob, the last row first: the first that fits is the last row.
    fits = re.compile("|".join(f"({translate(glob)})" for glob, _ in globs) or "(?!)").match

    def find(source: str) -> _T | None:
        match = fits(source)
        fitting = max(globs[match.lastindex - 1][1] if match and match.lastindex else -1, by_name.get(source, -1))
        return rows[fitting][1] if fitting >= 0 else None

    return find


def _asked(name: str, sources: Sequence[str], site: str | None) -> dict[str, AccessStatement]:
    entries = {entry.name: entry for entry in extensions(ENTRY_POINTS)}
    if name not in entries:
        raise UserError(
            f"access.entry_point: there is no entry point {name!r} of {ENTRY_POINTS}; installed: {', '.join(entries) or 'none'}"
        )
    try:
        answers: Mapping[str, Iterable[str] | None] = entries[name].load()(sources)
        return {
            source: AccessStatement(of_site(principals, site), f"entry point {name}")
            for source in sources
            if (principals := answers.get(source)) is not None
        }
    except Exception as error:
        reason = without_secrets(f"{type(error).__name__}: {error}")[:300]
        raise TransientError(f"entry point {name} of {ENTRY_POINTS} fails ({reason}); rights stay as they are") from error


def _csv_rows(address: str, data: bytes) -> Iterator[_Row]:
    """Yield the header, and each row with the line on which it begins."""
    try:
        rows = csv.reader(io.StringIO(data.decode("utf-8-sig"), newline=""), strict=True)
        header = [name.strip() for name in next(rows, [])]
        yield _Row("", "", dict.fromkeys(header))
        line = rows.line_num + 1
        for cells in rows:
            position = f"{address}: line {line}"
            if len(cells) not in (0, len(header)):
                raise UserError(f"{position}: {len(cells)} columns instead of {len(header)}; quote what holds a comma")
            if cells:
                by_name = dict(zip(header, cells, strict=True))
                yield _Row(by_name.get("source", ""), position, by_name)
            line = rows.line_num + 1
    except (csv.Error, UnicodeDecodeError) as error:
        raise UserError(f"{address}: this is not CSV in UTF-8: {error}") from error


def _parquet_rows(address: str, data: bytes) -> Iterator[_Row]:
    try:
        table = from_parquet(data)
    except ValueError as error:
        raise UserError(f"{address}: this is not Parquet: {error}") from error
    yield _Row("", "", dict.fromkeys(table.column_names))
    if "source" in table.column_names and not pa.types.is_string(table.schema.field("source").type):
        raise UserError(f"{address}: column source holds no text")
    for number, cells in enumerate(table.to_pylist(), 1):
        yield _Row(cells.get("source") or "", f"{address}: row {number}", cells)


def _entries(data: bytes) -> Iterator[tuple[str, int, object]]:
    """Yield the keys of a YAML mapping, each with its line and value."""
    loader = _Loader(data)
    try:
        root = loader.get_single_node()
        if not isinstance(root, yaml.MappingNode):
            raise ValueError("this is no mapping; write a line a field, such as product: PX-4")
        for name, value in root.value:
            yield str(name.value), name.start_mark.line + 1, loader.construct_object(value, deep=True)
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 1}: " if mark else ""
        raise ValueError(f"{line}this is not YAML: {getattr(error, 'problem', None) or error}") from error
    finally:
        loader.dispose()
