"""Folders and globs as sources."""

import os
from pathlib import Path

import pytest

from backends.sources import open_source
from schemas.errors import UserError


def test_a_folder_gives_its_pdfs_by_relative_name(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("b.PDF", "sub/имя файла – 取説 #1%20?.pdf", ".hidden.pdf", "notes.txt"):
        (tmp_path / name).write_bytes(name.encode())
    source = open_source(str(tmp_path))
    files = source.files()
    assert [file.source for file in files] == ["b.PDF", "sub/имя файла – 取説 #1%20?.pdf"]
    assert source.read(files[1].source) == "sub/имя файла – 取説 #1%20?.pdf".encode()
    assert files[0].size == 5


def test_a_glob_counts_from_its_fixed_part(tmp_path: Path) -> None:
    (tmp_path / "a" / "x").mkdir(parents=True)
    (tmp_path / "a" / "x" / "1.pdf").write_bytes(b"1")
    assert [file.source for file in open_source(str(tmp_path / "a" / "**" / "*.pdf")).files()] == ["x/1.pdf"]


def test_a_name_that_is_not_utf8_is_listed_and_read(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9.pdf")).write_bytes(b"1")
    source = open_source(str(tmp_path))
    assert [file.source for file in source.files()] == ["caf\\xe9.pdf"]
    assert source.read("caf\\xe9.pdf") == b"1"


def test_a_missing_folder_is_the_users_mistake(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a folder"):
        open_source(str(tmp_path / "nowhere")).files()
