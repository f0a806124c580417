"""The Weaviate alias of a corpus, such as ``Manuals``: it names the live version's collection for direct queries.

It is updated after the pointer. A crash in between leaves it one version behind until the next refresh or ``inset doctor``.
LanceDB has no aliases.
"""

from pipeline.corpus.workspace import Workspace, open_server
from pipeline.records.publication import read_pointer
from schemas.errors import TransientError
from schemas.ids import alias_name, collection_name


def update_alias(workspace: Workspace) -> bool:
    """Point the alias at the live version's collection; return whether it moved.

    The server has no compare-and-swap, so the pointer is read again after each move.

    Raises:
        TransientError: The server doesn't answer; the live version stays live.
    """
    name, moved = alias_name(workspace.corpus.name), False
    while (live := read_pointer(workspace.store)) is not None:
        options = workspace.index_options(live.version)
        if options.engine != "weaviate":
            break
        collection = collection_name(workspace.corpus.name, live.version)
        try:
            server = open_server(options)
            if server.alias(name) == collection:
                break
            server.point(name, collection)
        except TransientError as error:
            raise TransientError(
                f"{live.version} is live, but alias {name} may lag behind; repair it with: inset doctor ({error.message})"
            ) from error
        moved = True
    return moved


def alias_points_to(workspace: Workspace, version: str) -> bool:
    """Return whether the alias points to a version's collection, which must then be kept.

    Raises:
        TransientError: The server doesn't answer.
    """
    options, name = workspace.index_options(version), workspace.corpus.name
    return options.engine == "weaviate" and open_server(options).alias(alias_name(name)) == collection_name(name, version)
