"""One behaviour suite for every object store."""

import errno
import os
import pickle
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backends.stores.object_store import open_store
from backends.stores.s3_store import s3_client
from schemas.errors import ContractError, DamagedError, InsetError, MissingError, TransientError, UserError
from schemas.ids import sha256
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
    with store.open("figures/a.png") as file:
        file.seek(2)
        assert file.read(3) == b"xel"
    assert store.exists("figures/a.png")
    assert not store.exists("figures/b.png")


def test_an_absent_object_is_said_so(store: ObjectStore) -> None:
    with pytest.raises(FileNotFoundError):
        store.get("nothing")
    with pytest.raises(FileNotFoundError):
        store.open("nothing")
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


def _break(store: ObjectStore, name: str, data: bytes) -> None:
    """Write an object's bytes past all that checks them."""
    if not store.root.startswith("s3://"):
        (Path(store.root) / name).write_bytes(data)
        return
    bucket, _, prefix = store.root.removeprefix("s3://").partition("/")
    s3_client().put_object(Bucket=bucket, Key=f"{prefix}/{name}", Body=data)


PDF = b"%PDF-1.7 and so on"
DOCUMENT = f"documents/{sha256(PDF)}.pdf"


@pytest.mark.parametrize("damaged", [b"", PDF[:9], PDF.replace(b"so", b"on")])
def test_a_damaged_object_is_named_and_put_again(store: ObjectStore, damaged: bytes) -> None:
    store.put(DOCUMENT, PDF)
    _break(store, DOCUMENT, damaged)
    with pytest.raises(
        DamagedError, match=rf"{DOCUMENT} .*; to make it again: inset doctor (store|prefix) --deep, then inset refresh"
    ) as caught:
        store.get(DOCUMENT)
    assert caught.value.name == DOCUMENT
    assert pickle.loads(pickle.dumps(caught.value)).name == DOCUMENT
    store.put(DOCUMENT, PDF)
    assert store.get(DOCUMENT) == PDF


def test_an_absent_object_is_named_too(store: ObjectStore) -> None:
    with pytest.raises(MissingError, match=r"documents/a\.pdf is missing; to make it again: inset doctor"):
        store.get("documents/a.pdf")


def test_a_damaged_mutable_object_can_be_swapped_by_its_etag(store: ObjectStore) -> None:
    assert store.swap("LIVE", b'{"version":"1"}', None)
    _break(store, "LIVE", b'{"ver')
    with pytest.raises(DamagedError, match=r"LIVE is cut short; to restore it: inset refresh .* inset publish"):
        store.read_mutable("LIVE")
    assert not store.swap("LIVE", b'{"version":"2"}', None)
    assert store.swap("LIVE", b'{"version":"2"}', store.etag("LIVE"))
    current = store.read_mutable("LIVE")
    assert current is not None
    assert (current[0], store.etag("nothing")) == (b'{"version":"2"}', None)


def test_sizes_and_digests_are_those_of_the_stored_bytes(store: ObjectStore) -> None:
    store.put("v/a", b"12345")
    store.put(DOCUMENT, PDF)
    assert store.sizes("v") == {"v/a": 5}
    assert store.digest(DOCUMENT) == sha256(PDF)
    _break(store, DOCUMENT, PDF[:4])
    assert (store.sizes("documents"), store.digest(DOCUMENT)) == ({DOCUMENT: 4}, sha256(PDF[:4]))


def test_an_object_and_its_folder_are_on_the_disk_before_put_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def sync(handle: int) -> None:
        path = Path(f"/proc/self/fd/{handle}").readlink()
        steps.append("folder " + path.relative_to(tmp_path).as_posix() if path.is_dir() else "data")
        fsync(handle)

    def rename(path: Path, target: Path) -> Path:
        steps.append("name")
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(Path, "replace", rename)
    store = open_store(str(tmp_path / "store"))
    store.put("a/b/c", b"1")
    assert steps == ["folder .", "folder store", "folder store/a", "data", "name", "folder store/a/b"]


