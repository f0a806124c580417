"""Parsing in processes of their own: one outcome a document, and nobody suffers for another."""

import hashlib
import multiprocessing
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import pymupdf
import pytest

from backends.stores.document_files import parsed_file, read_parsed
from backends.stores.object_store import open_store
from backends.stores.sources import open_source
from schemas.corpus import ParseOptions
from schemas.errors import FailureCode, InsetError
from tests.manuals import endless, write_manual
from workers.parse_shard import ParseJob, ParseOutcome, attempt_key, parse_documents, parse_key

OPTIONS = ParseOptions(workers=2)


@pytest.fixture
def room(tmp_path: Path) -> "Room":
    return Room(tmp_path)


class Room:
    """A folder of PDFs, and a store."""

    def __init__(self, base: Path) -> None:
        self.source, self.store_address = base / "source", f"{base / 'store'}"
        self.source.mkdir()
        self.store = open_store(self.store_address)
        self.jobs: dict[str, ParseJob] = {}

    def add(self, name: str, data: bytes) -> ParseJob:
        """Put a file into the source and plan its parse."""
        (self.source / name).write_bytes(data)
        self.jobs[name] = ParseJob(hashlib.sha256(data).hexdigest(), name)
        return self.jobs[name]

    def add_manual(self, name: str, subject: str = "pump", seed: int = 0) -> ParseJob:
        """Put a manual of two pages and two figures into the source and plan its parse."""
        return self.add(name, write_manual(self.source / name, subject, seed=seed).read_bytes())

    def parse(
        self, jobs: Sequence[ParseJob] | None = None, options: ParseOptions = OPTIONS, passwords: Sequence[str] = ()
    ) -> dict[str, ParseOutcome]:
        """Parse what was planned, and return the outcomes by the names of the files; each has one."""
        jobs = list(self.jobs.values()) if jobs is None else jobs
        outcomes = list(
            parse_documents(
                jobs,
                source=open_source(str(self.source)),
                store_address=self.store_address,
                options=options,
                passwords=passwords,
                run_id="run-1",
            )
        )
        assert sorted(outcome.doc_id for outcome in outcomes) == sorted(job.doc_id for job in jobs)
        assert multiprocessing.active_children() == []
        names = {job.doc_id: job.source for job in jobs}
        return {names[outcome.doc_id]: outcome for outcome in outcomes}

    def is_parsed(self, job: ParseJob, options: ParseOptions = OPTIONS) -> bool:
        """Return whether the store has a finished parse of a document."""
        return self.store.exists(parsed_file(job.doc_id, parse_key(options)))

    def written(self) -> dict[str, int]:
        """Return when each object of the store was last written, in nanoseconds."""
        base = Path(self.store_address)
        return {path.relative_to(base).as_posix(): path.stat().st_mtime_ns for path in base.rglob("*") if path.is_file()}


def _code(outcome: ParseOutcome) -> FailureCode:
    (failure,) = outcome.failures
    assert (failure.page, failure.step, failure.run_id, failure.doc_id) == (None, "parse", "run-1", outcome.doc_id)
    assert outcome.pages == 0
    return failure.code


def _locked() -> bytes:
    document = pymupdf.open()
    document.new_page().insert_text((72, 100), "The torque is 40 Nm.")
    return bytes(document.tobytes(encryption=pymupdf.PDF_ENCRYPT_AES_256, user_pw="open", owner_pw="own"))


def _huge(side: int) -> bytes:
    """A page with a square image of black, packed a thousandfold; three bytes a pixel once unpacked."""
    document = pymupdf.open()
    page = document.new_page()
    page.insert_text((72, 72), "The torque is 40 Nm.")
    pixmap = pymupdf.Pixmap(pymupdf.csRGB, pymupdf.IRect(0, 0, 2, 2), False)
    pixmap.clear_with(9)
    xref = page.insert_image((100, 100, 400, 400), pixmap=pixmap)
    document.update_stream(xref, zlib.compress(bytes(side * side * 3)), compress=False)
    for key, value in (("Width", str(side)), ("Height", str(side)), ("Filter", "/FlateDecode"), ("DecodeParms", "null")):
        document.xref_set_key(xref, key, value)
    return bytes(document.tobytes())


