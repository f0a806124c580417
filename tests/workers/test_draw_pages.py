"""Pages drawn for many callers, whatever the documents hold."""

import multiprocessing
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pymupdf
import pytest

from bench.page_bombs import transparency_bomb
from schemas.corpus import ParseOptions
from schemas.errors import BadInputError, FailureCode, InsetError, NotFoundError, TransientError
from tests.manuals import write_manual
from workers import draw_pages
from workers.draw_pages import WAITING_A_DOCUMENT, Drawing, PageDrawer

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


def test_the_bomb_is_small_and_reads_in_no_time() -> None:
    data = transparency_bomb()
    assert len(data) < 2000
    with pymupdf.open(stream=data, filetype="pdf") as pdf:
        assert pdf[0].get_text().strip() == "The pump takes nine bar."


def test_a_page_is_drawn_and_kept_for_whoever_asks_next(drawer: Made, store: Path) -> None:
    page_drawer = drawer()
    first = page_drawer.draw(_page(store, "good.pdf", highlight=((10.0, 10.0, 90.0, 90.0),))).result()
    assert first.startswith(b"\x89PNG")
    assert page_drawer.draw(_page(store, "good.pdf")).result() != first, "this one has no box"
    (store / "good.pdf").unlink()
    assert page_drawer.draw(_page(store, "good.pdf", highlight=((10.0, 10.0, 90.0, 90.0),))).result() == first


def test_a_page_that_takes_too_long_does_so_once_for_all_who_ask(drawer: Made, store: Path) -> None:
    page_drawer = drawer(HASTY)
    futures = [page_drawer.draw(_page(store, "bomb.pdf")), page_drawer.draw(_page(store, "bomb.pdf"))]
    for future in futures:
        with pytest.raises(BadInputError, match=r"page 1 can't be drawn: it takes more than 0.5 s") as raised:
            future.result()
        assert raised.value.code is FailureCode.TIME_LIMIT
    boxed = page_drawer.draw(_page(store, "bomb.pdf", highlight=((1.0, 1.0, 9.0, 9.0),)))
    assert boxed.done(), "it is remembered, whatever is to be drawn over the page"
    assert isinstance(boxed.exception(), BadInputError)


def test_a_page_that_takes_too_long_does_so_once_for_higher_resolutions(drawer: Made, store: Path) -> None:
    page_drawer = drawer(HASTY)
    waiting = [page_drawer.draw(_page(store, "bomb.pdf", dpi=dpi)) for dpi in range(50, 60)]
    assert isinstance(waiting[0].exception(), BadInputError)
    page_drawer.limits = PATIENT  # from here on an attempt would never end
    assert all(isinstance(future.exception(timeout=60), BadInputError) for future in waiting)
    later = page_drawer.draw(_page(store, "bomb.pdf", dpi=200))
    assert later.done()
    assert isinstance(later.exception(), BadInputError)
    assert not page_drawer.draw(_page(store, "bomb.pdf", dpi=36)).done(), "a lower one may take less"


def test_a_failure_is_forgotten_after_a_while(drawer: Made, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draw_pages, "FAILURE_S", 0.0)
    page_drawer = drawer()
    (store / "late.pdf").write_bytes(b"")
    assert isinstance(page_drawer.draw(_page(store, "late.pdf")).exception(), BadInputError)
    write_manual(store / "late.pdf", "pump")
    assert page_drawer.draw(_page(store, "late.pdf")).result().startswith(b"\x89PNG")


def test_one_document_keeps_no_other_from_being_drawn(drawer: Made, store: Path) -> None:
    page_drawer = drawer(at_once=2)
    endless = [page_drawer.draw(_page(store, "bomb.pdf", dpi=dpi)) for dpi in range(50, 60)]
    assert page_drawer.draw(_page(store, "good.pdf")).result().startswith(b"\x89PNG")
    assert not any(future.done() for future in endless)


def test_documents_that_break_a_limit_share_a_child_and_come_last(drawer: Made, store: Path) -> None:
    shutil.copy(store / "bomb.pdf", store / "bomb2.pdf")
    page_drawer = drawer(HASTY, at_once=2)
    for name in ("bomb.pdf", "bomb2.pdf"):
        assert isinstance(page_drawer.draw(_page(store, name)).exception(), BadInputError)
    page_drawer.limits = PATIENT
    endless = [page_drawer.draw(_page(store, name, dpi=dpi)) for dpi in range(36, 46) for name in ("bomb.pdf", "bomb2.pdf")]
    for page in (1, 2):
        assert page_drawer.draw(_page(store, "good.pdf", page)).result().startswith(b"\x89PNG")
    assert not any(future.done() for future in endless)


