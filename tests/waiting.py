"""Wait for what another process or thread does."""

import contextlib
import socket
import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")


def wait_for(condition: Callable[[], Found], description: str = "", *, within_s: float = 300.0) -> Found:
    """Return the first true result of a condition; ``what`` names it where it never comes."""
    deadline = time.monotonic() + within_s
    while not (outcome := condition()):
        assert time.monotonic() < deadline, f"{description or 'the condition'}: still {outcome!r} after {within_s:g} s"
        time.sleep(0.05)
    return outcome


def is_open(port: int) -> bool:
    """Return whether a server listens on a port of this machine."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False
