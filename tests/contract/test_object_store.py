"""One behaviour suite for every object store."""

import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.stores import open_store
from schemas.errors import ContractError
from schemas.ports import ObjectStore


@pytest.fixture(params=["folder", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ObjectStore]:
    if request.param == "folder":
        yield open_store(str(tmp_path / "store"))
        return
    bucket = request.getfixturevalue("s3_bucket")
    yield open_store(f"s3://{bucket}/some/prefix")


def test_what_is_put_is_got(store: ObjectStore) -> None:
    store.put("figures/a.png", b"pixels")
    assert store.get("figures/a.png") == b"pixels"
    assert store.exists("figures/a.png")
    assert not store.exists("figures/b.png")


def test_an_absent_object_is_said_so(store: ObjectStore) -> None:
    with pytest.raises(FileNotFoundError):
        store.get("nothing")
    assert store.read_mutable("nothing") is None
    assert store.names("nothing") == []
    assert store.folders("nothing") == []
    store.delete("nothing")


def test_put_keeps_and_replace_changes_what_is_there(store: ObjectStore) -> None:
    store.put("a", b"1")
    store.put("a", b"2")
    assert store.get("a") == b"1"
    store.replace("a", b"3")
    assert store.get("a") == b"3"


def test_names_are_sorted_and_whole(store: ObjectStore) -> None:
    for name in ("v/b/2", "v/a/1", "v/a/取説 #1%20?.pdf", "w/c"):
        store.put(name, b"x")
    assert store.names("v") == ["v/a/1", "v/a/取説 #1%20?.pdf", "v/b/2"]
    assert store.folders("v") == ["a", "b"]
    store.delete("v/b/2")
    assert store.folders("v") == ["a"]


def test_a_swap_needs_the_etag_that_is_there(store: ObjectStore) -> None:
    assert store.swap("LIVE", b"1", None)
    assert not store.swap("LIVE", b"2", None)
    found = store.read_mutable("LIVE")
    assert found is not None
    assert store.swap("LIVE", b"2", found[1])
    assert not store.swap("LIVE", b"3", found[1])
    assert store.get("LIVE") == b"2"


def test_a_name_cannot_leave_its_store(store: ObjectStore) -> None:
    with pytest.raises(ContractError, match="leaves its store"):
        store.put("../outside", b"x")


def test_a_store_travels_to_another_process(store: ObjectStore) -> None:
    store.put("a", b"1")
    assert pickle.loads(pickle.dumps(store)).get("a") == b"1"


def test_what_a_writer_that_died_left_half_written_is_found_and_removed(tmp_path: Path) -> None:
    script = (
        "import os, sys, pathlib; from backends.stores import open_store\n"
        "pathlib.Path.replace = lambda *_: os.kill(os.getpid(), 9)\n"
        "open_store(sys.argv[1]).put('figures/a.png', b'pixels')"
    )
    assert subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False).returncode == -signal.SIGKILL
    store = open_store(str(tmp_path))
    assert (store.names(""), store.abandoned("versions")) == ([], [])
    (half,) = store.abandoned("")
    store.delete(half)
    assert list(tmp_path.iterdir()) == []


def test_what_is_being_written_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(str(tmp_path))
    replace, seen = Path.replace, list[list[str]]()

    def look(path: Path, target: Path) -> Path:
        seen.append(store.abandoned(""))
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", look)
    store.put("figures/a.png", b"pixels")
    assert (seen, store.names(""), store.abandoned("")) == ([[]], ["figures/a.png"], [])


def test_every_store_says_what_is_abandoned(store: ObjectStore) -> None:
    store.put("a/b", b"1")
    assert store.abandoned("") == store.abandoned("nothing") == []