def test_a_listing_that_is_not_whole_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(str(tmp_path))
    store.put("evidence/a/1", b"1")
    scandir = os.scandir

    def refuse(path: Any) -> Any:
        if Path(path).name == "a":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(UserError, match=r"evidence/a: permission denied; give this user the right"):
        store.names("evidence")


@pytest.mark.parametrize(
    ("number", "kind", "message"),
    [
        (errno.ENOSPC, TransientError, "No space left on device; make room there"),
        (errno.EROFS, TransientError, "the file system is read-only; make it writable, or choose another store"),
        (errno.EACCES, UserError, "permission denied"),
        (errno.EIO, TransientError, "Input/output error"),
    ],
)
def test_a_disk_that_refuses_is_named_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[InsetError], message: str
) -> None:
    store = open_store(str(tmp_path))

    def refuse(*_: Any, **__: Any) -> Any:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    with pytest.raises(kind, match=message) as caught:
        store.put("figures/a", b"1")
    assert "figures/a" in caught.value.message
    assert "\n" not in caught.value.message


def test_an_object_that_can_not_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(str(tmp_path))
    store.put("a", b"1")

    def refuse(*_: Any) -> bytes:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(DamagedError, match=r"/a can't be read: permission denied; make it readable"):
        store.get("a")


def test_names_are_sorted_and_whole(store: ObjectStore) -> None:
    for name in ("v/b/2", "v/a/1", "v/a/取説 #1%20?.pdf", "w/c"):
        store.put(name, b"x")
    assert store.names("v") == ["v/a/1", "v/a/取説 #1%20?.pdf", "v/b/2"]
    assert sorted(store.listing("v/")) == [(name, 1) for name in store.names("v")]
    assert sorted(name for name, _ in store.listing("")) == [*store.names("v"), "w/c"]
    assert list(store.listing("nothing")) == []
    assert store.folders("v") == ["a", "b"]
    store.delete("v/b/2")
    assert store.folders("v") == ["a"]


def test_the_age_of_an_object_counts_from_its_last_write(store: ObjectStore) -> None:
    assert store.age_s("LEASE") is None
    assert store.swap("LEASE", b"{}", None)
    age = store.age_s("LEASE")
    assert age is not None
    assert -1 <= age < 60


def test_a_swap_needs_the_etag_that_is_there(store: ObjectStore) -> None:
    assert store.swap("LIVE", b'{"n":1}', None)
    assert not store.swap("LIVE", b'{"n":2}', None)
    current = store.read_mutable("LIVE")
    assert current is not None
    assert store.swap("LIVE", b'{"n":2}', current[1])
    assert not store.swap("LIVE", b'{"n":3}', current[1])
    assert store.get("LIVE") == b'{"n":2}'


def test_a_name_cannot_leave_its_store(store: ObjectStore) -> None:
    with pytest.raises(ContractError, match="leaves its store"):
        store.put("../outside", b"x")


def test_a_store_travels_to_another_process(store: ObjectStore) -> None:
    store.put("a", b"1")
    assert pickle.loads(pickle.dumps(store)).get("a") == b"1"


def test_what_a_writer_that_died_left_half_written_is_found_and_removed(tmp_path: Path) -> None:
    script = (
        "import os, sys, pathlib; from backends.stores.object_store import open_store\n"
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
    replace, abandoned = Path.replace, list[list[str]]()

    def look(path: Path, target: Path) -> Path:
        abandoned.append(store.abandoned(""))
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", look)
    store.put("figures/a.png", b"pixels")
    assert (abandoned, store.names(""), store.abandoned("")) == ([[]], ["figures/a.png"], [])


def test_every_store_says_what_is_abandoned(store: ObjectStore) -> None:
    store.put("a/b", b"1")
    assert store.abandoned("") == store.abandoned("nothing") == []
