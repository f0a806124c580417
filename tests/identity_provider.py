"""A small OpenID Connect provider that signs in whoever comes, as ``user`` with ``groups``."""

import base64
import hashlib
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import RedirectResponse
from joserfc import jwt
from joserfc.jwk import RSAKey
from starlette.responses import JSONResponse, Response

from tests.query_service.live import serving

AUDIENCE, CLIENT = "inset-api", "inset-page"


@dataclass
class Provider:
    """What the provider has: keys that sign, and whom it names.

    Attributes:
        down: Whether it answers nobody.
        readings: How often its keys were read.
        changed: Claims of ID tokens that replace the usual ones.
    """

    issuer: str = ""
    user: str = "anna"
    groups: list[str] = field(default_factory=lambda: ["service"])
    keys: list[RSAKey] = field(default_factory=lambda: [new_key("first")])
    down: bool = False
    readings: int = 0
    changed: dict[str, Any] = field(default_factory=dict)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)

    def token(self, header: dict[str, Any] | None = None, key: Any = None, **claims: Any) -> str:
        """Return a token signed by the newest key; a claim of None is left out."""
        key, now = key or self.keys[-1], int(time.time())
        usual = {"iss": self.issuer, "aud": AUDIENCE, "sub": self.user, "groups": self.groups, "iat": now, "exp": now + 300}
        present_claims = {name: value for name, value in (usual | claims).items() if value is not None}
        return jwt.encode(
            {"alg": "RS256", "kid": getattr(key, "kid", None) or "none"} | (header or {}), present_claims, key
        )

    def rotate(self, key_id: str) -> None:
        """Sign by a new key; the others are taken back."""
        self.keys = [new_key(key_id)]

    def app(self) -> FastAPI:
        """Return the provider as a service."""
        app = FastAPI()

        @app.get("/.well-known/openid-configuration")
        def describe() -> Response:
            if self.down:
                raise HTTPException(500)
            names = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys"}
            addresses = {name: f"{self.issuer}/{path}" for name, path in names.items()}
            return JSONResponse({"issuer": self.issuer, **addresses})

        @app.get("/keys")
        def keys() -> dict[str, Any]:
            self.readings += 1
            return {"keys": [key.as_dict(private=False) for key in self.keys]}

        @app.get("/authorize")
        def authorize(request: Request) -> Response:
            code, sign_in = secrets.token_hex(8), dict(request.query_params)
            self.codes[code] = sign_in
            assert (sign_in["response_type"], sign_in["client_id"]) == ("code", CLIENT)
            assert sign_in["code_challenge_method"] == "S256"
            extra = "&session_state=more"
            return RedirectResponse(f"{sign_in['redirect_uri']}?code={code}&state={sign_in['state']}{extra}", 302)

        @app.post("/token")
        async def token(request: Request) -> Response:
            sent = {name: values[0] for name, values in parse_qs((await request.body()).decode()).items()}
            sign_in = self.codes.pop(sent["code"], None)
            digest = hashlib.sha256(sent.get("code_verifier", "").encode()).digest()
            challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
            if sign_in is None or sign_in["code_challenge"] != challenge or sign_in["redirect_uri"] != sent["redirect_uri"]:
                return JSONResponse({"error": "invalid_grant"}, 400)
            claims = {"aud": CLIENT, "nonce": sign_in["nonce"], "name": self.user.title()} | self.changed
            id_token = self.token(**claims)
            return JSONResponse({"access_token": "opaque", "token_type": "Bearer", "id_token": id_token})

        return app


def new_key(key_id: str) -> RSAKey:
    return RSAKey.generate_key(2048, {"kid": key_id, "use": "sig", "alg": "RS256"}, auto_kid=False)


@contextmanager
def running() -> Iterator[Provider]:
    """Serve a provider on a port of this machine."""
    provider = Provider()
    with serving(provider.app()) as provider.issuer:
        yield provider
