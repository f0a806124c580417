"""The tab of a corpus's DAG: its state, versions, what changed between two, its quarantine, feedback, and what can be done."""

import functools
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from pipeline.corpus.schedules import CorpusSchedule, corpus_schedules
from pipeline.operations.asked import asked_summary
from pipeline.operations.corrections import LiveDocument, listed_corrections, live_sources
from pipeline.operations.document_changes import document_changes
from pipeline.operations.feedback import feedback_groups, page_figures
from pipeline.operations.health import corpora_health, store_of
from pipeline.operations.history import changes, history, version_names
from pipeline.operations.quarantine import quarantine
from pipeline.records.publication import read_events, readable_pointer
from plugins.pages.access import PREFIX, ReadsDag, User, startable
from plugins.pages.rendering import Paged, render
from schemas.corrections import CHOICES, CorrectionKind
from schemas.errors import FailureCode, NotFoundError
from schemas.feedback import Feedback
from tasks.versions.diff import release_note

PER_PAGE = 20
EVENTS = 20
"""Events of the audit log that are read and shown."""

ACTIONS = {
    "publish": "inset_publish",
    "roll_back": "inset_roll_back",
    "prune": "inset_prune",
    "plan": "inset_plan",
    "forget": "inset_forget",
    "feedback": "inset_feedback",
    "correct": "inset_correct",
}
"""The DAGs that the page starts, by action."""

VERSION_PATTERN = r"\d{8}T\d{6}Z-[0-9a-f]+"

router = APIRouter(prefix="/dags/{dag_id}", dependencies=[ReadsDag])


def corpus_of(dag_id: str) -> CorpusSchedule:
    """Return the corpus that a DAG refreshes.

    Raises:
        NotFoundError: It refreshes none.
    """
    for corpus_schedule in corpus_schedules():
        if dag_id == f"{PREFIX}{corpus_schedule.name}":
            return corpus_schedule
    raise NotFoundError(f"{dag_id} refreshes no corpus")


def stored_corpus_of(dag_id: str) -> CorpusSchedule:
    """Return the corpus that a DAG refreshes, whose file may be broken.

    Raises:
        NotFoundError: It refreshes none, or the file is broken and its store is unknown or has no version.
    """
    corpus_schedule = corpus_of(dag_id)
    if corpus_schedule.problem and not (corpus_schedule.store and version_names(store_of(corpus_schedule))):
        raise NotFoundError(*corpus_schedule.problem.splitlines())
    return corpus_schedule


@router.get("", response_class=HTMLResponse)
def corpus(
    request: Request,
    dag_id: str,
    user: User,
    page: Annotated[int, Query(ge=1)] = 1,
    base: Annotated[str | None, Query(pattern=VERSION_PATTERN)] = None,
    version: Annotated[str | None, Query(pattern=VERSION_PATTERN)] = None,
) -> HTMLResponse:
    """Show a corpus with a page of its versions; with ``base`` and ``version``, what changed between them."""
    corpus_schedule = corpus_of(dag_id)
    (health,) = corpora_health([corpus_schedule])
    store = store_of(corpus_schedule) if health.stored else None
    events = read_events(store, EVENTS) if store else []
    paged = Paged(version_names(store) if store else [], page, PER_PAGE)
    dags = ACTIONS | {"refresh": dag_id}
    of_airflow = (health.refreshing or "").startswith("airflow:")
    return render(
        request,
        "corpus.html",
        corpus=health,
        paged=paged,
        versions=history(store, paged.items, events) if store else [],
        events=events,
        run=(health.refreshing or "").removeprefix("airflow:") if of_airflow else None,
        base=base,
        version=version,
        dags=dags,
        startable=startable(dags.values(), user),
    )


@router.get("/changes", response_class=HTMLResponse)
def diff(
    request: Request,
    dag_id: str,
    base: Annotated[str, Query(pattern=VERSION_PATTERN)],
    version: Annotated[str, Query(pattern=VERSION_PATTERN)],
) -> HTMLResponse:
    """Return what changed between two versions, which the page loads into itself."""
    corpus_schedule = stored_corpus_of(dag_id)
    version_diff = changes(str(corpus_schedule.file), store_of(corpus_schedule), base, version)
    return render(
        request,
        "changes.html",
        documents=version_diff.documents.changed,
        note=release_note(version_diff),
        base=base,
        version=version,
    )


