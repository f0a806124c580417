"""Who may ask, by an API key or as a user whom a trusted proxy or the identity provider names, and how often."""

import ipaddress
import logging
import math
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from query_service import sign_in
from query_service.errors import error_response, unauthorized
from query_service.identity import Identity, IdentityProvider, ProviderOptions
from query_service.keys import CONCURRENT, EVERY, NAME_LIMIT, PER_MINUTE, Key, KeyFile
from query_service.rate_limits import RateLimits
from schemas.access import Principals, principal
from schemas.errors import UserError

METRICS = "/metrics"
MCP = "/mcp"

CORS: dict[str, Any] = {
    "allow_methods": ["GET", "POST"],
    "allow_headers": ["authorization", "x-api-key", "content-type", "if-none-match", "range", "x-request-id"],
    "expose_headers": ["accept-ranges", "content-range", "etag", "retry-after", "x-request-id"],
}
"""What pages of other origins may send and read. Cookies aren't among it: they are of this service's own page."""

_PUBLIC = {"/", "/api", "/healthz", "/readyz", "/openapi.json", *(route.path for route in sign_in.ROUTES)}
_PUBLIC_FOLDER = "/static/"
_CALLER, _HAS_RIGHTS = "inset.caller", "inset.has_rights"
_FORWARDING = ("forwarded", "via", "x-forwarded-for", "x-real-ip")

_ORIGIN = re.compile(r"https?://(?:[a-z0-9._-]+|\[[0-9a-f:]+\])(?::\d{1,5})?")

_logger = logging.getLogger("inset.query_service")

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
LOOPBACK_NETWORKS: tuple[Network, ...] = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))

Value = TypeVar("Value")


@dataclass(frozen=True)
class Caller:
    """Who asks; ``name`` is None if nobody has to say, ``key`` if none was needed."""

    name: str | None = None
    key: Key | None = None
    principals: Principals | None = frozenset()
    """As whom the caller reads corpora that limit their readers; None sees every document."""

    def sees(self, corpus: str) -> bool:
        """Return whether a corpus exists for the caller."""
        return self.key is None or EVERY in self.key.corpora or corpus in self.key.corpora


NOBODY = Caller(key=Key(name="nobody", sha256="0" * 64))
"""Sees no corpus: a request without a key where keys are required, of a path that needs none."""


def principals_of(key: Key | None, users: Sequence[Identity]) -> Principals | None:
    """Return as whom a request reads: what all that it presents have in common; None where that is everything.

    A key without principals says nothing of them, so that users alone count; a request that presents nobody reads what
    everyone may. Names of users and groups that can't be principals give none.
    """
    presented = [] if key is None or key.principals is None else [frozenset(key.principals)]
    for identity in users:
        names = [f"user:{identity.user}", *(f"group:{group}" for group in identity.groups)]
        presented.append(frozenset(filter(None, map(_principal, names))))
    limiting = [principals for principals in presented if EVERY not in principals]
    if not limiting:
        return None if presented else frozenset()
    return frozenset.intersection(*limiting)


def _principal(name: str) -> str | None:
    try:
        return principal(name)
    except ValueError:
        return None


