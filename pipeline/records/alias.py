"""The Weaviate alias of a corpus, such as ``Manuals``: it names the live version's collection for direct queries.

It is updated after the pointer. A crash in between leaves it one version behind until the next refresh or ``inset doctor``.
LanceDB has no aliases.
"""

import time

from pipeline.corpus.workspace import Workspace, open_server
from pipeline.records.publication import read_pointer
from schemas.errors import TransientError
from schemas.ids import alias_name

FOLLOWED_WITHIN_S = 120.0
"""Seconds within which a server's alias follows."""

_POLL_S = 0.1


def update_alias(workspace: Workspace) -> bool:
    """Point the alias at the live version's collection; return whether it moved.

    The server has no compare-and-swap, so the alias is compared with the pointer again after each move: another process may
    have moved either of them meanwhile.

    Raises:
        TransientError: The server doesn't answer, or doesn't follow; the live version stays live.
    """
    name, patience = alias_name(workspace.corpus.name), time.monotonic() + FOLLOWED_WITHIN_S
    requested_move: tuple[str | None, str] | None = None
    while (live := read_pointer(workspace.store, fresh=True)) is not None:
        options = workspace.index_options(live.version)
        if options.engine != "weaviate":
            break
        collection = workspace.collection(live.version)
        server = open_server(options)
        try:
            current = server.alias(name)
            if current == collection:
                break
            if time.monotonic() > patience:
                raise TransientError(f"Weaviate at {server.url} goes on naming {current}; see its log")
            if (current, collection) != requested_move:
                requested_move = current, collection
                server.point(name, collection)
            else:
                time.sleep(_POLL_S)
        except TransientError as error:
            raise TransientError(
                f"{live.version} is live, but alias {name} may lag behind; repair it with: inset doctor ({error.message})"
            ) from error
    return requested_move is not None


def alias_points_to(workspace: Workspace, version: str) -> bool:
    """Return whether the alias points to a version's collection, which must then be kept.

    Raises:
        TransientError: The server doesn't answer.
    """
    options, name = workspace.index_options(version), alias_name(workspace.corpus.name)
    return options.engine == "weaviate" and open_server(options).alias(name) == workspace.collection(version)
