"""An ``EndpointServer`` that takes batches, too: ``/files`` and ``/batches`` as OpenAI documents them, with their failures.

A batch is done at its third look, or as ``fates`` says of its requests. ``paid`` counts how often each prompt was worked on, by
call or in a batch. ``faults`` are met once each, by the first call that fits.
"""

import contextlib
import json
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler
from typing import Any, Literal

from tests.endpoint_server import Call, EndpointServer, Reaction, answer, completion_of, lent

Fate = Literal["done", "expired", "failed", "refused"]


@dataclass(frozen=True)
class Fault:
    """What happens to one call: ``then`` is "cut", or a status, and ``works`` says whether the server does its work before."""

    call: str
    then: Literal["cut"] | int
    works: bool = False
    run: Callable[[], None] | None = None


@dataclass
class Batch:
    """A batch, and how often it was looked at."""

    id: str
    file: str
    metadata: dict[str, str]
    looks: int = 0
    status: str = "validating"
    output: str | None = None
    errors: str | None = None
    counts: dict[str, int] = field(default_factory=dict)


class BatchServer(EndpointServer):
    """The server; ``asked`` holds every call but those for completions."""

    def __init__(self) -> None:
        super().__init__()
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, Batch] = {}
        self.hidden: set[str] = set()
        self.paid: Counter[str] = Counter()
        self.asked: list[str] = []
        self.faults: list[Fault] = []
        self.fates: Callable[[str], Fate] = lambda _prompt: "done"
        self.ends_as = "completed"
        self.looks = 3
        self.spoil: Callable[[list[str]], list[str]] = lambda lines: lines
        self.words: Callable[[Call], str] = self.by_caption
        self.replies = self._called
        self._changes = threading.Lock()

    @staticmethod
    def by_caption(call: Call) -> str:
        """Say which figure it is."""
        caption = next(line for line in call.prompt.splitlines() if line.startswith("Caption: "))
        return f"A photograph on a bench, taken for {caption.partition(': ')[2]}, lit from the left and a little blurred."

    def _called(self, call: Call) -> str:
        self.paid[call.prompt] += 1
        return self.words(call)

    def handle(self, request: BaseHTTPRequestHandler) -> None:
        """Answer a request."""
        if not request.path.startswith(("/v1/files", "/v1/batches")):
            super().handle(request)
            return
        body = request.rfile.read(int(request.headers.get("Content-Length", 0)))
        asked = f"{request.command} {request.path.partition('?')[0]}"
        with self._changes:
            self.asked.append(asked)
            fault = next((fault for fault in self.faults if re.fullmatch(fault.call, asked)), None)
            if fault is not None:
                self.faults.remove(fault)
            reaction = self._work(request, asked, body) if fault is None or fault.works else Reaction(500, b"{}")
        with contextlib.suppress(ConnectionError):
            if fault is not None and fault.run is not None:
                fault.run()
            if fault is None or fault.then == 200:
                self._send(request, reaction)
            elif fault.then == "cut":
                request.close_connection = True
            else:
                self._send(request, Reaction(fault.then, json.dumps({"error": {"message": "busy"}}).encode()))

    def _work(self, request: BaseHTTPRequestHandler, asked: str, body: bytes) -> Reaction:
        match asked.split("/")[2:], request.command:
            case ["files"], "POST":
                file_id = self._keep(_uploaded(request.headers["Content-Type"], body))
                return _json({"id": file_id, "object": "file", "purpose": "batch", "bytes": len(body)})
            case ["files", file_id, "content"], "GET" if file_id in self.files:
                return Reaction(body=self.files[file_id])
            case ["batches"], "POST":
                wanted = json.loads(body)
                assert (wanted["endpoint"], wanted["completion_window"]) == ("/v1/chat/completions", "24h")
                batch = Batch(f"batch_{len(self.batches)}", wanted["input_file_id"], wanted["metadata"])
                self.batches[batch.id] = batch
                prompts = [Call(json.loads(line)["body"], {}, "").prompt for line in self.files[batch.file].splitlines()]
                done = [prompt for prompt in prompts if self.fates(prompt) in ("done", "refused")]
                self.paid.update(done if self.ends_as != "failed" else [])  # whether anybody looks or not
                return _json(_shown(batch))
            case ["batches"], "GET":
                shown = [_shown(batch) for batch in self.batches.values() if batch.id not in self.hidden]
                after = re.search(r"after=(\w+)", request.path)
                names = [batch["id"] for batch in shown]
                rest = shown[names.index(after[1]) + 1 :] if after else shown
                return _json({"object": "list", "data": rest[:1], "has_more": len(rest) > 1})
            case ["batches", batch_id], "GET" if batch_id in self.batches:
                batch = self.batches[batch_id]
                batch.looks += 1
                if batch.looks == self.looks:
                    self._finish(batch)
                return _json(_shown(batch))
        return Reaction(404, json.dumps({"error": {"message": "no such thing"}}).encode())

    def _keep(self, data: bytes) -> str:
        file_id = f"file-{len(self.files)}"
        self.files[file_id] = data
        return file_id

    def _finish(self, batch: Batch) -> None:
        batch.status = self.ends_as
        lines = [json.loads(line) for line in self.files[batch.file].splitlines()]
        if self.ends_as == "failed":
            return
        output: list[str] = []
        errors: list[str] = []
        for line in lines:
            assert (line["method"], line["url"]) == ("POST", "/v1/chat/completions")
            call = Call(line["body"], {}, line["url"])
            fate = self.fates(call.prompt)
            reply: dict[str, Any] = {"id": f"batch_req_{line['custom_id'][:8]}", "custom_id": line["custom_id"]}
            if fate in ("done", "refused"):
                said = answer(None, refusal="No.") if fate == "refused" else answer(self.words(call))
                body = json.loads(completion_of(said, call))
                output.append(
                    json.dumps(reply | {"response": {"status_code": 200, "request_id": "r", "body": body}, "error": None})
                )
            elif fate == "expired":
                error = {"code": "batch_expired", "message": "This request could not be executed before the deadline."}
                errors.append(json.dumps(reply | {"response": None, "error": error}))
            else:
                failed = {"status_code": 500, "request_id": "r", "body": {"error": {"message": "server error"}}}
                errors.append(json.dumps(reply | {"response": failed, "error": None}))
        random.Random(1).shuffle(output)
        batch.counts = {"total": len(lines), "completed": len(output), "failed": len(errors)}
        batch.output = self._keep("\n".join(self.spoil(output)).encode()) if output else None
        batch.errors = self._keep("\n".join(errors).encode()) if errors else None


