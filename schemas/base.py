"""What all schemas build on: immutable models, batches, extensions, the release."""

from collections.abc import Iterable, Iterator
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from itertools import islice
from typing import TypeVar

from pydantic import BaseModel, ConfigDict


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
    """Return the entry points of a group, such as ``inset.commands``, by name, for the caller to load.

    Those whose package isn't here, such as the lab of an image without it, are left out.
    """
    by_name = {entry.name: entry for entry in entry_points(group=group) if find_spec(entry.module.partition(".")[0])}
    return sorted(by_name.values(), key=lambda entry: entry.name)
