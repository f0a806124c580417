"""Batches of requests at a model's server.

Each is an object of the store from before it is sent until its replies are kept, so that a killed refresh finds it again and
no request is sent twice.
"""

import contextlib
import uuid
from collections.abc import Iterator
from functools import cached_property
from io import BytesIO

from backends.models.endpoint_batches import MOST_BYTES, MOST_REQUESTS, BatchEndpoint, BatchState, batch_model
from backends.stores.objects import read_model
from pipeline.corpus.prompts import CaptionerInUse
from pipeline.corpus.workspace import Workspace
from ray_jobs.caption import CaptionRequest, request_of
from schemas.base import Frozen
from schemas.errors import BadInputError, WaitingError
from schemas.stages import Report, Step


class SentBatch(Frozen):
    """Requests that are at a server, or are about to be sent.

    ``name`` is in the batch's metadata, ``id`` is the server's, None until it is known.
    """

    name: str
    requests: tuple[str, ...]
    id: str | None = None


class Batches:
    """The batches of one captioner."""

    def __init__(self, workspace: Workspace, captioner: CaptionerInUse) -> None:
        self._store, self._captioner = workspace.store, captioner
        self._folder = f"batches/{captioner.captions.key}"

    @cached_property
    def model(self) -> BatchEndpoint:
        """The model, loaded on first use."""
        return batch_model(f"models.{self._captioner.name}", self._captioner.options)

    def sent(self) -> Iterator[tuple[SentBatch, BatchState]]:
        """Yield the batches with their states; what a killed refresh never sent is forgotten."""
        endpoint = self._captioner.options.endpoint
        for file in self._store.names(self._folder):
            batch = read_model(self._store, file, SentBatch)
            state = self.model.state(batch.name, batch.id)
            if state is None and endpoint is not None and (self._store.age_s(file) or 0.0) > endpoint.timeout_s:
                self.forget(batch)
                continue
            state = state or BatchState()  # a call that was cut off just now may still arrive
            if state.id != batch.id:
                self._keep(batch.model_copy(update={"id": state.id}))
            yield batch, state

    def send(self, requests: Iterator[CaptionRequest]) -> int:
        """Send requests in batches, and return how many they are."""
        total = 0
        while count := self._send(requests):
            total += count
        return total

    def forget(self, batch: SentBatch) -> None:
        """Remove a batch whose replies are kept."""
        self._store.delete(self._file(batch))

    def _send(self, requests: Iterator[CaptionRequest]) -> int:
        """Send one batch, as large as may be, and return how many requests it has."""
        ids, lines = list[str](), BytesIO()
        for request in requests:
            ids.append(request.id)
            # Without a reply, a picture that can't be decoded becomes a call, which says why.
            with contextlib.suppress(BadInputError):
                lines.write(self.model.line(request_of(request, self._captioner.options, self._store)))
            if len(ids) == MOST_REQUESTS or lines.tell() >= MOST_BYTES:
                break
        if ids:
            batch = SentBatch(name=uuid.uuid4().hex, requests=tuple(ids))
            self._keep(batch)  # before it is sent, so that a killed refresh leaves its name
            self._keep(batch.model_copy(update={"id": self.model.send(batch.name, lines.getvalue())}))
        return len(ids)

    def _file(self, batch: SentBatch) -> str:
        return f"{self._folder}/{batch.name}.json"

    def _keep(self, batch: SentBatch) -> None:
        self._store.replace(self._file(batch), batch.model_dump_json().encode())


def check_ended(workspace: Workspace, report: Report) -> None:
    """Raise ``WaitingError`` while a server works on a batch."""
    batches = [batch for captioner in workspace.captioners.values() for batch in Batches(workspace, captioner).sent()]
    if not all(state.has_ended for _, state in batches):
        raise waiting(report, sum(state.done for _, state in batches), sum(len(batch.requests) for batch, _ in batches))


def waiting(report: Report, done_count: int, total: int) -> WaitingError:
    """Report the progress of batches, and return the error."""
    report(Step.CAPTION, done_count, total, "in batches; stop, and the next refresh goes on")
    return WaitingError(f"{done_count:,} of {total:,} requests in batches are done; the next refresh goes on")
