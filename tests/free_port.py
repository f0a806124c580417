"""A port for a server that a test starts."""

import socket

_handed_out: set[int] = set()


def free_port() -> int:
    """Return a port of this machine that nobody listens on, another one at each call: a server may need several."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = int(listener.getsockname()[1])
        if port not in _handed_out:
            _handed_out.add(port)
            return port
