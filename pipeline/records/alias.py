"""The engine's alias: for those who query Weaviate themselves, ``Manuals`` names whatever version is live.

It follows the pointer and decides nothing. A crash between the two leaves it one version behind, which is whole all the same;
the next refresh and ``inset doctor`` repair it. LanceDB has no aliases.
"""

from pipeline.corpus.workspace import Workspace, open_server
from pipeline.records.publication import read_pointer
from schemas.errors import TransientError
from schemas.ids import alias_name, collection_name


def update_alias(workspace: Workspace) -> bool:
    """Make the alias name the live version's collection; return whether it had to be moved.

    The server can't compare and swap an alias, so the pointer is read again after each move: of two concurrent moves the
    last to look leaves it right.

    Raises:
        TransientError: The server doesn't answer; what is live stays live.
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
    """Return whether the alias names a version's collection, so that it must not be removed.

    Raises:
        TransientError: The server that holds it doesn't answer.
    """
    options, name = workspace.index_options(version), workspace.corpus.name
    return options.engine == "weaviate" and open_server(options).alias(alias_name(name)) == collection_name(name, version)
