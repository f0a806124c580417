"""Read stored objects as models and tables, and check them; what can't be decoded raises an error with the object's name.

Checksums are placed where each format has room, so that any tool still reads it. Documents and rows are named by the digest of
their bytes, and figures by that of their pixels. Pages of Parquet files have the format's checksums. A JSON object ends with the
digest of the bytes before it, and a tagged copy or converted PDF ends with a comment.
"""

import io
import json
import re
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa
from pydantic import BaseModel, TypeAdapter

from schemas.base import RELEASE
from schemas.errors import DamagedError, UserError
from schemas.ids import figure_id, sha256
from schemas.parquet import from_parquet, read_column
from schemas.ports import ObjectStore
from schemas.versions import FORMAT

Model = TypeVar("Model", bound=BaseModel)
Noun = TypeVar("Noun")
Found = TypeVar("Found")
Fault = TypeVar("Fault", bound=DamagedError)

LISTED_AT_ONCE = 1000
"""Page size of S3 listings, which is S3's maximum."""

_NAMED = re.compile(r"(?:.*/)?(?:documents|rows|access)/([0-9a-f]{64})\.(?:pdf|original|parquet)")
_FIGURE = re.compile(r"(?:.*/)?figures/([0-9a-f]{64})\.png")
_MADE_PDF = re.compile(r"(?:.*/)?(?:tagged|converted)/.*\.pdf")

_SHARED = ("documents/", "converted/", "figures/", "parsed/", "structured/")
"""Objects that a refresh doesn't read again."""

_KEY = b'"sha256":"'
_COMMENT = b"\n%inset-sha256 "
_COMMENT_BYTES = len(_COMMENT) + 65

_CHANGED = "isn't what was written: its bytes have another digest than it says"


def is_remote(store: ObjectStore) -> bool:
    """Return whether each object of a store is a request away, as in S3."""
    return "://" in store.root


def existing(store: ObjectStore, folder: str, names: Collection[str]) -> set[str]:
    """Return which objects of a folder exist, by looking up each, or in S3 by a listing if that takes fewer requests."""
    if is_remote(store) and names:
        requested, existing_names = set(names), set()
        for number, (name, _) in enumerate(store.listing(folder)):
            # Each page of the listing is a request: beyond one page a name, looking the names up takes fewer.
            if number >= LISTED_AT_ONCE * len(requested):
                break
            if name in requested:
                existing_names.add(name)
        else:
            return existing_names
    return {name for name in names if store.exists(name)}


def attempt(read: Callable[[], Found]) -> tuple[Found | None, DamagedError | None]:
    """Return what is read, or the error if it is missing or damaged."""
    try:
        return read(), None
    except DamagedError as error:
        return None, error


def unless_damaged(read: Callable[[], Found]) -> Found | None:
    """Return what is read; None if it is missing or damaged, since a refresh makes it again."""
    return attempt(read)[0]


def check_object(store: ObjectStore, name: str) -> None:
    """Read a whole object; raises as ``read_model`` does."""
    data = store.get(name)
    with reading(store, name):
        check_content(name, data)


def read_model(store: ObjectStore, name: str, model: type[Model]) -> Model:
    """Return a stored JSON object, or raise ``MissingError``, or ``DamagedError`` if it can't be decoded."""
    data = store.get(name)
    with reading(store, name):
        return model.model_validate_json(data)


def readable_models(store: ObjectStore, names: Iterable[str], model: type[Model]) -> Iterator[Model]:
    """Yield stored JSON objects, without those that are missing or damaged."""
    for name in names:
        if (stored := unless_damaged(partial(read_model, store, name, model))) is not None:
            yield stored


def read_mutable(
    store: ObjectStore, name: str, model: type[Model], *, fresh: bool = True
) -> tuple[Model | None, str | None]:
    """Return a JSON object that changes with its ETag, both None if there is none.

    Raises ``DamagedError`` if it can't be decoded, and ``UserError`` if it names the format of a newer release.
    """
    stored = store.read_mutable(name, fresh=fresh)
    if stored is None:
        return None, None
    with suppress(ValueError):
        document = json.loads(stored[0])
        if isinstance(document, dict) and isinstance(store_format := document.get("format"), int) and store_format > FORMAT:
            raise UserError(
                f"{store.root} has format {store_format}, of a newer release of Inset; this one ({RELEASE}) knows formats up to "
                f"{FORMAT}; use the newer one"
            )
    with reading(store, name):
        return model.model_validate_json(stored[0]), stored[1]


