"""The tree of Inset's errors, and failures as data.

::

    InsetError
    ├── TransientError      an external failure: retry with backoff
    │   ├── WaitingError    a server isn't done with batches: go on later
    │   └── DamagedError    a stored object is corrupt: the next refresh makes it again
    │       └── MissingError    or missing
    ├── BadInputError       this document or row goes to quarantine, the rest go on
    ├── UserError           the user's mistake: one line, exit code 2; HTTP 503, since callers can't correct it
    │   ├── NotFoundError   no such corpus, version, document, page or figure: HTTP 404
    │   └── RequestError    a request that can never be answered: HTTP 400
    └── ContractError       our bug: stop
        └── GateError       a version was refused: exit code 3
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Self

from schemas import printing
from schemas.base import Frozen


class FailureCode(StrEnum):
    """Why a document, page or row is in quarantine. ``law_broken``: its rows violate an invariant of ``check``.

    ``correction_lost``: what a person corrected isn't in the document any more.
    ``earlier_kept``: the file gives no document, or a doubtful or much smaller one, and the earlier document is kept.
    """

    NEEDS_PASSWORD = "needs_password"
    NOT_A_PDF = "not_a_pdf"
    EMPTY_FILE = "empty_file"
    NO_PAGES = "no_pages"
    UNREADABLE = "unreadable"
    DAMAGED = "damaged"
    TIME_LIMIT = "time_limit"
    MEMORY_LIMIT = "memory_limit"
    PAGE_LIMIT = "page_limit"
    CRASHED = "crashed"
    SOURCE_CHANGED = "source_changed"
    SOURCE_UNREADABLE = "source_unreadable"
    PAGE_UNREADABLE = "page_unreadable"
    FONT_UNREADABLE = "font_unreadable"
    NEEDS_OCR = "needs_ocr"
    LAYOUT_FAILED = "layout_failed"
    PAGE_TOO_LARGE = "page_too_large"
    IMAGE_REJECTED = "image_rejected"
    MODEL_FAILED = "model_failed"
    MODEL_CRASHED = "model_crashed"
    MODEL_UNREACHABLE = "model_unreachable"
    OVER_BUDGET = "over_budget"
    TAGGING_FAILED = "tagging_failed"
    LAW_BROKEN = "law_broken"
    EARLIER_KEPT = "earlier_kept"
    WRONG_FORMAT = "wrong_format"
    HAS_MACROS = "has_macros"
    ZIP_BOMB = "zip_bomb"
    SHEET_TOO_LARGE = "sheet_too_large"
    NOT_CONVERTED = "not_converted"
    NEEDS_LIBREOFFICE = "needs_libreoffice"
    NEEDS_PANGO = "needs_pango"
    HAS_ATTACHMENTS = "has_attachments"
    CORRECTION_LOST = "correction_lost"


OF_THE_SOURCE = frozenset({FailureCode.SOURCE_CHANGED, FailureCode.SOURCE_UNREADABLE})
"""Failures of the source, never carried over to the next refresh."""

UNFINISHED = frozenset({FailureCode.OVER_BUDGET, FailureCode.MODEL_CRASHED, FailureCode.MODEL_UNREACHABLE})
"""Failures that say nothing about the input: the next version tries again."""


UNREAD_PAGES = frozenset({FailureCode.DAMAGED, FailureCode.PAGE_UNREADABLE})
"""Failures of pages whose content is lost in part or in full."""


class InsetError(Exception):
    """Base of all errors that Inset raises on purpose. The message says what is wrong, where, and what to do, a line a mistake.

    Control characters are escaped, so a file's name can't forge a line.
    """

    def __init__(self, *lines: str) -> None:
        super().__init__(*map(printing.line, lines))
        self.message = "\n".join(self.args)


class TransientError(InsetError):
    """An external failure; the same call may succeed later."""


class WaitingError(TransientError):
    """A server isn't done with batches of requests; the same work goes on later."""


class DamagedError(TransientError):
    """A stored object is truncated, changed or unreadable; ``name`` is its name in the store."""

    def __init__(self, message: str, name: str) -> None:
        super().__init__(message)
        self.name = name

    def __reduce__(self) -> tuple[type[Self], tuple[str, str], dict[str, OSError | None]]:
        # The cause says whether the object may be deleted.
        cause = self.__cause__ if isinstance(self.__cause__, OSError) else None
        return type(self), (self.message, self.name), {"__cause__": cause}


class MissingError(DamagedError, FileNotFoundError):
    """A stored object is missing; damage only if something refers to it."""


class UnforeseenError(TransientError):
    """An existing object can't be read for an unexpected reason, which is the cause."""


class BadInputError(InsetError):
    """This document, page or row can't be processed; it goes to quarantine and the rest go on."""

    def __init__(self, message: str, code: FailureCode, page: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.page = page

    def __reduce__(self) -> tuple[type[Self], tuple[str, FailureCode, int | None]]:
        return type(self), (self.message, self.code, self.page)


_OF_BAD_FILES = (RuntimeError, ValueError, AssertionError, OSError, LookupError, TypeError, AttributeError)


@contextmanager
def rejecting(
    problem: str, code: FailureCode, page: int | None = None, *, also: tuple[type[BaseException], ...] = ()
) -> Iterator[None]:
    """Turn any error inside into one ``BadInputError``; ``problem`` can't be done, ``also`` are a library's own errors.

    Raises ``MemoryError`` if the work ran out of memory.
    """
    try:
        yield
    except _OF_BAD_FILES + also as error:
        cause = (str(error).splitlines() or [type(error).__name__])[0][:200]
        if "alloc" in cause:
            raise MemoryError(cause) from error
        raise BadInputError(f"{problem}: {cause}", code, page) from error


class UserError(InsetError):
    """The user's mistake: a wrong name, a broken corpus file, a missing extra."""


class NotFoundError(UserError):
    """There is no such corpus, version, document, page or figure."""


class RequestError(UserError):
    """The request can't be answered; another can."""


class ContractError(InsetError):
    """A contract between packages was broken: a bug, never a document's fault."""


class GateError(ContractError):
    """A gate refused a version; it stays, unpublished, with the reasons."""


class Failure(Frozen):
    """A failure as data: one row of quarantine.

    ``doc_id`` is None if the file can't be read; ``page`` counts from 1 and is None for the whole document. A
    document-level failure keeps the document out of the version, except at step ``tag``, where only its tagged copy is
    missing. A page-level one is recorded and the rest of the document goes on.
    """

    source: str
    doc_id: str | None
    page: int | None
    step: str
    code: FailureCode
    message: str
    run_id: str | None = None


def pages_by_cause(failures: Iterable[Failure]) -> list[tuple[Failure, list[int]]]:
    """Merge failures that differ in their page only: one of each, and the pages."""
    failures_by_cause: dict[tuple[str, str, FailureCode, str], list[Failure]] = {}
    for failure in failures:
        failures_by_cause.setdefault((failure.source, failure.step, failure.code, failure.message), []).append(failure)
    return [
        (group[0], sorted({failure.page for failure in group if failure.page is not None}))
        for group in failures_by_cause.values()
    ]
