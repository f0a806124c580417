"""Read stored objects as models and tables; what can't be decoded raises an error with the object's name."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import pyarrow as pa
from pydantic import BaseModel, TypeAdapter

from backends.stores.checksums import check_content, damage
from backends.stores.sources import LISTED_AT_ONCE
from schemas.errors import DamagedError
from schemas.parquet import from_parquet, read_column
from schemas.ports import ObjectStore

Model = TypeVar("Model", bound=BaseModel)
Noun = TypeVar("Noun")
Found = TypeVar("Found")


def is_remote(store: ObjectStore) -> bool:
    """Return whether each object of a store is a request away, as in S3."""
    return "://" in store.root


def existing(store: ObjectStore, folder: str, names: Collection[str]) -> set[str]:
    """Return which objects of a folder exist, by looking up each, or in S3 by a listing where that takes fewer requests."""
    if is_remote(store) and names:
        requested, existing_names = set(names), set()
        for number, (name, _) in enumerate(store.listing(folder)):
            if number >= LISTED_AT_ONCE * len(requested):
                break
            if name in requested:
                existing_names.add(name)
        else:
            return existing_names
    return {name for name in names if store.exists(name)}


def attempt(read: Callable[[], Found]) -> tuple[Found | None, DamagedError | None]:
    """Return what is read, or the error where it is missing or damaged."""
    try:
        return read(), None
    except DamagedError as error:
        return None, error


def unless_damaged(read: Callable[[], Found]) -> Found | None:
    """Return what is read; None where it is missing or damaged, since a refresh makes it again."""
    return attempt(read)[0]


def check_object(store: ObjectStore, name: str) -> None:
    """Read a whole object; raises as ``read_model`` does."""
    data = store.get(name)
    with reading(store, name):
        check_content(name, data)


def read_model(store: ObjectStore, name: str, model: type[Model]) -> Model:
    """Return a stored JSON object, or raise ``MissingError``, or ``DamagedError`` where it can't be decoded."""
    data = store.get(name)
    with reading(store, name):
        return model.model_validate_json(data)


def read_names(store: ObjectStore, name: str) -> dict[str, str]:
    """Return a stored JSON object of strings; raises as ``read_model`` does."""
    data = store.get(name)
    with reading(store, name):
        return TypeAdapter(dict[str, str]).validate_json(data)


def read_table(
    store: ObjectStore, name: str, schema: pa.Schema | None = None, *, columns: Sequence[str] | None = None
) -> pa.Table:
    """Return a stored table, or some columns, cast to a schema if given; raises as ``read_model`` does.

    Nullable columns of the schema that an earlier release didn't write are null.
    """
    data = store.get(name)
    with reading(store, name):
        table = from_parquet(data, columns)
        return table if schema is None else _completed(table, schema).cast(schema)


def _completed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    missing = [field for field in schema if field.nullable and field.name not in table.column_names]
    if missing and (unknown := set(table.column_names) - set(schema.names)):
        raise ValueError(f"has column {min(unknown)!r}, which nobody writes")
    for field in missing:
        table = table.append_column(field, pa.nulls(len(table), field.type))
    return table.select(schema.names) if missing else table


def read_part(store: ObjectStore, name: str, column: str) -> "pa.ChunkedArray[Any]":
    """Return one column of a stored table without reading the rest of the file; raises as ``read_model`` does."""
    with store.open(name) as file, reading(store, name):
        return read_column(file, column)


@contextmanager
def reading(store: ObjectStore, name: str) -> Iterator[Any]:
    """Translate decoding errors into a ``DamagedError`` that names the object."""
    try:
        yield
    except (ValueError, KeyError, TypeError, IndexError, pa.ArrowException) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise damage(DamagedError, store.root, name, f"isn't what was written ({reason})") from error
