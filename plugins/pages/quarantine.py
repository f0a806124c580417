"""What the last refresh of a corpus left out, and the form that tries it again."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from pipeline.operations.health import store_of
from pipeline.operations.quarantine import quarantine
from pipeline.records.publication import readable_pointer
from plugins.pages.access import ReadsDag, User, startable
from plugins.pages.corpus import stored_corpus_of
from plugins.pages.paging import Paged
from plugins.pages.rendering import render
from schemas.errors import FailureCode

PER_PAGE = 20

router = APIRouter(prefix="/dags/{dag_id}/quarantine", dependencies=[ReadsDag])


@router.get("", response_class=HTMLResponse)
def documents(
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
        dag_id=dag_id,
        found=quarantined,
        live=pointer.version if pointer else None,
        paged=Paged(quarantined.matching(code or None, document) if quarantined else [], page, PER_PAGE),
        code=code,
        document=document,
        may_start=dag_id in startable([dag_id], user),
    )
