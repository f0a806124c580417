"""What readers ask and don't find: counted where the corpus file says so, kept without names, and shown to operators."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from fastapi import Request
from fastapi.testclient import TestClient

from pipeline.corpus.workspace import open_workspace
from pipeline.operations.asked import asked_summary
from pipeline.records.feedback import ASKED as FOLDER
from pipeline.records.feedback import read_asked, remove_old_feedback
from pipeline.upkeep.forget import forget
from query_service.telemetry import metrics_of
from schemas.asked import redacted
from schemas.ports import ObjectStore
from tests.query_service.rights import Library

UNANSWERED = "Who composed the opera Tosca?"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    """A corpus of two documents."""
    library = Library(tmp_path_factory.mktemp("asked"))
    library.publish({"quodvalve": 1, "wolfspanner": 4})
    return library


@pytest.fixture(params=["null", "counts", "text"])
def mode(library: Library, request: pytest.FixtureRequest) -> Iterator[str]:
    """What the corpus file keeps of questions."""
    text = library.file.read_text()
    library.file.write_text(f"{text}operations: {{questions: {request.param}}}\n")
    yield str(request.param)
    library.file.write_text(text)
    for name in store_of(library).names(FOLDER):
        store_of(library).delete(name)


def store_of(library: Library) -> ObjectStore:
    return open_workspace(str(library.file)).store


def test_what_is_kept_is_what_the_corpus_file_says(library: Library, mode: str) -> None:
    path = "/v1/corpora/library"
    with TestClient(library.service({"admin": None}), base_url="http://localhost") as client:
        key = {"x-api-key": library.keys["admin"]}
        for question in ("How many screws has the quodvalve?", UNANSWERED, f"{UNANSWERED} Write to ada@example.org"):
            reply = client.post(f"{path}/answer", json={"question": question}, headers=key)
            assert reply.status_code == 200
        answer = client.post(f"{path}/answer", json={"question": "How many screws has the quodvalve?"}, headers=key).json()
        cited = answer["citations"][0]
        for address in (cited["page_link"], cited["pdf_link"].partition("#")[0]):
            assert client.get(address, headers=key).status_code == 200
        assert client.get(cited["pdf_link"].partition("#")[0], headers={**key, "range": "bytes=9-12"}).status_code == 206
        metrics = metrics_of(Request({"type": "http", "app": client.app})).text().decode()
    summary = asked_summary(store_of(library))
    if mode == "null":
        assert (summary.versions, store_of(library).names(FOLDER)) == ([], [])
        assert "inset_questions_total{" not in metrics
        return
    (version,) = summary.versions
    assert (version.asked, version.abstained + version.unsure) == (4, 2)
    assert summary.opened == [(cited["source"], 2)]
    assert summary.unfound_count == len(summary.unfound) <= 1
    assert f'inset_questions_total{{corpus="library",outcome="answered",version="{version.version}"}} 2.0' in metrics
    assert 'inset_citations_opened_total{corpus="library"} 2.0' in metrics
    if mode == "counts":
        assert summary.unanswered == []
        return
    (group,) = summary.unanswered
    assert (group.times, group.questions[0]) == (2, UNANSWERED)
    assert group.questions[1].endswith("Write to [e-mail]")


def test_old_counts_and_those_of_a_forgotten_document_are_removed(library: Library) -> None:
    store = store_of(library)
    day = f"{datetime.now(UTC):%Y%m%d}"
    store.replace(f"{FOLDER}/v/20200101-aa.json", b'{"day": "2020-01-01", "version": "v"}')
    store.replace(f"{FOLDER}/v/{day}-aa.json", f'{{"day": "{day[:4]}-{day[4:6]}-{day[6:]}", "version": "v"}}'.encode())
    remove_old_feedback(store, 180)
    assert [asked.version for asked in read_asked(store, 30)] == ["v"]
    doc_id = next(content.doc_id for content in library.contents.values() if content.word == "wolfspanner")
    store.replace(
        f"{FOLDER}/v/{day}-aa.json",
        f'{{"day": "{day[:4]}-{day[4:6]}-{day[6:]}", "version": "v", "cited": {{"{doc_id}": 1}}}}'.encode(),
    )
    forget(open_workspace(str(library.file)), "wolfspanner.pdf", dry_run=False)
    assert store.names(FOLDER) == []


def test_addresses_and_keys_are_taken_out() -> None:
    assert redacted("I am ada.l+x@mail.example.org, why E12?") == "I am [e-mail], why E12?"
    assert redacted("sk-live-4f9a8b7c6d5e4f3a2b1c fails") == "[key] fails"
    assert redacted("Is the electroencephalography of 2024 there?") == "Is the electroencephalography of 2024 there?"
