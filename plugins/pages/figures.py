"""The figures of a version as a contact sheet."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from pipeline.operations.figures import figure_sheet
from pipeline.operations.health import store_of
from pipeline.operations.history import version_names
from pipeline.records.publication import named_manifest, readable_pointer
from plugins.pages.access import ReadsDag
from plugins.pages.corpus import VERSION, whole_corpus_of
from plugins.pages.paging import Paged
from plugins.pages.rendering import render
from schemas.documents import Role
from schemas.errors import NotFoundError

PER_PAGE = 60

_CAPTIONED = {"with": True, "without": False}

router = APIRouter(prefix="/dags/{dag_id}/figures", dependencies=[ReadsDag])


@router.get("", response_class=HTMLResponse)
def sheet(
    request: Request,
    dag_id: str,
    version: Annotated[str | None, Query(pattern=VERSION)] = None,
    role: Role | Literal[""] = "",
    caption: Literal["", "with", "without"] = "",
    document: Annotated[str, Query(max_length=200)] = "",
    page: Annotated[int, Query(ge=1)] = 1,
) -> HTMLResponse:
    """Show a page of the figures of a version, the live one by default."""
    one = whole_corpus_of(dag_id)
    store = store_of(one)
    names, pointer = version_names(store), readable_pointer(store)
    shown = version or (pointer.version if pointer else None)
    if shown is None:
        raise NotFoundError(f"corpus {one.name}: nothing is published yet, so there are no figures to show")
    named_manifest(store, one.name, shown)
    figures = figure_sheet(store, shown)
    numbers = figures.find(role=role or None, source=document, captioned=_CAPTIONED.get(caption))
    paged = Paged(range(len(numbers)), page, PER_PAGE)
    return render(
        request,
        "figures.html",
        corpus=one.name,
        dag_id=dag_id,
        versions=names,
        pointer=pointer,
        version=shown,
        roles=figures.roles,
        role=role,
        caption=caption,
        document=document,
        paged=paged,
        figures=figures.figures(numbers[list(paged.items)].tolist()),
    )
