"""Pages drawn for many callers, whatever the documents hold."""

import multiprocessing
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pymupdf
import pytest

from bench.page_bombs import transparency_bomb
from schemas.corpus import ParseOptions
from schemas.errors import BadInputError, FailureCode, InsetError, NotFoundError, TransientError
from tests.manuals import write_manual
from workers import draw_pages
from workers.draw_pages import Drawing, PageDrawer

PATIENT = ParseOptions(timeout_s=3600)
HASTY = ParseOptions(timeout_s=0.5)
ENDLESS = {"depth": 20, "calls": 9}

Made = Callable[..., PageDrawer]


@pytest.fixture
def drawer() -> Iterator[Made]:
    drawers: list[PageDrawer] = []

    def make(limits: ParseOptions = PATIENT, at_once: int = 2) -> PageDrawer:
        drawers.append(PageDrawer(limits=limits, at_once=at_once))
        return drawers[-1]

    yield make
    for page_drawer in drawers:
        page_drawer.close()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    write_manual(tmp_path / "good.pdf", "pump", pages=2)
    write_manual(tmp_path / "other.pdf", "winch", pages=1)
    (tmp_path / "bomb.pdf").write_bytes(transparency_bomb(**ENDLESS))
    return tmp_path


def _page(store: Path, name: str, page: int = 1, dpi: int = 50, **options: object) -> Drawing:
    return Drawing(str(store), name, page, dpi, **options)  # type: ignore[arg-type]


def failure_of(page_drawer: PageDrawer, drawing: Drawing) -> InsetError:
    with pytest.raises(InsetError) as raised:
        page_drawer.draw(drawing)
    return raised.value


def test_the_bomb_is_small_and_reads_in_no_time() -> None:
    data = transparency_bomb()
    assert len(data) < 2000
    with pymupdf.open(stream=data, filetype="pdf") as pdf:
        assert pdf[0].get_text().strip() == "The pump takes nine bar."


def test_a_page_is_drawn_and_kept_for_whoever_asks_next(drawer: Made, store: Path) -> None:
    page_drawer = drawer()
    first = page_drawer.draw(_page(store, "good.pdf", highlight=((10.0, 10.0, 90.0, 90.0),)))
    assert first.startswith(b"\x89PNG")
    assert page_drawer.draw(_page(store, "good.pdf")) != first, "this one has no box"
    (store / "good.pdf").unlink()
    assert page_drawer.draw(_page(store, "good.pdf", highlight=((10.0, 10.0, 90.0, 90.0),))) == first
    page_drawer.clear()
    with pytest.raises(InsetError):
        page_drawer.draw(_page(store, "good.pdf"))


def test_a_page_that_takes_too_long_does_so_once_for_all_who_ask(drawer: Made, store: Path) -> None:
    page_drawer = drawer(HASTY)
    with ThreadPoolExecutor(3) as threads:
        futures = [threads.submit(page_drawer.draw, _page(store, "bomb.pdf", dpi=dpi)) for dpi in (50, 50, 60)]
    for future in futures:
        with pytest.raises(BadInputError, match=r"page 1 can't be drawn: it takes more than 0.5 s") as raised:
            future.result()
        assert raised.value.code is FailureCode.TIME_LIMIT
    page_drawer.limits = PATIENT  # from here on an attempt would never end
    for options in ({"highlight": ((1.0, 1.0, 9.0, 9.0),)}, {"dpi": 200}):
        with pytest.raises(BadInputError):
            page_drawer.draw(_page(store, "bomb.pdf", **options))


def test_a_failure_is_forgotten_after_a_while(drawer: Made, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draw_pages, "FAILURE_S", 0.0)
    page_drawer = drawer()
    (store / "late.pdf").write_bytes(b"")
    with pytest.raises(BadInputError):
        page_drawer.draw(_page(store, "late.pdf"))
    write_manual(store / "late.pdf", "pump")
    assert page_drawer.draw(_page(store, "late.pdf")).startswith(b"\x89PNG")


def test_one_document_keeps_no_other_from_being_drawn(drawer: Made, store: Path) -> None:
    page_drawer = drawer(at_once=2)
    with ThreadPoolExecutor(5) as threads:
        endless = [threads.submit(page_drawer.draw, _page(store, "bomb.pdf", dpi=dpi)) for dpi in range(50, 55)]
        assert page_drawer.draw(_page(store, "good.pdf")).startswith(b"\x89PNG")
        assert not any(future.done() for future in endless)
        page_drawer.close()
    assert {type(future.exception()) for future in endless} == {TransientError}
    with pytest.raises(TransientError):
        page_drawer.draw(_page(store, "bomb.pdf"))


def test_documents_that_break_a_limit_share_a_child(drawer: Made, store: Path) -> None:
    shutil.copy(store / "bomb.pdf", store / "bomb2.pdf")
    page_drawer = drawer(HASTY, at_once=2)
    for name in ("bomb.pdf", "bomb2.pdf"):
        assert isinstance(failure_of(page_drawer, _page(store, name)), BadInputError)
    page_drawer.limits = PATIENT
    with ThreadPoolExecutor(6) as threads:
        endless = [
            threads.submit(page_drawer.draw, _page(store, name, dpi=dpi))
            for dpi in range(36, 39)
            for name in ("bomb.pdf", "bomb2.pdf")
        ]
        for page in (1, 2):
            assert page_drawer.draw(_page(store, "good.pdf", page)).startswith(b"\x89PNG")
        assert not any(future.done() for future in endless)
        page_drawer.close()


