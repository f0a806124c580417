"""The trigger that watches a corpus's source."""

import asyncio
import contextlib
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pipeline.corpus.workspace import open_workspace
from pipeline.records.notes import LastRefresh, note_refresh, write_last_refresh
from plugins.source_trigger import SourceTrigger
from tasks.versions.plan import listing_digest

EVERY_S = 0.01


def _listing(corpus: Path) -> str:
    return listing_digest(open_workspace(str(corpus)).source().files())


def _refreshed(corpus: Path) -> None:
    """Record a refresh of the source as it is now."""
    last_refresh = LastRefresh(run_id="r", at=datetime.now(UTC), state="published", version="v", listing=_listing(corpus))
    write_last_refresh(open_workspace(str(corpus)).store, last_refresh)


def _fired(corpus: Path, *changes: Callable[[], object]) -> list[str]:
    """Watch until nothing more is fired, with a change made then; return the listings fired."""

    async def watch() -> list[str]:
        listings: list[str] = []
        fire, looks = listings.append, 0

        class Counted(SourceTrigger):
            def _listings(self) -> tuple[str, str | None, bool]:
                nonlocal looks
                looks += 1
                return super()._listings()

        async def collect() -> None:
            async for event in Counted(str(corpus), EVERY_S).run():
                fire(event.payload["listing"])

        watching = asyncio.create_task(collect())
        for change in (lambda: None, *changes):
            change()
            looks_before = looks
            while looks < looks_before + 4:
                assert not watching.done(), watching
                await asyncio.sleep(EVERY_S)
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching
        return listings

    return asyncio.run(asyncio.wait_for(watch(), 60))


def test_a_changed_listing_fires_once(corpus_file: Path) -> None:
    _refreshed(corpus_file)
    pdfs = corpus_file.parent.parent / "pdfs"
    (first,) = _fired(corpus_file, lambda: shutil.copy(pdfs / "pump.pdf", pdfs / "more.pdf"))
    assert first == _listing(corpus_file)


def test_a_corpus_that_was_never_refreshed_fires_once(corpus_file: Path) -> None:
    assert _fired(corpus_file) == [_listing(corpus_file)]


def test_the_listing_of_the_last_refresh_does_not_fire(corpus_file: Path) -> None:
    _refreshed(corpus_file)
    assert _fired(corpus_file) == []


def test_a_source_that_does_not_answer_is_logged_once_and_asked_again(
    corpus_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _refreshed(corpus_file)
    pdfs = corpus_file.parent.parent / "pdfs"
    away = pdfs.rename(pdfs.with_name("away"))

    def back() -> None:
        (away / "winch.pdf").unlink()
        away.rename(pdfs)

    (fired,) = _fired(corpus_file, back)
    assert fired == _listing(corpus_file)
    assert capsys.readouterr().out.count(f"source {pdfs} is not a folder") == 1


@pytest.mark.parametrize("unmounted", [False, True])
def test_a_source_that_comes_back_is_refreshed_where_the_last_refresh_failed(corpus_file: Path, unmounted: bool) -> None:
    _refreshed(corpus_file)
    pdfs = corpus_file.parent.parent / "pdfs"

    def gone() -> None:
        pdfs.rename(pdfs.with_name("away"))
        if unmounted:
            pdfs.mkdir()

    def back() -> None:
        if unmounted:
            pdfs.rmdir()
        pdfs.with_name("away").rename(pdfs)

    empty = [listing_digest([])] if unmounted else []
    assert _fired(corpus_file, gone, back) == empty, "nothing is missing"
    note_refresh(open_workspace(str(corpus_file)).store, "r", "failed", "plan: the source is gone")
    assert _fired(corpus_file) == [], "a refresh that failed isn't started without end"
    assert _fired(corpus_file, gone, back) == [*empty, _listing(corpus_file)]


def test_a_trigger_is_made_again_from_what_it_serializes(corpus_file: Path) -> None:
    name, arguments = SourceTrigger(str(corpus_file), 300).serialize()
    assert name == "plugins.source_trigger.SourceTrigger"
    assert SourceTrigger(**arguments).serialize() == (name, arguments)
