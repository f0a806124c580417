"""The Model Context Protocol at ``/mcp``.

Its tools send requests to the service itself, with the caller's headers and address, so that keys, limits and logs hold for
agents as for others.
"""

import asyncio

import httpx
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from query_service.access import MCP
from query_service.stream import disconnected

_BETWEEN = ("host", "connection", "content-", "transfer-", "accept", "mcp-", "origin", "cookie")
"""What headers start with that are about the request of the protocol alone."""


class _Endpoint:
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        protocol: Starlette | None = getattr(scope["app"].state, "protocol", None)
        if protocol is None:
            raise HTTPException(503, "the Model Context Protocol is being loaded", {"retry-after": "2"})
        await protocol(scope, receive, send)


ROUTE = Route(MCP, _Endpoint(), methods=["POST"], include_in_schema=False)
"""The protocol is stateless here, so there is no stream to get and no session to delete."""


async def run(app: FastAPI) -> None:
    """Answer at ``ROUTE`` until cancelled."""
    protocol = await asyncio.to_thread(_protocol, app)
    async with protocol.router.lifespan_context(protocol):
        app.state.protocol = protocol
        try:
            await asyncio.Event().wait()
        finally:
            del app.state.protocol


def _protocol(app: FastAPI) -> Starlette:
    # Imported here, since that takes half a second.
    from mcp.server.transport_security import TransportSecuritySettings

    from inset_client._async import AsyncConnection
    from inset_client.mcp import server_of

    def connect(request: Request) -> AsyncConnection:
        transport = httpx.ASGITransport(_while_connected(app, request), client=request.client or ("", 0))
        headers = {name: value for name, value in request.headers.items() if not name.startswith(_BETWEEN)}
        return AsyncConnection("http://localhost", retries=0, transport=transport, headers=headers)

    return server_of(connect, app.openapi()).streamable_http_app(
        streamable_http_path=MCP,
        json_response=True,
        stateless_http=True,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),  # query_service.guard does it
    )


def _while_connected(app: ASGIApp, request: Request) -> ASGIApp:
    """Return the service for a tool's request, which the caller has left once it has left ``request``."""

    async def connected(scope: Scope, receive: Receive, send: Send) -> None:
        is_received = False

        async def receive_or_leave() -> Message:
            nonlocal is_received
            if is_received:
                await disconnected(request)
                return {"type": "http.disconnect"}
            message = await receive()
            is_received = not message.get("more_body", False)
            return message

        await app(scope, receive_or_leave, send)

    return connected
