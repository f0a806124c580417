"""Pictures in a folder that processes share."""

import logging
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from schemas.ids import sha256
from workers.picture_files import PictureFiles

KEYS = [sha256(f"{number}".encode()) for number in range(40)]


def _files(folder: Path) -> list[Path]:
    return [file for file in folder.rglob("*") if file.is_file()]


def test_another_process_has_what_one_keeps(tmp_path: Path) -> None:
    PictureFiles(tmp_path / "pages").put(KEYS[0], b"a picture")
    assert PictureFiles(tmp_path / "pages").get(KEYS[0]) == b"a picture"
    assert PictureFiles(tmp_path / "pages").get(KEYS[1]) is None
    assert (tmp_path / "pages").stat().st_mode & 0o077 == 0


def test_what_was_last_used_before_a_moment_is_removed(tmp_path: Path) -> None:
    files = PictureFiles(tmp_path)
    files.put(KEYS[0], b"old")
    (file,) = _files(tmp_path)
    os.utime(file, (1_000, 1_000))
    files.put(KEYS[1], b"new")
    files.remove_older(datetime.fromtimestamp(2_000, UTC))
    assert (files.get(KEYS[0]), files.get(KEYS[1])) == (None, b"new")
    PictureFiles(tmp_path / "none").remove_older(datetime.now(UTC))


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    files = PictureFiles(tmp_path, 10_000)
    for age, key in enumerate(KEYS[:9]):
        files.put(key, bytes(1000))
        (file,) = tmp_path.glob(f"*/{key}*")
        os.utime(file, (age, age))
    assert files.get(KEYS[0]) is not None  # used again
    files.put(KEYS[9], bytes(1000))
    held = [number for number in range(10) if files.get(KEYS[number]) is not None]
    assert held[0] == 0
    assert held[1:] == [*range(held[1], 10)]
    assert sum(file.stat().st_size for file in _files(tmp_path)) <= 10_000


@pytest.mark.parametrize("damage", [b"", b"x" * 80, None], ids=["empty", "other bytes", "cut off"])
def test_a_damaged_file_is_no_picture(tmp_path: Path, damage: bytes | None) -> None:
    files = PictureFiles(tmp_path)
    files.put(KEYS[0], b"a picture")
    (file,) = _files(tmp_path)
    file.write_bytes(file.read_bytes()[:-1] if damage is None else damage)
    assert files.get(KEYS[0]) is None
    assert not _files(tmp_path)
    files.put(KEYS[0], b"a picture")
    assert files.get(KEYS[0]) == b"a picture"


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "my").mkdir()
    (tmp_path / "my" / "thesis.pdf").write_bytes(bytes(5000))
    PictureFiles(tmp_path, 1000).put(KEYS[0], bytes(2000))
    assert [file.name for file in _files(tmp_path)] == ["thesis.pdf"]


def test_processes_that_write_at_once_hold_the_bound(tmp_path: Path) -> None:
    with ProcessPoolExecutor(4, multiprocessing.get_context("spawn")) as pool:
        assert all(pool.map(_write, [tmp_path] * 4))
    assert sum(file.stat().st_size for file in _files(tmp_path)) <= 12_000


def _write(folder: Path) -> bool:
    """Keep pictures and read them; return whether each was whole or gone."""
    files = PictureFiles(folder, 10_000)
    for key in KEYS * 5:
        files.put(key, key.encode() * 10)
        if files.get(key) not in (None, key.encode() * 10):
            return False
    return True


def test_a_folder_that_can_not_be_written_is_reported_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    files = PictureFiles(tmp_path / "file" / "pages")
    with caplog.at_level(logging.WARNING, "inset.pages"):
        files.put(KEYS[0], b"a picture")
        assert files.get(KEYS[0]) is None
        files.put(KEYS[0], b"a picture")
    assert [record.getMessage() for record in caplog.records] == [
        f"pictures of pages aren't kept in {tmp_path}/file/pages: Not a directory"
    ]
