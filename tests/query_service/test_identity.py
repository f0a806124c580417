"""Who asks, by an identity provider: bearer tokens, and the page's sign-in."""

import base64
import hmac
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from fastapi.testclient import TestClient

from query_service.access import Access, CallerOptions
from query_service.app import create_app
from query_service.identity import RETRY_S, STALE_S, IdentityProvider, ProviderOptions
from query_service.keys import Key, KeyFile, digest, key_line, new_key
from schemas.access import Principals
from schemas.errors import UserError
from tests import identity_provider
from tests.identity_provider import AUDIENCE, CLIENT, Provider
from tests.query_service.fake_corpus import FakeCorpus

ASKED = "/v1/corpora"


@pytest.fixture(scope="module")
def running() -> Iterator[Provider]:
    with identity_provider.running() as provider:
        yield provider


@pytest.fixture
def provider(running: Provider) -> Provider:
    running.user, running.groups, running.down, running.changed = "anna", ["service"], False, {}
    return running


class Asked(FakeCorpus):
    """Remembers as whom it was last read."""

    readers: list[Principals | None]

    def for_reader(self, principals: Principals | None) -> "Asked":
        self.__dict__.setdefault("readers", []).append(principals)
        return self


class Clock:
    """The time, as far as tokens and keys are concerned."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def corpus() -> Asked:
    return Asked("pumps")


def service(
    provider: Provider,
    corpus: Asked,
    clock: Clock,
    keys: KeyFile | None = None,
    base: str = "http://localhost",
    **options: Any,
) -> TestClient:
    settings = {"issuer": provider.issuer, "audience": AUDIENCE, "client": CLIENT} | options
    checker = IdentityProvider(ProviderOptions(**settings), clock)
    access = Access(keys, header="x-user", groups_header="x-groups", provider=checker)
    app = create_app({"pumps": corpus}, access=access)
    return TestClient(app, base_url=base, client=("127.0.0.1", 50_000), follow_redirects=False)


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def base64url(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


class TestTokens:
    def test_a_token_names_the_user_and_the_groups(self, provider: Provider, corpus: Asked, clock: Clock) -> None:
        client = service(provider, corpus, clock)
        assert client.get(ASKED, headers=bearer(provider.token())).status_code == 200
        assert corpus.readers == [frozenset({"user:anna", "group:service"})]
        assert client.get(ASKED).status_code == 401
        assert "authorization" in client.get(ASKED).headers["vary"].lower()

    def test_claims_go_by_their_configured_names(self, provider: Provider, corpus: Asked, clock: Clock) -> None:
        client = service(provider, corpus, clock, user_claim="email", groups_claim="https://example.org/roles")
        claims: dict[str, Any] = {"email": "anna@example.org", "https://example.org/roles": "one"}
        token = provider.token(**claims)
        assert client.get(ASKED, headers=bearer(token)).status_code == 200
        assert corpus.readers == [frozenset({"user:anna@example.org", "group:one"})]

    @pytest.mark.parametrize(
        ("claims", "line"),
        [
            ({"iss": "https://evil.example"}, "iss"),
            ({"iss": None}, "iss"),
            ({"aud": "another"}, "aud"),
            ({"aud": CLIENT}, "aud"),
            ({"aud": None}, "aud"),
            ({"exp": 1_000}, "has expired"),
            ({"exp": None}, "exp"),
            ({"exp": "tomorrow"}, "exp"),
            ({"nbf": 99_999_999_999}, "not yet valid"),
            ({"sub": None}, "no user"),
            ({"sub": 4711}, "sub"),
            ({"sub": "a" * 101}, "no user"),
            ({"sub": "a\nb"}, "no user"),
            ({"groups": {"a": 1}}, "no list of groups"),
            ({"groups": [["service"]]}, "no list of groups"),
        ],
    )
    def test_a_token_for_others_is_refused(
        self, provider: Provider, corpus: Asked, clock: Clock, claims: dict[str, Any], line: str
    ) -> None:
        refused = service(provider, corpus, clock).get(ASKED, headers=bearer(provider.token(**claims)))
        assert (refused.status_code, line in refused.json()["detail"]) == (401, True), refused.text
        assert 'error="invalid_token"' in refused.headers["www-authenticate"]
        assert not hasattr(corpus, "readers")

    def test_a_signature_by_others_is_refused(self, provider: Provider, corpus: Asked, clock: Clock) -> None:
        client, good = service(provider, corpus, clock), provider.token()
        header, claims, signature = good.split(".")
        public = provider.keys[-1].as_pem(private=False)
        other_key = identity_provider.new_key(str(provider.keys[-1].kid))
        nested = base64url(b"[" * 9_000)

        def unsigned(algorithm: Any) -> str:
            return base64url(json.dumps({"alg": algorithm, "kid": provider.keys[-1].kid}).encode())

        signed_part = f"{unsigned('HS256')}.{claims}"
        forged = [
            provider.token(key=other_key),
            f"{signed_part}.{base64url(hmac.digest(public, signed_part.encode(), 'sha256'))}",
            provider.token(header={"typ": "logout+jwt"}),
            f"{unsigned('none')}.{claims}.",
            f"{unsigned('None')}.{claims}.{signature}",
            f"{unsigned(['RS256'])}.{claims}.{signature}",
            f"{header}.{claims}.",
            f"{header}.{claims[:-2]}.{signature}",
            f"{header}.{nested}.{signature}",
            f"{nested}.{claims}.{signature}",
            "a.b.c",
            "..",
            "é.ü.x",
        ]
        for token in forged:
            refused = client.get(ASKED, headers={b"authorization": f"Bearer {token}".encode()})
            assert refused.status_code == 401, (token[:60], refused.text)
        assert not hasattr(corpus, "readers")
        assert client.get(ASKED, headers=bearer(good)).status_code == 200

    def test_clocks_may_differ_by_a_minute(self, provider: Provider, corpus: Asked, clock: Clock) -> None:
        client, token = service(provider, corpus, clock), provider.token()
        for ahead_s, status in ((-50, 200), (350, 200), (370, 401), (-70, 401)):
            clock.ahead_s = ahead_s
            assert client.get(ASKED, headers=bearer(token)).status_code == status, ahead_s

    def test_keys_are_rotated_and_read_seldom(self, provider: Provider, corpus: Asked, clock: Clock) -> None:
        client, before = service(provider, corpus, clock), provider.readings
        old_token = provider.token()
        for _ in range(3):
            assert client.get(ASKED, headers=bearer(old_token)).status_code == 200
        assert provider.readings == before + 1
        provider.rotate("second")
        new_token = provider.token()
        assert client.get(ASKED, headers=bearer(new_token)).status_code == 401  # keys were read just now
        clock.ahead_s = RETRY_S + 1
        assert client.get(ASKED, headers=bearer(new_token)).status_code == 200
        assert client.get(ASKED, headers=bearer(old_token)).status_code == 401
        for number in range(5):
            unknown = provider.token(header={"kid": f"made-up-{number}"})
            assert client.get(ASKED, headers=bearer(unknown)).status_code == 401
        assert provider.readings == before + 2

    def test_known_keys_outlast_a_provider_that_is_down(self, provider: Provider, corpus: Asked, clock: Clock) -> None:
        client = service(provider, corpus, clock)
        assert client.get(ASKED, headers=bearer(provider.token())).status_code == 200
        provider.down = True
        for ahead_s, status in ((STALE_S - 60, 200), (STALE_S + 60, 503)):
            clock.ahead_s = ahead_s
            token = provider.token(exp=int(clock()) + 60)
            assert client.get(ASKED, headers=bearer(token)).status_code == status
        provider.down, clock.ahead_s = False, STALE_S + 80
        assert client.get(ASKED, headers=bearer(provider.token(exp=int(clock()) + 60))).status_code == 200

    def test_a_provider_that_names_itself_otherwise_is_not_believed(
        self, provider: Provider, corpus: Asked, clock: Clock
    ) -> None:
        client = service(provider, corpus, clock, issuer=f"{provider.issuer}/")
        token = provider.token(iss=f"{provider.issuer}/")
        assert client.get(ASKED, headers=bearer(token)).status_code == 503

    def test_the_narrowest_of_what_is_sent_counts(
        self, provider: Provider, corpus: Asked, clock: Clock, tmp_path: Path
    ) -> None:
        key = new_key()
        line = key_line(Key(name="k", sha256=digest(key), corpora=("*",), principals=("group:service", "group:sales")))
        (tmp_path / "keys").write_text(line)
        client = service(provider, corpus, clock, KeyFile(tmp_path / "keys"))
        provider.groups = ["service", "legal"]
        token = bearer(provider.token())
        service_only, nobody = frozenset({"group:service"}), frozenset[str]()
        for headers, expected in [
            ({"x-api-key": key}, frozenset({"group:service", "group:sales"})),
            (token, frozenset({"user:anna", "group:service", "group:legal"})),
            ({"x-api-key": key} | token, service_only),
            ({"x-user": "anna", "x-groups": "legal"} | token, frozenset({"user:anna", "group:legal"})),
            ({"x-api-key": key, "x-user": "bob", "x-groups": "legal"} | token, nobody),
        ]:
            assert client.get(ASKED, headers=headers).status_code == 200
            assert corpus.readers[-1] == expected
        for headers in ({"x-api-key": "wrong"} | token, {"x-api-key": key} | bearer(token["authorization"][7:-3] + "abc")):
            assert client.get(ASKED, headers=headers).status_code == 401


def signed_in(client: TestClient, path: str = "/?q=valve") -> Any:
    """Sign in as a browser does, and return the last response."""
    import httpx

    redirect = client.get("/sign-in", params={"page": path})
    assert redirect.status_code == 302, redirect.text
    authorised = httpx.get(redirect.headers["location"])
    assert authorised.status_code == 302
    back = urlsplit(authorised.headers["location"])
    return client.get(f"/signed-in?{back.query}")


class TestSignIn:
    @pytest.mark.parametrize("is_https", [False, True])
    def test_one_who_signs_in_reads_as_the_provider_says(
        self, provider: Provider, corpus: Asked, clock: Clock, is_https: bool
    ) -> None:
        client = service(provider, corpus, clock, base="https://localhost" if is_https else "http://localhost")
        assert client.get("/session").json() == {"name": None, "signs_in": True, "takes_keys": False}
        back = signed_in(client)
        assert (back.status_code, back.headers["location"]) == (303, "/?q=valve")
        cookie = back.headers["set-cookie"].lower()
        assert {"httponly", "samesite=lax", "max-age=3600"} <= set(cookie.split("; "))
        assert ("; secure" in cookie, cookie.startswith("__host-inset=")) == (is_https, is_https)
        answered = client.get(ASKED)
        assert (answered.status_code, corpus.readers) == (200, [frozenset({"user:anna", "group:service"})])
        assert "cookie" in answered.headers["vary"].lower()
        assert client.get("/session").json()["name"] == "Anna"
        assert client.post("/sign-out").status_code == 204
        assert client.get(ASKED).status_code == 401

    def test_a_proxy_that_ends_https_is_believed(self, provider: Provider, corpus: Asked, clock: Clock) -> None:
        client = service(provider, corpus, clock)
        redirect = client.get("/sign-in?page=/inset/", headers={"x-forwarded-proto": "https"})
        parameters = parse_qs(urlsplit(redirect.headers["location"]).query)
        assert parameters["redirect_uri"] == ["https://localhost/inset/signed-in"]
        assert "__Host-inset=" in redirect.headers["set-cookie"]

    def test_a_token_narrows_one_who_has_signed_in(self, provider: Provider, corpus: Asked, clock: Clock) -> None:
        client = service(provider, corpus, clock)
        provider.groups = ["service", "legal"]
        signed_in(client)
        provider.groups = ["legal"]
        client.get(ASKED, headers=bearer(provider.token(sub="bob")))
        assert corpus.readers[-1] == frozenset({"group:legal"})

    def test_a_session_ends_and_is_not_forged(
        self, provider: Provider, corpus: Asked, clock: Clock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        client = service(provider, corpus, clock)
        signed_in(client)
        cookie = client.cookies["inset"]
        data, _, signature = cookie.partition(".")
        session = json.loads(base64.b64decode(data)) | {"groups": ["admin"]}
        forged = base64.b64encode(json.dumps(session).encode()).decode()
        client.cookies.clear()
        for value in (f"{forged}.{signature}", forged, "x", f"{data}.{signature[::-1]}"):
            assert client.get(ASKED, headers={"cookie": f"inset={value}"}).status_code == 401
        assert client.get(ASKED, headers={"cookie": f"inset={cookie}"}).status_code == 200
        now = time.time()
        monkeypatch.setattr(time, "time", lambda: now + 3_700)
        assert client.get(ASKED, headers={"cookie": f"inset={cookie}"}).status_code == 401

    def test_a_reply_to_another_browser_signs_nobody_in(self, provider: Provider, corpus: Asked, clock: Clock) -> None:
        import httpx

        first, second = (service(provider, corpus, clock) for _ in range(2))
        location = httpx.get(first.get("/sign-in").headers["location"]).headers["location"]
        second.get("/sign-in")
        for client in (second, service(provider, corpus, clock)):
            assert client.get(f"/signed-in?{urlsplit(location).query}").status_code == 400
        assert first.get(f"/signed-in?{urlsplit(location).query}").status_code == 303
        assert first.get(f"/signed-in?{urlsplit(location).query}").status_code == 400  # a code counts once

    @pytest.mark.parametrize(
        ("changed", "status"),
        [
            ({"nonce": "other"}, 401),
            ({"aud": AUDIENCE}, 401),
            ({"iss": "https://evil.example"}, 401),
            ({"exp": 1_000}, 401),
            ({"groups": [f"{number:036}" for number in range(100)]}, 403),
        ],
    )
    def test_an_id_token_that_is_wrong_signs_nobody_in(
        self, provider: Provider, corpus: Asked, clock: Clock, changed: dict[str, Any], status: int
    ) -> None:
        client = service(provider, corpus, clock)
        provider.changed = changed
        assert signed_in(client).status_code == status
        assert client.get(ASKED).status_code == 401

    def test_a_refusal_of_the_provider_is_one_line(self, provider: Provider, corpus: Asked, clock: Clock) -> None:
        client = service(provider, corpus, clock)
        state = parse_qs(urlsplit(client.get("/sign-in").headers["location"]).query)["state"][0]
        refused = client.get("/signed-in", params={"state": state, "error": "access_denied", "error_description": "No."})
        assert (refused.status_code, refused.json()["detail"]) == (403, "the identity provider signs nobody in: No.")

    @pytest.mark.parametrize("page", ["//evil.example", "/\\evil.example", "https://evil.example", "evil", "/a\nb"])
    def test_nobody_is_sent_elsewhere(self, provider: Provider, corpus: Asked, clock: Clock, page: str) -> None:
        assert service(provider, corpus, clock).get("/sign-in", params={"page": page}).status_code == 400

    def test_without_a_client_nobody_signs_in(self, provider: Provider, corpus: Asked, clock: Clock) -> None:
        client = service(provider, corpus, clock, client=None)
        assert client.get("/sign-in").status_code == 404
        assert client.get("/session").json()["signs_in"] is False
        plain = TestClient(create_app({"pumps": corpus}), base_url="http://localhost")
        assert plain.get("/sign-in").status_code == 404
        assert plain.get("/session").json() == {"name": None, "signs_in": False, "takes_keys": False}


@pytest.mark.parametrize(
    "options",
    [
        {"issuer": "http://login.example.org", "client": "x"},
        {"issuer": "login", "client": "x"},
        {"issuer": "https://login.example.org"},
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        CallerOptions(host="0.0.0.0", provider=ProviderOptions(**options)).access()
    provider = ProviderOptions(issuer="https://login.example.org", client="x")
    assert not CallerOptions(host="0.0.0.0", provider=provider).access().is_open