def test_bad_files_have_one_failure_each_and_the_good_one_never_notices(room: Room) -> None:
    good = room.add_manual("good.pdf")
    room.add("page.pdf", b"<!DOCTYPE html><html><body>Please log in.</body></html>")
    room.add("empty.pdf", b"")
    room.add("locked.pdf", _locked())
    room.add("torn.pdf", (room.source / "good.pdf").read_bytes()[:200])
    room.add("changed.pdf", _locked() + b"%")
    room.add("gone.pdf", _locked() + b"%%")
    write_manual(room.source / "changed.pdf", "valve", seed=3)
    (room.source / "gone.pdf").unlink()
    outcomes = room.parse()
    assert {name: _code(outcome) for name, outcome in outcomes.items() if name != "good.pdf"} == {
        "page.pdf": FailureCode.NOT_A_PDF,
        "empty.pdf": FailureCode.EMPTY_FILE,
        "locked.pdf": FailureCode.NEEDS_PASSWORD,
        "torn.pdf": FailureCode.DAMAGED,
        "changed.pdf": FailureCode.SOURCE_CHANGED,
        "gone.pdf": FailureCode.SOURCE_CHANGED,
    }
    assert outcomes["good.pdf"] == ParseOutcome(good.doc_id, 2, ())
    assert [job.source for job in room.jobs.values() if room.is_parsed(job)] == ["good.pdf"]


def test_a_parse_leaves_its_pages_its_figures_and_its_source_in_the_store(room: Room) -> None:
    job = room.add_manual("pump.pdf")
    room.parse()
    document = read_parsed(room.store, parsed_file(job.doc_id, parse_key(OPTIONS)))
    assert (document.doc_id, len(document.pages), len(document.figures)) == (job.doc_id, 2, 2)
    assert room.store.get(f"documents/{job.doc_id}.pdf") == (room.source / "pump.pdf").read_bytes()
    for figure in document.figures:
        assert room.store.get(f"figures/{figure.figure_id}.png").startswith(b"\x89PNG")


def test_a_document_with_a_password_is_parsed_where_the_password_is_given(room: Room) -> None:
    job = room.add("locked.pdf", _locked())
    assert room.parse(passwords=["wrong", "open"])["locked.pdf"] == ParseOutcome(job.doc_id, 1, ())


def test_a_document_that_takes_too_long_is_stopped_and_the_next_one_is_parsed(room: Room) -> None:
    room.add("endless.pdf", endless())
    room.add_manual("good.pdf")
    options = ParseOptions(workers=1, timeout_s=3)
    outcomes = room.parse(options=options)
    assert _code(outcomes["endless.pdf"]) is FailureCode.TIME_LIMIT
    assert (outcomes["good.pdf"].pages, outcomes["good.pdf"].failures) == (2, ())


@pytest.mark.parametrize(
    "side",
    [
        7000,
        9900,
    ],
    ids=["while Inset copies it", "while MuPDF unpacks it"],
)
def test_a_document_that_takes_too_much_memory_is_a_failure_and_the_others_are_parsed(room: Room, side: int) -> None:
    huge = room.add("huge.pdf", _huge(side))
    room.add_manual("good.pdf")
    tight = ParseOptions(workers=2, memory_mb=256)
    outcomes = room.parse(options=tight)
    assert (outcomes["good.pdf"].pages, outcomes["good.pdf"].failures) == (2, ())
    assert not room.is_parsed(huge, tight), "with more memory it would be read"
    assert _code(outcomes["huge.pdf"]) is FailureCode.MEMORY_LIMIT


def test_a_document_of_too_many_pages_is_a_failure(room: Room) -> None:
    room.add_manual("pump.pdf")
    assert _code(room.parse(options=ParseOptions(max_pages=1))["pump.pdf"]) is FailureCode.PAGE_LIMIT


