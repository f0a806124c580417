"""Who asks, by the organisation's identity provider (OpenID Connect): its bearer tokens, and those who sign in to the page."""

import json
import logging
import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx2
from joserfc import jwt
from joserfc.errors import ClaimError, ExpiredTokenError, JoseError
from joserfc.jwk import KeySet
from joserfc.jws import JWSRegistry
from joserfc.jwt import ClaimsOption, JWTClaimsRegistry
from starlette.exceptions import HTTPException

from query_service.errors import unauthorized
from query_service.keys import NAME_LIMIT
from schemas.base import Frozen
from schemas.errors import UserError

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519", "EdDSA")
"""Signatures by a pair of keys. With HMAC, whoever knows a public key could sign; ``none`` is no signature."""

SKEW_S = 60
"""Seconds by which the clocks of provider and service may differ."""

KEYS_S = 300.0
"""Seconds for which the provider's keys are used before they are read again."""

RETRY_S = 10.0
"""Least seconds between two readings, whatever keys tokens name."""

STALE_S = 3600.0
"""Seconds for which keys are used while the provider doesn't answer."""

TIMEOUT_S = 3.0
"""Longest wait for the provider."""

MOST_BYTES = 256 * 1024
"""Maximum bytes of the provider's description, and of its keys."""

_logger = logging.getLogger("inset.query_service")


class ProviderOptions(Frozen):
    """The identity provider, and what of its tokens counts.

    Attributes:
        issuer: Its address, as tokens have it in ``iss``.
        audience: What bearer tokens for this service have in ``aud``; None: none are taken.
        client: The id under which the service is known there; None: nobody signs in to the page.
        groups_claim: The claim with the names of the user's groups.
        user_claim: The claim with the user's name or id.
    """

    issuer: str
    audience: str | None = None
    client: str | None = None
    groups_claim: str = "groups"
    user_claim: str = "sub"


@dataclass(frozen=True)
class Identity:
    """A user whom a proxy or an identity provider names."""

    user: str
    groups: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Published:
    """What the provider publishes of itself, and when that was read."""

    metadata: Mapping[str, str]
    keys: KeySet
    read_at: float


