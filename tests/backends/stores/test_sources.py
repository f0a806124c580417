"""Folders and globs as sources."""

import hashlib
import os
import pickle
import socket
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.stores.sources import FolderSource, open_source, overlaps
from schemas.base import combined_address
from schemas.errors import BadInputError, FailureCode, InsetError, TransientError, UserError


def test_a_folder_gives_its_pdfs_by_relative_name(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / ".trash").mkdir()
    for name in ("b.PDF", "sub/имя файла – 取説 #1%20?.pdf", ".hidden.pdf", ".trash/x.pdf", "notes.log", "B.pdf"):
        (tmp_path / name).write_bytes(name.encode())
    source = open_source(str(tmp_path))
    files = source.files()
    assert [file.source for file in files] == ["B.pdf", "b.PDF", "sub/имя файла – 取説 #1%20?.pdf"]
    assert source.read(files[2].source) == "sub/имя файла – 取説 #1%20?.pdf".encode()
    assert source.digest("b.PDF") == (hashlib.sha256(b"b.PDF").hexdigest(), 5)
    assert files[0].size == 5
    assert pickle.loads(pickle.dumps(source)).read("b.PDF") == b"b.PDF"


def test_a_file_that_takes_over_size_and_time_of_another_is_listed_as_changed(tmp_path: Path) -> None:
    stamps = set[str]()
    for text in ("45 Nm", "54 Nm"):
        (tmp_path / "new").write_text(text)
        os.utime(tmp_path / "new", (1_700_000_000, 1_700_000_000))
        (tmp_path / "new").rename(tmp_path / "gear.pdf")
        (gear,) = open_source(str(tmp_path)).files()
        stamps.add(gear.stamp)
    assert len(stamps) == 2


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("**/*.pdf", ["1.pdf", "x/1.pdf", "x/y/1.pdf", "x/y/2.pdf"]),
        ("*.pdf", ["1.pdf"]),
        ("*/1.pdf", ["x/1.pdf"]),
        ("x/**/*.pdf", ["1.pdf", "y/1.pdf", "y/2.pdf"]),
        ("x/**/y/?.pdf", ["y/1.pdf", "y/2.pdf"]),
        ("**/y/[2-9].pdf", ["x/y/2.pdf"]),
        ("**/**/2.pdf", ["x/y/2.pdf"]),
        ("**/x.pdf/*", []),
    ],
)
def test_a_glob_counts_from_its_fixed_part(tmp_path: Path, pattern: str, expected: list[str]) -> None:
    (tmp_path / "x" / "y").mkdir(parents=True)
    for name in ("1.pdf", "x/1.pdf", "x/y/1.pdf", "x/y/2.pdf", "x/y/3.txt"):
        (tmp_path / name).write_bytes(b"1")
    assert [file.source for file in open_source(str(tmp_path / pattern)).files()] == expected


def test_a_folder_whose_name_looks_like_a_glob_is_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "[draft] v2*"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "a.pdf").write_bytes(b"1")
    assert [file.source for file in open_source(str(folder)).files()] == ["sub/a.pdf"]
    assert [file.source for file in open_source(f"{folder}/*/*.pdf").files()] == ["sub/a.pdf"]
    assert [file.source for file in open_source(f"{folder}/sub/a.pdf").files()] == ["a.pdf"]


