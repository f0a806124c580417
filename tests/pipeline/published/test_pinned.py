"""Pinned answers: to which questions, with what, and for whom."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from cli.main import app
from pipeline.corpus.workspace import open_workspace
from pipeline.published.pinned import NOTE, PinnedQuestions
from pipeline.published.version import OpenVersion, open_version
from pipeline.records.manifests import named_manifest
from pipeline.records.publication import read_pointer
from pipeline.run import refresh
from schemas.access import EVERYONE
from schemas.corpus import PinnedAnswer
from tests.pipeline.published.pinned_questions import NEAR_MISSES, PARAPHRASES
from tests.query_service.rights import Library

QUESTION = "How is the quodvalve serviced?"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    """A corpus with answers pinned to a question: of a document that everybody reads, and of one that nobody does."""
    library = Library(tmp_path_factory.mktemp("pinned"))
    library.publish({"quodvalve": 1, "wolfspanner": 4})
    of = {content.word: content for content in library.contents.values()}
    library.apply({of["quodvalve"].doc_id: frozenset({EVERYONE}), of["wolfspanner"].doc_id: frozenset[str]()})
    opened = live(library)
    tag = next(row["tag"] for row in opened.tagged_figures.to_pylist() if row["doc_id"] == of["quodvalve"].doc_id)
    answer = f"# Service\nClose <b>it</b> first [quodvalve.pdf, page 1]. {tag}\n1. Turn the lever [quodvalve.pdf, page 2]."
    pin(library, [(QUESTION, answer), ("Who keeps the wolfspanner?", "The foreman [wolfspanner.pdf, page 1].")])
    return library


def live(library: Library) -> OpenVersion:
    workspace = open_workspace(str(library.file))
    pointer = read_pointer(workspace.store)
    assert pointer is not None
    return open_version(workspace, pointer.version)


def pin(library: Library, answers: list[tuple[str, str]]) -> None:
    text = library.file.read_text().partition("answers:")[0]
    section = {"answers": [{"questions": [question], "answer": answer} for question, answer in answers]}
    library.file.write_text(text + yaml.safe_dump(section, allow_unicode=True))


@pytest.fixture
def client(library: Library) -> Iterator[TestClient]:
    with TestClient(
        library.service({"guest": frozenset({"user:guest"}), "admin": None}), base_url="http://localhost"
    ) as client:
        yield client


def ask(client: TestClient, library: Library, question: str, by: str = "guest", **body: object) -> Any:
    reply = client.post(
        "/v1/corpora/library/answer", json={"question": question, **body}, headers={"x-api-key": library.keys[by]}
    )
    assert reply.status_code == 200, reply.text
    return reply.json()


def test_a_question_that_means_the_same_gets_the_pinned_answer(client: TestClient, library: Library) -> None:
    for question in (
        QUESTION,
        "how is the QUODVALVE serviced",
        "How can the quodvalve be serviced?",
    ):
        answer = ask(client, library, question)
        assert (answer["pinned"], answer["note"], answer["abstained"]) == (True, NOTE, False), question
    heading, close, figure, step = ask(client, library, QUESTION)["parts"]
    assert (heading["style"], heading["text"]) == ("heading", "Service")
    assert (close["text"], close["citations"]) == ("Close <b>it</b> first.", [1])
    assert (figure["type"], figure["page"], figure["citations"]) == ("figure", 1, [1])
    assert (step["style"], step["text"], step["citations"]) == ("item", "1. Turn the lever.", [2])
    for question in (
        "How is the quodvalve not serviced?",
        "How often is the quodvalve serviced?",
        "How many screws has it?",
    ):
        assert not ask(client, library, question)["pinned"], question
    assert not ask(client, library, QUESTION, filters={"pages": [2]})["pinned"]


def test_who_may_not_see_a_cited_document_does_not_get_it(client: TestClient, library: Library) -> None:
    question = "Who keeps the wolfspanner?"
    assert ask(client, library, question, "admin")["pinned"]
    answer = ask(client, library, question, "guest")
    assert not answer["pinned"]
    assert "foreman" not in json.dumps(answer)


def test_the_command_says_that_an_answer_is_pinned(library: Library) -> None:
    result = CliRunner().invoke(app, ["ask", str(library.file), QUESTION], catch_exceptions=False)
    assert "Turn the lever" in result.stdout
    assert NOTE in result.output


def test_paraphrases_and_near_misses(library: Library) -> None:
    opened = live(library)
    assert sum(_is_same(opened, *pair) for pair in PARAPHRASES) >= len(PARAPHRASES) / 2
    assert [asked for pinned, asked in NEAR_MISSES if _is_same(opened, pinned, asked)] == []


def _is_same(opened: OpenVersion, pinned: str, asked: str) -> bool:
    answers = [PinnedAnswer(questions=[pinned], answer="So.")]
    return PinnedQuestions().match(opened, answers, opened.question(asked)) is not None


@pytest.mark.slow
def test_a_gate_refuses_a_version_that_lacks_what_an_answer_names(library: Library) -> None:
    before = library.file.read_text()
    pin(library, [(QUESTION, "See <image:99999999.png>."), ("Whose?", "Ours [other.pdf, page 1]."), ("Who?", "We.")])
    result = refresh(open_workspace(str(library.file)))
    library.file.write_text(before)
    assert not result.published
    assert result.version is not None
    gates = named_manifest(open_workspace(str(library.file)).store, "library", result.version).gates
    (gate,) = [gate for gate in gates if gate.gate == "pinned answers resolve"]
    assert (gate.passed, gate.value) == (False, 2.0)
    assert "there is no figure <image:99999999.png>" in gate.message
    assert "there is no document other.pdf" in gate.message
