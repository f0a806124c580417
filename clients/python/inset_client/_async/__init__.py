"""What the client of a service is made on; ``generate.py`` makes the client itself, its synchronous half, and the models."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import TYPE_CHECKING, Any, Self, Unpack
from urllib.parse import quote

import httpx

from inset_client._replies import error_of, event_of

if TYPE_CHECKING:
    from inset_client import models
    from inset_client._replies import AnswerEvent


class AsyncConnection:
    """The connections to one service, which requests share.

    Args:
        url: Address of the service, such as ``https://search.example.org``.
        key: API key, if the service asks for one.
        retries: Further tries of a request that the service refuses with a time to wait (429 or 503 with Retry-After).
        longest_wait_s: A longer wait is not waited for: the error is raised at once.
        timeout_s: Longest silence of the service; an answer of a model takes minutes.
        transport: What carries requests; by default the network.
        headers: Further headers of every request.

    Raises:
        ApiError: By every method, if the service answers with an error.
        httpx.TransportError: By every method, if the service can't be reached.
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        retries: int = 3,
        longest_wait_s: float = 30.0,
        timeout_s: float = 300.0,
        transport: httpx.AsyncBaseTransport | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._retries, self._longest_wait_s = retries, longest_wait_s
        self._http = httpx.AsyncClient(
            base_url=url,
            headers={**(headers or {}), **({"authorization": f"Bearer {key}"} if key else {})},
            timeout=httpx.Timeout(timeout_s, connect=10.0),
            transport=transport,
        )

    async def __aenter__(self) -> Self:
        """Return the client; it is closed at the end."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connections."""
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def answer_events(
        self, corpus: str, **request: Unpack[models.AnswerRequest]
    ) -> AsyncGenerator[AnswerEvent, None]:
        """Yield an answer while it is written: start, then text and parts, last the whole result.

        The service stops writing when the iterator is closed.
        """
        response = await self._send("POST", "corpora/{}/answer", corpus, body={**request, "stream": True})
        try:
            unfinished_block = b""
            async for received in response.aiter_bytes():
                *blocks, unfinished_block = (unfinished_block + received).split(b"\n\n")
                for block in blocks:
                    if (event := event_of(block.decode())) is not None:
                        yield event
        finally:
            await response.aclose()

    async def table_file(self, corpus: str, evidence_id: str, **query: Unpack[models.TableParametersQuery]) -> bytes:
        """Return a table in the ``format`` csv."""
        return (await self.request("GET", "corpora/{}/tables/{}", corpus, evidence_id, query=query)).content

    async def items(self, listed: Callable[..., Any], *names: str, **query: Any) -> AsyncGenerator[Any, None]:
        """Yield the items of a list, page after page, all of one version: ``items(client.documents, "handbooks")``.

        Args:
            listed: The method that returns a page.
            names: Its corpus, and its document or figure if it takes one.
            query: Its further parameters.
        """
        while True:
            page = await listed(*names, **query)
            for item in page["items"]:
                yield item
            if page["next"] is None:
                return
            query = {**query, "cursor": page["next"]}

    async def request(self, *arguments: Any, **options: Any) -> httpx.Response:
        """Return a whole response that is a success; arguments as of ``_send``."""
        response = await self._send(*arguments, **options)
        await response.aread()
        return response

    async def _send(
        self,
        method: str,
        path: str,
        *names: object,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> httpx.Response:
        """Return a response that is a success and not read yet; ``path`` has {} where one of ``names`` stands."""
        url = "/v1/" + path.format(*(quote(str(name), safe="") for name in names))
        params = {name: value for name, value in (query or {}).items() if value is not None}
        for retries_left in reversed(range(self._retries + 1)):
            request = self._http.build_request(method, url, params=params, json=body)
            response = await self._http.send(request, stream=True)
            if response.is_success:
                break
            await response.aread()
            error = error_of(response)
            wait_s = error.retry_after_s
            if error.status not in (429, 503) or wait_s is None or wait_s > self._longest_wait_s or not retries_left:
                raise error
            await asyncio.sleep(wait_s)
        return response
