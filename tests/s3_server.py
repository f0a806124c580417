"""A real S3 server process for tests, and a proxy before it that breaks replies as networks do."""

import contextlib
import http.client
import os
import re
import subprocess
import sys
import threading
import urllib.parse
from collections import deque
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal

from tests.free_port import free_port
from tests.waiting import is_open, wait_for

Fault = Literal["whole", "busy", "denied", "cut", "flipped", "lost", "tokenless"]
"""What happens to a reply: nothing; 503, or 403, instead of the request being passed on; it breaks off in the middle of its
body; a bit of its body is turned; it never arrives, though the server has done what it was asked; it is a page of a listing
that names no next one."""

_DENIED = b"<?xml version='1.0'?><Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"


@contextlib.contextmanager
def running(log: int = subprocess.DEVNULL) -> Iterator[str]:
    """Lend a server until the block ends; its address. ``log`` is an open file's number, which gets a line a request."""
    port = free_port()
    command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log, env=dict(os.environ))
    try:
        wait_for(lambda: is_open(port) or process.poll() is not None, "the S3 server")
        assert process.poll() is None, "the S3 server ended while starting"
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


class FaultyNetwork:
    """A proxy before a server: each request takes the next of ``faults``, if there is one left for its method."""

    def __init__(self, server: str) -> None:
        self.faults: dict[str, deque[Fault]] = {}
        self._target = urllib.parse.urlsplit(server).netloc
        network = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # A body is a write of its own: without this it waits for the headers to be acknowledged, 40 ms a reply.
            disable_nagle_algorithm = True

            def log_message(self, *_: object) -> None:
                """Say nothing."""

            def do_GET(self) -> None:
                network.pass_on(self)

            do_PUT = do_POST = do_HEAD = do_DELETE = do_GET  # noqa: N815  http.server looks for these names

        self._proxy = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._proxy.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._proxy.server_address[1]}"
        threading.Thread(target=self._proxy.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def close(self) -> None:
        """End the proxy."""
        self._proxy.shutdown()
        self._proxy.server_close()

    def breaks(self, method: str, *faults: Fault) -> None:
        """Let the next requests of a method meet these faults, in order."""
        self.faults[method] = deque(faults)

    def pass_on(self, request: BaseHTTPRequestHandler) -> None:
        """Answer a request with what the server says, or with what is left of it."""
        waiting = self.faults.get(request.command)
        fault = waiting.popleft() if waiting else None
        sent = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        if fault == "busy":
            request.send_response(503)
            request.send_header("Content-Length", "0")
            request.end_headers()
            return
        if fault == "denied":
            request.send_response(403)
            request.send_header("Content-Length", str(len(_DENIED)))
            request.end_headers()
            request.wfile.write(_DENIED)
            return
        server = http.client.HTTPConnection(self._target)
        server.request(request.command, request.path, sent, dict(request.headers))
        reply = server.getresponse()
        body = reply.read()
        server.close()
        if fault == "lost":
            request.close_connection = True
            return
        if fault == "tokenless":
            body = re.sub(rb"<NextContinuationToken>.*?</NextContinuationToken>", b"", body)
        request.send_response(reply.status)
        for name, value in reply.getheaders():
            if name.lower() not in ("connection", "transfer-encoding", "content-length", "date", "server"):
                request.send_header(name, value)
        length = reply.getheader("Content-Length") if request.command == "HEAD" else None
        request.send_header("Content-Length", length or str(len(body)))
        request.end_headers()
        if fault == "cut":
            body = body[: len(body) // 2]
            request.close_connection = True
        elif fault == "flipped" and body:
            body = bytes([body[0] ^ 1]) + body[1:]
        if request.command != "HEAD":
            request.wfile.write(body)
