"""Processes that read PDFs have no network, and write nothing but their own results."""

import os
import pickle
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from backends.stores.object_store import FolderStore
from backends.stores.sources import open_source
from lab import pages
from schemas.corpus import ParseOptions
from schemas.errors import BadInputError, FailureCode, InsetError, UserError
from schemas.ids import document_file, sha256
from workers import brief_reads, draw_pages, parse_shard, tag_shard
from workers.child_processes import Done, Refused, run_all
from workers.isolation import isolate, missing_isolation, writing

LIMITS = ParseOptions(workers=1)


@pytest.fixture(scope="module")
def isolating() -> None:
    """Skip where the kernel doesn't isolate."""
    if missing := missing_isolation():
        pytest.skip("; ".join(missing))


@pytest.fixture
def listening() -> Iterator[tuple[str, int]]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()


def _run(function: Callable[[Any, Callable[[int], None]], Any], task: Any) -> Done[Any] | Refused:
    ((_, last),) = run_all(function, [task], LIMITS)
    return last


def _connect(address: tuple[str, int]) -> str:
    try:
        socket.create_connection(address, timeout=5).close()
    except PermissionError:
        return "refused"
    return "connected"


def _before_and_after(address: tuple[str, int], _opened: Callable[[int], None]) -> tuple[str, str, bytes | str]:
    open_before = socket.create_connection(address, timeout=5)
    before = _connect(address)
    isolate()
    after = _connect(address)
    try:
        open_before.send(b"a document")
    except OSError:
        return before, after, "closed"
    return before, after, "open"


@pytest.mark.usefixtures("isolating")
def test_an_isolated_child_cannot_connect_to_a_listening_socket(listening: tuple[str, int]) -> None:
    assert _run(_before_and_after, listening) == Done(("connected", "refused", "closed"))


def _write(file: Path, _opened: Callable[[int], None]) -> list[str]:
    isolate()
    tried: list[Callable[[], object]] = [
        lambda: file.write_bytes(b"changed"),
        lambda: file.with_suffix(".new").touch(),
        file.unlink,
        lambda: os.truncate(file, 0),
        lambda: os.execv("/bin/true", ["true"]),
    ]
    refused = []
    for attempt in tried:
        try:
            attempt()
        except PermissionError as error:
            refused.append(type(error).__name__)
    return refused


@pytest.mark.usefixtures("isolating")
def test_an_isolated_child_cannot_write(tmp_path: Path) -> None:
    file = tmp_path / "LIVE"
    file.write_bytes(b"live")
    assert _run(_write, file) == Done(["PermissionError"] * 5)
    assert file.read_bytes() == b"live"


_Attempt = tuple[Any, str, Any, str, tuple[str, int]]


def _take_over(attempt: _Attempt, opened: Callable[[int], None]) -> object:
    """Do a step's work with a PDF that makes the function that opens it connect to an address."""
    step, function_name, task, opens, address = attempt

    def connect(*_: object, **__: object) -> None:
        raise BadInputError(_connect(address), FailureCode.CRASHED)

    module = {
        "parse": parse_shard,
        "tag": tag_shard,
        "draw": draw_pages,
        "pages": brief_reads,
        "metadata": brief_reads,
        "subjects": pages,
    }
    setattr(module[step], opens, connect)
    result: object = getattr(module[step], function_name)(task, opened)
    return result


@pytest.mark.usefixtures("isolating")
@pytest.mark.parametrize("step", ["parse", "tag", "draw", "pages", "metadata", "subjects"])
def test_no_step_opens_a_pdf_with_the_network(step: str, tmp_path: Path, listening: tuple[str, int]) -> None:
    data = b"%PDF-1.7"
    doc_id, store = sha256(data), FolderStore(tmp_path / "store")
    store.put(document_file(doc_id), data)
    (tmp_path / "pdfs").mkdir()
    (tmp_path / "pdfs/a.pdf").write_bytes(data)
    source, address = str(tmp_path / "pdfs"), store.root
    attempts = {
        "parse": (
            "_parse",
            parse_shard._Task(
                parse_shard.ParseJob(doc_id, "a.pdf"), open_source(source), address, LIMITS, (), False, tmp_path
            ),
            "open_document",
        ),
        "tag": ("_tag", tag_shard._Task(tag_shard.TagJob(doc_id, "a.pdf", ()), address, ()), "inscribe"),
        "draw": ("draw_in_child", draw_pages.Drawing(address, document_file(doc_id), 1), "open_pdf"),
        "pages": ("_page_count", (source, "a.pdf", doc_id), "open_pdf"),
        "metadata": ("_metadata", (doc_id, document_file(doc_id), address, (), ()), "open_document"),
        "subjects": ("_subject", (document_file(doc_id), address, ()), "open_document"),
    }
    function_name, task, opens = attempts[step]
    last = _run(_take_over, (step, function_name, task, opens, listening))
    assert last == Refused(FailureCode.CRASHED, "refused")


def _write_objects(task: tuple[str, list[str]], _opened: Callable[[int], None]) -> str:
    root, names = task
    with writing(FolderStore(Path(root)), "figures/", "parsed/a") as put:
        isolate()
        for name in names:
            put(name, name.encode() * 100_000)
    return "written"


def test_objects_are_written_by_another_process(tmp_path: Path) -> None:
    names = ["figures/1.png", "parsed/a"]
    assert _run(_write_objects, (str(tmp_path), names)) == Done("written")
    assert {name: FolderStore(tmp_path).get(name) for name in names} == {name: name.encode() * 100_000 for name in names}


@pytest.mark.parametrize("name", ["LIVE", "figures/../LIVE"])
def test_a_child_writes_no_other_object(name: str, tmp_path: Path) -> None:
    last = _run(_write_objects, (str(tmp_path), [name, "figures/1.png", "figures/2.png"]))
    assert last == Refused(FailureCode.CRASHED, f"reading it tried to write {name!r}")
    assert not (tmp_path / "LIVE").exists()


def test_an_error_of_the_store_is_that_of_the_task(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="does not exist and cannot be created") as caught:
        _run(_write_objects, (str(tmp_path / "file"), ["figures/1.png"]))
    assert isinstance(caught.value, InsetError)


class _Call:
    """What a child that a PDF took over may send."""

    def __init__(self, file: str) -> None:
        self.file = file

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.file,)


def _reply(file: str, _opened: Callable[[int], None]) -> _Call:
    return _Call(file)


def test_a_reply_calls_nothing_in_the_parent(tmp_path: Path) -> None:
    last = _run(_reply, str(tmp_path / "made"))
    assert last == Refused(FailureCode.CRASHED, "a child's reply names posix.mkdir")
    assert not (tmp_path / "made").exists()
    assert pickle.dumps(last)
