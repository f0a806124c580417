"""Commands of the query service: serve people, programs and agents, and make keys."""

import asyncio
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from cli.terminal import Json, print_json, say, show
from schemas.errors import UserError

CorporaArgument = Annotated[
    list[str] | None, typer.Argument(metavar="[CORPUS]...", help="Corpora to serve; by default all.")
]
_DAYS = {"d": 1, "w": 7, "y": 365}


def serve(
    corpora: CorporaArgument = None,
    host: Annotated[str, typer.Option(help="Address to listen on; loopback by default.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port.")] = 8750,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A further host name of the service, such as search.example.org or *.example.org; '*' for any. May be repeated. "
            "Loopback and --host are always allowed.",
        ),
    ] = None,
    deadline: Annotated[
        float, typer.Option(min=1, help="Seconds that a search may take; an answer may take five times as long.")
    ] = 60.0,
    keys: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            envvar="INSET_KEYS",
            help="Answer only requests with a key of this file; 'inset key' makes keys. It is read again when it changes.",
        ),
    ] = None,
    trusted_header: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="A header in which a proxy names the user, such as X-Forwarded-User; believed from loopback and --trusted-proxy "
            "alone. Its users see all corpora.",
        ),
    ] = None,
    trusted_groups: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="A header in which that proxy names the user's groups, separated by commas, such as X-Forwarded-Groups.",
        ),
    ] = None,
    trusted_proxy: Annotated[
        list[str] | None,
        typer.Option(metavar="ADDRESS", help="Address or network of a proxy, such as 10.0.0.0/8. May be repeated."),
    ] = None,
    oidc_issuer: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="An identity provider (OpenID Connect), such as https://login.example.org, that names users by bearer tokens "
            "and by sign-in to the page. Its users see all corpora.",
        ),
    ] = None,
    oidc_audience: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="What tokens for this service have in 'aud'; without it none are taken."),
    ] = None,
    oidc_client: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="The service's client id at the provider, for the page's sign-in; its secret, if it has one, is in "
            "INSET_CLIENT_SECRET.",
        ),
    ] = None,
    groups_claim: Annotated[str, typer.Option(metavar="NAME", help="The claim with the user's groups.")] = "groups",
    user_claim: Annotated[str, typer.Option(metavar="NAME", help="The claim with the user's name or id.")] = "sub",
    open_to_all: Annotated[
        bool, typer.Option("--open", help="Serve other addresses than loopback without keys, to everyone who reaches them.")
    ] = False,
    cors_origin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ORIGIN",
            help="Pages of this origin may call the service, such as https://example.org. May be repeated.",
        ),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes that answer; one core each.")] = 1,
    redis: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            envvar="INSET_REDIS",
            help="A Redis, such as redis://localhost:6379/0, that counts the requests of keys for all workers and hosts.",
        ),
    ] = None,
    log_questions: Annotated[bool, typer.Option("--log-questions", help="Log the text of questions.")] = False,
    webhooks_to: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NETWORK",
            help="Webhooks may be sent to this private address or network, such as 10.0.0.0/8. May be repeated. There are "
            "webhooks where INSET_WEBHOOK_SECRET is set.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Serve search, answers and the web page."""
    from query_service.identity import ProviderOptions
    from query_service.serve import ServiceOptions, serve_workers
    from query_service.serve import serve as serve_app

    if oidc_issuer is None and (oidc_audience or oidc_client):
        raise UserError("name the identity provider too: --oidc-issuer https://…")
    provider = oidc_issuer and ProviderOptions(
        issuer=oidc_issuer, audience=oidc_audience, client=oidc_client, groups_claim=groups_claim, user_claim=user_claim
    )
    options = ServiceOptions(
        corpora=corpora or [],
        host=host,
        allow_hosts=allow_host or [],
        deadline_s=deadline,
        keys=keys,
        trusted_header=trusted_header,
        trusted_groups=trusted_groups,
        trusted_proxies=trusted_proxy or [],
        provider=provider or None,
        is_open=open_to_all,
        redis=redis,
        origins=cors_origin or [],
        log_questions=log_questions,
        webhooks_to=webhooks_to or [],
    )
    served = options.open()
    if as_json:
        print_json({"address": f"http://{host}:{port}/"})
    if workers == 1:
        serve_app(served, host=host, port=port)
    else:
        serve_workers(workers, options, port)


