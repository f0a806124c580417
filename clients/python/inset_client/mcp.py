"""A server of the Model Context Protocol over the query service: agents search, ask, and look at pages and figures.

``inset serve`` and ``inset mcp`` run it. Needs the extra ``mcp``.
"""

import inspect
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import wraps
from typing import Annotated, Any, cast

import httpx
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ResourceError
from mcp_types import ToolAnnotations
from pydantic import Field, WithJsonSchema

from inset_client._async import AsyncConnection
from inset_client._replies import ApiError

Connect = Callable[[Any], AsyncConnection]
"""Returns the connection to the service, given the HTTP request of the agent; None on standard input and output."""

Version = Annotated[str | None, Field(description="A version, as a reply names it; the live one by default.")]
SearchPreset = Annotated[
    str | None, Field(description="How to search, by the name of a preset; the default of the corpus.")
]
AnswerPreset = Annotated[
    str | None, Field(description="How to answer, by the name of a preset; the default of the corpus.")
]
History = Annotated[
    Sequence[dict[str, Any]],  # pydantic reads no TypedDict of the standard library before Python 3.12
    Field(
        description="The turns before a follow-up question, oldest first: question, answer, and evidence_ids of its citations."
    ),
]
Corpora = Annotated[str, Field(description="A corpus; several, separated by commas; or * for all.")]
FeedbackReason = Annotated[
    str | None,
    Field(description="What is wrong: wrong, incomplete, wrong_figure, wrong_place, out_of_date or nothing_found."),
]
_HIT = (
    *("corpus", "version", "evidence_id", "doc_id", "source", "title", "page", "section_path", "modality", "tagged_text"),
    *("figures", "date", "doc_type"),
)
_CITATION = (
    "n",
    "corpus",
    "version",
    "evidence_id",
    "doc_id",
    "source",
    "title",
    "page",
    "label",
    "section_path",
    "page_link",
)
_PLACED = ("caption", "doc_id", "source", "page")
_WRITES = ToolAnnotations(read_only_hint=False, destructive_hint=False, open_world_hint=False)
_READS = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)