def test_what_nobody_waits_for_is_dropped_or_stopped(drawer: Made, store: Path) -> None:
    page_drawer = drawer(at_once=1)
    endless = [page_drawer.draw(_page(store, "bomb.pdf", dpi=dpi)) for dpi in (50, 60)]
    waiting = page_drawer.draw(_page(store, "good.pdf"))
    for future in endless:
        assert future.cancel()
    assert waiting.result().startswith(b"\x89PNG"), "the only child is free again"


def test_one_who_leaves_takes_nothing_from_one_who_stays(drawer: Made, store: Path) -> None:
    page_drawer = drawer(at_once=1)
    endless = page_drawer.draw(_page(store, "bomb.pdf"))
    leaves, stays = page_drawer.draw(_page(store, "good.pdf")), page_drawer.draw(_page(store, "good.pdf"))
    assert leaves.cancel()
    assert endless.cancel()
    assert stays.result().startswith(b"\x89PNG")


def test_the_queue_is_bounded_for_one_document_and_for_all(
    drawer: Made, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page_drawer = drawer(at_once=1)
    endless = page_drawer.draw(_page(store, "bomb.pdf", dpi=36))
    while not multiprocessing.active_children():  # from here on all wait
        pass
    pages = [page_drawer.draw(_page(store, "good.pdf", page=page)) for page in range(1, WAITING_A_DOCUMENT + 1)]
    with pytest.raises(TransientError, match="too many pages are waiting"):
        page_drawer.draw(_page(store, "good.pdf", page=WAITING_A_DOCUMENT + 1))
    page_drawer.draw(_page(store, "other.pdf"))
    monkeypatch.setattr(draw_pages, "WAITING", WAITING_A_DOCUMENT + 1)
    with pytest.raises(TransientError, match="too many pages are waiting"):
        page_drawer.draw(_page(store, "other.pdf", dpi=60))
    assert not any(future.done() for future in [endless, *pages])


def test_closing_ends_what_is_drawn_and_what_waits(drawer: Made, store: Path) -> None:
    page_drawer = drawer(at_once=1)
    futures = [page_drawer.draw(_page(store, name)) for name in ("bomb.pdf", "good.pdf")]
    page_drawer.close()
    assert [type(future.exception()) for future in futures] == [TransientError, TransientError]
    with pytest.raises(TransientError):
        page_drawer.draw(_page(store, "good.pdf"))


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
    error = drawer().draw(_page(store, "bad.pdf")).exception()
    assert isinstance(error, BadInputError)
    assert error.code is code
    assert error.message.startswith(line)


def test_an_encrypted_document_is_drawn_with_its_password(drawer: Made, store: Path) -> None:
    with pymupdf.open(store / "good.pdf") as pdf:
        pdf.save(store / "locked.pdf", encryption=pymupdf.PDF_ENCRYPT_AES_256, user_pw="wombat", owner_pw="emu")
    page_drawer = drawer()
    error = page_drawer.draw(_page(store, "locked.pdf")).exception()
    assert isinstance(error, BadInputError)
    assert error.message == "page 1 can't be drawn: the file needs a password; none of those given opens it"
    drawing = _page(store, "locked.pdf", page=2, passwords=("kiwi", "wombat"))
    assert "wombat" not in repr(drawing)
    assert page_drawer.draw(drawing).result().startswith(b"\x89PNG")


def test_a_page_too_large_says_at_which_resolution_it_can_be_drawn(drawer: Made, store: Path) -> None:
    with pymupdf.open() as pdf:
        pdf.new_page(width=9000, height=9000)
        pdf.new_page(width=20_000, height=100)
        pdf.save(store / "large.pdf")
    page_drawer = drawer()
    error = page_drawer.draw(_page(store, "large.pdf", dpi=110)).exception()
    assert str(error) == "page 1 is too large to draw at 110 dpi: 9000 × 9000 pt; at 64 dpi it can be drawn"
    assert page_drawer.draw(_page(store, "large.pdf", dpi=64)).result().startswith(b"\x89PNG")
    assert (
        str(page_drawer.draw(_page(store, "large.pdf", page=2)).exception())
        == "page 2 is too large to draw: 20000 × 100 pt"
    )


def test_memory_is_bounded(drawer: Made, store: Path) -> None:
    page_drawer = drawer(ParseOptions(timeout_s=3600, memory_mb=256))
    (store / "deep.pdf").write_bytes(transparency_bomb(depth=9, calls=1).replace(b"0 0 595 842", b"0 0 2800 2800"))
    error = page_drawer.draw(_page(store, "deep.pdf", dpi=200)).exception()
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
    raised = drawer().draw(_page(store, name, page)).exception()
    assert type(raised) is error
    assert line in str(raised)