class Access:
    """Decides who asks, and what they may.

    ``keys`` is None if none are needed, ``header`` if no proxy names the user in it, ``groups_header`` if none names
    the user's groups; both are believed from ``proxies`` alone. ``provider`` names users by tokens and by sign-in. Users see
    every corpus; one who sends a key too sees what the key may see. ``sees_all`` is for a service of one person on the machine
    itself: no document is hidden.
    """

    def __init__(
        self,
        keys: KeyFile | None = None,
        *,
        header: str | None = None,
        groups_header: str | None = None,
        proxies: Sequence[Network] = LOOPBACK_NETWORKS,
        provider: IdentityProvider | None = None,
        clock: Callable[[], float] = time.time,
        limits: RateLimits | None = None,
        sees_all: bool = False,
    ) -> None:
        self._keys, self._header, self._groups_header = keys, header, groups_header
        self._proxies, self._clock, self._sees_all = proxies, clock, sees_all
        self.provider = provider
        self.limits = limits or RateLimits()

    @property
    def is_open(self) -> bool:
        """Whether nobody has to say who asks."""
        return self._keys is None and self._header is None and self.provider is None

    @property
    def takes_keys(self) -> bool:
        """Whether a key says who asks."""
        return self._keys is not None

    def caller(self, scope: Scope) -> Caller:
        """Return who sends a request; raise ``HTTPException`` 401 for nobody known, 403 if the path isn't for the caller."""
        path, headers = scope["path"], Headers(scope=scope)
        if path == METRICS and self._keys is None and self._is_local(scope, headers):
            return Caller()
        is_public = path in _PUBLIC or path.startswith(_PUBLIC_FOLDER)
        try:
            caller = self._identify(scope, headers)
        except HTTPException:
            # A wrong key keeps nobody from a page that needs none.
            if is_public:
                return NOBODY
            raise
        if path == METRICS and not (caller.key and caller.key.metrics):
            raise HTTPException(403, "metrics are for keys with metrics: true; without a key file, for this machine")
        return caller

    def caller_named(self, key_name: str | None) -> Caller | None:
        """Return who a key's name stands for now, None if it has no key any more; without a name, who asks an open service."""
        if key_name is None:
            return Caller(principals=None if self._sees_all else frozenset()) if self.is_open else None
        keys = self._keys.keys() if self._keys is not None else []
        keys_of_name = [key for key in keys if key.name == key_name and not self._has_expired(key)]
        return Caller(key_name, keys_of_name[0], principals_of(keys_of_name[0], [])) if len(keys_of_name) == 1 else None

    def _has_expired(self, key: Key) -> bool:
        return key.expires is not None and key.expires.timestamp() <= self._clock()

    def _identify(self, scope: Scope, headers: Headers) -> Caller:
        if (anyone := self.caller_named(None)) is not None:
            return anyone
        sent_key, token = _credentials(headers, takes_tokens=self.provider is not None)
        users = [*self._user_of_proxy(scope, headers)]
        if self.provider is not None and token is not None:
            users.append(self.provider.identify(token))
        if identity := sign_in.signed_in(scope):
            users.append(identity)
        key = None
        if self._keys is not None and sent_key is not None:
            key = self._keys.find(sent_key)
            if key is None:
                raise unauthorized("the key is not known here", "invalid_token")
            if self._has_expired(key):
                raise unauthorized("the key has expired", "invalid_token")
        names = [*(identity.user for identity in users), *([key.name] if key is not None else [])]
        if not names:
            raise unauthorized(self._remedy)
        return Caller(names[0], key, principals_of(key, users))

    @property
    def _remedy(self) -> str:
        """What a request lacks that says nothing of who asks."""
        if self.provider is not None:
            return "sign in, or send a token as 'Authorization: Bearer TOKEN'" + (" or a key" if self.takes_keys else "")
        if self.takes_keys:
            return "a key is needed: send it as 'Authorization: Bearer KEY'"
        return "no user is named by a trusted proxy"

    def _user_of_proxy(self, scope: Scope, headers: Headers) -> Iterator[Identity]:
        if self._header is not None and (values := headers.getlist(self._header)) and self._is_proxy(scope):
            names = headers.getlist(self._groups_header) if self._groups_header is not None else []
            yield Identity(_user(values), tuple(group.strip() for name in names for group in _decoded(name).split(",")))

    @property
    def identifying_headers(self) -> list[str]:
        """The headers that say who asks, by which caches tell responses apart."""
        cookie = ["cookie"] if self.provider is not None else []
        return ["authorization", "x-api-key", *filter(None, (self._header, self._groups_header)), *cookie]

    def is_https(self, scope: Scope) -> bool:
        """Return whether a request came by HTTPS, to this process or to a proxy."""
        forwarded = Headers(scope=scope).get("x-forwarded-proto") if self._is_proxy(scope) else None
        return (forwarded or scope["scheme"]) == "https"

    def client(self, scope: Scope) -> str | None:
        """Return the address that a request comes from: the peer's, or the one that a proxy among the peers names last."""
        # A client may send addresses of its own; the proxy adds the last one.
        forwarded = Headers(scope=scope).get("x-forwarded-for", "").rpartition(",")[2].strip()
        if forwarded and self._is_proxy(scope):
            try:
                return str(ipaddress.ip_address(forwarded))
            except ValueError:
                pass
        return str(scope["client"][0]) if scope.get("client") else None

    def remote_client(self, scope: Scope) -> str | None:
        """Return the address that a request comes from; None for this machine."""
        client = self.client(scope)
        return None if client is None or _is_in({"client": (client, 0)}, LOOPBACK_NETWORKS) else client

    def _is_proxy(self, scope: Scope) -> bool:
        return _is_in(scope, self._proxies)

    def _is_local(self, scope: Scope, headers: Headers) -> bool:
        """Return whether a request comes from this machine, and not through a proxy on it."""
        signs = (*_FORWARDING, *([self._header] if self._header else []))
        return _is_in(scope, LOOPBACK_NETWORKS) and not any(name in headers for name in signs)


