"""The audit log: every move of the live version leaves an event, whoever is killed."""

import re
from pathlib import Path
from unittest import mock

import pytest
from typer.testing import CliRunner

from cli.main import app
from pipeline.corpus.workspace import Workspace, open_workspace
from pipeline.records.publication import LIVE, read_events, read_pointer, restore_pointer, this_person, write_event
from pipeline.run import refresh
from pipeline.stages.publish import make_live, roll_back_version
from pipeline.upkeep.doctor import diagnose
from pipeline.upkeep.prune import prune
from schemas.ports import ObjectStore
from schemas.versions import AuditEvent
from tests.manuals import write_manual
from tests.pipeline.conftest import write_corpus


def _moves(store: ObjectStore) -> list[tuple[str, str, str | None, str | None, str]]:
    events = read_events(store, 100)
    return [(event.action, event.by, event.reason, event.from_version, event.to_version) for event in events]


def _second_version(workspace: Workspace) -> str:
    write_manual(Path(workspace.corpus.source) / "lift.pdf", "steel lift", seed=3)
    result = refresh(workspace, run_id="nightly-7")
    assert result.published
    return str(result.version)


def _live(workspace: Workspace) -> str:
    pointer = read_pointer(workspace.store)
    assert pointer is not None
    return pointer.version


def test_a_move_says_who_why_from_where_and_to_where(published: Workspace) -> None:
    store, first = published.store, _live(published)
    second = _second_version(published)
    assert read_events(store, 1)[0].run_id == "nightly-7"
    roll_back_version(published, by="ann", reason="wrong figures")
    make_live(published, first, by="bob", reason="the hold ends")
    make_live(published, first, by="bob", reason="nothing changes")
    make_live(published, second)
    assert _moves(store) == [
        ("publish", this_person(), None, first, second),
        ("publish", "bob", "the hold ends", first, first),
        ("rollback", "ann", "wrong figures", second, first),
        ("refresh", this_person(), None, first, second),
        ("refresh", this_person(), None, None, first),
    ]
    assert len(read_events(store, 2)) == 2


def test_an_override_leaves_its_reason_and_its_person(published: Workspace) -> None:
    store, first = published.store, _live(published)
    workspace = open_workspace(str(write_corpus(Path(published.file).parent.parent, "gates: {max_row_loss: 0}\n")))
    next(Path(workspace.corpus.source).glob("winch.pdf")).unlink()
    refused = refresh(workspace)
    assert not refused.published
    make_live(workspace, str(refused.version), override="the winch is no longer sold", by="ann")
    assert _moves(store)[0] == ("override", "ann", "the winch is no longer sold", first, refused.version)


@pytest.fixture
def kill(monkeypatch: pytest.MonkeyPatch) -> None:
    """End whatever is done by ann between the move of the pointer and the event, as SIGKILL may."""

    def write(store: ObjectStore, event: AuditEvent) -> None:
        if event.by == "ann" and event not in read_events(store, 100):
            monkeypatch.undo()
            raise SystemExit
        write_event(store, event)

    monkeypatch.setattr("pipeline.records.publication.write_event", write)


@pytest.mark.usefixtures("kill")
def test_the_event_of_a_killed_mover_is_added_by_the_next_one(published: Workspace) -> None:
    first, second = _live(published), _second_version(published)
    with pytest.raises(SystemExit):
        roll_back_version(published, by="ann", reason="wrong figures")
    assert _live(published) == first, "the move itself is done"
    assert _moves(published.store)[0][0] == "refresh"
    make_live(published, second, by="bob", reason="they were right")
    assert _moves(published.store)[:2] == [
        ("publish", "bob", "they were right", first, second),
        ("rollback", "ann", "wrong figures", second, first),
    ]


@pytest.mark.usefixtures("kill")
def test_the_event_of_a_killed_mover_is_added_by_the_next_refresh(published: Workspace) -> None:
    first, second = _live(published), _second_version(published)
    with pytest.raises(SystemExit):
        roll_back_version(published, by="ann", reason="wrong figures")
    refresh(published)
    assert _moves(published.store)[0] == ("rollback", "ann", "wrong figures", second, first)


def test_restoring_a_lost_pointer_is_an_event(published: Workspace) -> None:
    store = published.store
    second = _second_version(published)
    store.delete(LIVE)
    restore_pointer(store, "manuals", fence=2)
    assert _live(published) == second
    ((action, _, reason, *versions), *_) = _moves(store)
    assert (action, versions) == ("repair", [second, second])
    assert reason is not None
    assert "LIVE is missing" in reason


def test_a_damaged_event_hides_no_other(published: Workspace) -> None:
    first, second = _live(published), _second_version(published)
    (older, newer) = published.store.names("audit")
    (Path(published.store.root) / newer).write_text("{}")
    assert [event.to_version for event in read_events(published.store, 5)] == [first] != [second]
    assert older < newer


def test_pruning_leaves_the_log_alone(published: Workspace) -> None:
    _second_version(published)
    before = published.store.names("audit")
    assert len(before) == 2
    refresh(published)
    prune(published, dry_run=False)
    assert published.store.names("audit") == before
    assert all(
        finding.ok for finding in diagnose([str(published.file)], deep=True).findings if "objects" in finding.subject
    )


def test_the_commands_take_a_reason(published: Workspace) -> None:
    first, second = _live(published), _second_version(published)
    for command in (["rollback", str(published.file)], ["publish", str(published.file), second]):
        assert CliRunner().invoke(app, [*command, "--reason", f"because of {command[0]}"]).exit_code == 0
    assert [(event[2], *event[3:]) for event in _moves(published.store)[:2]] == [
        ("because of publish", first, second),
        ("because of rollback", second, first),
    ]


def test_a_user_without_a_name_is_named_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getuser", mock.Mock(side_effect=KeyError("getpwuid(): uid not found: 12345")))
    assert re.fullmatch(r"uid \d+", this_person())
