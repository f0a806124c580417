"""Every error that Inset raises on purpose, and failures as data.

::

    InsetError
    ├── TransientError      the outside world hiccuped: retry with backoff
    │   └── DamagedError    a stored object isn't what was written: the next refresh makes it again
    │       └── MissingError    or isn't there
    ├── BadInputError       this document or row goes to quarantine, the rest go on
    ├── UserError           the user's mistake: one line, exit code 2; the service says 503, for its callers can't correct it
    │   ├── NotFoundError   no such corpus, version, document, page or figure: the service says 404
    │   └── RequestError    what was asked can't be answered, whatever the service does: it says 400
    └── ContractError       our bug: stop, loudly
        └── GateError       a version was refused: exit code 3
"""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Self

from pydantic import BaseModel, ConfigDict

from schemas import printing


class FailureCode(StrEnum):
    """Why a document, page or row went to quarantine.

    ``law_broken``: what was made of a document isn't what it holds, by the laws of ``check``.
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
    PAGE_TOO_LARGE = "page_too_large"
    IMAGE_REJECTED = "image_rejected"
    MODEL_FAILED = "model_failed"
    MODEL_CRASHED = "model_crashed"
    MODEL_UNREACHABLE = "model_unreachable"
    OVER_BUDGET = "over_budget"
    TAGGING_FAILED = "tagging_failed"
    LAW_BROKEN = "law_broken"


OF_THE_SOURCE = frozenset({FailureCode.SOURCE_CHANGED, FailureCode.SOURCE_UNREADABLE})
"""What the source did, and no document: it says nothing about the next time, so it is never carried over."""

UNFINISHED = frozenset({FailureCode.OVER_BUDGET, FailureCode.MODEL_CRASHED, FailureCode.MODEL_UNREACHABLE})
"""What says nothing about the input: such work isn't finished, and the next version tries it again."""


class InsetError(Exception):
    """Base of all errors that Inset raises on purpose. The message is for a person: what, where, what to do.

    Args:
        lines: One line; several only where there are several mistakes. What is no text of one line is shown, not obeyed:
            a file's name can't forge a line.
    """

    def __init__(self, *lines: str) -> None:
        super().__init__(*map(printing.line, lines))
        self.message = "\n".join(self.args)


class TransientError(InsetError):
    """The outside world hiccuped; the same call may succeed later."""


class DamagedError(TransientError):
    """A stored object isn't what was written: cut short, changed, unreadable.

    ``name`` is the object's, in its store. The next refresh makes again what can be made again.
    """

    def __init__(self, message: str, name: str) -> None:
        super().__init__(message)
        self.name = name

    def __reduce__(self) -> tuple[type[Self], tuple[str, str]]:
        return type(self), (self.message, self.name)


class MissingError(DamagedError, FileNotFoundError):
    """There is no object of that name; a mistake of the store's only where something says that there is one."""


class UnforeseenError(TransientError):
    """Something that is there can't be read, for a reason that nobody foresaw; the cause is for whoever looks after it."""


class BadInputError(InsetError):
    """This document, page or row can't be processed; it goes to quarantine and the rest go on."""

    def __init__(self, message: str, code: FailureCode, page: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.page = page

    def __reduce__(self) -> tuple[type[Self], tuple[str, FailureCode, int | None]]:
        return type(self), (self.message, self.code, self.page)


_OF_BAD_FILES: tuple[type[BaseException], ...] = (
    RuntimeError,
    ValueError,
    AssertionError,
    OSError,
    LookupError,
    TypeError,
    AttributeError,
)


@contextmanager
def refusing(
    what: str, code: FailureCode, page: int | None = None, *, also: tuple[type[BaseException], ...] = ()
) -> Iterator[None]:
    """Turn whatever goes wrong inside on a bad file into one error.

    Args:
        what: What can't be done; the cause is put behind it.
        code: The failure's code.
        page: Where.
        also: Errors of a library that share no base with Python's.

    Raises:
        BadInputError: The work inside failed.
        MemoryError: It failed for want of memory.
    """
    try:
        yield
    except _OF_BAD_FILES + also as error:
        cause = (str(error).splitlines() or [type(error).__name__])[0][:200]
        if "alloc" in cause:
            raise MemoryError(cause) from error
        raise BadInputError(f"{what}: {cause}", code, page) from error


class UserError(InsetError):
    """The user's mistake: a wrong name, a broken corpus file, a missing extra."""


class NotFoundError(UserError):
    """There is no such corpus, version, document, page or figure."""


class RequestError(UserError):
    """What was asked can't be answered: another question can."""


class ContractError(InsetError):
    """A promise between rooms was broken. A bug of ours, never the document's fault."""


class GateError(ContractError):
    """A gate refused a version; the version stays, unpublished, with its reasons."""


class Failure(BaseModel):
    """A failure as data: one row of quarantine.

    ``doc_id`` is None where the file could not even be read; ``page`` counts from 1 and is None where the whole document
    failed. A document-level failure keeps the document out of the version, unless the step is ``tag``: then only its tagged
    copy is missing. A page-level one is recorded and the rest of the document goes on.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: str
    doc_id: str | None
    page: int | None
    step: str
    code: FailureCode
    message: str
    run_id: str | None = None