def test_what_nobody_waits_for_is_stopped(drawer: Made, store: Path) -> None:
    page_drawer, has_left = drawer(at_once=1), threading.Event()
    with ThreadPoolExecutor(2) as threads:
        endless = [threads.submit(page_drawer.draw, _page(store, "bomb.pdf", dpi=dpi), has_left.is_set) for dpi in (50, 60)]
        has_left.set()
        assert page_drawer.draw(_page(store, "good.pdf")).startswith(b"\x89PNG"), "the only child is free again"
    assert {type(future.exception()) for future in endless} == {TransientError}


def test_a_turn_that_does_not_come_is_said(drawer: Made, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draw_pages, "TURN_S", 0.5)
    page_drawer, has_left = drawer(at_once=1), threading.Event()
    with ThreadPoolExecutor(1) as threads:
        threads.submit(page_drawer.draw, _page(store, "bomb.pdf"), has_left.is_set)
        while not multiprocessing.active_children():
            pass
        with pytest.raises(TransientError, match="too many pages are waiting"):
            page_drawer.draw(_page(store, "good.pdf"))
        has_left.set()


@pytest.mark.parametrize(
    ("data", "code", "line"),
    [
        (b"", FailureCode.EMPTY_FILE, "page 1 can't be drawn: the file is empty"),
        (b"not a PDF at all", FailureCode.NOT_A_PDF, "page 1 can't be drawn: the file isn't a PDF"),
        (b"%PDF-1.7\n" + bytes(range(256)) * 40, FailureCode.UNREADABLE, "page 1 can't be drawn: "),
    ],
    ids=["empty", "text", "garbage"],
)
def test_what_is_no_document_is_one_line(drawer: Made, store: Path, data: bytes, code: FailureCode, line: str) -> None:
    (store / "bad.pdf").write_bytes(data)
    error = failure_of(drawer(), _page(store, "bad.pdf"))
    assert isinstance(error, BadInputError)
    assert error.code is code
    assert error.message.startswith(line)


def test_an_encrypted_document_is_drawn_with_its_password(drawer: Made, store: Path) -> None:
    with pymupdf.open(store / "good.pdf") as pdf:
        pdf.save(store / "locked.pdf", encryption=pymupdf.PDF_ENCRYPT_AES_256, user_pw="wombat", owner_pw="emu")
    page_drawer = drawer()
    error = failure_of(page_drawer, _page(store, "locked.pdf"))
    assert isinstance(error, BadInputError)
    assert error.message == "page 1 can't be drawn: the file needs a password; none of those given opens it"
    drawing = _page(store, "locked.pdf", page=2, passwords=("kiwi", "wombat"))
    assert "wombat" not in repr(drawing)
    assert page_drawer.draw(drawing).startswith(b"\x89PNG")


def test_a_page_too_large_says_at_which_resolution_it_can_be_drawn(drawer: Made, store: Path) -> None:
    with pymupdf.open() as pdf:
        pdf.new_page(width=9000, height=9000)
        pdf.new_page(width=20_000, height=100)
        pdf.save(store / "large.pdf")
    page_drawer = drawer()
    error = failure_of(page_drawer, _page(store, "large.pdf", dpi=110))
    assert str(error) == "page 1 is too large to draw at 110 dpi: 9000 × 9000 pt; at 64 dpi it can be drawn"
    assert page_drawer.draw(_page(store, "large.pdf", dpi=64)).startswith(b"\x89PNG")
    assert str(failure_of(page_drawer, _page(store, "large.pdf", page=2))) == "page 2 is too large to draw: 20000 × 100 pt"


def test_memory_is_bounded(drawer: Made, store: Path) -> None:
    page_drawer = drawer(ParseOptions(timeout_s=3600, memory_mb=256))
    (store / "deep.pdf").write_bytes(transparency_bomb(depth=9, calls=1).replace(b"0 0 595 842", b"0 0 2800 2800"))
    error = failure_of(page_drawer, _page(store, "deep.pdf", dpi=200))
    assert isinstance(error, BadInputError)
    assert error.code is FailureCode.MEMORY_LIMIT
    assert error.message == "page 1 can't be drawn: it takes more than 256 MiB of memory"


@pytest.mark.parametrize(
    ("name", "page", "error", "line"),
    [
        ("good.pdf", 3, NotFoundError, "there is no page 3; the document has 2"),
        ("gone.pdf", 1, TransientError, "the store can't give gone.pdf"),
    ],
)
def test_what_is_not_there(drawer: Made, store: Path, name: str, page: int, error: type[InsetError], line: str) -> None:
    raised = failure_of(drawer(), _page(store, name, page))
    assert type(raised) is error
    assert line in str(raised)
