"""Names that stand for a version."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from backends.stores.object_store import open_store
from pipeline.records.manifests import manifest_name
from pipeline.records.publication import LIVE, list_versions, nothing_live, publish_version, resolve_version
from schemas.errors import DamagedError, NotFoundError
from schemas.gates import GateResult
from schemas.ports import ObjectStore
from schemas.versions import Counts, Manifest

V1, V2, V3 = (f"2026010{day}T000000Z-0000000{day}" for day in (1, 2, 3))


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    return open_store(str(tmp_path))


def _finish(store: ObjectStore, version: str, *, passed: bool = True) -> None:
    manifest = Manifest(
        version=version,
        corpus="manuals",
        fingerprint=version[-8:],
        parent=None,
        created=datetime(2026, 1, 1, tzinfo=UTC),
        run_id="r",
        code_version="0",
        keys={},
        models={},
        spaces={},
        parameters={},
        counts=Counts(),
        collection="C",
        gates=[GateResult(gate="g", passed=passed, value=None, bound=None, message="too few rows")],
    )
    store.put(manifest_name(version), manifest.model_dump_json().encode())


def test_names_stand_for_versions(store: ObjectStore) -> None:
    for version in (V1, V2):
        _finish(store, version)
        publish_version(store, "manuals", version)
    _finish(store, V3, passed=False)
    store.put(f"versions/{V3[:-1]}9/plan.json", b"{}")
    names = ("live", "previous", "latest", V1, "typo")
    assert [resolve_version(store, "manuals", name) for name in names] == [V2, V1, V3, V1, "typo"]


def test_a_name_without_a_version_says_what_to_do(store: ObjectStore) -> None:
    for name in ("live", "previous", "latest"):
        with pytest.raises(NotFoundError, match="nothing is published yet; run: inset refresh manuals"):
            resolve_version(store, "manuals", name)
    _finish(store, V1, passed=False)
    assert nothing_live(store, "manuals") == (
        f"corpus manuals: nothing is published; {V1} was refused: g: too few rows; "
        f'if it is to go live all the same: inset publish manuals {V1} --override "REASON"'
    )
    _finish(store, V2)
    assert nothing_live(store, "manuals").endswith(f"to publish its newest version: inset publish manuals {V2}")
    publish_version(store, "manuals", V2)
    with pytest.raises(NotFoundError, match=f"{V2} is live, and there is no version before it"):
        resolve_version(store, "manuals", "previous")


@pytest.mark.parametrize("lost", [b"", None])
def test_versions_are_listed_though_the_pointer_is_lost(store: ObjectStore, tmp_path: Path, lost: bytes | None) -> None:
    _finish(store, V1)
    publish_version(store, "manuals", V1)
    (tmp_path / LIVE).unlink() if lost is None else (tmp_path / LIVE).write_bytes(lost)
    listed = list_versions(store, "manuals")
    assert (listed.live, [row.version for row in listed.versions]) == (None, [V1])
    assert listed.problem is not None
    assert f"to restore it: inset refresh {tmp_path.name}" in listed.problem
    with pytest.raises(DamagedError, match="to restore it"):
        resolve_version(store, "manuals", "live")
    assert resolve_version(store, "manuals", "latest") == V1
