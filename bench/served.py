"""The query service as a process of its own."""

import contextlib
import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from tests.free_port import free_port


@contextlib.contextmanager
def serving(log: Path, *arguments: str) -> Iterator[tuple[str, psutil.Process]]:
    """Run ``inset serve`` on a free port; yield its address and its process, which ends with the block.

    Args:
        log: Receives what it prints.
        arguments: Corpora and options.
    """
    port = free_port()
    command = [sys.executable, "-m", "cli.main", "serve", *arguments, "--port", str(port)]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent.parent)}
    with (
        log.open("w", encoding="utf-8") as out,
        subprocess.Popen(command, env=environment, stdout=out, stderr=out) as process,
    ):
        try:
            yield f"http://127.0.0.1:{port}", psutil.Process(process.pid)
        finally:
            process.terminate()


def until_ready(address: str) -> None:
    """Wait until a service can search all of its corpora: it is ready once it can search one."""
    url = urlsplit(address)
    while True:
        connection = http.client.HTTPConnection(url.hostname or "", url.port)
        with contextlib.suppress(OSError), contextlib.closing(connection):
            connection.request("GET", "/readyz")
            reply = connection.getresponse()
            if reply.status == http.HTTPStatus.OK and not json.load(reply)["reasons"]:
                return
        time.sleep(0.1)
