import json
import logging
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from fastapi.testclient import TestClient
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from starlette.exceptions import HTTPException
from starlette.types import Message, Receive, Scope, Send

from query_service import access, telemetry
from query_service.access import Access, AccessControl, CallerOptions, origins_of
from query_service.app import create_app
from query_service.keys import KEY_PREFIX, Key, KeyFile, digest, key_line
from schemas.errors import UserError
from tests.query_service.fake_corpus import FIGURE_ID, LIVE, FakeCorpus

KEY, OTHER, OLD, MONITOR, FEW, UNKNOWN = (f"{KEY_PREFIX}{name}{'aB3-_' * 8}" for name in "abcdef")
SEARCH = {"query": "where is the secret valve"}
LOCAL = ("127.0.0.1", 50_000)
REMOTE = ("192.0.2.7", 50_000)


def entry(key: str, **fields: Any) -> Key:
    return Key.model_validate({"name": "team", "sha256": digest(key), "corpora": ["pumps"], **fields})


def write(path: Path, *keys: Key) -> Path:
    path.write_text("# keys of the service\n\n" + "".join(f"{key_line(key)}\n" for key in keys))
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    now = datetime.now(UTC)
    return write(
        tmp_path / "keys.jsonl",
        entry(KEY, name="équipe 泵", expires=now + timedelta(days=1)),
        entry(OTHER, name="other", corpora=["valves"]),
        entry(OLD, name="old", corpora=["*"], expires=now - timedelta(seconds=1)),
        entry(MONITOR, name="monitor", corpora=[], metrics=True),
        entry(FEW, name="few", corpora=["*"]),
    )


def service(
    who: Access, client: tuple[str, int] = REMOTE, logs_questions: bool = False, origins: Sequence[str] = ()
) -> TestClient:
    app = create_app(
        {name: FakeCorpus(name) for name in ("pumps", "valves")}, access=who, logs_questions=logs_questions, origins=origins
    )
    return TestClient(app, base_url="http://localhost", client=client)


@pytest.fixture
def keyed(file: Path) -> TestClient:
    return service(Access(KeyFile(file)))


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


class TestKeys:
    @pytest.mark.parametrize(
        "headers",
        [
            bearer(KEY),
            {"authorization": f"bearer {KEY}"},
            {"authorization": f"  BEARER   {KEY} "},
            {"x-api-key": KEY},
            {"X-API-KEY": f" {KEY} "},
        ],
    )
    def test_a_key_is_let_in(self, keyed: TestClient, headers: dict[str, str]) -> None:
        assert keyed.post("/v1/corpora/pumps/search", json=SEARCH, headers=headers).json()["version"] == LIVE

    @pytest.mark.parametrize(
        ("headers", "line"),
        [
            ([], "a key is needed"),
            ([("x-api-key", "")], "a key is needed"),
            ([("x-api-key", UNKNOWN)], "is not known"),
            ([("authorization", f"Bearer {UNKNOWN}")], "is not known"),
            ([("authorization", f"Bearer {KEY[:-1]}")], "is not known"),
            ([("authorization", f"Bearer {KEY}x")], "is not known"),
            ([("authorization", f"Bearer {KEY.upper()}")], "is not known"),
            ([("authorization", f"Bearer {digest(KEY)}")], "is not known"),
            ([("authorization", f"Bearer {KEY}, {KEY}")], "is not known"),
            ([("authorization", f"Bearer {KEY} {KEY}")], "is not known"),
            ([("authorization", b"Bearer \xff\xfe\x00")], "is not known"),
            ([("authorization", "Bearer " + "a" * 20_000)], "is not known"),
            ([("authorization", "Bearer")], "is not 'Bearer KEY'"),
            ([("authorization", "Bearer ")], "is not 'Bearer KEY'"),
            ([("authorization", "")], "is not 'Bearer KEY'"),
            ([("authorization", KEY)], "is not 'Bearer KEY'"),
            ([("authorization", f"Basic {KEY}")], "is not 'Bearer KEY'"),
            ([("authorization", f"Bearer\t{KEY}")], "is not 'Bearer KEY'"),
            ([("authorization", f"Bearer {KEY}"), ("authorization", f"Bearer {KEY}")], "more than one key"),
            ([("authorization", f"Bearer {OTHER}"), ("x-api-key", KEY)], "more than one key"),
            ([("x-api-key", KEY), ("x-api-key", OTHER)], "more than one key"),
            ([("authorization", f"Bearer {OLD}")], "has expired"),
            ([("x-forwarded-user", "admin")], "a key is needed"),
            ([("cookie", f"key={KEY}")], "a key is needed"),
        ],
    )
    def test_others_are_refused(self, keyed: TestClient, headers: list[tuple[str, str | bytes]], line: str) -> None:
        encoded = [(name.encode(), value if isinstance(value, bytes) else value.encode()) for name, value in headers]
        for path in ("/v1/corpora", "/v1/corpora/pumps", "/v1/corpora/none", "/metrics", "/anything", "//v1/corpora"):
            refused = keyed.get(path, headers=encoded)
            assert (refused.status_code, refused.json()["code"]) == (401, "unauthorized")
            assert line in refused.json()["detail"]
            assert refused.headers["www-authenticate"].startswith('Bearer realm="inset"')
            assert KEY not in refused.text

    def test_a_key_in_the_address_is_none(self, keyed: TestClient) -> None:
        assert keyed.get("/v1/corpora", params={"key": KEY, "access_token": KEY}).status_code == 401

    @pytest.mark.parametrize("path", ["/", "/api", "/healthz", "/readyz", "/openapi.json", "/static/app.js"])
    def test_the_page_and_probes_need_no_key(self, keyed: TestClient, path: str) -> None:
        assert keyed.get(path).status_code == 200
        assert keyed.get(path, headers=bearer("wrong")).status_code == 200

    @pytest.mark.parametrize(
        "path", ["/static/../v1/corpora", "/static/%2e%2e/v1/corpora", "/api/../v1/corpora", "/v1/corpora/"]
    )
    def test_a_path_that_looks_public_leads_nowhere_else(self, keyed: TestClient, path: str) -> None:
        answered = keyed.get(path)
        assert answered.status_code in {401, 404}
        assert "pumps" not in answered.text


