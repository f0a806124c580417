"""Rights of documents: what a caller may not see isn't there, on every route, page and tool."""

import base64
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from backends.engines.weaviate_server import WeaviateServer
from pipeline.corpus.workspace import open_workspace
from pipeline.stages.publish import make_live
from query_service.access import principals_of
from query_service.identity import Identity
from query_service.keys import Key
from schemas.access import EVERYONE, Principals
from tests.query_service.rights import ABSENT_DIGEST, ABSENT_ROW, OPERATIONS, Asker, Content, Library, Sent

SERVICE, SALES = frozenset({"group:service"}), frozenset({"group:sales"})
CALLERS = {"service": SERVICE, "guest": frozenset({"user:guest"}), "admin": None}
WORDS = {"quodvalve": 1, "zimbarrel": 2, "vextrumpet": 2, "wolfspanner": 4}
"""The second and third share their figures."""

TRIES = 4
"""Random requests of each operation that the fast test sends by each caller."""


@pytest.fixture(scope="module", autouse=True)
def _rights_hold_at_once() -> Iterator[None]:
    """Have readers look for new rights at each request, from the first one of a service on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pipeline.published.readers.RIGHTS_S", 0.0)
        yield


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    library = Library(tmp_path_factory.mktemp("library"))
    library.publish(WORDS)
    by_word = {content.word: doc_id for doc_id, content in library.contents.items()}
    public, service = frozenset({EVERYONE}), SERVICE | SALES
    library.apply(
        {
            by_word["quodvalve"]: public,
            by_word["zimbarrel"]: service,
            by_word["vextrumpet"]: SALES,
            by_word["wolfspanner"]: frozenset(),
        }
    )
    return library


@pytest.fixture(scope="module")
def client(library: Library) -> Iterator[TestClient]:
    with TestClient(library.service(CALLERS), base_url="http://localhost") as client:
        yield client


def of(library: Library, word: str) -> Content:
    return next(content for content in library.contents.values() if content.word == word)


def leaks(response: Any, sent: Sent, hidden: list[Content], visible: list[Content]) -> list[str]:
    """Return what of hidden documents a response has: words, ids, figures and files, but for what the request says itself."""
    shown_figures = {figure for content in visible for figure in content.figures}
    request_text = sent.text
    text = f"{response.text} {response.headers}".lower()
    marks = [
        mark
        for content in hidden
        for mark in (content.word, content.doc_id, *content.rows, *(content.figures - shown_figures))
        if mark.lower() not in request_text
    ]
    leaked_marks = [mark for mark in marks if mark.lower() in text]
    files = [content.source for content in hidden if content.pdf[-200:] in response.content]
    encoded = [content.source for content in hidden if base64.b64encode(content.pdf[:300]).decode() in response.text]
    return [*leaked_marks, *files, *encoded]


@pytest.mark.parametrize(("method", "path", "query"), [operation for operation in OPERATIONS if "{corpus}" in operation[1]])
def test_every_route_answers_alike_for_what_is_hidden_and_what_is_not_there(
    library: Library, client: TestClient, method: str, path: str, query: list[str]
) -> None:
    hidden = of(library, "wolfspanner")
    hidden_ids = {"doc_id": hidden.doc_id, "figure_id": min(hidden.figures), "evidence_id": hidden.rows[0], "page": 1}
    absent = {"doc_id": ABSENT_DIGEST, "figure_id": ABSENT_DIGEST, "evidence_id": ABSENT_ROW, "page": 1}
    if path.endswith("/tables/{evidence_id}") or not any(f"{{{name}}}" in path for name in absent):
        pytest.skip("it names nothing that is hidden, or a table, which this one has none of")
    replies = {}
    for name, ids in (("hidden", hidden_ids), ("absent", absent)):
        sent = Sent(method, path.format(corpus="library", **ids))
        replies[name] = sent.by(client, library.keys["service"])
        assert sent.by(client, library.keys["admin"]).status_code == (200 if name == "hidden" else 404)
    assert replies["hidden"].status_code == replies["absent"].status_code == 404
    ids_swapped = replies["hidden"].text
    for name in ("doc_id", "figure_id", "evidence_id"):
        ids_swapped = ids_swapped.replace(str(hidden_ids[name]), str(absent[name]))
    assert ids_swapped == replies["absent"].text


@pytest.mark.parametrize("caller", ["service", "guest"])
def test_nothing_tells_of_hidden_documents(library: Library, client: TestClient, caller: str) -> None:
    visible_words = {"quodvalve", "zimbarrel"} if caller == "service" else {"quodvalve"}
    visible = [content for content in library.contents.values() if content.word in visible_words]
    hidden = [content for content in library.contents.values() if content.word not in visible_words]
    asker = Asker(library, seed=7)
    statuses = set()
    for _, sent in zip(range(TRIES * (len(OPERATIONS) + 2)), asker.requests(), strict=False):
        response = sent.by(client, library.keys[caller])
        statuses.add(response.status_code)
        assert not leaks(response, sent, hidden, visible), sent
        assert response.status_code not in (500, 503), (sent, response.text)
    assert {200, 404} <= statuses


def test_an_administrator_sees_all(library: Library, client: TestClient) -> None:
    listed = Sent("GET", "/v1/corpora/library/documents").by(client, library.keys["admin"]).json()
    assert {item["title"].partition(" ")[0].lower() for item in listed["items"]} == set(WORDS)
    assert Sent("GET", "/v1/corpora").by(client, library.keys["admin"]).json()[0]["documents"] == len(WORDS)
    summary = Sent("GET", "/v1/corpora").by(client, library.keys["service"]).json()[0]
    assert (summary["documents"], summary["pages"], summary["languages"]) == (2, 4, {"en": 2})
    assert sorted(summary["sources"]) == ["quodvalve.pdf", "zimbarrel.pdf"]


def test_a_figure_of_two_documents_is_shown_to_who_sees_one(library: Library, client: TestClient) -> None:
    shared = of(library, "zimbarrel").figures & of(library, "vextrumpet").figures
    assert shared
    path = f"/v1/corpora/library/figures/{min(shared)}"
    assert Sent("GET", path).by(client, library.keys["service"]).status_code == 200
    placed = Sent("GET", f"{path}/context").by(client, library.keys["service"]).json()
    assert [item["source"] for item in placed["items"]] == ["zimbarrel.pdf"]
    assert Sent("GET", path).by(client, library.keys["guest"]).status_code == 404


def test_caches_ask_again_and_a_page_is_of_what_its_reader_sees(library: Library, client: TestClient) -> None:
    path, version = "/v1/corpora/library/documents", library.versions[0]
    first = Sent("GET", path, (("limit", "1"), ("version", version))).by(client, library.keys["service"])
    assert first.headers["cache-control"] == "private, no-cache"
    assert {"x-api-key", "authorization"} <= {name.strip().lower() for name in first.headers["vary"].split(",")}
    cursor = (("limit", "1"), ("cursor", first.json()["next"]))
    assert Sent("GET", path, cursor).by(client, library.keys["service"]).status_code == 200
    foreign_page = Sent("GET", path, cursor).by(client, library.keys["guest"]).json()
    own_page = Sent("GET", path, (("version", version),)).by(client, library.keys["guest"]).json()
    assert (foreign_page["total"], foreign_page["items"]) == (own_page["total"], own_page["items"][1:2])


def test_a_word_that_only_a_hidden_document_has_corrects_no_question(library: Library, client: TestClient) -> None:
    request = Sent("POST", "/v1/corpora/library/answer", (), {"question": "How many screws has the wolfspaner?"})
    assert "wolfspanner" in request.by(client, library.keys["admin"]).json()["note"]
    assert not request.by(client, library.keys["service"]).json()["note"]


def test_a_right_that_is_withdrawn_holds_at_once_and_in_every_version(library: Library, client: TestClient) -> None:
    content = of(library, "zimbarrel")
    open_rights = {doc_id: frozenset({EVERYONE}) for doc_id in library.contents}
    search = Sent("POST", "/v1/corpora/library/search", (), {"query": "zimbarrel", "k": 100})
    doc_ids = {hit["doc_id"] for hit in search.by(client, library.keys["service"]).json()["hits"]}
    assert content.doc_id in doc_ids
    try:
        library.apply(open_rights | {content.doc_id: frozenset({"user:other"})})
        for version in (None, library.versions[0]):
            sent = Sent("POST", search.path, (), {**search.body, "version": version})
            hits = sent.by(client, library.keys["service"]).json()["hits"]
            assert {hit["doc_id"] for hit in hits} == library.contents.keys() - {content.doc_id}
    finally:
        by_word = {entry.word: entry.doc_id for entry in library.contents.values()}
        library.apply(
            {
                by_word["quodvalve"]: frozenset({EVERYONE}),
                by_word["zimbarrel"]: SERVICE | SALES,
                by_word["vextrumpet"]: SALES,
                by_word["wolfspanner"]: frozenset(),
            }
        )


def test_rights_that_cannot_be_read_are_no_answer_at_all(library: Library, client: TestClient) -> None:
    current = library.folder / "store" / "library" / "access" / "CURRENT"
    contents = current.read_bytes()
    current.write_bytes(contents[:-20])
    try:
        for method, path, query in OPERATIONS:
            if "{corpus}" in path and not path.endswith("/versions"):
                sent = Asker(library, seed=3).sent(method, path, query)
                assert sent.by(client, library.keys["service"]).status_code == 503, sent
    finally:
        current.write_bytes(contents)


@pytest.mark.parametrize(
    ("principals", "user", "groups", "expected"),
    [
        (None, None, [], frozenset()),
        (("*",), None, [], None),
        (("group:a",), None, [], frozenset({"group:a"})),
        (("*",), "bob", ["a"], frozenset({"user:bob", "group:a"})),
        (("group:a", "group:b"), "bob", ["b", "c"], frozenset({"group:b"})),
        ((), "bob", ["b"], frozenset()),
        (None, "bob", ["", "b", "a;b", "*"], frozenset({"user:bob", "group:b", "group:*"})),
    ],
)
def test_the_narrowest_of_what_is_presented_counts(
    principals: tuple[str, ...] | None, user: str | None, groups: list[str], expected: frozenset[str] | None
) -> None:
    key = Key(name="k", sha256="0" * 64, principals=principals)
    assert principals_of(key, [Identity(user, tuple(groups))] if user else []) == expected


SEQUENCES = 5
"""Random corpora of the slow test, each with its versions, rollbacks and changes of rights."""

REQUESTS = 10_000
"""Requests of the slow test, over all of them."""

GROUPS = [frozenset({f"group:{name}"}) for name in "abc"]


class History:
    """A corpus that changes: two versions, rollbacks, rights that come and go, and callers who ask meanwhile."""

    def __init__(self, folder: Path, seed: int, engine: str = "") -> None:
        self._random = random.Random(seed)
        self._library = Library(folder, engine)
        words = [
            "".join(self._random.choice("bdfglmprst") + self._random.choice("aeiou") for _ in range(5)) for _ in range(7)
        ]
        seeds = {word: self._random.randrange(4) for word in dict.fromkeys(words)}
        readers = {word: self._principals(2) for word in seeds if self._random.random() < 0.8}
        self._library.publish(dict([*seeds.items()][:-1]), readers)
        self._library.publish(dict([*seeds.items()][1:]), readers)
        self._rights = {
            content.doc_id: readers.get(content.word, frozenset({EVERYONE})) for content in self._library.contents.values()
        }
        self._callers = {f"caller{number}": self._principals(2) for number in range(3)} | {"admin": None}
        self._asker = Asker(self._library, seed)

    def _principals(self, max_groups: int) -> frozenset[str]:
        return frozenset().union(*self._random.sample(GROUPS, self._random.randint(0, max_groups)))

    def run(self, requests: int, rounds: int) -> int:
        """Change rights and the live version in rounds, and return how many requests were sent; each is checked."""
        sent = 0
        workspace = open_workspace(str(self._library.file))
        asking = self._asker.requests()
        with TestClient(self._library.service(self._callers), base_url="http://localhost") as client:
            for _ in range(rounds):
                everyone = frozenset({EVERYONE})
                sets = [everyone, frozenset[str](), *(self._principals(2) for _ in range(3))]
                for doc_id in self._random.sample(sorted(self._rights), self._random.randint(0, len(self._rights))):
                    self._rights[doc_id] = self._random.choice(sets)
                rights = dict(self._rights)
                self._library.apply(rights)
                make_live(workspace, self._random.choice(self._library.versions))
                for name, principals in self._callers.items():
                    self._check_ranking(client, name, rights, principals)
                    for request, _ in zip(asking, range(requests // rounds // len(self._callers)), strict=False):
                        self._check(client, request, name, rights, principals)
                        sent += 1
        return sent

    def _seen(self, rights: Mapping[str, Principals], principals: Principals | None) -> list[Content]:
        contents = self._library.contents.values()
        if principals is None:
            return [*contents]
        return [content for content in contents if not rights[content.doc_id].isdisjoint(principals | {EVERYONE})]

    def _check(
        self, client: TestClient, sent: Sent, name: str, rights: Mapping[str, Principals], principals: Principals | None
    ) -> None:
        visible = self._seen(rights, principals)
        hidden = [content for content in self._library.contents.values() if content not in visible]
        response = sent.by(client, self._library.keys[name])
        assert not leaks(response, sent, hidden, visible), (sent, name)
        assert response.status_code not in (500, 503), (sent, response.text)
        if response.headers.get("content-type", "").startswith("application/json") and isinstance(response.json(), dict):
            self._asker.cursors += filter(None, [response.json().get("next")])

    def _check_ranking(
        self, client: TestClient, name: str, rights: Mapping[str, Principals], principals: Principals | None
    ) -> None:
        """Hits are those of the visible documents alone: in the same order by vectors, the same ones by words."""
        doc_ids = [content.doc_id for content in self._seen(rights, principals)]
        for preset in ("dense", "bm25"):
            body = {"query": "How many screws has the manual?", "k": 100, "preset": preset}
            mine, all_of = (
                Sent("POST", "/v1/corpora/library/search", (), body | {"filters": {"documents": documents}})
                for documents in ([], doc_ids or [ABSENT_DIGEST])
            )
            hit_ids = [hit["evidence_id"] for hit in mine.by(client, self._library.keys[name]).json()["hits"]]
            expected = [hit["evidence_id"] for hit in all_of.by(client, self._library.keys["admin"]).json()["hits"]]
            assert hit_ids == expected if preset == "dense" else set(hit_ids) == set(expected), (name, preset)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.endurance) for seed in range(1, SEQUENCES))])
def test_no_byte_of_a_hidden_document_is_in_any_response(tmp_path: Path, seed: int) -> None:
    assert History(tmp_path, seed).run(REQUESTS // SEQUENCES, rounds=5) >= REQUESTS // SEQUENCES * 0.99


@pytest.mark.live
def test_no_byte_of_a_hidden_document_is_in_any_response_with_weaviate(tmp_path: Path, weaviate: WeaviateServer) -> None:
    index_options = f"{{engine: weaviate, url: {weaviate.url}, grpc_port: {weaviate.grpc_port}}}"
    assert History(tmp_path, 99, f"index: {index_options}\nretention: {{versions: 2}}\n").run(1_000, rounds=5) >= 990


def test_hits_are_those_of_a_corpus_of_the_visible_documents(library: Library, client: TestClient, tmp_path: Path) -> None:
    visible_words = ("quodvalve", "zimbarrel")
    alone = Library(tmp_path)
    alone.publish({word: WORDS[word] for word in visible_words})
    alone.apply({doc_id: frozenset({EVERYONE}) for doc_id in alone.contents})
    with TestClient(alone.service({"service": SERVICE}), base_url="http://localhost") as second_client:
        for preset in ("dense", "bm25"):
            search = Sent(
                "POST", "/v1/corpora/library/search", (), {"query": "How many screws?", "k": 100, "preset": preset}
            )
            hits, expected = (
                [hit["evidence_id"] for hit in search.by(*caller).json()["hits"]]
                for caller in ((client, library.keys["service"]), (second_client, alone.keys["service"]))
            )
            assert hits == expected if preset == "dense" else set(hits) == set(expected)
            assert expected