class _Tools:
    """What agents call; ``connect`` returns the connection for a request."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect

    @asynccontextmanager
    async def _asking(self, ctx: Context) -> AsyncIterator[AsyncConnection]:
        try:
            async with self._connect(ctx.request_context.request) as client:
                yield client
        except ApiError as error:
            raise ResourceError(str(error)) from error
        except httpx.TransportError as error:
            raise ResourceError(f"the service can't be reached: {error}") from error

    async def _ask(self, ctx: Context, operation: str, corpus: str, request: Mapping[str, Any]) -> Any:
        """Return the reply of one corpus, or of several together."""
        async with self._asking(ctx) as inset:
            if corpus != "*" and "," not in corpus:
                return (await inset.request("POST", f"corpora/{{}}/{operation}", corpus, body=request)).json()
            names = [name.strip() for name in corpus.split(",") if name.strip()]
            body = {**request, "corpora": None if corpus == "*" else names or None}
            return (await inset.request("POST", operation, body=body)).json()

    async def list_corpora(self, ctx: Context) -> list[dict[str, Any]]:
        """List the corpora, with what each holds."""
        fields = ("name", "documents", "pages", "figures", "languages", "doc_types", "problem")
        async with self._asking(ctx) as inset:
            return [_select(fields, corpus) for corpus in (await inset.request("GET", "corpora")).json()]

    async def search(
        self,
        ctx: Context,
        corpus: Corpora,
        query: str,
        k: int = 5,
        offset: int = 0,
        version: Version = None,
        preset: SearchPreset = None,
        *,
        filters: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Return passages, tables and figures for a query in plain words, best first, each with its document and page."""
        request = {"query": query, "k": k, "offset": offset, "filters": filters, "version": version, "preset": preset}
        reply = await self._ask(ctx, "search", corpus, {**request, "highlight": False})
        return {**reply, "hits": [_select(_HIT, hit) for hit in reply["hits"]]}

    async def answer(
        self,
        ctx: Context,
        corpus: Corpora,
        question: str,
        version: Version = None,
        preset: AnswerPreset = None,
        history: History = (),
        *,
        filters: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Answer a question by text, tables and figures in order; ``citations`` of a part are numbers of those below."""
        request = {"question": question, "filters": filters, "version": version, "answer": preset, "history": [*history]}
        reply = await self._ask(ctx, "answer", corpus, request)
        answer_fields = _select(("version", "corpora", "abstained", "unsure", "model", "follow_up", "parts"), reply)
        return {**answer_fields, "citations": [_select(_CITATION, citation) for citation in reply["citations"]]}

    async def feedback(
        self,
        ctx: Context,
        corpus: str,
        question: str,
        helpful: bool,
        reason: FeedbackReason = None,
        comment: str = "",
        version: Version = None,
        evidence_ids: Sequence[str] = (),
        figure_ids: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Tell those who look after a corpus whether an answer helped its reader, by ids of what it cited and showed."""
        async with self._asking(ctx) as inset:
            details = {"reason": reason, "comment": comment, "evidence_ids": [*evidence_ids], "figure_ids": [*figure_ids]}
            request = {"question": question, "helpful": helpful, "version": version, **details}
            received = await inset.request("POST", "corpora/{}/feedback", corpus, body=request)
        return cast(dict[str, Any], received.json())

    async def open_page(
        self, ctx: Context, corpus: str, doc_id: str, page: int, dpi: int = 80, version: str | None = None
    ) -> Image:
        """Show a page of a document as a picture; ``page`` counts from 1."""
        async with self._asking(ctx) as inset:
            query = {"dpi": dpi, "version": version}
            path = "corpora/{}/documents/{}/pages/{}.png"
            return Image(data=(await inset.request("GET", path, corpus, doc_id, page, query=query)).content)

    async def open_figure(
        self, ctx: Context, corpus: str, figure_id: str, version: str | None = None
    ) -> tuple[Image, dict[str, Any]]:
        """Show a figure as a picture, with its caption and the text round it at each place where it stands."""
        async with self._asking(ctx) as inset:
            figure, query = ("corpora/{}/figures/{}", corpus, figure_id), {"around": 1, "limit": 3, "version": version}
            context = (await inset.request("GET", f"{figure[0]}/context", *figure[1:], query=query)).json()
            pixels = await inset.request("GET", *figure, query={"version": context["version"]})
        placements = [
            _select(_PLACED, placement) | {side: [row["text"] for row in placement[side]] for side in ("before", "after")}
            for placement in context["items"]
        ]
        return Image(data=pixels.content), {"version": context["version"], "places": placements}


def server_of(connect: Connect, contract: Mapping[str, Any]) -> MCPServer:
    """Return the server; ``connect`` returns the connection for a request, ``contract`` is the service's OpenAPI document."""
    server = MCPServer(
        "inset",
        instructions="Evidence from technical PDFs. list_corpora names what can be searched. Cite source and page of what you "
        "use. <image:…> in a text marks where a figure stands; open_figure shows one, open_page the page.",
        log_level="WARNING",
        subscriptions=False,
    )
    tools = _Tools(connect)
    schemas = contract["components"]["schemas"]
    filters = _without_references(schemas["Filters"]["properties"], schemas)
    with_filters = (_takes_filters(tools.search, filters), _takes_filters(tools.answer, filters))
    for tool in (tools.list_corpora, *with_filters, tools.open_page, tools.open_figure):
        server.tool(annotations=_READS, structured_output=False)(tool)
    server.tool(annotations=_WRITES, structured_output=False)(tools.feedback)
    return server


def _without_references(schema: Any, schemas: Mapping[str, Any]) -> Any:
    """Return a JSON schema with the schemas that it refers to in place."""
    if isinstance(schema, list):
        return [_without_references(part, schemas) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _without_references(schemas[schema["$ref"].rpartition("/")[2]], schemas)
    return {name: _without_references(part, schemas) for name, part in schema.items()}


def _takes_filters(tool: Callable[..., Any], schemas: Mapping[str, Any]) -> Callable[..., Any]:
    """Return a tool with a parameter for each filter by its schema, all of which ``tool`` receives as ``filters``."""

    @wraps(tool)
    async def with_filters(**arguments: Any) -> Any:
        filters = {name: arguments.pop(name) for name in schemas}
        return await tool(
            **arguments, filters={name: values for name, values in filters.items() if values not in (None, [])}
        )

    parameters = [parameter for name, parameter in inspect.signature(tool).parameters.items() if name != "filters"]
    filter_parameters = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=schema.get("default"),
            annotation=Annotated[Any, WithJsonSchema(schema)],
        )
        for name, schema in schemas.items()
    ]
    with_filters.__signature__ = inspect.Signature([*parameters, *filter_parameters])  # type: ignore[attr-defined]
    with_filters.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return with_filters


def _select(names: tuple[str, ...], fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: fields[name] for name in names}
