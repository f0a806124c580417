"""A server that speaks OpenAI's protocol as far as Inset needs it, and answers by a script.

::

    with endpoint_server.running() as server:
        server.replies = lambda call: "A red square." if call.picture else "Words."
        server.script(status(429, headers={"Retry-After": "7"}), cut(), "Then this.")
        server.script(answer("See <img1>.", pieces=["See <im", "g1>."]), cut(after=2), hang(after=1))

A call that wants a stream gets the same answers in pieces, word by word unless the script says where to split them.

Without a script each call gets words derived from its picture, or from its prompt: the same of the same. A call for
embeddings gets a vector of each text's words.
"""

import base64
import contextlib
import hashlib
import json
import re
import select
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar

MODEL = "tiny-vlm"


@dataclass(frozen=True)
class Call:
    """A request as it arrived."""

    json: dict[str, Any]
    headers: dict[str, str]
    path: str

    @property
    def prompt(self) -> str:
        """The words of its messages."""
        return "\n".join(part["text"] for part in self._parts() if part["type"] == "text")

    @property
    def pictures(self) -> list[bytes]:
        """Its pictures as they were sent, in order."""
        urls = [part["image_url"]["url"] for part in self._parts() if part["type"] == "image_url"]
        assert all(re.match("data:image/[a-z]+;base64,.", url) for url in urls), "a picture isn't a data URL"
        return [base64.b64decode(url.partition(",")[2], validate=True) for url in urls]

    @property
    def picture(self) -> bytes | None:
        """Its first picture; None where it has none."""
        return next(iter(self.pictures), None)

    @property
    def texts(self) -> list[str]:
        """The texts of a call for embeddings."""
        return [str(text) for text in self.json["input"]]

    def _parts(self) -> Iterator[dict[str, Any]]:
        for message in self.json["messages"]:
            content = message["content"]
            yield from [{"type": "text", "text": content}] if isinstance(content, str) else content


@dataclass(frozen=True)
class Reaction:
    """What a call gets: a chat completion or any status and body, perhaps broken off or byte by byte; or nothing at all.

    ``pieces`` are those of a stream, of which ``after`` come before it breaks off or hangs.
    """

    status: int = 200
    body: bytes = b""
    completion: dict[str, Any] | None = None
    headers: dict[str, str] = field(default_factory=dict)
    is_cut: bool = False
    is_slow: bool = False
    hangs: bool = False
    pieces: Iterable[str] = ()
    after: int = 0


Replies = Callable[[Call], str | Reaction]


def answer(
    text: str | None,
    *,
    finish_reason: str = "stop",
    refusal: str | None = None,
    model: str | None = None,
    pieces: Iterable[str] | None = None,
) -> Reaction:
    """Return a chat completion.

    Args:
        text: What it says.
        finish_reason: Why it ends.
        refusal: What it says instead, where it refuses.
        model: What it answers as; None: as the name that was asked for.
        pieces: The text as a stream splits it; None: by words.
    """
    message = {"role": "assistant", "content": text, "refusal": refusal}
    choice = {"index": 0, "message": message, "finish_reason": finish_reason}
    if pieces is None:
        pieces = re.findall(r"\S+\s*|\s+", text or "")
    return Reaction(completion={"choices": [choice], "model": model}, pieces=pieces)


def whole(body: object) -> Reaction:
    """Return any JSON with status 200."""
    return Reaction(body=json.dumps(body).encode())


def text(body: str) -> Reaction:
    """Return any text with status 200, called JSON."""
    return Reaction(body=body.encode())


def status(number: int, message: str = "no", *, headers: dict[str, str] | None = None, **error: str) -> Reaction:
    """Return an error; ``error`` are fields of it, such as ``code`` or ``param``."""
    body = json.dumps({"error": {"message": message, **error}}).encode()
    return Reaction(number, body=body, headers=headers or {})


def cut(after: int = 1) -> Reaction:
    """Return half an answer, or so many pieces of a stream: then the connection breaks."""
    return replace(answer("Half of this never arrives."), is_cut=True, after=after)


def drip() -> Reaction:
    """Return an answer byte by byte, so that there is always a little more to come."""
    return replace(answer("A word " * 1000), is_slow=True)


def hang(after: int = 0) -> Reaction:
    """Return nothing, or so many pieces of a stream, until the client goes away or the server ends."""
    return replace(answer("Half of this never arrives."), hangs=True, after=after)


