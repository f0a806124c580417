"""Batches of requests to a server that speaks OpenAI's protocol, ``/files`` and ``/batches``: half the price, within a day.

Calls are retried as in ``endpoint_calls.py``. A batch has a name in its metadata, by which it is found again where the reply to
its creation was lost; without one of that name a server has at most the file, which costs nothing.
"""

import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from backends.models.devices import Outcome
from backends.models.endpoint import Endpoint
from backends.models.endpoint_calls import Parameters
from backends.models.files import check_extra
from schemas.corpus.models import ModelEntry
from schemas.errors import UserError
from schemas.models import Request, Usage

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from openai.types import Batch

_logger = logging.getLogger(__name__)

Answer = TypeVar("Answer")

MOST_REQUESTS, MOST_BYTES = 50_000, 50 << 20
"""Bounds of one batch; OpenAI's own are 50,000 and 200 MB, and it is in memory."""

_NAME = "inset"
_URL: Final = "/v1/chat/completions"
_ENDED = ("completed", "failed", "expired", "cancelled")


@dataclass(frozen=True)
class BatchState:
    """A batch at a server: how many requests are done, whether no more will be, and the file with the replies."""

    id: str | None = None
    done: int = 0
    has_ended: bool = False
    output: str | None = None


class BatchEndpoint(Endpoint):
    """An ``Endpoint`` that takes batches, too; raises ``UserError`` if the server doesn't, or lost one."""

    def line(self, request: Request) -> bytes:
        """Return the line of a request in a batch's file; raise ``BadInputError`` if a picture can't be decoded."""
        body = self.body(request)
        return json.dumps({"custom_id": request.id, "method": "POST", "url": _URL, "body": body}).encode() + b"\n"

    def send(self, name: str, lines: bytes) -> str:
        """Send lines as a batch of a name, and return its id; one that the server has by now isn't made again."""

        async def send(client: "AsyncOpenAI") -> "Batch":
            if sent := await _named(client, name):
                return sent
            file = await client.files.create(file=(f"{name}.jsonl", lines), purpose="batch")
            return await client.batches.create(
                input_file_id=file.id, endpoint=_URL, completion_window="24h", metadata={_NAME: name}
            )

        return self._called(name, send).id

    def state(self, name: str, batch_id: str | None) -> BatchState | None:
        """Return the state of a batch by its id, or by its name if that isn't known; None if there is none of that name."""

        async def find(client: "AsyncOpenAI") -> "Batch | None":
            return await (client.batches.retrieve(batch_id) if batch_id else _named(client, name))

        batch = self._called(name, find)
        if batch is None:
            return None
        if batch.errors and batch.errors.data:
            _logger.warning("%s: batch %s: %s", self.where, batch.id, self.shown(str(batch.errors.data[0].message)))
        counts = batch.request_counts
        done_count = counts.completed + counts.failed if counts else 0
        return BatchState(batch.id, done_count, batch.status in _ENDED, batch.output_file_id)

    def outcomes(self, name: str, state: BatchState, requests: Iterable[str]) -> Iterator[tuple[str, Outcome, Usage]]:
        """Yield the outcome of each of the requests that the server has replied to, once, with what it used."""

        async def read(client: "AsyncOpenAI") -> bytes:
            return (await client.files.content(state.output)).content if state.output else b""

        unanswered = set(requests)
        for line in self._called(name, read).splitlines():
            try:
                reply = json.loads(line)
                request_id, response = reply["custom_id"], reply["response"]
                if response["status_code"] != 200:
                    continue
                body = response["body"]
                unanswered.remove(request_id)
            except (ValueError, LookupError, TypeError):  # no reply, one to something else, or a second one
                continue
            yield request_id, *self.outcome_in(body)

    def _called(self, name: str, send: "Callable[[AsyncOpenAI], Awaitable[Answer]]") -> Answer:
        from openai import NotFoundError

        async def found(_: Parameters) -> Answer:
            try:
                return await send(self.client)
            except NotFoundError as error:
                raise UserError(
                    f"{self.where}: its server takes no batches (then set mode: calls), or doesn't have batch {name}: "
                    f"set endpoint.url to the server that has, or delete {name}.json in batches/ of the store to send its "
                    f"requests, and pay for them, again"
                ) from error

        with self.connected() as portal:
            answer: Answer = portal.call(self.retried, partial(self.call, found, dict, Usage()))
            return answer


def batch_model(config_key: str, captioner: ModelEntry) -> BatchEndpoint:
    """Return a model behind an endpoint, loaded."""
    check_extra(f"{config_key}: an endpoint", "endpoints", "openai")
    return BatchEndpoint(config_key, captioner)


async def _named(client: "AsyncOpenAI", name: str) -> "Batch | None":
    async for batch in client.batches.list(limit=100):
        if (batch.metadata or {}).get(_NAME) == name:
            return batch
    return None
