import base64
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import anyio
import pytest
from fastapi.testclient import TestClient
from starlette.types import Message

from query_service import app as service
from query_service import guard
from query_service.app import create_app
from query_service.guard import PICTURE_LIMIT, trusted
from query_service.requests import QUERY_LIMIT
from schemas.answers import AnswerResult
from schemas.errors import UserError
from schemas.evidence import SearchResult
from schemas.filters import Filters, Modality
from schemas.reports import CorpusOverview
from schemas.retrieval import GroupBy, Query
from tests.query_service import fake_corpus
from tests.query_service.fake_corpus import CITATION, DOC_ID, FIGURE_ID, HIT, LIVE, FakeCorpus, client_of

BASE = "/v1/corpora/pumps"
PAGE = f"{BASE}/documents/{DOC_ID}/pages/3.png"


def error_of(response: Any) -> tuple[int, str, str]:
    body = response.json()
    assert set(body) == {"type", "title", "status", "detail", "code"}
    assert response.headers["content-type"] == "application/problem+json"
    assert body["status"] == response.status_code
    assert "\n" not in body["detail"]
    return response.status_code, body["code"], body["detail"]


def serve(
    corpus: FakeCorpus, method: str, path: str, messages: list[Message], headers: Sequence[tuple[bytes, bytes]] = ()
) -> list[Message]:
    """Send a request's ASGI messages to the service, and return those that it sends."""
    sent: list[Message] = []

    async def receive() -> Message:
        return messages.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b""}
    scope |= {"headers": [(b"host", b"localhost"), *headers], "http_version": "1.1", "scheme": "http", "root_path": ""}
    anyio.run(create_app({"pumps": corpus}), scope, receive, send)
    return sent


