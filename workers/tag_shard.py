"""Make tagged copies of documents in child processes, which write them to the store."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from backends.pdf.inscribe import INSCRIBE_VERSION, Inscription, inscribe
from backends.pdf.opening import RELEASE
from backends.stores.object_store import open_store
from schemas.corpus import ParseOptions
from schemas.errors import BadInputError, Failure, FailureCode
from schemas.ids import document_file, key
from schemas.stages import Step
from workers.child_processes import Refused, run_all
from workers.isolation import isolate, writing


@dataclass(frozen=True)
class TagJob:
    """A stored document, and the tags to write into a copy of it."""

    doc_id: str
    source: str
    inscriptions: tuple[Inscription, ...]
    converted: str | None = None
    """The PDF that it was converted into; None if its bytes are one."""

    @property
    def pdf(self) -> str:
        """Name of its PDF in the store."""
        return self.converted or document_file(self.doc_id)

    @property
    def name(self) -> str:
        """Name of the copy in the store, by everything its bytes depend on."""
        tag_key = key(
            step=INSCRIBE_VERSION,
            pymupdf=RELEASE,
            inscriptions=[[item.page, *item.bbox, item.tag] for item in self.inscriptions],
            **({"pdf": self.converted} if self.converted else {}),
        )
        return f"tagged/{self.doc_id}/{tag_key}.pdf"


@dataclass(frozen=True)
class _Task:
    job: TagJob
    store_address: str
    passwords: tuple[str, ...]


def tag_documents(
    jobs: Sequence[TagJob], *, store_address: str, limits: ParseOptions, passwords: Sequence[str], run_id: str | None
) -> Iterator[Failure]:
    """Write tagged copies to the store, and yield a failure for each that can't be made."""
    tasks = [_Task(job, store_address, tuple(passwords)) for job in jobs]
    with contextlib.closing(run_all(_tag, tasks, limits)) as outcomes:
        for task, last in outcomes:
            if isinstance(last, Refused):
                refused = replace(last, message=f"its tagged copy could not be made: {last.message}")
                yield refused.failure(task.job.source, task.job.doc_id, Step.TAG, run_id)


def _tag(task: _Task, opened: Callable[[int], None]) -> None:
    job, store = task.job, open_store(task.store_address)
    try:
        data = store.get(job.pdf)
    except FileNotFoundError as error:
        raise BadInputError("the original is not in the store", FailureCode.TAGGING_FAILED) from error
    with writing(store, job.name) as put:
        isolate()
        put(job.name, inscribe(data, job.inscriptions, passwords=task.passwords, opened=opened))