class TestScopes:
    @pytest.mark.parametrize(
        ("method", "suffix"),
        [
            ("GET", ""),
            ("GET", "/versions"),
            ("GET", "/presets"),
            ("GET", "/answers"),
            ("GET", f"/figures/{FIGURE_ID}"),
            ("GET", f"/documents/{FIGURE_ID}"),
            ("GET", f"/documents/{FIGURE_ID}.pdf"),
            ("GET", f"/documents/{FIGURE_ID}/pages/1.png"),
            ("POST", "/search"),
            ("POST", "/answer"),
        ],
    )
    def test_a_hidden_corpus_is_answered_like_one_that_is_not_there(
        self, keyed: TestClient, method: str, suffix: str
    ) -> None:
        body = {"question" if suffix == "/answer" else "query": "valve"} if method == "POST" else None
        hidden, unknown = (
            keyed.request(method, f"/v1/corpora/{name}{suffix}", headers={**bearer(KEY), "x-request-id": "same"}, json=body)
            for name in ("valves", "unknow")
        )
        assert hidden.status_code == unknown.status_code == 404
        assert hidden.text.replace("valves", "unknow") == unknown.text
        assert hidden.headers == unknown.headers

    def test_a_hidden_corpus_is_not_listed(self, keyed: TestClient) -> None:
        listed = {key: keyed.get("/v1/corpora", headers=bearer(key)).json() for key in (KEY, OTHER, FEW, MONITOR)}
        names = {key: [corpus["name"] for corpus in corpora] for key, corpora in listed.items()}
        assert names == {KEY: ["pumps"], OTHER: ["valves"], FEW: ["pumps", "valves"], MONITOR: []}

    def test_readiness_names_no_hidden_corpus(self, file: Path) -> None:
        corpora = {"pumps": FakeCorpus("pumps"), "valves": FakeCorpus("valves", live=False)}
        client = TestClient(create_app(corpora, access=Access(KeyFile(file))), base_url="http://localhost")
        responses = {key: client.get("/readyz", headers=bearer(key)) for key in ("none", KEY, OTHER)}
        assert [response.status_code for response in responses.values()] == [200] * 3
        assert ["valves" in response.text for response in responses.values()] == [False, False, True]

    def test_shared_caches_keep_nothing(self, keyed: TestClient) -> None:
        path = f"/v1/corpora/pumps/figures/{FIGURE_ID}?version={LIVE}"
        headers = keyed.get(path, headers=bearer(KEY)).headers
        assert "private" in headers["cache-control"]
        assert "public" not in headers["cache-control"]
        assert "authorization" in headers["vary"]
        assert "public" in service(Access()).get(path).headers["cache-control"]