def _credentials(headers: Headers, *, takes_tokens: bool) -> tuple[str | None, str | None]:
    """Return the key and the token of a request, None for what isn't there; a token has two dots, and a key none."""
    bearers, keys = headers.getlist("authorization"), headers.getlist("x-api-key")
    scheme, _, bearer = bearers[0].strip().partition(" ") if bearers else ("bearer", "", "")
    is_token = takes_tokens and bearer.count(".") == 2
    if len(bearers) > 1 or len(keys) + len(bearers) - is_token > 1:
        raise unauthorized("there is more than one key; send one, in one header", "invalid_request")
    if bearers and (scheme.lower() != "bearer" or not bearer.strip()):
        raise unauthorized("the Authorization header is not 'Bearer KEY'", "invalid_request")
    key = keys[0] if keys else "" if is_token else bearer
    return key.strip() or None, bearer.strip() if is_token else None


def _user(values: Sequence[str]) -> str:
    if len(values) > 1:
        raise unauthorized("the proxy names more than one user")
    name = _decoded(values[0]).strip()
    if not name or len(name) > NAME_LIMIT or not name.isprintable():
        raise unauthorized("the proxy names no user")
    return name


def _decoded(header: str) -> str:
    try:
        return header.encode("latin-1").decode()  # headers are bytes; proxies write UTF-8
    except UnicodeDecodeError:
        return header


