"""The pointer: publish, roll back, refuse."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from backends.stores.object_store import open_store
from pipeline.records.manifests import manifest_name
from pipeline.records.publication import (
    LIVE,
    list_versions,
    move_pointer,
    publish_version,
    read_pointer,
    restore_pointer,
    roll_back,
)
from schemas.errors import ContractError, GateError, UserError
from schemas.gates import GateResult
from schemas.ports import ObjectStore
from schemas.versions import Counts, Lease, Manifest

NOW = datetime(2026, 1, 1, tzinfo=UTC)
V1, V2, V3 = (f"2026010{day}T000000Z-0000000{day}" for day in (1, 2, 3))


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    store = open_store(str(tmp_path))
    for version in (V1, V2, V3):
        gate = GateResult(gate="g", passed=version != V3, value=None, bound=None, message="too few rows")
        manifest = Manifest(
            version=version,
            corpus="manuals",
            fingerprint=version[-8:],
            parent=None,
            created=NOW,
            run_id="r",
            code_version="0",
            keys={},
            models={},
            spaces={},
            parameters={},
            counts=Counts(),
            collection="C",
            gates=[gate],
        )
        store.put(manifest_name(version), manifest.model_dump_json().encode())
    return store


def _lease(fence: int) -> Lease:
    return Lease(run_id="r", fence=fence, until=NOW, host="h")


def _publish(store: ObjectStore, version: str, expected: str | None, fence: int = 1) -> None:
    move_pointer(store, version, expected=expected, is_held=False, lease=_lease(fence), since=NOW)


def test_publishing_needs_the_parent_that_was_planned_against(store: ObjectStore) -> None:
    _publish(store, V1, None)
    with pytest.raises(ContractError, match="was not published"):
        _publish(store, V2, None)
    _publish(store, V2, V1)
    live = read_pointer(store)
    assert live is not None
    assert (live.version, live.previous) == (V2, V1)


def test_a_late_writer_is_fenced_off(store: ObjectStore) -> None:
    _publish(store, V1, None, fence=5)
    with pytest.raises(ContractError, match="later run"):
        _publish(store, V2, V1, fence=4)


def test_roll_back_goes_to_the_version_before_and_holds(store: ObjectStore) -> None:
    _publish(store, V1, None)
    _publish(store, V2, V1)
    assert roll_back(store, "manuals").version == V1
    listed = list_versions(store, "manuals")
    assert (listed.live, listed.held) == (V1, True)
    assert [row.state for row in listed.versions] == ["refused", "previous", "live"]


def test_a_lost_pointer_is_restored_by_the_last_move_though_an_earlier_one_came_from_a_clock_ahead(
    store: ObjectStore,
) -> None:
    ahead = datetime.now(UTC) + timedelta(hours=1)
    move_pointer(store, V1, expected=None, is_held=False, lease=_lease(1), since=ahead)
    publish_version(store, "manuals", V2)
    assert roll_back(store, "manuals").version == V1
    publish_version(store, "manuals", V2)
    store.delete(LIVE)
    restore_pointer(store, "manuals", 2)
    live = read_pointer(store)
    assert live is not None
    assert (live.version, live.previous, live.held) == (V2, V1, False)


def test_publish_ends_the_hold(store: ObjectStore) -> None:
    _publish(store, V1, None)
    _publish(store, V2, V1)
    roll_back(store, "manuals")
    publish_version(store, "manuals", V2)
    listed = list_versions(store, "manuals")
    assert (listed.live, listed.held) == (V2, False)
    roll_back(store, "manuals", V1)
    publish_version(store, "manuals", V1)
    assert not list_versions(store, "manuals").held


def test_a_refused_version_never_goes_live(store: ObjectStore) -> None:
    _publish(store, V1, None)
    with pytest.raises(GateError, match="too few rows"):
        publish_version(store, "manuals", V3)


def test_an_operator_may_override_a_gate_with_a_reason_that_is_kept(store: ObjectStore) -> None:
    with pytest.raises(UserError, match="needs a reason"):
        publish_version(store, "manuals", V3, override="  ")
    assert publish_version(store, "manuals", V3, override="the lost rows were duplicates").version == V3
    (row,) = [row for row in list_versions(store, "manuals").versions if row.version == V3]
    assert (row.state, row.refusals) == ("live", ["g: too few rows"])
    assert row.override is not None
    assert (row.override.reason, row.override.refusals) == ("the lost rows were duplicates", ["g: too few rows"])
    publish_version(store, "manuals", V1)
    assert roll_back(store, "manuals").version == V3, "what was let pass once may be live again"


def test_an_override_of_nothing_leaves_no_word(store: ObjectStore) -> None:
    publish_version(store, "manuals", V1, override="in a hurry")
    assert [row.override for row in list_versions(store, "manuals").versions] == [None, None, None]


def test_mistakes_say_what_there_is(store: ObjectStore) -> None:
    with pytest.raises(UserError, match="nothing is live"):
        roll_back(store, "manuals")
    _publish(store, V1, None)
    with pytest.raises(UserError, match="first version"):
        roll_back(store, "manuals")
    with pytest.raises(UserError, match=f"there are: {V3}"):
        publish_version(store, "manuals", "20200101T000000Z-00000000")
