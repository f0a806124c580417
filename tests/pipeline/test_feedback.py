"""What readers say of answers: taken over HTTP, kept with its version, decided on by operators, and held by a gate."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from cli.main import app
from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.operations.feedback import page_figures
from pipeline.records import feedback as records
from pipeline.records.manifests import named_manifest
from pipeline.records.publication import read_pointer
from pipeline.run import refresh
from pipeline.upkeep.forget import forget
from pipeline.upkeep.prune import prune
from query_service.feedback import COMMENT_LIMIT, PER_MINUTE
from schemas.access import EVERYONE
from schemas.feedback import Feedback
from schemas.ids import version_file
from tests.manuals import write_manual
from tests.query_service.rights import ABSENT_DIGEST, ABSENT_ROW, Content, Library

PATH = "/v1/corpora/library/feedback"
QUESTION = "How many screws has the quodvalve?"
HOSTILE = "<b>no</b> \x1b[31m"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    """A corpus of which everybody reads one document, and nobody but administrators the other."""
    library = Library(tmp_path_factory.mktemp("feedback"))
    library.publish({"quodvalve": 1, "wolfspanner": 4})
    rights = {of(library, "quodvalve").doc_id: frozenset({EVERYONE}), of(library, "wolfspanner").doc_id: frozenset[str]()}
    library.apply(rights)
    return library


@pytest.fixture
def client(library: Library) -> Iterator[TestClient]:
    callers = {"guest": frozenset({"user:guest"}), "other": frozenset({"user:other"}), "admin": None}
    with TestClient(library.service(callers), base_url="http://localhost") as client:
        yield client


@pytest.fixture
def workspace(library: Library) -> Workspace:
    return open_workspace(str(library.file))


def of(library: Library, word: str) -> Content:
    return next(content for content in library.contents.values() if content.word == word)


def send(client: TestClient, library: Library, by: str = "guest", **body: Any) -> Any:
    said = {"question": QUESTION, "helpful": False, **body}
    return client.post(PATH, json=said, headers={"x-api-key": library.keys[by]})


def inset(library: Library, *arguments: str) -> Any:
    result = CliRunner().invoke(app, ["feedback", str(library.file), *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout) if "--json" in arguments else result.output


def test_who_may_not_see_a_document_says_and_sees_nothing_of_it(client: TestClient, library: Library) -> None:
    hidden = of(library, "wolfspanner")
    for ids, absent in (
        ({"figure_ids": [min(hidden.figures)]}, {"figure_ids": [ABSENT_DIGEST]}),
        ({"evidence_ids": [hidden.rows[0]]}, {"evidence_ids": [ABSENT_ROW]}),
    ):
        refused, unknown = send(client, library, "guest", **ids), send(client, library, "guest", **absent)
        hidden_id, absent_id = (names[0] for named in (ids, absent) for names in named.values())
        assert refused.status_code == unknown.status_code == 404
        assert refused.text.replace(hidden_id, absent_id) == unknown.text
        assert send(client, library, "admin", **ids).status_code == 201
    assert send(client, library, "other", evidence_ids=[of(library, "quodvalve").rows[0]]).status_code == 201
    assert send(client, library, "other").status_code == 201
    groups = inset(library, "--json", "--as", "user:guest")["groups"]
    assert [group["sources"] for group in groups] == [["quodvalve.pdf"]]


def test_a_flood_and_long_lines_meet_limits_and_nothing_below_them_is_lost(client: TestClient, library: Library) -> None:
    assert send(client, library, comment="x" * (COMMENT_LIMIT + 1)).status_code == 422
    assert send(client, library, comment="x" * (1 << 20)).status_code == 413
    store = open_workspace(str(library.file)).store
    stored = len(store.names(records.FOLDER))
    statuses = [send(client, library, comment=f"{number} {HOSTILE}").status_code for number in range(PER_MINUTE + 2)]
    assert statuses.count(201) == len(store.names(records.FOLDER)) - stored >= PER_MINUTE - 2
    assert statuses[-1] == 429
    shown = inset(library)
    assert "\x1b" not in shown
    assert r"\x1b" in shown


def test_a_version_takes_only_so_much(
    client: TestClient, library: Library, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "MOST_ENTRIES", len(workspace.store.names(records.FOLDER)))
    assert send(client, library).status_code == 429


def test_the_name_of_a_caller_is_kept_only_where_the_corpus_file_says_so(
    client: TestClient, library: Library, workspace: Workspace
) -> None:
    assert send(client, library, "other", comment="nameless", answer="Two.").status_code == 201
    text = library.file.read_text()
    library.file.write_text(f"{text}operations: {{feedback_names: true}}\n")
    try:
        assert send(client, library, "other", comment="named").status_code == 201
    finally:
        library.file.write_text(text)
    said = {entry.comment: entry for entry in records.read_feedback(workspace.store)}
    assert (said["named"].by, said["nameless"].by) == ("other", None)
    assert said["nameless"].answer != "Two."
    assert len(said["nameless"].answer or "") == 64


@pytest.mark.slow
def test_a_complaint_becomes_a_question_that_the_next_version_is_judged_by(
    client: TestClient, library: Library, workspace: Workspace
) -> None:
    content = of(library, "quodvalve")
    pointer = read_pointer(workspace.store)
    assert pointer is not None
    figures = {page: page_figures(workspace.store, pointer.version, content.doc_id, page)[0].figure_id for page in (1, 2)}
    ids = []
    for question, page in ((QUESTION, 1), ("Which picture shows Figure 2 of the quodvalve from side 2?", 2)):
        reply = send(client, library, "admin", question=question, reason="wrong_figure", evidence_ids=[content.rows[0]])
        ids.append(reply.json()["id"])
        figure = str(figures[page])[:8]
        inset(library, ids[-1], "--question", "--page", str(page), "--figure", figure, "--reason", "as printed")
    unanswered = send(client, library, "admin", question="What is shown?", evidence_ids=[content.rows[0]]).json()["id"]
    inset(library, unanswered, "--question", "--source", "wolfspanner.pdf", "--page", "2")
    closed = send(client, library, "admin", question="Closed?").json()["id"]
    inset(library, closed, "--close")
    waiting = {entry["id"] for group in inset(library, "--json")["groups"] for entry in group["entries"]}
    assert not waiting.intersection([ids[1], closed])

    write_manual(library.folder / "pdfs" / "more.pdf", "more", seed=9)
    assert refresh(workspace).published
    live = read_pointer(workspace.store)
    assert live is not None
    gates = {gate.gate: gate for gate in named_manifest(workspace.store, "library", live.version).gates}
    verdict = gates["complaints answered"]
    answered = round((verdict.value or 0) * 3)
    assert verdict.message.startswith(f"{answered} of 3 complaints answered")
    assert answered >= 1
    note = workspace.store.get(version_file(live.version, "release_note.md")).decode()
    assert f"\n{answered} of 3 complaints answered.\n" in note
    inset(library, unanswered, "--undo")
    assert len(records.golden_questions(workspace)) == 2

    # Without the page of what was answered, that is lost, and the version is refused.
    (library.folder / "pdfs" / "quodvalve.pdf").unlink()
    refused = refresh(workspace)
    assert not refused.published
    manifest = named_manifest(workspace.store, "library", str(refused.version))
    lost = next(gate for gate in manifest.gates if gate.gate == "complaints answered")
    assert not lost.passed
    assert "0 of 2 complaints answered" in lost.message
    write_manual(library.folder / "pdfs" / "quodvalve.pdf", "quodvalve", seed=1)


@pytest.mark.slow
def test_old_entries_go_and_a_forgotten_document_takes_what_was_said_of_it_along(
    client: TestClient, library: Library, workspace: Workspace
) -> None:
    content = of(library, "wolfspanner")
    entry = send(client, library, "admin", evidence_ids=[content.rows[0]], comment="of the wolf").json()["id"]
    inset(library, entry, "--question")
    old = Feedback(at=datetime.now(UTC) - timedelta(days=200), version=library.versions[0], question="Old?", helpful=True)
    records.add_feedback(workspace.store, old)
    prune(workspace, dry_run=True)
    assert "Old?" in {each.question for each in records.read_feedback(workspace.store)}
    prune(workspace, dry_run=False)
    assert "Old?" not in {each.question for each in records.read_feedback(workspace.store)}
    forget(workspace, "wolfspanner.pdf", dry_run=False)
    names = [*workspace.store.names(records.FOLDER), records.DECISIONS]
    assert not [name for name in names if content.doc_id in (text := workspace.store.get(name).decode()) or "wolf" in text]
    assert Path(library.folder / "pdfs" / "wolfspanner.pdf").exists()
