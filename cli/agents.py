"""The command ``inset mcp``: serve one agent on standard input and output."""

import asyncio
from typing import Annotated

import typer


def mcp(
    corpora: Annotated[
        list[str] | None, typer.Argument(metavar="[CORPUS]...", help="Corpora to serve; by default all.")
    ] = None,
) -> None:
    """Serve an agent by the Model Context Protocol on standard input and output; 'inset serve' does so at /mcp."""
    import httpx

    from inset_client import AsyncClient
    from inset_client.mcp import server_of
    from query_service.workers import ServiceOptions

    app = ServiceOptions(corpora=corpora or []).open()
    transport = httpx.ASGITransport(app)

    async def serve() -> None:
        async with app.router.lifespan_context(app):
            await server_of(lambda _: AsyncClient("http://localhost", transport=transport)).run_stdio_async()

    asyncio.run(serve())
