"""A port for a server that a test starts."""

import socket


def free_port() -> int:
    """Return a port of this machine that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])