class TestQuestions:
    def test_a_search_reaches_the_corpus_as_it_was_asked(self, client: TestClient, corpus: FakeCorpus) -> None:
        filters = {"documents": ["pump.pdf"], "pages": [3], "modalities": ["table"]}
        body = {"query": "  valve ", "preset": "bm25", "k": 100, "offset": 20, "filters": filters, "version": LIVE}
        body |= {"steps": {"select": {"diversity": 0.5}}}
        response = client.post(f"{BASE}/search", json=body)
        assert response.status_code == 200
        (hit,) = SearchResult.model_validate(response.json()).hits
        assert hit.model_copy(update={"links": {}}) == HIT
        document = f"{BASE}/documents/{HIT.doc_id}"
        links = {"document": document, "page": f"{document}/pages/3.png", "self": f"{BASE}/rows/e1"}
        assert hit.links == {name: f"{path}?version={LIVE}" for name, path in links.items()}
        expected = Filters(documents=["pump.pdf"], pages=[3], modalities=[Modality.TABLE])
        steps = {"select": {"diversity": 0.5}}
        assert corpus.queries == [
            Query("valve", preset="bm25", steps=steps, k=100, offset=20, filters=expected, version=LIVE)
        ]

    def test_null_takes_a_step_away_and_what_is_left_out_stays(self, client: TestClient, corpus: FakeCorpus) -> None:
        steps = {"describe": None, "rewrite": None, "documents": None}
        assert client.post(f"{BASE}/search", json={"query": "valve", "steps": steps}).status_code == 200
        assert (
            client.post(
                f"{BASE}/search",
                json={"query": "valve", "preset": "hybrid", "steps": {"documents": {"by": {"by": "bm25"}, "k": 1}}},
            ).status_code
            == 200
        )
        assert client.post(f"{BASE}/search", json={"query": "valve", "steps": {"fuse": None}}).status_code == 200
        assert [query.steps for query in corpus.queries] == [steps, {"documents": {"by": {"by": "bm25"}, "k": 1}}, {}]

    def test_every_filter_reaches_the_corpus(self, client: TestClient, corpus: FakeCorpus) -> None:
        filters = {
            "sources": ["phones/**"],
            "page_ranges": [{"first": 3, "last": 9}, {"first": 12}],
            "page_labels": ["iv"],
            "sections": ["Service > Filters"],
            "has_figure": True,
            "since": "2024-01-31",
            "until": "2024-12-31",
            "phrases": ["oil filter"],
        }
        body = {"query": "valve", "filters": filters, "group": "page", "highlight": True}
        assert client.post(f"{BASE}/search", json=body).status_code == 200
        query = Query("valve", filters=Filters.model_validate(filters), group=GroupBy.PAGE, highlight=True)
        assert corpus.queries == [query]

    def test_numbers_without_a_fraction_are_integers(self, client: TestClient, corpus: FakeCorpus) -> None:
        body = {"query": "valve", "k": 5.0, "filters": {"pages": [3.0]}, "steps": {"select": {"pool": 50.0}}}
        assert client.post(f"{BASE}/search", json=body).status_code == 200
        assert corpus.queries == [Query("valve", steps={"select": {"pool": 50}}, k=5, filters=Filters(pages=[3]))]

    def test_a_search_needs_nothing_but_a_query(self, client: TestClient, corpus: FakeCorpus) -> None:
        assert client.post(f"{BASE}/search", json={"query": "valve"}).json()["version"] == LIVE
        assert corpus.queries == [Query("valve")]

    @pytest.mark.parametrize(
        ("sent", "highlight"), [({}, None), *(({"highlight": value}, value) for value in (None, False, True))]
    )
    def test_highlights_are_of_words_unless_the_request_says_more_or_none(
        self, client: TestClient, corpus: FakeCorpus, sent: dict[str, bool | None], highlight: bool | None
    ) -> None:
        assert client.post(f"{BASE}/search", json={"query": "valve", **sent}).status_code == 200
        assert corpus.queries == [Query("valve", highlight=highlight)]

    @pytest.mark.parametrize("words", [{}, {"query": "valve"}])
    def test_a_picture_is_searched_by_alone_or_with_words(
        self, client: TestClient, corpus: FakeCorpus, words: dict[str, str]
    ) -> None:
        picture = b"\x89PNG" * (PICTURE_LIMIT // 4)
        response = client.post(f"{BASE}/search", json={**words, "picture": base64.b64encode(picture).decode()})
        assert response.status_code == 200
        assert corpus.queries == [Query(words.get("query", ""), picture=picture)]

    def test_an_answer_keeps_the_order_of_its_parts(self, client: TestClient) -> None:
        response = client.post(f"{BASE}/answer", json={"question": "How?"})
        result = AnswerResult.model_validate(response.json())
        assert [part.type for part in result.parts] == ["text", "figure"]
        assert result.citations == [CITATION]

    @pytest.mark.parametrize(
        ("body", "line"),
        [
            ({}, "body: give a query, a picture, or both"),
            ({"query": "   "}, "body: give a query, a picture, or both"),
            (
                {"picture": "data:image/png;base64,AAAA"},
                "picture: a picture is base64 of a file, without a media type before it",
            ),
            ({"picture": ""}, "picture: a picture has 8 MiB at most, and isn't empty"),
            ({"picture": "A" * (PICTURE_LIMIT // 3 * 4 + 8)}, "picture: a picture has 8 MiB at most, and isn't empty"),
            ({"query": "x" * 2001}, "query: string should have at most 2000 characters"),
            ({"query": "x", "k": 0}, "k: input should be greater than or equal to 1"),
            ({"query": "x", "k": 101}, "k: input should be less than or equal to 100"),
            ({"query": "x", "steps": {"select": {"kk": 3}}}, "steps.select.kk: extra inputs are not permitted"),
            ({"query": "x", "document": "a.pdf"}, "document: extra inputs are not permitted"),
            ({"query": "x", "filters": {"pages": ["three"]}}, "filters.pages.0: "),
            (
                {"query": "x", "filters": {"page_ranges": [{"first": 0}]}},
                "filters.page_ranges.0.first: input should be greater",
            ),
            ({"query": "x", "k": True}, "k: input should be a valid integer"),
            ({"query": "x", "k": "5"}, "k: input should be a valid integer"),
            ({"query": "x", "offset": "0"}, "offset: input should be a valid integer"),
            ({"query": "x", "highlight": "yes"}, "highlight: input should be a valid boolean"),
            ({"query": "x", "filters": {"pages": [True]}}, "filters.pages.0: input should be a valid integer"),
            ({"query": "x", "filters": {"has_figure": 1}}, "filters.has_figure: input should be a valid boolean"),
            ({"query": "x", "filters": {"since": "5"}}, "filters.since: input should be a valid date"),
            ({"query": "x", "filters": {"since": 5}}, "filters.since: input should be a valid date"),
            (
                {"query": "x", "steps": {"rerank": [{"by": "nearness", "pool": "5"}]}},
                "steps.rerank.0.nearness.pool: input should be a valid integer",
            ),
            ({"query": "\u200b\u2060\ufeff"}, "query: write words"),
            ({"query": "\u3164 \u0301"}, "query: write words"),
            ({"query": "x", "filters": {"since": "yesterday"}}, "filters.since: input should be a valid date"),
            ({"query": "x", "group": "chapter"}, "group: input should be 'page' or 'document'"),
            ({"query": "x", "version": "../LIVE"}, "version: string should match pattern"),
            ({"k": 0, "offset": -1}, "k: input should be greater than or equal to 1 (and 1 more)"),
        ],
    )
    def test_a_malformed_search_gets_one_clear_line(self, client: TestClient, body: dict[str, object], line: str) -> None:
        status, code, message = error_of(client.post(f"{BASE}/search", json=body))
        assert (status, code) == (422, "invalid")
        assert message.startswith(line)

    @pytest.mark.parametrize(
        ("name", "value", "limit", "longest"),
        [
            ("documents", "a", 1_000, 1_024),
            ("sources", "*", 20, 256),
            ("pages", 1, 1_000, 0),
            ("page_ranges", {"first": 1}, 50, 0),
            ("sections", "Service", 50, 500),
            ("modalities", "text", 4, 0),
            ("languages", "en", 50, 35),
            ("phrases", "oil", 20, 500),
            ("evidence_ids", "e", 1_000, 64),
        ],
    )
    def test_a_filter_has_limits(
        self, client: TestClient, corpus: FakeCorpus, name: str, value: Any, limit: int, longest: int
    ) -> None:
        def ask(values: list[Any]) -> Any:
            return client.post(f"{BASE}/search", json={"query": "x", "filters": {name: values}})

        assert ask([value] * limit).status_code == 200
        assert error_of(ask([value] * (limit + 1))) == (
            422,
            "invalid",
            f"filters.{name}: list should have at most {limit} items after validation, not {limit + 1}",
        )
        assert len(corpus.queries) == 1
        if longest:
            assert ask(["x" * longest]).status_code == 200
            message = error_of(ask(["x" * (longest + 1)]))[2]
            assert message.startswith(f"filters.{name}.0: value should have at most {longest} ")

    def test_a_mistake_quotes_little_of_what_was_sent(self, client: TestClient) -> None:
        steps = {"retrieve": [{"by": "bm25", "weights": {"x" * 50_000: 1}}]}
        assert len(error_of(client.post(f"{BASE}/search", json={"query": "x", "steps": steps}))[2]) < 1_000

    def test_only_a_picture_makes_a_body_large(self, client: TestClient) -> None:
        picture = base64.b64encode(b"?" * PICTURE_LIMIT).decode()
        assert client.post(f"{BASE}/search", json={"query": "x", "picture": picture}).status_code == 200
        large = {"query": "x", "filters": {"languages": ["en"] * 100_000}}
        for body in (large, {**large, "picture": picture[: 1024**2]}):
            for path in ("search", "answer"):
                assert error_of(client.post(f"{BASE}/{path}", json=body)) == (
                    413,
                    "too_large",
                    "the request body without its picture is larger than 128 KiB",
                )

    def test_large_bodies_at_once_are_few(self, corpus: FakeCorpus, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(guard, "LARGE_BODIES", 0)
        picture = base64.b64encode(b"?" * PICTURE_LIMIT).decode()
        client = client_of(create_app({"pumps": corpus}))
        response = client.post(f"{BASE}/search", json={"picture": picture})
        assert error_of(response)[:2] == (503, "unavailable")
        assert response.headers["retry-after"] == "5"
        monkeypatch.setattr(guard, "LARGE_BODIES", 1)
        assert [client.post(f"{BASE}/search", json={"picture": picture}).status_code for _ in range(2)] == [200, 200]

    def test_headers_are_counted(self, client: TestClient) -> None:
        response = client.get(BASE, headers={f"x-{number}": "1" for number in range(200)})
        assert error_of(response) == (431, "too_large", "a request has 100 headers at most, of 32 KiB together")

    def test_a_lone_surrogate_is_the_callers_mistake(self, client: TestClient) -> None:
        headers = {"content-type": "application/json"}
        response = client.post(f"{BASE}/search", content=b'{"query": "\\ud800"}', headers=headers)
        assert error_of(response)[:2] == (422, "invalid")

    @pytest.mark.parametrize("question", ["", "  \n", " " * QUERY_LIMIT + "pump"], ids=["empty", "blank", "long"])
    def test_the_length_of_a_question_is_that_of_what_is_sent(self, client: TestClient, question: str) -> None:
        response = client.post("/v1/answer", json={"corpora": ["pumps"], "question": question})
        assert error_of(response)[:2] == (422, "invalid")

    def test_blanks_around_a_question_are_left_out(self, client: TestClient) -> None:
        plain, padded = (client.post(f"{BASE}/search", json={"query": query}).json() for query in ("pump", " pump \n"))
        assert padded["hits"] == plain["hits"]

    def test_a_body_that_is_not_json_is_said_to_be_none(self, client: TestClient) -> None:
        headers = {"content-type": "application/json"}
        status, code, message = error_of(client.post(f"{BASE}/search", content=b"{query", headers=headers))
        assert (status, code) == (422, "invalid")
        assert message.startswith("the body is not JSON: ")


class TestErrors:
    def test_a_corpus_that_is_not_served_is_not_found(self) -> None:
        client = client_of(create_app({name: FakeCorpus(name) for name in ("pumps", "valves")}))
        assert error_of(client.get("/v1/corpora/other")) == (
            404,
            "not_found",
            "there is no corpus 'other'; served here: pumps, valves",
        )

    @pytest.mark.parametrize("name", ["Pumps", "..%2fpumps", "a" * 41, "pumps.yaml", "pumps%0a"])
    def test_a_name_that_no_corpus_can_have_never_reaches_the_file_system(self, client: TestClient, name: str) -> None:
        assert client.get(f"/v1/corpora/{name}").status_code in {404, 422}

    @pytest.mark.parametrize(
        ("query", "status", "code", "message"),
        [
            ("mistake", 400, "bad_request", "no document of this version is named 'x.pdf'"),
            ("misconfigured", 503, "unavailable", "index.api_key_env names KEY, which is not set"),
            ("busy", 503, "unavailable", "the index does not answer"),
        ],
    )
    def test_errors_on_purpose_keep_their_line(
        self, client: TestClient, query: str, status: int, code: str, message: str
    ) -> None:
        assert error_of(client.post(f"{BASE}/search", json={"query": query})) == (status, code, message)

    def test_an_unknown_version_is_not_found(self, client: TestClient) -> None:
        body = {"question": "How?", "version": "20200101T000000Z-00000000"}
        assert error_of(client.post(f"{BASE}/answer", json=body))[:2] == (404, "not_found")

    def test_a_bug_is_logged_and_not_shown(self, client: TestClient, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.ERROR):
            response = client.post(f"{BASE}/search", json={"query": "bug"})
        status, code, message = error_of(response)
        assert (status, code) == (500, "internal")
        assert "secret" not in response.text
        assert response.headers["x-content-type-options"] == "nosniff"
        (record,) = [record for record in caplog.records if record.name == "inset.query_service"]
        assert record.exc_info is not None
        assert message.rpartition(" ")[2] in record.getMessage()

    @pytest.mark.parametrize(("query", "has_cause"), [("busy", False), ("unforeseen", True)])
    def test_what_may_pass_is_logged_with_a_cause_that_nobody_foresaw(
        self, client: TestClient, caplog: pytest.LogCaptureFixture, query: str, has_cause: bool
    ) -> None:
        assert error_of(client.post(f"{BASE}/search", json={"query": query}))[:2] == (503, "unavailable")
        (record,) = [record for record in caplog.records if record.name == "inset.query_service"]
        assert ("a cause" in caplog.text, bool(record.exc_info)) == (has_cause, has_cause)

    def test_there_is_nothing_elsewhere(self, client: TestClient) -> None:
        assert error_of(client.get("/nowhere")) == (404, "not_found", "there is nothing at /nowhere")
        assert error_of(client.get(f"{BASE}/search"))[:2] == (405, "method_not_allowed")
        assert error_of(client.get("/static/../app.py"))[0] == 404
        assert error_of(client.get("/docs"))[0] == 404

    def test_a_huge_body_is_refused(self, client: TestClient) -> None:
        for path in ("answer", "search"):
            response = client.post(f"{BASE}/{path}", content=b" " * (2 * PICTURE_LIMIT))
            assert error_of(response)[:2] == (413, "too_large")

    def test_a_huge_body_is_refused_where_its_length_is_not_announced(self, client: TestClient) -> None:
        def pieces() -> Iterator[bytes]:
            for _ in range(5):
                yield b" " * (PICTURE_LIMIT // 2)

        headers = {"content-type": "application/json"}
        assert error_of(client.post(f"{BASE}/answer", content=pieces(), headers=headers))[:2] == (413, "too_large")

    def test_a_huge_body_is_refused_by_its_announced_length_before_it_is_read(self, corpus: FakeCorpus) -> None:
        messages: list[Message] = [{"type": "http.request", "body": b"{", "more_body": True}]
        length = [(b"content-length", str(2 * PICTURE_LIMIT).encode()), (b"content-type", b"application/json")]
        start, _ = serve(corpus, "POST", f"{BASE}/answer", messages, length)
        assert start["status"] == 413


class TestArtifacts:
    def test_a_figure_of_a_version_may_be_kept_for_good(self, client: TestClient, corpus: FakeCorpus) -> None:
        response = client.get(f"{BASE}/figures/{FIGURE_ID}", params={"version": LIVE})
        assert (response.content, response.headers["content-type"]) == (b"pixels", "image/png")
        assert "immutable" in response.headers["cache-control"]
        assert "sandbox" in response.headers["content-security-policy"]
        assert corpus.calls == [{"figure": FIGURE_ID, "version": LIVE}]

    def test_what_is_live_is_asked_for_again_and_comes_back_unless_it_is_there_already(self, client: TestClient) -> None:
        response = client.get(f"{BASE}/figures/{FIGURE_ID}")
        assert response.headers["cache-control"] == "no-cache"
        tag = response.headers["etag"]
        for if_none_match in (tag, f"W/{tag}", f'"other", {tag}', "*"):
            again = client.get(f"{BASE}/figures/{FIGURE_ID}", headers={"if-none-match": if_none_match})
            assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
        assert client.get(f"{BASE}/figures/{FIGURE_ID}", headers={"if-none-match": '"other"'}).status_code == 200

    @pytest.mark.parametrize("path", [PAGE, f"{BASE}/documents/{DOC_ID}.pdf", f"{BASE}/documents/{DOC_ID}/tagged.pdf"])
    def test_pages_and_documents_are_kept_for_a_day_where_they_are_a_versions(self, client: TestClient, path: str) -> None:
        assert client.get(path, params={"version": LIVE}).headers["cache-control"] == "public, max-age=86400"
        assert client.get(path).headers["cache-control"] == "no-cache"

    @pytest.mark.parametrize("figure_id", ["f1", "F1" * 32, "%2e%2e", "f1" * 33, "f1" * 32 + "%0a"])
    def test_a_figure_id_is_a_digest(self, client: TestClient, figure_id: str) -> None:
        assert client.get(f"{BASE}/figures/{figure_id}").status_code in {404, 422}

    def test_a_figure_that_is_not_there_is_not_found(self, client: TestClient) -> None:
        assert error_of(client.get(f"{BASE}/figures/{'00' * 32}"))[:2] == (404, "not_found")

    def test_a_page_is_drawn_with_its_boxes(self, client: TestClient, corpus: FakeCorpus) -> None:
        response = client.get(PAGE, params={"box": ["1,2,3.5,4", "-1,0,1e2,5"], "dpi": 36})
        assert (response.content, response.headers["content-type"]) == (b"page", "image/png")
        boxes = [(1.0, 2.0, 3.5, 4.0), (-1.0, 0.0, 100.0, 5.0)]
        assert corpus.calls == [{"doc_id": DOC_ID, "page": 3, "highlight": boxes, "dpi": 36, "version": None}]

    @pytest.mark.parametrize(
        ("query", "line"),
        [
            ("dpi=35", "dpi: "),
            ("dpi=201", "dpi: "),
            ("box=1,2,3", "box.0: a box is four numbers"),
            ("box=1,2,3,x", "box.0: a box is four numbers"),
            ("box=1,2,3,nan", "box.0: a box is x0,y0,x1,y1"),
            ("box=1,2,3,inf", "box.0: a box is x0,y0,x1,y1"),
            ("box=3,2,1,4", "box.0: a box is x0,y0,x1,y1"),
            ("box=1,2,3,4&box=", "box.1: a box is four numbers"),
            ("&".join(["box=1,2,3,4"] * 51), "box: list should have at most 50 items"),
        ],
    )
    def test_a_page_has_limits(self, client: TestClient, query: str, line: str) -> None:
        status, code, message = error_of(client.get(f"{PAGE}?{query}"))
        assert (status, code) == (422, "invalid")
        assert message.startswith(line)

    @pytest.mark.parametrize("page", ["0", "-1", "x", "100001"])
    def test_pages_count_from_one(self, client: TestClient, page: str) -> None:
        assert error_of(client.get(f"{BASE}/documents/{DOC_ID}/pages/{page}.png"))[:2] == (422, "invalid")

    def test_a_page_that_cannot_be_drawn_says_so(self, client: TestClient) -> None:
        response = client.get(f"{BASE}/documents/{DOC_ID}/pages/7.png")
        assert error_of(response) == (422, "unreadable", "page 7 can't be drawn")

    def test_too_many_pages_at_once_are_asked_to_come_back(self, client: TestClient) -> None:
        response = client.get(f"{BASE}/documents/{DOC_ID}/pages/8.png")
        assert error_of(response) == (503, "unavailable", "too many pages are waiting")
        assert int(response.headers["retry-after"]) > 0

    def test_a_page_whose_reader_left_is_no_longer_drawn(self, corpus: FakeCorpus) -> None:
        body: Message = {"type": "http.request", "body": b"", "more_body": False}
        serve(corpus, "GET", f"{BASE}/documents/{DOC_ID}/pages/9.png", [body, {"type": "http.disconnect"}])
        assert corpus.drawer.has_stopped.wait(5)

    def test_the_original_opens_in_the_browser_whatever_its_name(self, client: TestClient, corpus: FakeCorpus) -> None:
        response = client.get(f"{BASE}/documents/{DOC_ID}.pdf", params={"version": LIVE})
        assert (response.content, response.headers["content-type"]) == (b"%PDF-1.7", "application/pdf")
        name = response.headers["content-disposition"]
        assert name.startswith('inline; filename="p_mp _7___X-Evil: 1.pdf"; ')
        assert name.endswith("filename*=UTF-8''p%C3%BCmp%20%227%22%0D%0AX-Evil%3A%201.pdf")
        assert "x-evil" not in response.headers
        assert corpus.calls == [{"doc_id": DOC_ID, "version": LIVE}]

    def test_the_tagged_copy_opens_in_the_browser_where_there_is_one(self, client: TestClient, corpus: FakeCorpus) -> None:
        response = client.get(f"{BASE}/documents/{DOC_ID}/tagged.pdf", params={"version": LIVE})
        assert (response.content, response.headers["content-type"]) == (b"%PDF-1.7 tagged", "application/pdf")
        assert 'filename="pump.tagged.pdf"' in response.headers["content-disposition"]
        assert corpus.calls == [{"tagged": DOC_ID, "version": LIVE}]
        assert error_of(client.get(f"{BASE}/documents/{'ab' * 32}/tagged.pdf"))[:2] == (404, "not_found")

    @pytest.mark.parametrize(
        ("path", "content"),
        [
            (f"{BASE}/figures/{FIGURE_ID}", b"pixels"),
            (PAGE, b"page"),
            (f"{BASE}/documents/{DOC_ID}.pdf", b"%PDF-1.7"),
            (f"{BASE}/documents/{DOC_ID}/tagged.pdf", b"%PDF-1.7 tagged"),
        ],
    )
    def test_what_the_client_has_is_not_sent_again(self, client: TestClient, path: str, content: bytes) -> None:
        first = client.get(path)
        assert first.content == content
        again = client.get(path, headers={"if-none-match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")

    @pytest.mark.parametrize(
        ("range_header", "status", "content", "content_range"),
        [
            ("bytes=0-3", 206, b"%PDF", "bytes 0-3/8"),
            ("bytes=5-", 206, b"1.7", "bytes 5-7/8"),
            ("bytes=-2", 206, b".7", "bytes 6-7/8"),
            ("bytes=-99", 206, b"%PDF-1.7", "bytes 0-7/8"),
            ("bytes=7-99", 206, b"7", "bytes 7-7/8"),
            ("bytes=8-", 416, b"", "bytes */8"),
            ("bytes=-0", 416, b"", "bytes */8"),
            ("bytes=3-1", 200, b"%PDF-1.7", None),
            ("bytes=-", 200, b"%PDF-1.7", None),
            ("bytes=0-1,3-4", 200, b"%PDF-1.7", None),
            ("lines=0-1", 200, b"%PDF-1.7", None),
            (f"bytes={'9' * 5_000}-", 200, b"%PDF-1.7", None),
            (f"bytes=0-{'9' * 5_000}", 200, b"%PDF-1.7", None),
            (f"bytes=-{'9' * 5_000}", 200, b"%PDF-1.7", None),
        ],
    )
    def test_a_part_of_a_document_is_sent_where_one_is_asked_for(
        self, client: TestClient, range_header: str, status: int, content: bytes, content_range: str | None
    ) -> None:
        path = f"{BASE}/documents/{DOC_ID}.pdf"
        response = client.get(path, headers={"range": range_header})
        assert (response.status_code, response.content) == (status, content)
        assert response.headers.get("content-range") == content_range
        assert response.headers["accept-ranges"] == "bytes"
        changed = client.get(path, headers={"range": range_header, "if-range": '"another"'})
        assert (changed.status_code, changed.content) == (200, b"%PDF-1.7")

    def test_a_document_says_how_many_pages_it_has(self, client: TestClient) -> None:
        document = client.get(f"{BASE}/documents/{DOC_ID}").json()
        assert document["version"] == LIVE
        assert (document["doc_id"], document["sources"], document["pages"]) == (DOC_ID, ["manuals/pump.pdf"], 4)
        assert error_of(client.get(f"{BASE}/documents/{'ab' * 32}"))[:2] == (404, "not_found")

    def test_a_name_that_turns_its_direction_shows_its_own_extension(
        self, client: TestClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(fake_corpus, "FILE_NAME", "fdp.\u202egpj.pdf")
        name = client.get(f"{BASE}/documents/{DOC_ID}.pdf").headers["content-disposition"]
        assert name == "inline; filename=\"fdp._gpj.pdf\"; filename*=UTF-8''fdp._gpj.pdf"


class TestReplies:
    def test_json_is_compressed_and_files_are_not(self) -> None:
        corpus = FakeCorpus("pumps", text="valve " * 500 + "*x*")
        client = client_of(create_app({"pumps": corpus}))
        response = client.post(f"{BASE}/search", json={"query": "x"})
        assert response.headers["content-encoding"] == "gzip"
        assert int(response.headers["content-length"]) < 1_500 < len(response.content)
        plain = client.post(f"{BASE}/search", json={"query": "x"}, headers={"accept-encoding": "identity"})
        assert "content-encoding" not in plain.headers
        assert plain.json() == response.json()
        corpus.pixels = bytes(5_000)
        assert "content-encoding" not in client.get(f"{BASE}/figures/{FIGURE_ID}").headers

    def test_no_nul_goes_out_and_offsets_stay(self) -> None:
        corpus = FakeCorpus("pumps", text="a\0\0b \\u0000 \\\0*valve*")
        response = client_of(create_app({"pumps": corpus})).post(f"{BASE}/search", json={"query": "x"})
        hit = response.json()["hits"][0]
        assert hit["text"] == "a\ufffd\ufffdb \\u0000 \\\ufffdvalve"
        assert [hit["text"][start:end] for start, end in hit["highlights"]] == ["valve"]


class TestHosts:
    @pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8750", "127.0.0.1", "127.0.0.1:80", "[::1]", "[::1]:8750"])
    def test_this_machine_may_ask(self, client: TestClient, host: str) -> None:
        assert client.get("/v1/corpora", headers={"host": host}).status_code == 200

    @pytest.mark.parametrize(
        "host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:8750", "192.0.2.1", "", "localhost@x"]
    )
    @pytest.mark.parametrize("path", ["/v1/corpora", "/", "/static/app.js", PAGE, "/openapi.json"])
    def test_a_name_that_resolves_to_this_machine_does_not_make_it_ours(
        self, client: TestClient, host: str, path: str
    ) -> None:
        response = client.get(path, headers={"host": host})
        status, code, message = error_of(response)
        assert (status, code) == (400, "bad_request")
        assert message == f"this service doesn't go by the name {host!r}; if it should: inset serve --allow-host NAME"
        assert response.headers["x-content-type-options"] == "nosniff"

    def test_further_names_are_named(self, corpus: FakeCorpus) -> None:
        names = trusted("0.0.0.0", ["search.example.org", "*.example.net", "fe80::1"])
        client = client_of(create_app({"pumps": corpus}, hosts=names))
        hosts = ["search.example.org:8750", "a.example.net", "[fe80::1]", "example.org", "example.net", "0.0.0.0"]
        answers = [client.get("/healthz", headers={"host": host}).status_code for host in hosts]
        assert answers == [200, 200, 200, 400, 400, 400]
        anyone = client_of(create_app({"pumps": corpus}, hosts=trusted("127.0.0.1", ["*"])))
        assert anyone.get("/healthz", headers={"host": "any.example"}).status_code == 200

    def test_the_address_listened_on_is_a_name_of_its_own(self) -> None:
        assert trusted("192.0.2.7", []) == ["192.0.2.7"]
        assert trusted("::", []) == trusted("0.0.0.0", []) == []

    @pytest.mark.parametrize("name", ["http://example.org", "example.org:8750", "*example.org", "", "a b", "*.", "*.*"])
    def test_what_is_no_name_is_the_users_mistake(self, name: str) -> None:
        with pytest.raises(UserError, match="isn't a host name; write a name without scheme and port"):
            trusted("127.0.0.1", [name])


class TestHead:
    @pytest.mark.parametrize(
        "path",
        [
            "/",
            "/api",
            "/static/app.js",
            "/healthz",
            "/readyz",
            "/openapi.json",
            "/v1/corpora",
            BASE,
            f"{BASE}/versions",
            f"{BASE}/figures/{FIGURE_ID}",
            f"{BASE}/figures/{'00' * 32}",
            PAGE,
            f"{BASE}/documents/{DOC_ID}.pdf",
            f"{BASE}/documents/{DOC_ID}/tagged.pdf",
            f"{BASE}/nothing",
        ],
    )
    def test_head_is_answered_like_get_without_the_body(self, client: TestClient, path: str) -> None:
        same = {"x-request-id": "same"}
        got, head = client.get(path, headers=same), client.head(path, headers=same)
        assert head.content == b""
        assert (head.status_code, head.headers) == (got.status_code, got.headers)

    def test_head_sends_no_body(self, corpus: FakeCorpus) -> None:
        """Servers and clients drop one that is sent."""
        start, *body_messages = serve(
            corpus, "HEAD", "/v1/corpora", [{"type": "http.request", "body": b"", "more_body": False}]
        )
        assert (start["status"], [message["body"] for message in body_messages]) == (200, [b""] * len(body_messages))

    def test_what_only_takes_a_post_takes_no_head(self, client: TestClient) -> None:
        assert client.head(f"{BASE}/search").status_code == 405


class Broken(FakeCorpus):
    def overview(self) -> CorpusOverview:
        raise RuntimeError("a secret")

    def ready(self) -> None:
        raise RuntimeError("a secret")


class TestCorpora:
    def test_one_corpus_that_fails_unforeseen_hides_no_other(self, caplog: pytest.LogCaptureFixture) -> None:
        response = client_of(create_app({"broken": Broken("broken"), "pumps": FakeCorpus("pumps")})).get("/v1/corpora")
        assert [(corpus_row["name"], corpus_row["version"]) for corpus_row in response.json()] == [
            ("broken", None),
            ("pumps", LIVE),
        ]
        assert response.json()[0]["problem"] == "it can't be opened; the service's log says why"
        assert "a secret" in caplog.text

    def test_addresses_in_errors_lose_their_user_info(self, client: TestClient) -> None:
        response = client.post(f"{BASE}/search", json={"query": "secret address"})
        message = "http://…@index.example:8080/?… and s3://bucket/a@b do not answer"
        assert error_of(response) == (503, "unavailable", message)

    def test_every_corpus_is_listed_and_one_out_of_order_hides_no_other(self) -> None:
        live, empty = FakeCorpus("pumps"), FakeCorpus("valves", live=False)
        client = client_of(create_app({"pumps": live, "valves": empty}))
        first, second = client.get("/v1/corpora").json()
        assert (first["version"], first["problem"]) == (LIVE, "")
        assert (second["name"], second["version"], second["problem"]) == ("valves", None, "nothing is published yet")

    def test_one_corpus_and_its_versions(self, client: TestClient) -> None:
        assert client.get(BASE).json()["version"] == LIVE
        assert client.get(f"{BASE}/versions").json()["versions"][0]["state"] == "live"

    def test_health_asks_nothing_of_the_corpora(self) -> None:
        client = client_of(create_app({"pumps": Broken("pumps")}))
        assert client.get("/healthz").json() == {"status": "up"}
        assert client.get("/readyz").json() == {
            "ready": False,
            "reasons": {"pumps": "it can't be opened; the service's log says why"},
        }

    def test_ready_once_every_corpus_has_a_live_version(self, client: TestClient) -> None:
        response = client.get("/readyz")
        assert (response.status_code, response.json()) == (200, {"ready": True, "reasons": {}})

    def test_one_corpus_that_can_be_searched_is_enough_and_the_body_names_the_others(self) -> None:
        corpora = {"pumps": FakeCorpus("pumps"), "valves": FakeCorpus("valves", live=False)}
        response = client_of(create_app(corpora)).get("/readyz")
        reasons = {"valves": "nothing is published yet; run: inset refresh"}
        assert (response.status_code, response.json()) == (200, {"ready": True, "reasons": reasons})
        del corpora["pumps"]
        response = client_of(create_app(corpora)).get("/readyz")
        assert (response.status_code, response.json()) == (503, {"ready": False, "reasons": reasons})
        none = client_of(create_app({})).get("/readyz")
        assert (none.status_code, none.json()["reasons"]) == (503, {"*": "no corpus is configured"})


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("/v1/corpora/pumps/presets?versoin=x", "there is no parameter 'versoin'; there are version"),
        (f"/v1/corpora/pumps/figures/{FIGURE_ID}?v={LIVE}", "there is no parameter 'v'; there are version"),
        ("/v1/corpora?corpus=pumps", "there is no parameter 'corpus'; there is none here"),
        ("/v1/corpora/pumps/documents?lang=en", "there is no parameter 'lang'"),
    ],
)
def test_a_mistyped_parameter_is_refused(client: TestClient, path: str, line: str) -> None:
    refused = client.get(path)
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid")
    assert line in refused.json()["detail"]
    assert client.get("/?q=pump&utm_source=mail").status_code == 200


@pytest.mark.parametrize("path", ["/v1/corpora/", "/v1/corpora/pumps/", "/v1/corpora/pumps/versions/", "/api/"])
def test_a_trailing_slash_is_never_redirected(client: TestClient, path: str) -> None:
    answered = client.get(path, follow_redirects=False, headers={"x-api-key": "secret"})
    assert (answered.status_code, answered.headers.get("location")) == (404, None)


def test_a_client_that_knows_the_versions_is_told_so(client: TestClient) -> None:
    listed = client.get("/v1/corpora/pumps/versions")
    assert client.get("/v1/corpora/pumps/versions", headers={"if-none-match": listed.headers["etag"]}).status_code == 304


def test_the_api_is_what_it_was(client: TestClient, golden: Callable[[str, str], None]) -> None:
    golden("openapi.json", json.dumps(client.get("/openapi.json").json(), indent=2, ensure_ascii=False) + "\n")


def test_generators_of_clients_find_every_field_and_every_body(client: TestClient) -> None:
    api = client.get("/openapi.json").json()
    for name in ("SearchRequest", "AnswerRequest"):
        schema = api["components"]["schemas"][name]
        assert {"picture", "preset", "steps", "filters", "version"} <= set(schema["properties"])
        assert not {"anyOf", "oneOf", "allOf"} & set(schema)
    for path, methods in api["paths"].items():
        if path.endswith((".pdf", ".png", "/figures/{figure_id}")):
            (content,) = methods["get"]["responses"]["200"]["content"].items()
            assert content[0] in {"application/pdf", "image/png"}
            assert content[1] == {"schema": {"type": "string", "format": "binary"}}


def test_every_corpus_is_asked_a_question_before_a_person_asks_the_first() -> None:
    searched: list[str] = []

    class Corpus(FakeCorpus):
        def ready(self) -> None:
            searched.append(self.name)
            super().ready()

    corpora = {"manuals": Corpus("manuals"), "empty": Corpus("empty", live=False)}
    with client_of(create_app(corpora)) as client:
        assert client.get("/healthz").status_code == 200
        ends = time.monotonic() + 10
        while len(searched) < 2 and time.monotonic() < ends:
            time.sleep(0.01)
    assert searched == ["manuals", "empty"]


def test_readiness_is_checked_once_in_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    class Corpus(FakeCorpus):
        checks = 0

        def ready(self) -> None:
            self.checks += 1
            super().ready()

    corpus = Corpus("manuals")
    client = client_of(create_app({"manuals": corpus}))
    assert [client.get("/readyz").status_code for _ in range(5)] == [200] * 5
    assert corpus.checks == 1
    monkeypatch.setattr(service, "READY_S", 0.0)
    client = client_of(create_app({"manuals": corpus}))
    assert [client.get("/readyz").status_code for _ in range(2)] == [200] * 2
    assert corpus.checks == 3


def test_a_service_that_is_loading_is_not_ready() -> None:
    loading, loaded = threading.Event(), threading.Event()

    class Corpus(FakeCorpus):
        def ready(self) -> None:
            loading.set()
            loaded.wait(10)

    with client_of(create_app({"manuals": Corpus("manuals")})) as client:
        assert loading.wait(10)
        response = client.get("/readyz")
        assert (response.status_code, response.json()["reasons"]) == (503, {"manuals": "models and index are being loaded"})
        loaded.set()
