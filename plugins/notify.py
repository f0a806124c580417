"""Tell people: the notifiers of a corpus file, called when a run fails, waits or is tried again, and when a version goes live."""

import contextlib
import json
import logging
import urllib.request
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.exceptions import HITLRejectException
from airflow.sdk.bases.notifier import BaseNotifier

from schemas.errors import InsetError

if TYPE_CHECKING:
    from pipeline.corpus.schedules import CorpusSchedule
    from pipeline.records.notes import RefreshState
    from schemas.ports import ObjectStore
    from schemas.versions import Pointer

Notifiers = Mapping[str, Mapping[str, Any]]
"""Arguments of each notifier, by its class."""

TOLD_TRIES = (3, 8)
"""Failed tries of a task after which people are told: a minute and a half, and an hour, after the first."""

_TIMEOUT_S = 30

_logger = logging.getLogger("inset")


class Webhook(BaseNotifier):
    """Posts ``corpus``, ``event``, ``message`` and, of a version that goes live, ``version`` and ``release_note``, as JSON.

    Args:
        url: Where to.
    """

    template_fields = ("url",)

    def __init__(self, *, url: str) -> None:
        super().__init__()
        self.url = url

    def notify(self, context: Any) -> None:
        """Post the event."""
        names = ("corpus", "event", "message", "version", "release_note")
        body = json.dumps({name: context[name] for name in names if name in context}).encode()
        if not self.url.startswith(("http://", "https://")):
            raise ValueError(f"{self.url} isn't an address of a web server")
        request = urllib.request.Request(self.url, body, {"Content-Type": "application/json"})  # noqa: S310  checked above
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S):  # noqa: S310
            pass


def tell(notifiers: Notifiers, context: Any, corpus: str, event: str, message: str, **more: str) -> bool:
    """Call notifiers, and return whether one succeeded; one that fails is logged.

    Args:
        notifiers: Those of the corpus file.
        context: The task's context, which templates see.
        corpus: Its name.
        event: ``failed``, ``retrying``, ``waiting``, ``found`` by the watch, or ``live``.
        message: One line; templates see it as ``message``, and as ``exception``.
        more: Further names that templates see.
    """
    is_told = False
    for name, arguments in notifiers.items():
        try:
            # Rendering its templates changes a notifier, so that each is called once.
            notifier = resolve_name(name)(**arguments)
            fields = {**context, "corpus": corpus, "event": event, "message": message, "exception": message, **more}
            # Calling a notifier would hide that it failed.
            notifier.render_template_fields(fields)
            notifier.notify(fields)
            is_told = True
        except Exception as error:  # noqa: BLE001  must not hide the others
            _logger.warning("%s failed: %s", name, error)
    return is_told


def refresh_callbacks(corpus_schedule: "CorpusSchedule") -> dict[str, Any]:
    """Return the callbacks of a refresh's tasks, which record why a task is tried again or failed, and tell people."""

    def retried(context: Any) -> None:
        ti = context["ti"]
        message = f"{ti.task_id} is tried again, {ti.try_number + 1} of {ti.max_tries + 1}: {_why(context)}"
        _note(corpus_schedule, context, "retrying", message, until=datetime.now(UTC) + ti.task.max_retry_delay)
        if ti.try_number in TOLD_TRIES:
            tell(corpus_schedule.operations.notify, context, corpus_schedule.name, "retrying", message)

    def failed(context: Any) -> None:
        exception = context.get("exception")
        state: RefreshState = "rejected" if isinstance(exception, HITLRejectException) else "failed"
        _note(corpus_schedule, context, state, f"{context['ti'].task_id}: {_why(context)}")
        tell(corpus_schedule.operations.notify, context, corpus_schedule.name, "failed", _why(context))

    return {"on_retry_callback": retried, "on_failure_callback": failed}


def _why(context: Any) -> str:
    """Return why a task ended; one whose process was killed raised nothing."""
    return str(
        context.get("exception") or "its process was killed, for lack of memory or by somebody; its log may say more"
    )


def note_question(corpus_schedule: "CorpusSchedule", context: Any, message: str, hours: float) -> None:
    """Record that a run waits for an answer, and tell people."""
    until = datetime.now(UTC) + timedelta(hours=hours)
    _note(corpus_schedule, context, "waiting", message, until=until)
    announcement = f"{corpus_schedule.name} waits for your answer until {until:%Y-%m-%d %H:%M} UTC: {message}"
    tell(corpus_schedule.operations.notify, context, corpus_schedule.name, "waiting", announcement)


def note_answer(corpus_schedule: "CorpusSchedule", context: Any) -> None:
    """Record that a run goes on."""
    _note(corpus_schedule, context, "started", "")


def announce(corpus_schedule: "CorpusSchedule", store: "ObjectStore", pointer: "Pointer", context: Any) -> None:
    """Call the notifiers of ``operations.announce`` with the release note of the version that went live."""
    from pipeline.records.publication import event_in_words
    from schemas.ids import version_file

    note = ""
    with contextlib.suppress(FileNotFoundError, InsetError):
        note = store.get(version_file(pointer.version, "release_note.md")).decode()
    moved = f": {event_in_words(pointer.moved)}" if pointer.moved else ""
    message = f"{pointer.version} of {corpus_schedule.name} is live{moved}"
    details = {"version": pointer.version, "release_note": note}
    tell(corpus_schedule.operations.announce, context, corpus_schedule.name, "live", message, **details)


def _note(
    corpus_schedule: "CorpusSchedule", context: Any, state: "RefreshState", message: str, *, until: datetime | None = None
) -> None:
    from backends.stores.object_store import open_store
    from pipeline.records.notes import note_refresh

    run = f"airflow:{context['run_id']}"
    with contextlib.suppress(InsetError):  # such as of a full disk, which the read model sees by itself
        note_refresh(open_store(corpus_schedule.store), run, state, message, task=context["ti"].task_id, until=until)
