"""What installed packages add: commands, DAGs, gates on metrics. The product names none of them."""

from importlib.metadata import EntryPoint, entry_points


def extensions(group: str) -> list[EntryPoint]:
    """Return the entry points of a group, such as ``inset.commands``, each once, by name; the caller loads them."""
    return sorted({one.name: one for one in entry_points(group=group)}.values(), key=lambda one: one.name)