@router.get("/changes/document", response_class=HTMLResponse)
def document_diff(
    request: Request,
    dag_id: str,
    user: User,
    base: Annotated[str, Query(pattern=VERSION_PATTERN)],
    version: Annotated[str, Query(pattern=VERSION_PATTERN)],
    source: Annotated[str, Query(max_length=1024)],
    page: Annotated[int, Query(ge=1)] = 1,
) -> HTMLResponse:
    """Show what changed inside a document between two versions, with its pages side by side."""
    corpus_schedule = stored_corpus_of(dag_id)
    changed = document_changes(store_of(corpus_schedule), base, version, source)
    forget = ACTIONS["forget"]
    return render(
        request,
        "document_changes.html",
        corpus=corpus_schedule.name,
        base=base,
        version=version,
        source=source,
        changed=changed,
        forget=forget,
        may_forget=forget in startable([forget], user),
        paged=Paged(changed.pages, page, PER_PAGE),
    )


@router.get("/quarantine", response_class=HTMLResponse)
def quarantined_documents(
    request: Request,
    dag_id: str,
    user: User,
    code: FailureCode | Literal[""] = "",
    document: Annotated[str, Query(max_length=200)] = "",
    page: Annotated[int, Query(ge=1)] = 1,
) -> HTMLResponse:
    """Show a page of the documents in quarantine, of a code, or whose source contains a text."""
    corpus_schedule = stored_corpus_of(dag_id)
    store = store_of(corpus_schedule)
    quarantined, pointer = quarantine(store), readable_pointer(store)
    return render(
        request,
        "quarantine.html",
        corpus=corpus_schedule.name,
        found=quarantined,
        live=pointer.version if pointer else None,
        paged=Paged(quarantined.matching(code or None, document) if quarantined else [], page, PER_PAGE),
        code=code,
        document=document,
        may_start=dag_id in startable([dag_id], user),
    )


@router.get("/feedback", response_class=HTMLResponse)
def feedback(
    request: Request, dag_id: str, user: User, page: Annotated[int, Query(ge=1)] = 1, every: bool = False
) -> HTMLResponse:
    """Show a page of what readers said of answers, with the pages and figures of which golden questions are made."""
    corpus_schedule = stored_corpus_of(dag_id)
    store = store_of(corpus_schedule)
    pointer = readable_pointer(store)

    @functools.cache
    def figures_of(doc_id: str, number: int) -> list[str | None]:
        return [figure.figure_id for figure in page_figures(store, pointer.version, doc_id, number)] if pointer else []

    decides = ACTIONS["feedback"]
    return render(
        request,
        "feedback.html",
        corpus=corpus_schedule.name,
        paged=Paged([group for group in feedback_groups(store) if every or group.is_open], page, PER_PAGE),
        every=every,
        asked=asked_summary(store),
        pages_of=_pages_of,
        figures_of=figures_of,
        decides=decides,
        may_decide=decides in startable([decides], user),
    )


@router.get("/corrections", response_class=HTMLResponse)
def corrections(
    request: Request,
    dag_id: str,
    user: User,
    source: Annotated[str, Query(max_length=1024)] = "",
    number: Annotated[int, Query(ge=1)] = 1,
    page: Annotated[int, Query(ge=1)] = 1,
) -> HTMLResponse:
    """Show a page of what was corrected by hand; and page ``number`` of a document, to choose a figure or block on."""
    corpus_schedule = stored_corpus_of(dag_id)
    store, name, corrects = store_of(corpus_schedule), corpus_schedule.name, ACTIONS["correct"]
    return render(
        request,
        "corrections.html",
        corpus=name,
        paged=Paged(listed_corrections(store, name), page, PER_PAGE),
        document=LiveDocument(store, name, source).parts(number) if source else None,
        sources=live_sources(store),
        kinds=[*CorrectionKind],
        choices=[choice for choices in CHOICES.values() for choice in choices],
        corrects=corrects,
        may_correct=corrects in startable([corrects], user),
    )


def _pages_of(entry: Feedback) -> list[tuple[str, str, int]]:
    """Return the pages that an entry names, each once, by document id, source and number."""
    return list(dict.fromkeys((region.doc_id, region.source, region.page) for region in entry.regions))
