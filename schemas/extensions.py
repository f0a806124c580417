"""What installed packages add: commands, DAGs, gates on metrics. The product names none of them."""

from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec


def extensions(group: str) -> list[EntryPoint]:
    """Return the entry points of a group, such as ``inset.commands``, by name, for the caller to load.

    Those whose package isn't here, such as the lab of an image without it, are left out.
    """
    by_name = {entry.name: entry for entry in entry_points(group=group) if find_spec(entry.module.partition(".")[0])}
    return sorted(by_name.values(), key=lambda entry: entry.name)
