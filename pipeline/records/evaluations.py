"""Reports of experiments, stored with the version that they ran on."""

from backends.stores.objects import read_model
from schemas.frozen import Frozen
from schemas.ids import version_file
from schemas.ports import ObjectStore

REPORT = "report.html"
COMPARED = "changes.json"


class Compared(Frozen):
    """What surely changed since earlier reports of the same experiment, a line each.

    Attributes:
        worse: What became worse, and systems that don't run any more.
        better: What became better.
    """

    worse: list[str]
    better: list[str]


def stored_name(version: str, experiment: str, file: str) -> str:
    """Return the store name of a file of an experiment's last run on a version."""
    return version_file(version, f"evaluation/{experiment}/{file}")


def read_compared(store: ObjectStore, version: str, experiment: str) -> Compared | None:
    """Return what changed when an experiment was last compared; None if it wasn't.

    Raises:
        DamagedError: It can't be decoded.
    """
    name = stored_name(version, experiment, COMPARED)
    return read_model(store, name, Compared) if store.exists(name) else None