def mcp(corpora: CorporaArgument = None) -> None:
    """Serve an agent by the Model Context Protocol on standard input and output; 'inset serve' does so at /mcp."""
    import httpx

    from inset_client._async import AsyncConnection
    from inset_client.mcp import server_of
    from query_service.serve import ServiceOptions

    app = ServiceOptions(corpora=corpora or [], sees_all=True).open()
    transport = httpx.ASGITransport(app)

    async def serve() -> None:
        async with app.router.lifespan_context(app):
            server = server_of(lambda _: AsyncConnection("http://localhost", transport=transport), app.openapi())
            await server.run_stdio_async()

    asyncio.run(serve())


def key(
    name: Annotated[str, typer.Argument(help="Whose key it is; the access log and limits go by it.")],
    corpora: Annotated[str, typer.Option(help="Corpora that it may see, separated by commas; '*' for all.")] = "",
    principals: Annotated[
        list[str] | None,
        typer.Option(
            "--as",
            metavar="PRINCIPAL",
            help="As whom it reads corpora with 'access' in their file: group:service, user:4711; '*' sees every document. May "
            "be repeated. Without it: what everyone may see.",
        ),
    ] = None,
    expires: Annotated[str, typer.Option(help="When it ends: 90d, 12w, 1y, a date such as 2027-01-31, or never.")] = "90d",
    per_minute: Annotated[int | None, typer.Option(min=1, help="Requests a minute; 6,000 by default.")] = None,
    concurrent: Annotated[int | None, typer.Option(min=1, help="Requests at once; 64 by default.")] = None,
    metrics: Annotated[bool, typer.Option("--metrics", help="It may read /metrics.")] = False,
    as_json: Json = False,
) -> None:
    """Make a key for 'inset serve --keys FILE', and print it once.

    The key goes to standard error, its line for the file to standard output: inset key NAME --corpora A,B >> FILE
    """
    from query_service.keys import Key, digest, key_line, new_key

    scopes = tuple(scope.strip() for scope in corpora.split(",") if scope.strip())
    if not scopes and not metrics:
        raise UserError("a key needs corpora that it may see: --corpora A,B, or --corpora '*' for all")
    secret = new_key()
    until = _parse_expiry(expires)
    try:
        entry = Key(
            name=name,
            sha256=digest(secret),
            corpora=scopes,
            principals=tuple(principals) if principals else None,
            expires=until,
            metrics=metrics,
            per_minute=per_minute,
            concurrent=concurrent,
        )
    except ValidationError as error:
        mistake = error.errors()[0]
        if mistake["loc"][0] == "principals":
            raise UserError(f"--as {mistake['msg'].removeprefix('Value error, ')}") from error
        raise UserError(f"{name!r} isn't a name of a key; write 1 to 100 printable characters") from error
    if as_json:
        print_json({"key": secret, "entry": entry.model_dump(exclude_defaults=True)})
        return
    say(f"key of {name}, shown this once: {secret}")
    say("its line for the key file:")
    show(key_line(entry))


def _parse_expiry(expires: str) -> datetime | None:
    if expires == "never":
        return None
    now = datetime.now(UTC)
    try:
        if match := re.fullmatch(r"([1-9]\d{0,5})([dwy])", expires):
            return (now + timedelta(days=int(match[1]) * _DAYS[match[2]])).replace(microsecond=0)
        moment = datetime.strptime(expires, "%Y-%m-%d").replace(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise UserError(f"--expires {expires}: write days (90d), weeks (12w), years (1y), a date or never") from error
    if moment <= now:
        raise UserError(f"--expires {expires} has passed")
    return moment