def test_several_sources_are_one_whose_names_begin_with_theirs(tmp_path: Path) -> None:
    for name in ("a/pump.pdf", "b/pump.pdf", "b/sub/winch.pdf"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    address = combined_address({"service": str(tmp_path / "b"), "handbooks": str(tmp_path / "a" / "*.pdf")})
    source = open_source(address)
    assert [file.source for file in source.files()] == ["handbooks/pump.pdf", "service/pump.pdf", "service/sub/winch.pdf"]
    assert source.read("service/pump.pdf") == b"b/pump.pdf"
    assert pickle.loads(pickle.dumps(source)).digest("handbooks/pump.pdf")[0] == hashlib.sha256(b"a/pump.pdf").hexdigest()
    for gone in ("left/pump.pdf", "service/gone.pdf"):
        with pytest.raises(FileNotFoundError):
            source.read(gone)
    assert (overlaps(address, str(tmp_path)), overlaps(address, str(tmp_path / "c"))) == (True, False)
    (tmp_path / "a").rename(tmp_path / "c")
    with pytest.raises(UserError, match="a is not a folder"):
        source.files()


def test_names_that_differ_in_raw_bytes_alone_are_two_sources(tmp_path: Path) -> None:
    names = [b"caf\xe9.pdf", rb"caf\xe9.pdf", rb"caf\x5cxe9.pdf", "café.pdf".encode(), "cafe\u0301.pdf".encode()]
    for name in names:
        (tmp_path / os.fsdecode(name)).write_bytes(name)
    source = open_source(str(tmp_path))
    listed = [file.source for file in source.files()]
    assert len(set(listed)) == len(names)
    assert {source.read(name) for name in listed} == set(names)
    assert r"caf\xe9.pdf" in listed


@given(st.binary(min_size=1, max_size=12).filter(lambda name: b"/" not in name and b"\0" not in name))
def test_every_name_has_a_text_of_its_own(name: bytes) -> None:
    from backends.stores.sources import _as_name, _as_text

    text = _as_text(os.fsdecode(name))
    assert os.fsencode(_as_name(text)) == name
    assert text.encode()


def test_a_missing_folder_is_the_users_mistake(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for path in ("nowhere", "file", "nowhere/*.pdf"):
        with pytest.raises(UserError, match="is not a folder"):
            open_source(str(tmp_path / path)).files()


@pytest.mark.parametrize("mode", [0o000, 0o300, 0o600], ids=["nothing", "no listing", "names alone"])
@pytest.mark.parametrize("pattern", ["", "**/*.pdf"], ids=["folder", "glob"])
def test_a_folder_that_can_not_be_listed_refuses_the_listing_by_name(unprivileged: Path, mode: int, pattern: str) -> None:
    (unprivileged / "open").mkdir()
    closed = unprivileged / "open" / "closed"
    closed.mkdir()
    for folder in (unprivileged, closed):
        (folder / "a.pdf").write_bytes(b"1")
    closed.chmod(mode)
    try:
        with pytest.raises(UserError, match="can't be listed: Permission denied") as caught:
            open_source(f"{unprivileged}/{pattern}").files()
        assert str(closed) in caught.value.message
        assert [file.source for file in open_source(f"{unprivileged}/*.pdf").files()] == ["a.pdf"], (
            "it needn't be looked at"
        )
    finally:
        closed.chmod(0o700)


def test_a_folder_that_the_system_can_not_name_refuses_the_listing(tmp_path: Path) -> None:
    working_folder = Path.cwd()
    try:
        os.chdir(tmp_path)
        for _ in range(20):  # deeper than a path may be long
            Path("d" * 250).mkdir()
            os.chdir("d" * 250)
    finally:
        os.chdir(working_folder)
    with pytest.raises(TransientError, match="can't be listed: File name too long"):
        open_source(str(tmp_path)).files()


def _socket(path: Path) -> None:
    working_folder = Path.cwd()
    os.chdir(path.parent)  # a socket's address is short
    try:
        with socket.socket(socket.AF_UNIX) as bound_socket:
            bound_socket.bind(path.name)
    finally:
        os.chdir(working_folder)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (os.mkfifo, "it is a FIFO, not a file"),
        (_socket, "it is a socket, not a file"),
        (lambda path: path.symlink_to(path), "Too many levels of symbolic links"),
        (lambda path: path.symlink_to("nowhere"), "it is a link to a file that isn't there"),
        (lambda path: path.symlink_to("/dev/zero"), "it is a device, not a file"),
    ],
    ids=["FIFO", "socket", "link to itself", "link to nothing", "link to a device"],
)
def test_what_can_not_be_read_is_listed_with_the_reason(
    tmp_path: Path, make: Callable[[Path], object], problem: str
) -> None:
    (tmp_path / "good.pdf").write_bytes(b"1")
    make(tmp_path / "bad.pdf")
    make(tmp_path / "other.log")
    source = open_source(str(tmp_path))
    bad, good = source.files()
    assert (good.source, good.problem) == ("good.pdf", None)
    assert problem in (bad.problem or "")
    for ask in (source.read, source.digest):
        with pytest.raises((BadInputError, FileNotFoundError)):
            ask("bad.pdf")


