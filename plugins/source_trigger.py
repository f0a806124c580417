"""A trigger that fires when the listing of a corpus's source changes."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from schemas.errors import InsetError


class SourceTrigger(BaseEventTrigger):
    """Lists the source again and again, and fires when it differs from the last refresh's listing.

    A listing fires once, so that a refresh that fails isn't started without end. A source that doesn't answer is asked again,
    with one line in the triggerer's log; once it is back, or no longer empty, it fires if the last refresh failed or lacks
    documents.

    Args:
        corpus: The corpus file.
        every_s: Seconds between two listings.
    """

    def __init__(self, corpus: str, every_s: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.corpus, self.every_s = corpus, every_s

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the trigger's class and arguments."""
        return f"{type(self).__module__}.{type(self).__qualname__}", {"corpus": self.corpus, "every_s": self.every_s}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Fire for each changed listing."""
        from tasks.versions.plan import listing_digest

        fired, problem, is_away, empty = None, "", False, listing_digest([])
        while True:
            try:
                listing, refreshed, is_complete = await asyncio.to_thread(self._listings)
            except InsetError as error:
                if error.message != problem:
                    problem = error.message
                    self.log.warning("%s; asked again every %g s", problem, self.every_s)
                is_away = True
            else:
                problem = ""
                # A folder that isn't mounted is empty, and of an empty source no version is built.
                is_back, is_away = is_away and listing != empty and not is_complete, listing == empty
                if is_back or listing not in (refreshed, fired):
                    fired = listing
                    yield TriggerEvent({"listing": listing})  # type: ignore[no-untyped-call]
            await asyncio.sleep(self.every_s)

    def _listings(self) -> tuple[str, str | None, bool]:
        """Return the digests of the source's listing and of the last refresh's, and whether that one took all of it in."""
        from pipeline.corpus.workspace import open_workspace
        from pipeline.records.ledger import readable_ledger
        from pipeline.records.notes import ENDED_WELL, read_last_refresh
        from tasks.versions.plan import listing_digest, was_disturbed

        workspace = open_workspace(self.corpus)
        last = read_last_refresh(workspace.store)
        listing = listing_digest(workspace.source().files())
        if last is None:
            return listing, None, False
        # What a running refresh will lack isn't known yet, so it counts as complete.
        running = last.state in ("started", "retrying")
        is_complete = last.state in ENDED_WELL and not was_disturbed(readable_ledger(workspace.store, last.version))
        return listing, last.listing, running or is_complete
