"""The figures of a version as a contact sheet."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from pipeline.operations.figures import figure_sheet
from pipeline.operations.health import store_of
from pipeline.operations.history import version_names
from pipeline.records.manifests import last_manifest, named_manifest
from pipeline.records.publication import readable_pointer
from plugins.pages.access import ReadsDag
from plugins.pages.corpus import VERSION_PATTERN, stored_corpus_of
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
    version: Annotated[str | None, Query(pattern=VERSION_PATTERN)] = None,
    role: Role | Literal[""] = "",
    caption: Literal["", "with", "without"] = "",
    document: Annotated[str, Query(max_length=200)] = "",
    page: Annotated[int, Query(ge=1)] = 1,
) -> HTMLResponse:
    """Show a page of the figures of a version, by default the live one, or else the newest finished one."""
    corpus_schedule = stored_corpus_of(dag_id)
    store = store_of(corpus_schedule)
    names, pointer = version_names(store), readable_pointer(store)
    chosen = version or (pointer.version if pointer else None)
    manifest = last_manifest(store) if chosen is None else named_manifest(store, corpus_schedule.name, chosen)
    if manifest is None:
        raise NotFoundError(f"corpus {corpus_schedule.name}: no refresh has finished yet, so there are no figures to show")
    figures = figure_sheet(store, manifest.version)
    numbers = figures.find(role=role or None, source=document, captioned=_CAPTIONED.get(caption))
    paged = Paged(range(len(numbers)), page, PER_PAGE)
    return render(
        request,
        "figures.html",
        corpus=corpus_schedule.name,
        dag_id=dag_id,
        versions=names,
        pointer=pointer,
        version=manifest.version,
        roles=figures.roles,
        role=role,
        caption=caption,
        document=document,
        paged=paged,
        figures=figures.figures(numbers[list(paged.items)].tolist()),
    )