def _json(body: object) -> Reaction:
    return Reaction(body=json.dumps(body).encode())


def _shown(batch: Batch) -> dict[str, Any]:
    failed = {"object": "list", "data": [{"code": "token_limit_exceeded", "message": "Enqueued token limit reached"}]}
    return {
        "id": batch.id,
        "object": "batch",
        "endpoint": "/v1/chat/completions",
        "input_file_id": batch.file,
        "completion_window": "24h",
        "status": batch.status,
        "created_at": int(time.time()),
        "output_file_id": batch.output,
        "error_file_id": batch.errors,
        "errors": failed if batch.status == "failed" else None,
        "request_counts": {"total": 0, "completed": 0, "failed": 0} | batch.counts,
        "metadata": batch.metadata,
    }


def _uploaded(content_type: str, body: bytes) -> bytes:
    """Return the file of a form, whose purpose must be a batch."""
    form = BytesParser().parsebytes(b"Content-Type: " + content_type.encode() + b"\r\n\r\n" + body)
    parts: dict[str, bytes] = {}
    for part in form.walk():
        if name := part.get_param("name", header="content-disposition"):
            parts[str(name)] = part.get_payload(decode=True)  # type: ignore[assignment]
    assert parts["purpose"] == b"batch"
    return parts["file"]


def running() -> contextlib.AbstractContextManager[BatchServer]:
    """Lend a server of batches."""
    return lent(BatchServer())
