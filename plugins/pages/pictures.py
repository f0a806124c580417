"""The pictures that pages show: figures, and pages of documents."""

from typing import Annotated

from fastapi import APIRouter, Path, Query
from fastapi.responses import Response

from pipeline.operations.health import store_of
from pipeline.operations.pictures import figure_picture, page_picture
from plugins.pages.access import ReadsDag
from plugins.pages.corpus import stored_corpus_of
from plugins.pages.rendering import HEADERS

THUMBNAIL, LARGE = 240, 1200
"""Longer sides of a figure, in pixels."""

Digest = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")]

# Names are digests of what they name.
_HEADERS = {**HEADERS, "Cache-Control": "private, max-age=86400, immutable"}

router = APIRouter(prefix="/dags/{dag_id}", dependencies=[ReadsDag])


@router.get("/pictures/figures/{figure_id}.webp")
def figure(dag_id: str, figure_id: Digest, large: bool = False) -> Response:
    """Return a figure as a thumbnail, or ``large``."""
    picture = figure_picture(store_of(stored_corpus_of(dag_id)), figure_id, LARGE if large else THUMBNAIL)
    return Response(picture, media_type="image/webp", headers=_HEADERS)


@router.get("/pictures/pages/{doc_id}/{page}.png")
def page(
    dag_id: str,
    doc_id: Digest,
    page: Annotated[int, Path(ge=1, le=100_000)],
    dpi: Annotated[int, Query(ge=18, le=150)] = 90,
) -> Response:
    """Return a page of a document, drawn in a child process with limits."""
    picture = page_picture(str(stored_corpus_of(dag_id).file), doc_id, page, dpi=dpi)
    return Response(picture, media_type="image/png", headers=_HEADERS)