def test_a_file_that_may_not_be_read_costs_itself(unprivileged: Path) -> None:
    (unprivileged / "bad.pdf").write_bytes(b"1")
    (unprivileged / "bad.pdf").chmod(0)
    source = open_source(str(unprivileged))
    (file,) = source.files()
    assert (file.size, file.problem) == (1, None), "unread, as any other"
    with pytest.raises(BadInputError, match="Permission denied") as caught:
        source.digest("bad.pdf")
    assert caught.value.code is FailureCode.SOURCE_UNREADABLE


def test_links_to_folders_are_not_followed_and_links_to_files_are(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "a.pdf").write_bytes(b"1")
    (tmp_path / "here" / "up").symlink_to(tmp_path)
    (tmp_path / "b.pdf").symlink_to("here/a.pdf")
    (tmp_path / "folder.pdf").mkdir()
    assert [file.source for file in open_source(str(tmp_path)).files()] == ["b.pdf", "here/a.pdf"]


def test_a_file_that_went_away_is_not_found(tmp_path: Path) -> None:
    source = open_source(str(tmp_path))
    (tmp_path / "folder").write_bytes(b"")
    for name in ("gone.pdf", "folder/gone.pdf"):
        with pytest.raises(FileNotFoundError) as caught:
            source.read(name)
        assert not isinstance(caught.value, InsetError)


@pytest.mark.parametrize(
    ("source", "store", "expected"),
    [
        ("pdfs", "store", False),
        ("pdfs", "pdfs", True),
        ("pdfs", "pdfs/store", True),
        ("store/pdfs", "store", True),
        ("", ".inset/store", False),
        ("**/*.pdf", ".inset/store", True),
        ("*.pdf", "store", False),
        ("linked", "pdfs/store", True),
        ("pdfs", "pdfs-store", False),
    ],
)
def test_a_source_and_a_store_that_overlap_are_found(tmp_path: Path, source: str, store: str, expected: bool) -> None:
    (tmp_path / "pdfs").mkdir()
    (tmp_path / "linked").symlink_to("pdfs")
    assert overlaps(f"{tmp_path}/{source}".rstrip("/"), f"{tmp_path}/{store}") is expected


def test_a_source_that_leads_round_is_the_users_mistake(tmp_path: Path) -> None:
    (tmp_path / "round").symlink_to("round")
    for path in ("round", "round/*.pdf", f"{'x' * 300}/*.pdf"):
        assert not overlaps(f"{tmp_path}/{path}", f"{tmp_path}/store")
        with pytest.raises(InsetError):
            open_source(f"{tmp_path}/{path}").files()


def test_prefixes_of_a_bucket_overlap_like_folders() -> None:
    assert overlaps("s3://b/pdfs", "s3://b")
    assert overlaps("s3://b", "s3://b/store/")
    assert not overlaps("s3://b/pdfs", "s3://b/pdf")
    assert not overlaps("/pdfs", "s3://b")


def test_a_pdf_is_digested_without_being_held(tmp_path: Path) -> None:
    with (tmp_path / "large.pdf").open("wb") as file:
        file.truncate(1 << 28)
    tracemalloc.start()
    try:
        FolderSource(tmp_path).digest("large.pdf")
        assert tracemalloc.get_traced_memory()[1] < 1 << 24
    finally:
        tracemalloc.stop()
