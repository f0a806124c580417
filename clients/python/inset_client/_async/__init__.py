"""The client of a service."""

# clients/python/generate.py makes the synchronous client of this module, and the models that annotations name.
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


class AsyncClient:
    """A client of one service; requests share its connections.

    Methods are named like the operations of the OpenAPI document, and take and return its objects as dictionaries with types.

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

    async def corpora(self) -> models.CorporaResponse:
        """Return a summary of every corpus."""
        return await self._get("corpora")

    async def overview(self, corpus: str) -> models.CorpusOverview:
        """Return a summary of a corpus."""
        return await self._get("corpora/{}", corpus)

    async def versions(self, corpus: str) -> models.VersionList:
        """Return the versions of a corpus, newest first."""
        return await self._get("corpora/{}/versions", corpus)

    async def presets(self, corpus: str, **query: Unpack[models.PresetsParametersQuery]) -> models.PresetsResponse:
        """Return the retrieval presets of a corpus, its default first."""
        return await self._get("corpora/{}/presets", corpus, query=query)

    async def answers(self, corpus: str, **query: Unpack[models.AnswersParametersQuery]) -> models.AnswersResponse:
        """Return the answer presets of a corpus, its default first."""
        return await self._get("corpora/{}/answers", corpus, query=query)

    async def search(self, corpus: str, **request: Unpack[models.SearchRequest]) -> models.SearchResult:
        """Return hits, best first; a ``picture`` is base64."""
        return await self._post("corpora/{}/search", corpus, body=request)

    async def answer(self, corpus: str, **request: Unpack[models.AnswerRequest]) -> models.AnswerResult:
        """Return an answer; with ``stream``, use ``answer_events``."""
        return await self._post("corpora/{}/answer", corpus, body={**request, "stream": False})

    async def search_corpora(self, **request: Unpack[models.SearchCorporaRequest]) -> models.SearchResult:
        """Return hits of several ``corpora``, best first; without them of all."""
        return await self._post("search", body=request)

    async def answer_corpora(self, **request: Unpack[models.AnswerCorporaRequest]) -> models.AnswerResult:
        """Return one answer from several ``corpora``; without them from all."""
        return await self._post("answer", body={**request, "stream": False})

    async def feedback(self, corpus: str, **request: Unpack[models.FeedbackRequest]) -> models.FeedbackReceived:
        """Say whether an answer helped, and what is wrong with it."""
        return await self._post("corpora/{}/feedback", corpus, body=request)

    async def add_webhook(self, corpus: str, **request: Unpack[models.WebhookRequest]) -> models.WebhookMade:
        """Have an address told of new versions, changed documents or another answer; the reply has its secret."""
        return await self._post("corpora/{}/webhooks", corpus, body=request)

    async def webhooks(self, corpus: str) -> list[models.WebhookState]:
        """Return the key's own webhooks."""
        return await self._get("corpora/{}/webhooks", corpus)

    async def delete_webhook(self, corpus: str, webhook_id: str) -> None:
        """End a webhook."""
        await self._read("DELETE", "corpora/{}/webhooks/{}", corpus, webhook_id)

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

    async def figure(self, corpus: str, figure_id: str, **query: Unpack[models.FigureParametersQuery]) -> bytes:
        """Return the pixels of a figure, as PNG."""
        return await self._bytes("corpora/{}/figures/{}", corpus, figure_id, query=query)

    async def page_image(
        self, corpus: str, doc_id: str, page: int, **query: Unpack[models.PageImageParametersQuery]
    ) -> bytes:
        """Return a page as PNG; ``page`` counts from 1."""
        return await self._bytes("corpora/{}/documents/{}/pages/{}.png", corpus, doc_id, page, query=query)

    async def document(self, corpus: str, doc_id: str, **query: Unpack[models.DocumentParametersQuery]) -> bytes:
        """Return a document's PDF; of another format, what it was converted into."""
        return await self._bytes("corpora/{}/documents/{}.pdf", corpus, doc_id, query=query)

    async def original(self, corpus: str, doc_id: str, **query: Unpack[models.OriginalParametersQuery]) -> bytes:
        """Return the original, byte for byte."""
        return await self._bytes("corpora/{}/documents/{}/original", corpus, doc_id, query=query)

    async def tagged_document(
        self, corpus: str, doc_id: str, **query: Unpack[models.TaggedDocumentParametersQuery]
    ) -> bytes:
        """Return the copy of a PDF with a tag at each figure."""
        return await self._bytes("corpora/{}/documents/{}/tagged.pdf", corpus, doc_id, query=query)

    async def document_info(
        self, corpus: str, doc_id: str, **query: Unpack[models.DocumentInfoParametersQuery]
    ) -> models.DocumentInfo:
        """Return what a version says of a document."""
        return await self._get("corpora/{}/documents/{}", corpus, doc_id, query=query)

    async def documents(
        self, corpus: str, **query: Unpack[models.DocumentsParametersQuery]
    ) -> models.ListingDocumentSummary:
        """Return the documents of a version; ``cursor`` is ``next`` of the list before, as in every list."""
        return await self._get("corpora/{}/documents", corpus, query=query)

    async def outline(
        self, corpus: str, doc_id: str, **query: Unpack[models.OutlineParametersQuery]
    ) -> models.ListingOutlineSection:
        """Return the sections of a document."""
        return await self._get("corpora/{}/documents/{}/outline", corpus, doc_id, query=query)

    async def pages(
        self, corpus: str, doc_id: str, **query: Unpack[models.PagesParametersQuery]
    ) -> models.ListingDocumentPage:
        """Return the pages of a document, with what stands on each."""
        return await self._get("corpora/{}/documents/{}/pages", corpus, doc_id, query=query)

    async def document_rows(
        self, corpus: str, doc_id: str, **query: Unpack[models.DocumentRowsParametersQuery]
    ) -> models.ListingBrowsedRow:
        """Return the rows of a document, in reading order."""
        return await self._get("corpora/{}/documents/{}/rows", corpus, doc_id, query=query)

    async def document_tables(
        self, corpus: str, doc_id: str, **query: Unpack[models.DocumentTablesParametersQuery]
    ) -> models.ListingTableSummary:
        """Return the tables of a document, without their cells."""
        return await self._get("corpora/{}/documents/{}/tables", corpus, doc_id, query=query)

    async def document_figures(
        self, corpus: str, doc_id: str, **query: Unpack[models.DocumentFiguresParametersQuery]
    ) -> models.ListingFigureSummary:
        """Return the figures of a document, each where it is placed."""
        return await self._get("corpora/{}/documents/{}/figures", corpus, doc_id, query=query)

    async def figures(self, corpus: str, **query: Unpack[models.FiguresParametersQuery]) -> models.ListingFigureSummary:
        """Return the figures of all documents."""
        return await self._get("corpora/{}/figures", corpus, query=query)

    async def row(self, corpus: str, evidence_id: str, **query: Unpack[models.RowParametersQuery]) -> models.RowInfo:
        """Return a row of the index."""
        return await self._get("corpora/{}/rows/{}", corpus, evidence_id, query=query)

    async def table(self, corpus: str, evidence_id: str, **query: Unpack[models.TableParametersQuery]) -> models.TableInfo:
        """Return a table with its cells; for CSV, use ``table_file``."""
        return await self._get("corpora/{}/tables/{}", corpus, evidence_id, query={**query, "format": "json"})

    async def table_file(self, corpus: str, evidence_id: str, **query: Unpack[models.TableParametersQuery]) -> bytes:
        """Return a table in the ``format`` csv."""
        return await self._bytes("corpora/{}/tables/{}", corpus, evidence_id, query=query)

    async def figure_context(
        self, corpus: str, figure_id: str, **query: Unpack[models.FigureContextParametersQuery]
    ) -> models.ListingFigureContext:
        """Return the placements of a figure, each with its neighbours in the text."""
        return await self._get("corpora/{}/figures/{}/context", corpus, figure_id, query=query)

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

    async def _get(self, *path: object, query: Mapping[str, Any] | None = None) -> Any:
        return (await self._read("GET", *path, query=query)).json()

    async def _post(self, *path: str, body: Mapping[str, Any]) -> Any:
        return (await self._read("POST", *path, body=body)).json()

    async def _bytes(self, *path: object, query: Mapping[str, Any]) -> bytes:
        return (await self._read("GET", *path, query=query)).content

    async def _read(self, *arguments: Any, **options: Any) -> httpx.Response:
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