def test_a_finished_parse_is_used_again_and_nothing_is_written(room: Room) -> None:
    room.add_manual("pump.pdf")
    room.add("page.pdf", b"<html>")
    first = room.parse()
    files_before = room.written()
    (room.source / "pump.pdf").unlink()
    assert room.parse()["pump.pdf"] == first["pump.pdf"]
    assert room.written() == files_before


def test_a_parse_that_was_cut_short_is_taken_up_again_and_comes_out_the_same(room: Room) -> None:
    job = room.add_manual("pump.pdf")
    room.parse()
    before = {name: Path(room.store_address, name).read_bytes() for name in room.written()}
    Path(room.store_address, parsed_file(job.doc_id, parse_key(OPTIONS))).unlink()
    room.parse()
    assert {name: Path(room.store_address, name).read_bytes() for name in room.written()} == before


def test_the_order_of_the_jobs_and_the_number_of_workers_change_nothing(room: Room, tmp_path: Path) -> None:
    for number in range(4):
        room.add_manual(f"{number}.pdf", seed=number)
    jobs = list(room.jobs.values())
    first = room.parse(jobs)
    stored = {name: Path(room.store_address, name).read_bytes() for name in room.written()}
    room.store_address = str(tmp_path / "another")
    assert room.parse(jobs[::-1], options=ParseOptions(workers=1)) == first
    assert {name: Path(room.store_address, name).read_bytes() for name in room.written()} == stored


def test_one_document_under_two_names_is_parsed_under_either(room: Room) -> None:
    job = room.add_manual("pump.pdf")
    (room.source / "copy.pdf").write_bytes((room.source / "pump.pdf").read_bytes())
    (outcome,) = room.parse([ParseJob(job.doc_id, "copy.pdf")]).values()
    assert outcome == ParseOutcome(job.doc_id, 2, ())


def test_no_jobs_no_outcomes(room: Room) -> None:
    assert room.parse([]) == {}


def test_who_stops_listening_leaves_no_process_behind(room: Room) -> None:
    room.add_manual("good.pdf")
    room.add("endless.pdf", endless())
    outcomes = parse_documents(
        list(room.jobs.values()),
        source=open_source(str(room.source)),
        store_address=room.store_address,
        options=OPTIONS,
        passwords=(),
        run_id=None,
    )
    assert next(outcomes).doc_id == room.jobs["good.pdf"].doc_id
    assert len(multiprocessing.active_children()) == 1
    outcomes.close()  # type: ignore[attr-defined]
    assert multiprocessing.active_children() == []


def test_a_store_that_does_not_answer_is_nobodys_failure(room: Room) -> None:
    room.add_manual("pump.pdf")
    Path(room.store_address).write_text("a file where the store should be")
    with pytest.raises(InsetError):
        room.parse()


@pytest.mark.parametrize(
    ("change", "parses_anew"),
    [
        (lambda options: options.model_copy(update={"layout": "never"}), True),
        (lambda options: options.model_copy(update={"timeout_s": 7.0}), False),
        (lambda options: options.model_copy(update={"memory_mb": 300}), False),
        (lambda options: options.model_copy(update={"max_pages": 7}), False),
        (lambda options: options.model_copy(update={"passwords_env": "PASSWORDS"}), False),
        (lambda options: options.model_copy(update={"workers": 7, "shard_mb": 1.0}), None),
    ],
    ids=["layout", "time", "memory", "pages", "passwords", "workers"],
)
def test_what_a_parse_depends_on(change: Callable[[ParseOptions], ParseOptions], parses_anew: bool | None) -> None:
    """A limit that was raised is a reason to try a failed document again, and none to parse a finished one again."""
    changed = change(OPTIONS)
    assert (parse_key(changed) != parse_key(OPTIONS)) is (parses_anew is True)
    assert (attempt_key(changed) != attempt_key(OPTIONS)) is (parses_anew is not None)
