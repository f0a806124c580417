"""What all schemas build on: immutable models, batches, extensions, the release."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from itertools import islice
from typing import Annotated, Literal, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from schemas.printing import is_plain


class Frozen(BaseModel):
    """An immutable model that rejects unknown keys."""

    # A reply has all its fields, so schemas of replies require them; without it, generated clients hold each for optional.
    model_config = ConfigDict(frozen=True, extra="forbid", json_schema_serialization_defaults_required=True)


RELEASE = "0.2.0"


T = TypeVar("T")


def batched(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield lists of at most ``size`` items, taken from the iterable on demand."""
    remaining = iter(items)
    while batch := list(islice(remaining, size)):
        yield batch


def extensions(group: str) -> list[EntryPoint]:
    """Return the entry points of a group, such as ``inset.commands``, of packages that are here, by name, still to be loaded."""
    by_name = {entry.name: entry for entry in entry_points(group=group) if find_spec(entry.module.partition(".")[0])}
    return sorted(by_name.values(), key=lambda entry: entry.name)


_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def _plain(text: str) -> str:
    if not is_plain(text):
        raise ValueError("write one line of plain text, without control characters or bytes that are not UTF-8")
    return text


def _variable(name: str) -> str:
    if not _VARIABLE.fullmatch(name):
        raise ValueError("write the name of an environment variable, such as PDF_PASSWORDS, and never what it holds")
    return name


def _without_user(address: str) -> str:
    """Refuse credentials: an address is stored with every version, and shown."""
    if "@" in address.partition("://")[2].partition("/")[0]:
        raise ValueError("an address holds no user or password; give those in environment variables")
    return address


def _location(address: str) -> str:
    scheme, separator, path = address.partition("://")
    if separator and scheme not in ("file", "s3"):
        raise ValueError("use a path, or s3://bucket/prefix")
    if scheme == "s3" and separator and not _BUCKET.fullmatch(path.partition("/")[0]):
        raise ValueError("write s3://bucket/prefix, the bucket's name in letters, digits, '.', '-' and '_'")
    return address


def _source(address: str) -> str:
    scheme, separator, _ = address.partition("://")
    if separator and not _SCHEME.fullmatch(scheme):
        raise ValueError("use a path, or an address such as s3://bucket/prefix or https://host/folder")
    if address.startswith("{"):
        raise ValueError("begin the path with ./")
    if scheme in ("file", "s3") or not separator:
        _location(address)
    elif "?" in address or "#" in address:
        raise ValueError("an address holds no query, which may be a secret; give credentials in environment variables")
    if any("**" in part and part != "**" for part in address.split("/")) and not separator:
        raise ValueError("'**' stands alone between slashes and means all folders below: write docs/**/*.pdf")
    return address


def combined_address(addresses: Mapping[str, str]) -> str:
    """Return the address of several sources, by name: a JSON object, which no path or address begins like."""
    return json.dumps(dict(addresses), ensure_ascii=False)


def addresses_of(address: str) -> dict[str, str]:
    """Return the addresses of several sources by name; none if it is the address of one."""
    return dict(json.loads(address)) if address.startswith("{") else {}


def _served(address: str) -> str:
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
        raise ValueError("write an address such as http://host:8000/v1")
    return address.rstrip("/")


Text = Annotated[str, AfterValidator(_plain)]
Variable = Annotated[Text, AfterValidator(_variable)]
Address = Annotated[Text, AfterValidator(_without_user)]
"""An address without user or password."""
Location = Annotated[Address, Field(min_length=1, max_length=4000), AfterValidator(_location)]
"""A path, or s3://bucket/prefix."""
Source = Annotated[Address, Field(min_length=1, max_length=4000), AfterValidator(_source)]
"""A path, s3://bucket/prefix, or another address with a scheme."""
FolderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=100)]
Server = Annotated[Address, AfterValidator(_served)]
Share = Annotated[float, Field(ge=0, le=1)]
Weight = Annotated[float, Field(gt=0, le=1e6)]
Money = Annotated[float, Field(ge=0, le=1e9)]
Workers = Annotated[int, Field(ge=1, le=10_000)]
Revision = Annotated[Text, Field(min_length=1)]
GpuShare = Annotated[float, Field(ge=0, le=64)] | Literal["auto"]


class Section(BaseModel):
    """Base of every part of a corpus file: frozen, and strict about its keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
