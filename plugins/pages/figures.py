"""The figures of a version as a contact sheet, and the pictures that pages show: figures, and pages of documents."""

import asyncio
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, Response

from pipeline.operations.figures import figure_picture, figure_sheet, page_picture, thumbnail
from pipeline.operations.health import store_of
from pipeline.operations.history import version_names
from pipeline.records.manifests import last_manifest, named_manifest
from pipeline.records.publication import readable_pointer
from plugins.pages.access import ReadsDag
from plugins.pages.corpus import VERSION_PATTERN, stored_corpus_of, whole_corpus_of
from plugins.pages.rendering import HEADERS, Paged, render
from schemas.documents import Role
from schemas.errors import NotFoundError

PER_PAGE = 60
LARGE = 1200
"""Longer side of an enlarged figure, in pixels."""

_CAPTIONED = {"with": True, "without": False}

Digest = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")]
BoxText = Annotated[str, Query(pattern=r"^-?\d{1,6}(\.\d+)?(,-?\d{1,6}(\.\d+)?){3}$", max_length=80)]

# Names are digests of what they name.
_HEADERS = {**HEADERS, "Cache-Control": "private, max-age=86400, immutable"}

router = APIRouter(prefix="/dags/{dag_id}", dependencies=[ReadsDag])


@router.get("/figures", response_class=HTMLResponse)
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


@router.get("/pictures/figures/{figure_id}.webp")
def figure(dag_id: str, figure_id: Digest, large: bool = False) -> Response:
    """Return a figure as a thumbnail, or ``large``."""
    store = store_of(whole_corpus_of(dag_id))
    picture = figure_picture(store, figure_id, LARGE) if large else thumbnail(store, figure_id)
    return Response(picture, media_type="image/webp", headers=_HEADERS)


@router.get("/pictures/pages/{doc_id}/{page}.png")
async def page(
    dag_id: str,
    doc_id: Digest,
    page: Annotated[int, Path(ge=1, le=100_000)],
    dpi: Annotated[int, Query(ge=18, le=150)] = 90,
    box: BoxText | None = None,
) -> Response:
    """Return a page of a document, drawn in a child process with limits; a ``box``, in points, is highlighted."""
    file = str((await run_in_threadpool(whole_corpus_of, dag_id)).file)
    boxes = []
    if box is not None:
        x0, y0, x1, y1 = map(float, box.split(","))
        boxes = [(x0, y0, x1, y1)]
    drawing = await run_in_threadpool(page_picture, file, doc_id, page, dpi=dpi, boxes=boxes)
    return Response(await asyncio.wrap_future(drawing), media_type="image/png", headers=_HEADERS)