def by_content(call: Call) -> str:
    """Return words that depend on the picture, or else on the prompt, alone."""
    digest = hashlib.sha256(call.picture if call.picture is not None else call.prompt.encode()).hexdigest()
    return f"It shows {' '.join(digest[start : start + 4] for start in range(0, 24, 4))}."


def by_words(text: str) -> list[float]:
    """Return a vector of 16 numbers, not of length 1, which depends on the words of a text alone."""
    vector = [0.01] * 16
    for word in re.findall(r"\w+", text.lower()):
        vector[hashlib.sha256(word.encode()).digest()[0] % 16] += 1
    return vector


def embeddings(vectors: Iterable[Iterable[float]], *, model: str) -> Reaction:
    """Return one embedding a text, last one first, as the protocol allows."""
    data = [{"object": "embedding", "index": index, "embedding": [*vector]} for index, vector in enumerate(vectors)]
    usage = {"prompt_tokens": 10 * len(data), "total_tokens": 10 * len(data)}
    return whole({"object": "list", "model": model, "data": data[::-1], "usage": usage})


class EndpointServer:
    """The server. ``calls`` holds every call, in the order of arrival; ``at_once`` is how many ran at once at most.

    ``mistakes`` are what the script raised; each call that met one got a 500.
    """

    def __init__(self) -> None:
        self.replies: Replies = by_content
        self.vector: Callable[[str], list[float]] = by_words
        self.calls: list[Call] = []
        self.at_once = 0
        self.mistakes: list[Exception] = []
        self._scripted: deque[str | Reaction] = deque()
        self._running = 0
        self._lock = threading.Lock()
        self._gone = threading.Semaphore(0)
        self._ends = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # A body is a write of its own: without this it waits for the headers to be acknowledged, 40 ms a reply.
            disable_nagle_algorithm = True

            def log_message(self, *_: object) -> None:
                """Say nothing."""

            def do_POST(self) -> None:
                server.handle(self)

            def do_GET(self) -> None:
                server.handle(self)

        class Server(ThreadingHTTPServer):
            def handle_error(self, request: Any, client_address: Any) -> None:
                """Show what goes wrong, but for a connection that its client, which may be dead, has closed."""
                if not isinstance(sys.exception(), ConnectionError):
                    super().handle_error(request, client_address)

        self._http = Server(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}/v1"
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    @property
    def prompts(self) -> list[str]:
        """The words of every call."""
        return [call.prompt for call in self.calls]

    @property
    def pictures(self) -> list[bytes]:
        """The pictures of the calls that had one."""
        return [call.picture for call in self.calls if call.picture is not None]

    def script(self, *reactions: str | Reaction) -> None:
        """Let the next calls get these, in the order of arrival, and those after them what ``replies`` makes of them."""
        with self._lock:
            self._scripted.extend(reactions)

    def wait_until_gone(self) -> None:
        """Return when a client has gone away from a call that hung or streamed; each is waited for once."""
        assert self._gone.acquire(timeout=60), "no client has gone away"

    def close(self) -> None:
        """End the server, and what hangs."""
        self._ends.set()
        self._http.shutdown()
        self._http.server_close()

    def handle(self, request: BaseHTTPRequestHandler) -> None:
        """Answer a request."""
        size = int(request.headers.get("Content-Length", 0))
        if len(body := request.rfile.read(size)) < size:
            raise ConnectionResetError("the client is gone")
        call = Call(
            json.loads(body or b"{}"), {name.lower(): value for name, value in request.headers.items()}, request.path
        )
        with self._lock:
            self.calls.append(call)
            self._running += 1
            self.at_once = max(self.at_once, self._running)
            scripted = self._scripted.popleft() if self._scripted else None
        try:
            reaction = self._reaction(call, scripted)
        except Exception as error:  # noqa: BLE001  the test's own; it is raised where the test ends
            self.mistakes.append(error)
            reaction = status(500, repr(error))
        try:
            try:
                if reaction.hangs and not reaction.after:
                    self._hold(request)
            finally:
                with self._lock:
                    self._running -= 1
            if call.json.get("stream") and reaction.completion is not None:
                self._send_stream(request, reaction, call)
            else:
                self._send(request, reaction)
        except ConnectionError:  # a client that waits no longer has closed it
            request.close_connection = True
            self._gone.release()

    def _reaction(self, call: Call, scripted: str | Reaction | None) -> Reaction:
        if call.path == "/v1/embeddings":
            if isinstance(scripted, Reaction):
                return scripted
            return embeddings(map(self.vector, call.texts), model=call.json["model"])
        if call.path != "/v1/chat/completions":
            return status(404, "Not Found")
        reaction = self.replies(call) if scripted is None else scripted
        if isinstance(reaction, str):
            reaction = answer(reaction)
        return replace(reaction, body=completion_of(reaction, call)) if reaction.completion is not None else reaction

    def _hold(self, request: BaseHTTPRequestHandler) -> None:
        """Return when the server ends; raise ``ConnectionResetError`` when the client goes away."""
        while not self._ends.is_set():
            if select.select([request.connection], [], [], 0.01)[0] and not request.connection.recv(1, socket.MSG_PEEK):
                raise ConnectionResetError("the client is gone")

    def _send_stream(self, request: BaseHTTPRequestHandler, reaction: Reaction, call: Call) -> None:
        """Send a completion as server-sent events: its pieces, its end, and its usage where the call wants that."""
        request.send_response(200)
        request.send_header("Content-Type", "text/event-stream")
        request.send_header("Transfer-Encoding", "chunked")
        request.end_headers()
        completion = json.loads(reaction.body)
        (choice,) = completion["choices"]

        def send(data: str) -> None:
            event = f"data: {data}\n\n".encode()
            request.wfile.write(f"{len(event):x}\r\n".encode() + event + b"\r\n")

        def chunk(delta: dict[str, Any], finish_reason: str | None = None) -> None:
            choices = [{"index": 0, "delta": delta, "finish_reason": finish_reason}]
            send(json.dumps({**completion, "object": "chat.completion.chunk", "choices": choices, "usage": None}))

        for number, piece in enumerate(reaction.pieces):
            if number == reaction.after and (reaction.is_cut or reaction.hangs):
                if reaction.hangs:
                    self._hold(request)
                request.close_connection = True
                return
            chunk({"content": piece})
        refusal = choice["message"]["refusal"]
        chunk({"refusal": refusal} if refusal else {}, choice["finish_reason"])
        if (call.json.get("stream_options") or {}).get("include_usage"):
            send(json.dumps({**completion, "object": "chat.completion.chunk", "choices": []}))
        send("[DONE]")
        request.wfile.write(b"0\r\n\r\n")

    def _send(self, request: BaseHTTPRequestHandler, reaction: Reaction) -> None:
        request.send_response(reaction.status)
        for name, value in {"Content-Type": "application/json", **reaction.headers}.items():
            request.send_header(name, value)
        request.send_header("Content-Length", str(len(reaction.body)))
        request.end_headers()
        if reaction.is_slow:
            for byte in reaction.body:
                request.wfile.write(bytes([byte]))
                self._ends.wait(0.05)
            return
        if reaction.is_cut:
            request.close_connection = True
        request.wfile.write(reaction.body[: len(reaction.body) // 2] if reaction.is_cut else reaction.body)


def completion_of(reaction: Reaction, call: Call) -> bytes:
    """Return a completion with what every one has: the model asked for, and tokens, words here and 100 for a picture."""
    completion = reaction.completion or {}
    output_tokens = sum(len((choice["message"]["content"] or "").split()) for choice in completion["choices"])
    read = len(call.prompt.split()) + 100 * (call.picture is not None)
    usage = {"prompt_tokens": read, "completion_tokens": output_tokens, "total_tokens": read + output_tokens}
    model = completion["model"] or call.json["model"]
    return json.dumps(
        {"id": "chatcmpl-1", "object": "chat.completion", "created": 0, **completion, "model": model, "usage": usage}
    ).encode()


Lent = TypeVar("Lent", bound=EndpointServer)


@contextlib.contextmanager
def lent(server: Lent) -> Iterator[Lent]:
    """Lend a server until the block ends.

    Raises:
        Exception: What its script raised.
    """
    try:
        yield server
    finally:
        server.close()
    for mistake in server.mistakes:
        raise mistake


def running() -> contextlib.AbstractContextManager[EndpointServer]:
    """Lend a server of completions and embeddings."""
    return lent(EndpointServer())
