"""Nouns to Arrow tables and Parquet bytes, and back. In memory only: stores do the I/O. Pages carry the format's checksums."""

import contextlib
import dataclasses
import functools
import io
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from schemas.base import batched
from schemas.documents import BBOX
from schemas.geometry import BBox

T = typing.TypeVar("T")


def to_parquet(table: pa.Table) -> bytes:
    """Encode a table; the same table gives the same bytes."""
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd", store_schema=False, write_statistics=False, write_page_checksum=True)
    return sink.getvalue()


def from_parquet(data: bytes, columns: Sequence[str] | None = None) -> pa.Table:
    """Decode a table, or some of its columns; raises ``ValueError``, with what is wrong, if it isn't what was written."""
    return read_columns(open_parquet(data), columns)


def open_parquet(data: bytes) -> pq.ParquetFile:
    """Read a table's metadata, which takes longer than reading a small column; raises as ``from_parquet`` does."""
    if data[-4:] != b"PAR1":
        raise ValueError("cut short, or no Parquet file" if data else "empty")
    with _errors_in_one_line():
        return pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)


def read_columns(file: pq.ParquetFile, columns: Sequence[str] | None = None) -> pa.Table:
    """Decode an open table, or some of its columns; raises as ``from_parquet`` does."""
    with _errors_in_one_line():
        # Most are small: a pool of threads for each costs more than the reading.
        table = file.read(list(columns) if columns is not None else None, use_threads=False)
        if file.metadata.num_rows != table.num_rows:
            raise pa.ArrowInvalid(f"has {table.num_rows} rows instead of {file.metadata.num_rows}")
        return table.replace_schema_metadata(None)


def read_column(file: BinaryIO, name: str) -> "pa.ChunkedArray[Any]":
    """Read one column of a file and nothing else; raises as ``from_parquet`` does."""
    with _errors_in_one_line():
        return read_columns(pq.ParquetFile(file, page_checksum_verification=True), [name]).column(name)


@contextlib.contextmanager
def _errors_in_one_line() -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise ValueError(str(error).splitlines()[0]) from error


def required(**columns: pa.DataType) -> "list[pa.Field[Any]]":
    """Return columns without nulls, by name."""
    return [pa.field(name, kind, nullable=False) for name, kind in columns.items()]


def optional(**columns: pa.DataType) -> "list[pa.Field[Any]]":
    """Return columns that may have nulls, by name."""
    return [*map(pa.field, columns, columns.values())]


@functools.cache
def schema_of(noun: type) -> pa.Schema:
    """Derive the Arrow schema of a noun from its annotations."""
    hints = {name: _unwrap(hint) for name, hint in typing.get_type_hints(noun).items()}
    return pa.schema([pa.field(name, _arrow_type(bare), nullable=nullable) for name, (bare, nullable) in hints.items()])


def table_of(noun: type, rows: Sequence[Any]) -> pa.Table:
    """Return rows of one noun as a table."""
    columns = {name: [_plain(getattr(row, name)) for row in rows] for name in typing.get_type_hints(noun)}
    return pa.table(columns, schema=schema_of(noun))


def rows_of(noun: type[T], table: pa.Table) -> tuple[T, ...]:
    """Return a table's rows as instances of one noun; a field that an earlier release didn't write has its default."""
    columns: list[Any] = []
    defaults = {field.name: field.default for field in dataclasses.fields(noun)} if dataclasses.is_dataclass(noun) else {}
    for name, hint in typing.get_type_hints(noun).items():
        default = defaults.get(name, dataclasses.MISSING)
        if name not in table.column_names and default is not dataclasses.MISSING:
            columns.append([default] * table.num_rows)
            continue
        decode = _decoder(hint)
        columns.append([None if value is None else decode(value) for value in table.column(name).to_pylist()])
    return tuple(noun(*values) for values in zip(*columns, strict=True))


_ROWS_AT_ONCE = 1_000


class Rows(Sequence[T]):
    """A table's rows as a sequence of one dataclass, decoded on access."""

    def __init__(self, noun: type[T], table: pa.Table) -> None:
        self._noun = noun
        self.table = table

    @classmethod
    def of(cls, noun: type[T], rows: Iterable[T]) -> "Rows[T]":
        """Take in rows one after another."""
        tables = (table_of(noun, some) for some in batched(rows, _ROWS_AT_ONCE))
        return cls(noun, pa.concat_tables([table_of(noun, []), *tables]))

    def __len__(self) -> int:
        return self.table.num_rows

    def __iter__(self) -> Iterator[T]:
        """Yield them, some decoded at a time."""
        for start in range(0, len(self), _ROWS_AT_ONCE):
            yield from rows_of(self._noun, self.table.slice(start, _ROWS_AT_ONCE))

    def __reversed__(self) -> Iterator[T]:
        for start in reversed(range(0, len(self), _ROWS_AT_ONCE)):
            yield from reversed(rows_of(self._noun, self.table.slice(start, _ROWS_AT_ONCE)))

    @typing.overload
    def __getitem__(self, index: int) -> T: ...

    @typing.overload
    def __getitem__(self, index: slice) -> "Rows[T]": ...

    def __getitem__(self, index: int | slice) -> "T | Rows[T]":
        selection = range(len(self))[index]
        if isinstance(selection, range):
            return Rows(self._noun, self.table.take(pa.array(selection, pa.int64())))
        return rows_of(self._noun, self.table.slice(selection, 1))[0]


def nested(parts: Mapping[str, tuple[type, Sequence[Any]]]) -> pa.Table:
    """Return the rows of several nouns as a table of one row, with a list of structs a noun."""
    return pa.table({name: _one_list(table_of(noun, rows)) for name, (noun, rows) in parts.items()})


def part_of(table: pa.Table, name: str) -> pa.Table:
    """Return the rows of one noun from a table that ``nested`` made."""
    structs: Any = pc.list_flatten(table.column(name).combine_chunks())
    return pa.Table.from_struct_array(structs)


def _one_list(table: pa.Table) -> "pa.Array[Any]":
    structs = pa.StructArray.from_arrays([column.combine_chunks() for column in table.columns], fields=[*table.schema])
    ends: Any = pa.array([0, len(structs)], pa.int32())
    return pa.ListArray.from_arrays(ends, structs)


def _unwrap(hint: Any) -> tuple[Any, bool]:
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        (bare,) = (member for member in typing.get_args(hint) if member is not types.NoneType)
        return bare, True
    return hint, False


def _arrow_type(hint: Any) -> Any:
    if hint is BBox:
        return BBOX
    if dataclasses.is_dataclass(hint):
        return pa.struct(list(schema_of(typing.cast(type, hint))))
    if typing.get_origin(hint) is tuple:
        return pa.list_(_arrow_type(typing.get_args(hint)[0]))
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return pa.string()
    return {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_(), bytes: pa.binary()}[hint]


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple) and not isinstance(value, BBox):
        return [_plain(item) for item in value]
    return value


def _decoder(hint: Any) -> Callable[[Any], Any]:
    bare, _ = _unwrap(hint)
    if bare is BBox:
        return lambda value: BBox(*value)
    if dataclasses.is_dataclass(bare) and isinstance(bare, type):
        noun: Any = bare
        decoders = {field.name: _decoder(field.type) for field in dataclasses.fields(noun)}
        return lambda value: noun(**{name: decode(value[name]) for name, decode in decoders.items()})
    if typing.get_origin(bare) is tuple:
        inner = _decoder(typing.get_args(bare)[0])
        return lambda value: tuple(map(inner, value))
    if isinstance(bare, type) and issubclass(bare, StrEnum):
        return bare
    return lambda value: value
