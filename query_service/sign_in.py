"""The page's sign-in by OpenID Connect: authorization code with PKCE. Who has signed in is in a signed cookie.

The cookie is read by this service alone, sent by no other site's requests but links (``SameSite=Lax``), and over HTTPS by HTTPS
alone. It ends after ``SESSION_S``: groups are those of the sign-in.
"""

import hmac
import json
import os
import secrets
from collections.abc import Callable
from urllib.parse import urlsplit

import httpx2
from authlib.integrations.httpx_client import OAuth2Client
from authlib.oauth2.rfc6749 import OAuth2Error
from starlette.exceptions import HTTPException
from starlette.middleware.sessions import SessionMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from query_service.identity import TIMEOUT_S, Identity, IdentityProvider

SESSION_S = 3600
"""Seconds after which a user signs in again, unseen where the provider still knows the browser."""

SESSION_BYTES = 2800
"""Maximum bytes of names in a cookie, whose limit is 4,096 in base64: some 70 ids of groups."""

SESSION_SECRET = "INSET_SESSION_SECRET"
"""The variable with what cookies are signed by; all hosts of a service have the same."""

CLIENT_SECRET = "INSET_CLIENT_SECRET"
"""The variable with the service's secret at the provider; unset for a public client."""

_SCOPE = "openid profile email"
_ATTEMPT = "attempt"


class Sessions:
    """ASGI middleware that reads and writes the signed cookie."""

    def __init__(self, app: ASGIApp, is_https: Callable[[Scope], bool]) -> None:
        # A process without one makes one, which its workers inherit.
        secret = os.environ.setdefault(SESSION_SECRET, secrets.token_urlsafe(32))
        self._is_https = is_https
        self._plain = SessionMiddleware(app, secret, "inset", SESSION_S)
        self._secure = SessionMiddleware(app, secret, "__Host-inset", SESSION_S, https_only=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        await (self._secure if self._is_https(scope) else self._plain)(scope, receive, send)


def signed_in(scope: Scope) -> Identity | None:
    """Return who has signed in; None for nobody, or for one whose session has ended."""
    session = scope.get("session", {})
    return Identity(session["user"], tuple(session["groups"])) if "user" in session else None


def _provider(request: Request) -> IdentityProvider:
    provider: IdentityProvider | None = request.app.state.access.provider
    if provider is None or provider.options.client is None:
        raise HTTPException(404)
    return provider


def _client(request: Request, provider: IdentityProvider, page: str) -> OAuth2Client:
    scheme = "https" if request.app.state.access.is_https(request.scope) else "http"
    secret = os.environ.get(CLIENT_SECRET)
    return OAuth2Client(
        provider.options.client,
        secret,
        token_endpoint_auth_method="client_secret_basic" if secret else "none",
        scope=_SCOPE,
        redirect_uri=f"{scheme}://{request.url.netloc}{page.partition('?')[0].rpartition('/')[0]}/signed-in",
        code_challenge_method="S256",
        timeout=TIMEOUT_S,
    )


def _begin(request: Request) -> Response:
    """Send a reader to the provider, and note for what page, whose folder is that of the service."""
    provider, page = _provider(request), request.query_params.get("page", "/")
    if not page.startswith("/") or page[1:2] in ("/", "\\") or not page.isprintable() or urlsplit(page).netloc:
        raise HTTPException(400, "the page to come back to is a path of this service")
    verifier, nonce = secrets.token_urlsafe(48), secrets.token_urlsafe(24)
    with _client(request, provider, page) as client:
        address, state = client.create_authorization_url(
            _endpoint(provider, "authorization_endpoint"), code_verifier=verifier, nonce=nonce
        )
    request.session[_ATTEMPT] = {"state": state, "nonce": nonce, "verifier": verifier, "page": page[:1000]}
    return RedirectResponse(address, 302, {"cache-control": "no-store"})


def _end(request: Request) -> Response:
    """Take who has signed in from the provider, and go back to the page."""
    provider, reply = _provider(request), request.query_params
    attempt = request.session.pop(_ATTEMPT, None)
    if attempt is None or not hmac.compare_digest(attempt["state"].encode(), reply.get("state", "").encode()):
        raise HTTPException(400, "this sign-in began elsewhere, or took too long; open the page and sign in again")
    if "code" not in reply:
        reason = reply.get("error_description") or reply.get("error", "it gives no reason")
        raise HTTPException(403, f"the identity provider signs nobody in: {reason[:300]}")
    try:
        with _client(request, provider, attempt["page"]) as client:
            tokens = client.fetch_token(
                _endpoint(provider, "token_endpoint"), code=reply["code"], code_verifier=attempt["verifier"]
            )
        token = str(tokens["id_token"])
    except (OAuth2Error, httpx2.HTTPError, ValueError, KeyError) as error:
        reason = type(error).__name__ if isinstance(error, httpx2.HTTPError) else str(error)
        raise HTTPException(503, f"the identity provider gives no token: {reason[:300]}") from error
    claims = provider.claims(token, str(provider.options.client), nonce=attempt["nonce"])
    identity = provider.identity(claims)
    name = next((claims[claim] for claim in ("name", "preferred_username", "email") if claims.get(claim)), identity.user)
    session = {"user": identity.user, "groups": identity.groups, "name": str(name)[:100]}
    if len(json.dumps(session)) > SESSION_BYTES:
        line = (
            f"the provider names {len(identity.groups)} groups, too many for a cookie; have it name those of this service"
        )
        raise HTTPException(403, line)
    request.session.clear()
    request.session.update(session)
    return RedirectResponse(attempt["page"], 303, {"cache-control": "no-store"})


def _endpoint(provider: IdentityProvider, name: str) -> str:
    try:
        return provider.metadata[name]
    except KeyError:
        raise HTTPException(503, f"the identity provider publishes no {name} over HTTPS") from None


async def _sign_out(request: Request) -> Response:
    request.session.clear()
    return Response(status_code=204)


async def _session(request: Request) -> Response:
    """Say who has signed in, and how others may say who they are."""
    access = request.app.state.access
    signs_in = access.provider is not None and access.provider.options.client is not None
    session = {"name": request.scope.get("session", {}).get("name"), "signs_in": signs_in, "takes_keys": access.takes_keys}
    return JSONResponse(session, headers={"cache-control": "no-store"})


ROUTES = [
    Route("/sign-in", _begin, methods=["GET"]),
    Route("/signed-in", _end, methods=["GET"]),
    Route("/sign-out", _sign_out, methods=["POST"]),
    Route("/session", _session, methods=["GET"]),
]
"""They are of the page, not of the API. Parameters of the provider's replies are its own."""