class TestLimits:
    def test_requests_a_minute_are_bounded(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        now = 1_800_030.0  # half of a minute
        monkeypatch.setattr(time, "time", lambda: now)
        keys = KeyFile(write(tmp_path / "keys", entry(KEY, per_minute=2), entry(OTHER, name="other")))
        who = Access(keys, clock=lambda: 0.0)
        passed = 0

        async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
            nonlocal passed
            passed += 1
            await send({"type": "http.response.start", "status": 200, "headers": []})

        control = AccessControl(app, who)

        def ask(key: str) -> tuple[int, str | None]:
            return answered(control, [(b"x-api-key", key.encode())])

        assert [ask(KEY) for _ in range(3)] == [(200, None), (200, None), (429, "30")]
        assert ask(OTHER) == (200, None)
        now += 29
        assert ask(KEY) == (429, "1")
        now += 2
        assert [ask(KEY)[0] for _ in range(2)] == [200, 429]
        now += 10_000
        assert [ask(KEY)[0] for _ in range(3)] == [200, 200, 429]
        assert passed == 6

    def test_an_address_has_limits_by_default_and_this_machine_has_none(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(access, "PER_MINUTE", 2)
        for client, last in ((REMOTE, 429), (LOCAL, 200)):
            asking = service(Access(), client)
            assert [asking.get("/v1/corpora").status_code for _ in range(3)] == [200, 200, last]
        proxied = service(Access(), LOCAL)
        addresses = ["192.0.2.7"] * 3 + ["192.0.2.8"]
        statuses = [proxied.get("/v1/corpora", headers={"x-forwarded-for": address}).status_code for address in addresses]
        assert statuses == [200, 200, 429, 200]

    def test_requests_at_once_are_bounded_until_they_end_or_fail(self, tmp_path: Path) -> None:
        who = Access(KeyFile(write(tmp_path / "keys", entry(KEY, concurrent=1))))
        headers = [(b"x-api-key", KEY.encode())]
        inner: list[tuple[int, str | None]] = []

        async def app(_scope: Scope, _receive: Receive, _send: Send) -> None:
            inner.append(await replied(control, headers))
            raise HTTPException(500)

        control = AccessControl(app, who)
        for _ in range(2):
            with pytest.raises(HTTPException):
                answered(control, headers)
        assert inner == [(429, "1")] * 2


async def replied(app: Any, headers: list[tuple[bytes, bytes]]) -> tuple[int, str | None]:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    await app({"type": "http", "method": "GET", "path": "/v1/corpora", "headers": headers, "client": REMOTE}, receive, send)
    reply_headers = dict(sent[0]["headers"])
    wait = reply_headers.get(b"retry-after")
    return sent[0]["status"], wait.decode() if wait else None


def answered(app: Any, headers: list[tuple[bytes, bytes]]) -> tuple[int, str | None]:
    return anyio.run(replied, app, headers)


class TestRotation:
    def test_a_changed_file_is_read_again(self, tmp_path: Path) -> None:
        path = write(tmp_path / "keys", entry(KEY))
        client = service(Access(KeyFile(path)))
        write(path, entry(OTHER, corpora=["*"]))
        assert [client.get("/v1/corpora", headers=bearer(key)).status_code for key in (KEY, OTHER)] == [401, 200]

    @pytest.mark.parametrize(
        "broken",
        [
            '{"name": "team", "sha',
            "a key that someone wrote here: " + OTHER,
            json.dumps({"name": "team", "sha256": OTHER, "corpora": ["*"]}),
            json.dumps({"name": "team", "sha256": digest(OTHER), "corpora": ["*"], OTHER: 1}),
            json.dumps({"name": "team", "sha256": digest(OTHER), "corpora": "*"}),
            json.dumps({"name": "team", "sha256": digest(OTHER), "expires": "2020-01-01T00:00:00"}),
            json.dumps({"name": "team", "sha256": digest(OTHER), "per_minute": 0}),
            json.dumps({"name": "a\nb", "sha256": digest(OTHER)}),
            "[" * 100_000,
            "\ud800",
        ],
    )
    def test_a_broken_file_leaves_the_keys_as_they_were(
        self, tmp_path: Path, broken: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        path = write(tmp_path / "keys", entry(KEY))
        client = service(Access(KeyFile(path)))
        path.write_bytes(broken.encode(errors="surrogatepass"))
        assert [client.get("/v1/corpora", headers=bearer(key)).status_code for key in (KEY, OTHER)] == [200, 401]
        assert "the keys stay as they were" in caplog.text
        assert OTHER not in caplog.text
        with pytest.raises(UserError) as raised:
            KeyFile(path)
        assert "\n" not in raised.value.message
        path.unlink()
        assert client.get("/v1/corpora", headers=bearer(KEY)).status_code == 200
        write(path, entry(OTHER))
        assert [client.get("/v1/corpora", headers=bearer(key)).status_code for key in (KEY, OTHER)] == [401, 200]

    def test_an_emptied_file_lets_nobody_in(self, tmp_path: Path) -> None:
        path = write(tmp_path / "keys", entry(KEY))
        client = service(Access(KeyFile(path)))
        path.write_text("")
        assert client.get("/v1/corpora", headers=bearer(KEY)).status_code == 401

    def test_a_key_twice_is_a_mistake(self, tmp_path: Path) -> None:
        with pytest.raises(UserError, match=r"twice \(a, b\)"):
            KeyFile(write(tmp_path / "keys", entry(KEY, name="a"), entry(KEY, name="b", corpora=["*"])))

    def test_a_missing_file_is_a_mistake(self, tmp_path: Path) -> None:
        with pytest.raises(UserError, match="inset key NAME"):
            KeyFile(tmp_path / "none")


class TestTrustedHeader:
    who = CallerOptions(host="0.0.0.0", trusted_header="X-Forwarded-User", trusted_proxies=["10.0.0.0/8"]).access()

    @pytest.mark.parametrize("address", ["127.0.0.1", "::1", "10.1.2.3", "::ffff:10.1.2.3"])
    def test_a_proxy_names_the_user(self, address: str) -> None:
        client = service(self.who, (address, 1))
        headers = {"x-forwarded-user": "ana", "x-forwarded-for": "192.0.2.7"}
        assert len(client.get("/v1/corpora", headers=headers).json()) == 2

    @pytest.mark.parametrize("address", ["192.0.2.7", "11.0.0.1", "fe80::1", "somewhere", ""])
    def test_others_cannot(self, address: str) -> None:
        headers = {"x-forwarded-user": "ana", "x-forwarded-for": "127.0.0.1"}
        assert service(self.who, (address, 1)).get("/v1/corpora", headers=headers).status_code == 401

    @pytest.mark.parametrize(
        ("key", "status", "visible_names"), [(KEY, 200, ["pumps"]), (UNKNOWN, 401, []), (OLD, 401, [])]
    )
    def test_a_user_who_sends_a_key_sees_what_both_may_see(
        self, file: Path, key: str, status: int, visible_names: list[str]
    ) -> None:
        client = service(Access(KeyFile(file), header="x-forwarded-user"), LOCAL)
        user_headers = {"x-forwarded-user": "ana"}
        assert len(client.get("/v1/corpora", headers=user_headers).json()) == 2
        answered = client.get("/v1/corpora", headers=user_headers | bearer(key))
        assert answered.status_code == status
        assert status != 200 or [corpus["name"] for corpus in answered.json()] == visible_names

    @pytest.mark.parametrize("names", [[], [b""], [b" "], [b"a", b"b"], [b"a\x1b[2J"], [b"a" * 101], ["a\u202eb".encode()]])
    def test_a_request_without_one_user_is_refused(self, names: list[bytes]) -> None:
        sent = [(b"x-forwarded-user", name) for name in names]
        assert service(self.who, LOCAL).get("/v1/corpora", headers=sent).status_code == 401


class TestStart:
    @pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.0.0.9"])
    def test_loopback_is_open(self, host: str) -> None:
        assert CallerOptions(host=host).access().is_open

    @pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.0.2.1", "search.example.org", "127.0.0.1.example.org"])
    def test_other_addresses_need_a_decision(self, host: str, file: Path) -> None:
        with pytest.raises(UserError, match=r"--keys FILE.*--open"):
            CallerOptions(host=host).access()
        assert CallerOptions(host=host, is_open=True).access().is_open
        assert not CallerOptions(host=host, keys=file).access().is_open
        assert not CallerOptions(host=host, keys=file, is_open=True).access().is_open

    @pytest.mark.parametrize(
        "wrong",
        [
            {"trusted_header": "X Forwarded"},
            {"trusted_header": ""},
            {"trusted_header": "a:b"},
            {"trusted_proxies": ["10.0.0.0/99"]},
            {"trusted_proxies": ["proxy"]},
        ],
    )
    def test_mistakes_are_one_line(self, wrong: dict[str, Any]) -> None:
        with pytest.raises(UserError) as raised:
            CallerOptions(**wrong).access()
        assert "\n" not in raised.value.message


class TestOrigins:
    def test_a_page_of_a_listed_origin_may_ask(self, file: Path) -> None:
        client = service(Access(KeyFile(file)), origins=origins_of(["https://app.example.org"]))
        asks = {"access-control-request-method": "POST", "access-control-request-headers": "authorization,content-type"}
        allowed = client.options("/v1/corpora/pumps/search", headers={"origin": "https://app.example.org", **asks})
        assert allowed.status_code == 200
        assert allowed.headers["access-control-allow-origin"] == "https://app.example.org"
        assert "access-control-allow-credentials" not in allowed.headers
        for status, headers in ((200, bearer(KEY)), (401, {})):
            answer = client.get("/v1/corpora", headers={"origin": "https://app.example.org", **headers})
            assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (
                status,
                "https://app.example.org",
            )

    @pytest.mark.parametrize(
        "origin", ["https://evil.example", "https://app.example.org.evil.example", "null", "http://app.example.org"]
    )
    def test_others_may_not(self, origin: str, file: Path) -> None:
        client = service(Access(KeyFile(file)), origins=["https://app.example.org"])
        answer = client.get("/v1/corpora", headers={"origin": origin, **bearer(KEY)})
        assert "access-control-allow-origin" not in answer.headers

    @pytest.mark.parametrize("wrong", ["*", "null", "app.example.org", "https://a.b/", "https://*.b", "https://a\nb", ""])
    def test_what_is_no_origin_is_refused(self, wrong: str) -> None:
        with pytest.raises(UserError, match="isn't an origin"):
            origins_of([wrong])


def entries(caplog: pytest.LogCaptureFixture, logger: str = "inset.access") -> list[dict[str, Any]]:
    return [json.loads(record.getMessage()) for record in caplog.records if record.name == logger]


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the log of the service, with tracebacks and without that of the client."""
    formatter = logging.Formatter()
    return [formatter.format(record) for record in caplog.records if record.name.startswith("inset")]


class TestLog:
    def test_a_request_is_an_object_without_its_question(self, keyed: TestClient, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO)
        keyed.post("/v1/corpora/pumps/search", json=SEARCH, headers={**bearer(KEY), "x-request-id": "abc-1"})
        keyed.head("/v1/corpora/valves", headers=bearer(KEY))
        keyed.get(f"/{KEY}/none", params={"key": KEY})
        served, hidden, refused = entries(caplog)
        assert (served["key"], served["route"], served["corpus"]) == ("équipe 泵", "/v1/corpora/{corpus}/search", "pumps")
        assert (served["status"], served["request_id"], served["method"]) == (200, "abc-1", "POST")
        assert served["ms"] > 0
        assert "question" not in served
        assert (hidden["status"], hidden["corpus"], hidden["route"]) == (404, None, "/v1/corpora/{corpus}")
        assert (refused["status"], refused["key"], refused["route"]) == (401, None, "none")
        assert not any(word in line for line in lines(caplog) for word in ("secret valve", KEY))

    def test_questions_are_logged_where_the_operator_asks(self, file: Path, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.INFO)
        client = service(Access(KeyFile(file)), logs_questions=True)
        client.post("/v1/corpora/pumps/answer", json={"question": "where\n{"}, headers=bearer(KEY))
        assert entries(caplog)[0]["question"] == "where\n{"
        assert all("\n" not in record.getMessage() for record in caplog.records if record.name == "inset.access")

    @pytest.mark.parametrize(
        "wrong", [b"a b", b"a\xff", b"<script>", b"a" * 65, b"", "\u00e9".encode(), b"a\tb", b'"},{"key":"admin"']
    )
    def test_a_request_id_that_is_none_is_replaced(self, keyed: TestClient, wrong: bytes) -> None:
        answer = keyed.get("/healthz", headers=[(b"x-request-id", wrong)])
        assert answer.headers["x-request-id"].encode() != wrong
        assert len(answer.headers["x-request-id"]) == 16


class TestMetrics:
    @pytest.mark.parametrize(
        ("client", "headers", "status"),
        [
            (LOCAL, {}, 401),  # a proxy on this machine may forget to say whom it serves
            (LOCAL, {"x-forwarded-for": "192.0.2.7"}, 401),
            (REMOTE, {}, 401),
            (REMOTE, {"x-forwarded-for": "127.0.0.1"}, 401),
            (REMOTE, bearer(KEY), 403),
            (REMOTE, bearer(MONITOR), 200),
        ],
    )
    def test_who_may_read_them(self, client: tuple[str, int], headers: dict[str, str], status: int, file: Path) -> None:
        assert service(Access(KeyFile(file)), client).get("/metrics", headers=headers).status_code == status

    @pytest.mark.parametrize(
        ("client", "headers", "status"),
        [
            (LOCAL, {}, 200),
            (("::1", 1), {}, 200),
            (LOCAL, {"x-forwarded-for": "192.0.2.7"}, 403),
            (LOCAL, {"forwarded": "for=127.0.0.1"}, 403),
            (LOCAL, {"via": "1.1 proxy"}, 403),
            (REMOTE, {}, 403),
        ],
    )
    def test_a_service_without_keys_shows_them_to_its_own_machine_alone(
        self, client: tuple[str, int], headers: dict[str, str], status: int
    ) -> None:
        assert service(Access(), client).get("/metrics", headers=headers).status_code == status
        user_headers = {**headers, "x-user": "ana"}
        assert service(Access(header="x-user"), client).get("/metrics", headers=user_headers).status_code in (401, 403)

    def test_they_count_by_route_and_status(self, file: Path) -> None:
        client = service(Access(KeyFile(file)), LOCAL)
        client.post("/v1/corpora/pumps/search", json=SEARCH, headers=bearer(KEY))
        client.post("/v1/corpora/pumps/answer", json={"question": "How?"}, headers=bearer(KEY))
        client.get(f"/nothing/{KEY}", headers=bearer(KEY))
        client.get("/static/app.js")
        client.request("BREW", "/v1/corpora")
        text = client.get("/metrics", headers=bearer(MONITOR)).text
        for line in (
            'inset_http_request_seconds_count{method="POST",route="/v1/corpora/{corpus}/search",status="200"} 1.0',
            'inset_http_request_seconds_count{method="GET",route="none",status="404"} 1.0',
            'inset_http_request_seconds_count{method="GET",route="/static",status="200"} 1.0',
            'inset_http_request_seconds_count{method="other",route="none",status="401"} 1.0',
            'inset_answer_tokens_total{corpus="pumps",direction="input"} 0.0',
            'inset_versions_open{corpus="pumps"} 1.0',
            "inset_requests_waiting 0.0",
            "inset_http_requests_in_progress 1.0",
        ):
            assert f"{line}\n" in text
        assert KEY not in text


def test_a_span_names_the_route_and_holds_no_key(
    file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(telemetry, "_tracer", provider.get_tracer("test"))
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    client = service(Access(KeyFile(file)))
    client.post(
        "/v1/corpora/pumps/search", params={"key": KEY}, json=SEARCH, headers={**bearer(KEY), "traceparent": parent}
    )
    (span,) = exporter.get_finished_spans()
    assert span.name == "POST /v1/corpora/{corpus}/search"
    assert span.parent is not None
    assert f"{span.parent.trace_id:x}" == "af7651916cd43dd8448eb211c80319c"
    assert KEY not in span.to_json()
    assert "secret valve" not in span.to_json()
    assert not any(KEY in line for line in lines(caplog))


@pytest.mark.parametrize("question", ["bug", "unforeseen", "secret address", "misconfigured"])
def test_a_failure_shows_no_key(file: Path, question: str, caplog: pytest.LogCaptureFixture) -> None:
    client = service(Access(KeyFile(file)))
    headers = {**bearer(KEY), "x-request-id": "failed-1"}
    failed = client.post("/v1/corpora/pumps/search", json={"query": question}, headers=headers)
    assert failed.status_code >= 500
    assert failed.headers["x-request-id"] == "failed-1"
    assert KEY not in failed.text + str(failed.headers)
    assert not any(KEY in line for line in lines(caplog))


def test_the_line_of_a_key_has_its_digest_alone() -> None:
    line = key_line(entry(KEY, name="équipe", expires=datetime(2027, 1, 31, tzinfo=UTC)))
    assert KEY not in line
    assert Key.model_validate_json(line).sha256 == digest(KEY)
    assert "per_minute" not in line
