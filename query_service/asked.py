"""Count what readers ask and what isn't found, where ``operations.questions`` of the corpus file says so."""

import asyncio
import contextlib
import secrets
import threading
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import cast

from fastapi import Request

from pipeline.published.corpus import PublishedCorpus
from query_service.telemetry import metrics_of
from schemas.answers import AnswerResult
from schemas.asked import AskedOfDay, UnansweredQuestion, redacted
from schemas.errors import InsetError

KEPT_EVERY_S = 60.0
"""Seconds between two writes: a process that is killed loses what was counted meanwhile."""

MOST_TEXTS = 200
"""Unanswered questions that a process keeps of a version and day, some 3 KB each; of others it keeps the number."""


class _Day:
    """What was counted of a version on a day so far."""

    def __init__(self) -> None:
        self.counts = Counter[str]()
        self.cited, self.opened, self.texts = Counter[str](), Counter[str](), Counter[str]()
        self.is_written = False


class AskedCounts:
    """The counts of one process of the service. Thread-safe."""

    def __init__(self, corpora: Mapping[str, PublishedCorpus]) -> None:
        self._corpora = corpora
        self._process = secrets.token_hex(4)
        self._lock = threading.Lock()
        self._days: dict[tuple[str, str, date], _Day] = {}

    def answered(self, corpus: str, question: str, result: AnswerResult) -> str | None:
        """Count an answer, and return its outcome; None where the corpus counts none."""
        mode = self._corpora[corpus].operations.questions
        if mode is None:
            return None
        outcome = "abstained" if result.abstained else "unsure" if result.unsure else "answered"
        with self._lock:
            day = self._day(corpus, result.version)
            day.counts.update(["asked", outcome])
            day.cited.update({citation.doc_id for citation in result.citations})
            text = redacted(question)
            if mode == "text" and outcome != "answered" and (text in day.texts or len(day.texts) < MOST_TEXTS):
                day.texts[text] += 1
        return outcome

    def opened(self, corpus: str, version: str, doc_id: str) -> bool:
        """Count that a reader opened a citation; return whether the corpus counts."""
        if self._corpora[corpus].operations.questions is None:
            return False
        with self._lock:
            self._day(corpus, version).opened[doc_id] += 1
        return True

    def keep(self) -> None:
        """Write what was counted since it was written last; what can't be written now is written later."""
        with self._lock:
            unwritten = [(key, day) for key, day in self._days.items() if not day.is_written]
        for key, day in unwritten:
            with contextlib.suppress(InsetError):
                self._write(key, day)
        today = datetime.now(UTC).date()
        with self._lock:
            self._days = {key: day for key, day in self._days.items() if key[2] == today or not day.is_written}

    async def keep_on(self) -> None:
        """Write what is counted from time to time, until cancelled."""
        while True:
            await asyncio.sleep(KEPT_EVERY_S)
            await asyncio.to_thread(self.keep)

    def _day(self, corpus: str, version: str) -> _Day:
        day = self._days.setdefault((corpus, version, datetime.now(UTC).date()), _Day())
        day.is_written = False
        return day

    def _write(self, key: tuple[str, str, date], day: _Day) -> None:
        name, version, date_of_day = key
        corpus = self._corpora[name]
        with self._lock:
            day.is_written = True
            asked_of_day = AskedOfDay(
                day=date_of_day,
                version=version,
                cited=dict(day.cited),
                opened=dict(day.opened),
                unanswered=[UnansweredQuestion(text=text, times=times) for text, times in day.texts.items()],
                **{name: day.counts[name] for name in ("asked", "abstained", "unsure")},
            )
        try:
            corpus.keep_asked(self._process, asked_of_day)
        except InsetError:
            day.is_written = False
            raise


def note_answered(request: Request, corpus: str, question: str, result: AnswerResult) -> None:
    """Count an answer, where the corpus counts."""
    if outcome := cast(AskedCounts, request.app.state.asked).answered(corpus, question, result):
        metrics_of(request).count("inset_questions", corpus, result.version, outcome)


def note_opened(request: Request, corpus: str, version: str, doc_id: str) -> None:
    """Count that a citation is opened, where the corpus counts; the further parts of a file are not counted."""
    is_first = request.method == "GET" and request.headers.get("range", "bytes=0-").startswith("bytes=0-")
    if is_first and cast(AskedCounts, request.app.state.asked).opened(corpus, version, doc_id):
        metrics_of(request).count("inset_citations_opened", corpus)
