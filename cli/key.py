"""The command ``inset key``: make a key of the query service."""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from cli.terminal import Json, print_json, say, show
from schemas.errors import UserError

_DAYS = {"d": 1, "w": 7, "y": 365}


def key(
    name: Annotated[str, typer.Argument(help="Whose key it is; the access log and limits go by it.")],
    corpora: Annotated[str, typer.Option(help="Corpora that it may see, separated by commas; '*' for all.")] = "",
    expires: Annotated[str, typer.Option(help="When it ends: 90d, 12w, 1y, a date such as 2027-01-31, or never.")] = "90d",
    per_minute: Annotated[int | None, typer.Option(min=1, help="Requests a minute; 6,000 by default.")] = None,
    concurrent: Annotated[int | None, typer.Option(min=1, help="Requests at once; 64 by default.")] = None,
    max_k: Annotated[int | None, typer.Option(min=1, help="Most hits of a search.")] = None,
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
            expires=until,
            metrics=metrics,
            per_minute=per_minute,
            concurrent=concurrent,
            max_k=max_k,
        )
    except ValueError as error:
        raise UserError(f"{name!r} isn't a name of a key; write 1 to 100 printable characters") from error
    if as_json:
        print_json({"key": secret, "entry": entry.model_dump(mode="json", exclude_defaults=True)})
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