def read_changing(store: ObjectStore, name: str, model: type[Model], *, fresh: bool = True) -> tuple[Model, str | None]:
    """Return what ``read_mutable`` returns; an empty object if there is none."""
    stored, etag = read_mutable(store, name, model, fresh=fresh)
    return stored or model(), etag


def change_model(store: ObjectStore, name: str, model: type[Model], change: Callable[[Model], Model]) -> Model:
    """Replace a JSON object by what ``change`` makes of it, and return that.

    ``change`` is asked again where another process came first. Raises as ``read_model`` does.
    """
    while True:
        current, etag = read_changing(store, name, model)
        changed = change(current)
        if store.swap(name, changed.model_dump_json(indent=1).encode(), etag):
            return changed


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
    # A file of an earlier release lacks columns, but has none of its own.
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


def sealed(name: str, data: bytes) -> bytes:
    """Return an object's bytes with their checksum, where name or format don't already have one."""
    if _MADE_PDF.fullmatch(name):
        return data + _COMMENT + sha256(data).encode() + b"\n"
    if _is_json(name) and data.endswith(b"}"):
        body = data[:-1].rstrip()
        comma = b"" if body == b"{" else b","
        return body + comma + _KEY + sha256(body).encode() + b'"}'
    return data


def unsealed(name: str, data: bytes) -> bytes:
    """Check an object and return what ``sealed`` was given; raises ``ValueError`` if the bytes changed, and says how."""
    if not data and is_checked(name):
        raise ValueError("is empty")
    if match := _NAMED.fullmatch(name):
        _expect(sha256(data) == match[1], "isn't what was written: its name is another digest than its bytes'")
    elif match := _FIGURE.fullmatch(name):
        _check_pixels(data, match[1])
    elif _MADE_PDF.fullmatch(name):
        return _unsealed_comment(data)
    elif _is_json(name):
        return _unsealed_json(data)
    return data


def check_content(name: str, data: bytes) -> None:
    """Raise ``ValueError`` if pages of a Parquet file aren't what was written, which only reading shows."""
    if name.endswith(".parquet"):
        from_parquet(data)


def is_checked(name: str) -> bool:
    """Return whether objects of that name have a checksum."""
    patterns = (_NAMED, _FIGURE, _MADE_PDF)
    return name.endswith(".parquet") or _is_json(name) or any(pattern.fullmatch(name) for pattern in patterns)


def damage(kind: type[Fault], root: str, name: str, fault: str) -> Fault:
    """Return the error for a damaged object of a corpus's store, with its remedy."""
    corpus = root.rstrip("/").rpartition("/")[2]
    found_by = f"inset doctor {corpus} --deep, then " if name.startswith(_SHARED) else ""
    remedy = f"to make it again: {found_by}inset refresh {corpus}"
    if name.startswith("access/"):
        remedy = f"to make it again: inset access {corpus} --apply"
    if name == "LIVE":
        remedy = f"to restore it: inset refresh {corpus}, or choose a version: inset publish {corpus} VERSION"
    return kind(f"{root}/{name} {fault}; {remedy}", name)


def _is_json(name: str) -> bool:
    return name.endswith(".json") or name.rpartition("/")[2] in ("LIVE", "LEASE", "CURRENT")


def _expect(holds: bool, fault: str) -> None:
    if not holds:
        raise ValueError(fault)


def _unsealed_json(data: bytes) -> bytes:
    # The last 76 bytes are ``"sha256":"``, 64 digits and ``"}``.
    body, key, digest, end = data[:-76], data[-76:-66], data[-66:-2], data[-2:]
    body = body.removesuffix(b",")
    _expect(data.rstrip()[-1:] == b"}", "is cut short")
    _expect(key == _KEY and end == b'"}' and digest == sha256(body).encode(), _CHANGED)
    return body + b"}"


def _unsealed_comment(data: bytes) -> bytes:
    body, mark, digest = data[:-_COMMENT_BYTES], data[-_COMMENT_BYTES:-65], data[-65:-1]
    _expect(mark == _COMMENT, "is cut short")
    _expect(sha256(body).encode() == digest, _CHANGED)
    return body


def _check_pixels(data: bytes, name: str) -> None:
    from PIL import Image

    try:
        with warnings.catch_warnings():
            # Its size was limited when the figure was stored.
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(data)) as image:
                image.verify()  # checks the chunks' checksums, which decoding ignores
            with Image.open(io.BytesIO(data)) as image:
                actual_id = figure_id(image.width, image.height, image.convert("RGB").tobytes())
    except (OSError, ValueError, SyntaxError, EOFError, Image.DecompressionBombError) as error:
        raise ValueError("can't be decoded") from error
    _expect(actual_id == name, "isn't what was written: its name is another digest than its pixels'")