def _is_in(scope: Scope, networks: Sequence[Network]) -> bool:
    try:
        address = ipaddress.ip_address((scope.get("client") or ("",))[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)  # a socket for both families names IPv4 peers so
    return any((mapped or address) in network for network in networks)


class AccessControl:
    """ASGI middleware that refuses requests of the unknown, and those beyond the limits of a key, user or address.

    Requests at once are counted in this process, requests a minute by ``Access.limits``.
    """

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access
        self._running: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        send = _private(scope, send, [] if self._access.is_open else self._access.identifying_headers)
        limits_name = None
        try:
            # A token may need the provider's keys.
            is_signed = self._access.provider is not None
            caller = await run_in_threadpool(self._access.caller, scope) if is_signed else self._access.caller(scope)
            scope.setdefault("state", {})[_CALLER] = caller
            limits_name = self._limits_name(scope, caller)
            if limits_name is not None:
                await self._admit(limits_name, caller.key)
        except HTTPException as error:
            response = error_response(error.status_code, error.detail, error.headers)
            await response(scope, receive, send)
            return
        if limits_name is None:
            await self._app(scope, receive, send)
            return
        self._running[limits_name] += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._running[limits_name] -= 1
            self._running += Counter()  # forgets callers without requests

    def _limits_name(self, scope: Scope, caller: Caller) -> str | None:
        """Return the key, user or address whose limits a request counts against; all keys of one name share theirs."""
        if caller is NOBODY or scope["path"] == MCP:  # whose tools send requests that are counted
            return None
        return caller.key.name if caller.key else caller.name or self._access.remote_client(scope)

    async def _admit(self, limits_name: str, key: Key | None) -> None:
        max_concurrent = (key and key.concurrent) or CONCURRENT
        per_minute = (key and key.per_minute) or PER_MINUTE
        # Checked first, so that a request that is refused for it doesn't count in the minute.
        if self._running[limits_name] >= max_concurrent:
            raise too_many(f"{limits_name} may have {max_concurrent} requests at once", 1)
        if wait_s := await self._access.limits.wait_s(limits_name, per_minute):
            raise too_many(f"{limits_name} may send {per_minute} requests a minute", wait_s)


def _private(scope: Scope, send: Send, identifying_headers: Sequence[str]) -> Send:
    """Keep caches from giving a response to others than the one who may see it, or to one who may see it no more."""

    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name in identifying_headers:
                headers.add_vary_header(name)
            if scope.get("state", {}).get(_HAS_RIGHTS):
                headers["cache-control"] = "private, no-cache"
            elif identifying_headers and (cached := headers.get("cache-control")):
                headers["cache-control"] = cached.replace("public", "private")
        await send(message)

    return with_headers


def too_many(line: str, wait_s: float) -> HTTPException:
    """Return the error of who asks too often, and may ask again after some seconds."""
    return HTTPException(429, line, {"retry-after": str(max(1, math.ceil(wait_s)))})


def caller_of(scope: Scope) -> Caller:
    """Return who sends a request that ``AccessControl`` has let through."""
    return cast(Caller, scope["state"][_CALLER])


def name_of(scope: Scope) -> str | None:
    """Return the name of who sends a request; None if nobody known does."""
    caller = cast(Caller | None, scope.get("state", {}).get(_CALLER))
    return caller.name if caller else None


def visible(request: Request, corpora: Mapping[str, Value]) -> dict[str, Value]:
    """Return the entries of the corpora that exist for the caller."""
    caller = caller_of(request.scope)
    return {name: value for name, value in corpora.items() if caller.sees(name)}


def note_rights(request: Request) -> None:
    """Have caches ask again each time: a right to see the response may be withdrawn."""
    request.scope["state"][_HAS_RIGHTS] = True


class CallerOptions(BaseModel):
    """The options of ``inset serve`` that say who may ask.

    Attributes:
        host: The address that the service listens on.
        keys: The key file; None for no keys.
        trusted_header: The header in which a proxy names the user.
        trusted_groups: The header in which that proxy names the user's groups.
        trusted_proxies: Addresses or networks of proxies besides loopback, such as 10.0.0.0/8.
        provider: The identity provider.
        is_open: Whether the operator wants a service without keys on other addresses than loopback.
        redis: Address of a Redis that counts requests for all processes.
        sees_all: As of ``Access``.
    """

    host: str = "127.0.0.1"
    keys: Path | None = None
    trusted_header: str | None = None
    trusted_groups: str | None = None
    trusted_proxies: list[str] = []
    provider: ProviderOptions | None = None
    is_open: bool = False
    redis: str | None = None
    sees_all: bool = False

    def access(self) -> Access:
        """Return the access; raise ``UserError`` if the service would be open to other machines, or an option is wrong."""
        for name in (self.trusted_header, self.trusted_groups):
            if name is not None and not re.fullmatch(r"[A-Za-z0-9_-]*[A-Za-z0-9][A-Za-z0-9_-]*", name):
                raise UserError(f"{name!r} isn't a name of a header; write one such as X-Forwarded-User")
        if self.trusted_groups is not None and self.trusted_header is None:
            raise UserError("groups are those of a user: name the header of the user too, with --trusted-header")
        access = Access(
            KeyFile(self.keys) if self.keys is not None else None,
            header=self.trusted_header,
            groups_header=self.trusted_groups,
            proxies=[*LOOPBACK_NETWORKS, *map(network_of, self.trusted_proxies)],
            provider=IdentityProvider(self.provider) if self.provider is not None else None,
            limits=RateLimits(self.redis),
            sees_all=self.sees_all,
        )
        if access.is_open and not self.is_open and not _is_loopback(self.host):
            raise UserError(
                f"everyone who reaches {self.host or 'any address'} could read all corpora; name a key file with --keys FILE "
                "(inset key makes keys), or say --open if that is what you want"
            )
        return access


def origins_of(names: Sequence[str]) -> list[str]:
    """Return origins whose pages may call the service; raise ``UserError`` if one isn't an origin.

    ``*`` is none: every page could then read a service on the reader's own machine.
    """
    for name in names:
        if not _ORIGIN.fullmatch(name):
            raise UserError(f"{name!r} isn't an origin; write scheme and host alone, such as https://example.org")
    return list(names)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def network_of(text: str) -> Network:
    """Return an address or network, or raise ``UserError``."""
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        raise UserError(f"{text!r} isn't an address or network; write one such as 10.0.0.7 or 10.0.0.0/8") from None