class IdentityProvider:
    """Checks what an identity provider signed. Thread-safe; waits for the provider's keys.

    Raises:
        UserError: An option is wrong.
    """

    def __init__(self, options: ProviderOptions, clock: Callable[[], float] = time.time) -> None:
        if not _is_safe(options.issuer):
            raise UserError(f"{options.issuer!r} isn't an issuer: write its https:// address, as its tokens name it")
        if options.audience is None and options.client is None:
            raise UserError("name what tokens are for: --oidc-audience for those of programs, --oidc-client for the page")
        self.options, self._clock = options, clock
        self._lock = threading.Lock()
        self._published: _Published | None = None
        self._retry_at = -math.inf

    def identify(self, token: str) -> Identity:
        """Return whom a bearer token names.

        Raises:
            HTTPException: 401, it isn't a valid token for this service; 503, the provider's keys can't be read.
        """
        if self.options.audience is None:
            raise unauthorized("tokens are not taken here; send a key, or sign in", "invalid_token")
        return self.identity(self.claims(token, self.options.audience))

    def identity(self, claims: Mapping[str, Any]) -> Identity:
        """Return whom checked claims name; raise ``HTTPException`` 401 if they name nobody."""
        user, groups = claims.get(self.options.user_claim), claims.get(self.options.groups_claim, [])
        groups = [groups] if isinstance(groups, str) else groups
        if not isinstance(user, str) or not 0 < len(user) <= NAME_LIMIT or not user.isprintable():
            raise unauthorized(f"the token has no user in {self.options.user_claim!r}", "invalid_token")
        if not isinstance(groups, list) or not all(isinstance(group, str) for group in groups):
            raise unauthorized(f"the token has no list of groups in {self.options.groups_claim!r}", "invalid_token")
        return Identity(user, tuple(groups))

    def claims(self, token: str, audience: str, **expected: str) -> dict[str, Any]:
        """Return the claims of a token whose signature, issuer, audience and times are right; raises as ``identify`` does."""
        values = {"iss": self.options.issuer, "aud": audience, **expected}
        options: dict[str, ClaimsOption] = {name: {"essential": True, "value": value} for name, value in values.items()}
        required = JWTClaimsRegistry(lambda: int(self._clock()), SKEW_S, exp={"essential": True}, **options)
        registry = JWSRegistry(algorithms=ALGORITHMS, strict_check_header=False)
        try:
            checked = jwt.decode(token, lambda signed: self._read(signed.headers().get("kid")).keys, registry=registry)
            # Other tokens of the provider, such as for sign-out, have other types.
            if str(checked.header.get("typ", "JWT")).lower().removeprefix("application/") not in ("jwt", "at+jwt"):
                raise unauthorized("the token is refused: it is of another type", "invalid_token")
            required.validate(checked.claims)
        except ExpiredTokenError as error:
            raise unauthorized("the token has expired", "invalid_token") from error
        except (JoseError, ValueError, TypeError, RecursionError) as error:
            reason = error.description if isinstance(error, ClaimError) else getattr(error, "error", "") or "malformed"
            raise unauthorized(f"the token is refused: {reason.replace('_', ' ')}", "invalid_token") from error
        return checked.claims

    @property
    def metadata(self) -> Mapping[str, str]:
        """The addresses that the provider publishes; raise ``HTTPException`` 503 if they can't be read."""
        return self._read(None).metadata

    def _read(self, key_id: str | None) -> _Published:
        """Return what the provider publishes, read again if it is old or lacks a key that a token names."""
        published = self._published
        age = math.inf if published is None else self._clock() - published.read_at
        is_usable = age < STALE_S and (
            key_id is None or published is None or key_id in [key.kid for key in published.keys.keys]
        )
        if published is not None and is_usable and age < KEYS_S:
            return published
        # While one request reads, others go on with the keys that are there.
        if self._lock.acquire(blocking=not is_usable):
            try:
                if self._clock() >= self._retry_at:
                    self._retry_at = self._clock() + RETRY_S
                    self._published = self._fetched()
            except (httpx2.HTTPError, httpx2.InvalidURL, JoseError, ValueError, TypeError, KeyError) as error:
                _logger.error("the identity provider %s can't be read: %s", self.options.issuer, error)
            finally:
                self._lock.release()
        published = self._published
        if published is None or self._clock() - published.read_at >= STALE_S:
            raise HTTPException(503, "the identity provider doesn't answer; try again", {"retry-after": str(int(RETRY_S))})
        return published

    def _fetched(self) -> _Published:
        metadata = _fetch(f"{self.options.issuer.rstrip('/')}/.well-known/openid-configuration")
        if metadata["issuer"] != self.options.issuer:
            raise ValueError(f"it names itself {metadata['issuer']!r}")
        addresses = {name: value for name, value in metadata.items() if isinstance(value, str) and _is_safe(value)}
        return _Published(addresses, KeySet.import_key_set(_fetch(addresses["jwks_uri"])), self._clock())


def _fetch(address: str) -> Any:
    body = b""
    with httpx2.stream("GET", address, timeout=TIMEOUT_S) as response:
        response.raise_for_status()
        for part in response.iter_bytes():
            body += part
            if len(body) > MOST_BYTES:
                raise ValueError(f"{address} has more than {MOST_BYTES // 1024} KiB")
    return json.loads(body)


def _is_safe(address: str) -> bool:
    """Return whether nobody between can change what an address answers: it is of HTTPS, or of this machine."""
    try:
        parts = urlsplit(address)
        return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in ("localhost", "127.0.0.1", "::1"))
    except ValueError:
        return False
