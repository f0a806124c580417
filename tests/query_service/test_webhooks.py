"""Webhooks: each address is told once of what its key may see, signed, and again where it didn't answer."""

import base64
import hmac
import ipaddress
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from fastapi.testclient import TestClient

from pipeline.corpus.workspace import open_workspace
from pipeline.published.webhooks import change_webhook, read_webhooks
from pipeline.upkeep.doctor import diagnose
from pipeline.upkeep.forget import forget
from query_service.webhooks import Webhooks
from schemas.webhooks import AnswerPage, StoredWebhook
from tests.query_service.rights import Library

SERVICE_SECRET = "of the service"
LOOPBACK = [ipaddress.ip_network("127.0.0.0/8")]
PATH = "/v1/corpora/library/webhooks"
PUBLIC = frozenset({"everyone"})
INSIDE = frozenset({"everyone", "group:service"})


@dataclass
class Receiver:
    """A server that keeps what it is sent."""

    address: str = ""
    status: int = 204
    requests: list[tuple[dict[str, str], bytes]] = field(default_factory=list)

    def events(self) -> list[dict[str, Any]]:
        """Return what came since it was asked last."""
        bodies, self.requests = [json.loads(body) for _, body in self.requests], []
        return bodies


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            receiver.requests.append(({name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(receiver.status)
            self.send_header("location", "http://127.0.0.1:1/")
            self.end_headers()

        def log_message(self, *_arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        receiver.address = f"http://127.0.0.1:{server.server_port}/inset"
        yield receiver
        server.shutdown()


@dataclass
class Served:
    """A corpus of three documents, one of them for the service group alone, and its service."""

    library: Library
    client: TestClient
    webhooks: Webhooks

    def add(self, receiver: Receiver, event: str, key: str = "public", **fields: Any) -> dict[str, Any]:
        body = {"url": receiver.address, "event": event, **fields}
        reply = self.client.post(PATH, json=body, headers={"x-api-key": self.library.keys[key]})
        assert reply.status_code == 201, reply.text
        return dict(reply.json())

    def listed(self, key: str = "public") -> list[dict[str, Any]]:
        return list(self.client.get(PATH, headers={"x-api-key": self.library.keys[key]}).json())

    def publish(self, seeds_by_word: dict[str, int]) -> str:
        self.library.publish(seeds_by_word, {"wolfspanner": frozenset({"group:service"})})
        return self.library.versions[-1]

    def change(self, **update: Any) -> StoredWebhook:
        """Change the only webhook in the store."""
        store = open_workspace(str(self.library.file)).store
        (webhook,) = read_webhooks(store)
        changed = change_webhook(store, webhook.id, lambda current: current.model_copy(update=update))
        assert changed is not None
        return changed


@pytest.fixture
def served(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda _seconds: None)
    monkeypatch.setattr("pipeline.published.readers.RIGHTS_S", 0.0)
    library = Library(tmp_path_factory.mktemp("webhooks"))
    library.publish({"quodvalve": 1, "wolfspanner": 4}, {"wolfspanner": frozenset({"group:service"})})
    app = library.service({"public": PUBLIC, "inside": INSIDE})
    webhooks = app.state.webhooks = Webhooks(app.state.corpora, app.state.access, SERVICE_SECRET, LOOPBACK)
    with TestClient(app, base_url="http://localhost") as client:
        yield Served(library, client, webhooks)


def test_an_address_is_told_once_of_a_new_version_and_can_check_the_signature(served: Served, receiver: Receiver) -> None:
    webhook = served.add(receiver, "version_live")
    served.webhooks.send()
    assert receiver.requests == [], "the version was live when the webhook was made"
    earlier, version = served.library.versions[-1], served.publish({"quodvalve": 2, "wolfspanner": 4})
    served.webhooks.send()
    served.webhooks.send()
    ((headers, body),) = receiver.requests
    assert json.loads(body) == {"type": "version_live", "corpus": "library", "version": version, "previous": earlier}
    secret = base64.b64decode(webhook["secret"].removeprefix("whsec_"))
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    assert headers["webhook-signature"] == f"v1,{base64.b64encode(hmac.digest(secret, signed, 'sha256')).decode()}"
    assert abs(int(headers["webhook-timestamp"]) - datetime.now(UTC).timestamp()) < 60
    stored = open_workspace(str(served.library.file)).store.get(f"webhooks/{webhook['id']}.json").decode()
    assert webhook["secret"] not in stored
    assert SERVICE_SECRET not in stored


def test_changed_documents_and_answers_are_those_that_the_key_may_see(served: Served, receiver: Receiver) -> None:
    hidden_question = "How many screws has the wolfspanner?"
    served.add(receiver, "document_changed")
    served.add(receiver, "question_changed", question=hidden_question)
    served.add(receiver, "document_changed", "inside", documents="wolf*")
    served.publish({"quodvalve": 1, "wolfspanner": 5})
    served.webhooks.send()
    (event,) = receiver.events()
    assert event["documents"] == [{"source": "wolfspanner.pdf", "change": "changed"}], "only the service group sees it"
    served.publish({"quodvalve": 7, "hexclamp": 3})
    served.webhooks.send()
    changes = [event["documents"] for event in receiver.events() if event["type"] == "document_changed"]
    assert sorted(changes, key=len) == [
        [{"source": "wolfspanner.pdf", "change": "gone"}],
        [{"source": "hexclamp.pdf", "change": "new"}, {"source": "quodvalve.pdf", "change": "changed"}],
    ]


def test_a_saved_question_tells_when_other_pages_answer_it(served: Served, receiver: Receiver) -> None:
    question = "How many screws has the hexclamp?"
    served.add(receiver, "question_changed", question=question)
    served.publish({"quodvalve": 1, "hexclamp": 3})
    served.webhooks.send()
    (event,) = receiver.events()
    assert event["question"] == question
    assert "hexclamp.pdf" in {page["source"] for page in event["pages"]}
    served.publish({"quodvalve": 1, "hexclamp": 3, "wolfspanner": 4})
    served.webhooks.send()
    assert receiver.events() == [], "the same pages answer"


def test_an_address_that_fails_is_tried_again_and_given_up_after_days(served: Served, receiver: Receiver) -> None:
    served.add(receiver, "version_live")
    version = served.publish({"quodvalve": 2})
    receiver.status = 302
    served.webhooks.send()
    assert len(receiver.events()) == 3, "a redirect isn't followed, but tried again"
    served.webhooks.send()
    assert receiver.events() == [], "not before some minutes"
    (state,) = served.listed()
    assert "302" in state["problem"]
    assert not state["given_up"]
    served.change(not_before=datetime.now(UTC), failing_since=datetime.now(UTC) - timedelta(days=4))
    served.webhooks.send()
    assert receiver.events() == []
    assert served.listed()[0]["given_up"]
    findings = diagnose([str(served.library.file)]).findings
    assert any("webhook" in finding.subject and "127.0.0.1" in finding.message for finding in findings)
    receiver.status = 204
    served.change(not_before=datetime.now(UTC), failing_since=datetime.now(UTC) - timedelta(hours=1))
    served.webhooks.send()
    assert [event["version"] for event in receiver.events()] == [version], "nothing was lost meanwhile"
    assert served.listed()[0]["problem"] == ""


def test_a_webhook_ends_with_its_key(served: Served, receiver: Receiver) -> None:
    served.add(receiver, "version_live")
    served.publish({"quodvalve": 2})
    (served.library.folder / "keys.jsonl").write_text("\n")
    served.webhooks.send()
    assert receiver.requests == []
    (webhook,) = read_webhooks(open_workspace(str(served.library.file)).store)
    assert "its key is gone" in webhook.problem


def test_what_two_processes_see_at_once_is_sent_by_one(served: Served, receiver: Receiver) -> None:
    served.add(receiver, "version_live")
    served.publish({"quodvalve": 2})
    senders = [threading.Thread(target=served.webhooks.send) for _ in range(4)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    assert len(receiver.events()) == 1


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://8.8.8.8/", "may not be sent to"),
        ("https://10.0.0.7/", "may not be sent to"),
        ("https://169.254.169.254/latest", "may not be sent to"),
        ("https://[::1]/", "may not be sent to"),
        ("https://[::ffff:10.0.0.7]/", "may not be sent to"),
        ("https://0.0.0.0/", "may not be sent to"),
        ("https://host.invalid/", "no such host"),
        ("file:///etc/passwd", "pattern"),
    ],
)
def test_addresses_of_private_networks_are_refused(served: Served, url: str, message: str) -> None:
    body = {"url": url, "event": "version_live"}
    reply = served.client.post(PATH, json=body, headers={"x-api-key": served.library.keys["public"]})
    assert reply.status_code in (400, 422)
    assert message in reply.text


def test_each_key_sees_and_deletes_its_own(served: Served, receiver: Receiver) -> None:
    webhook = served.add(receiver, "version_live")
    header = {"x-api-key": served.library.keys["inside"]}
    assert served.listed("inside") == []
    assert served.client.delete(f"{PATH}/{webhook['id']}", headers=header).status_code == 404
    header = {"x-api-key": served.library.keys["public"]}
    assert served.client.delete(f"{PATH}/{webhook['id']}", headers=header).status_code == 204
    assert served.listed() == []


def test_pages_of_a_forgotten_document_are_removed_and_the_question_stays(served: Served, receiver: Receiver) -> None:
    served.add(receiver, "question_changed", "inside", question="How many screws are there?")
    served.change(pages=[AnswerPage(source="wolfspanner.pdf", page=1)])
    forget(open_workspace(str(served.library.file)), "wolfspanner.pdf", dry_run=False)
    (webhook,) = read_webhooks(open_workspace(str(served.library.file)).store)
    assert (webhook.pages, webhook.question) == ([], "How many screws are there?")
