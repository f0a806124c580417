"""Routes that list what is in a version of a corpus.

A cursor holds the version of its list, and the place in it.
"""

import base64
import csv
import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, cast

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel, StringConstraints

from pipeline.published.corpus import PublishedCorpus
from pipeline.published.version import OpenVersion
from query_service.admission import Cost
from query_service.requests import (
    ERRORS,
    VERSION,
    Corpus,
    DocumentId,
    EvidenceIdParameter,
    FigureId,
    VersionParameter,
    admission_of,
    cache_control,
    file_response,
)
from query_service.stream import as_json
from schemas.documents import Role
from schemas.errors import RequestError
from schemas.evidence import Hit, SearchResult
from schemas.filters import MAX_PAGE, MOST_GLOBS, Modality
from schemas.reports import (
    BrowsedRow,
    DocumentInfo,
    DocumentPage,
    DocumentSummary,
    FigureContext,
    FigureSummary,
    Listing,
    ListPart,
    OutlineSection,
    RowInfo,
    TableInfo,
    TableSummary,
)

router = APIRouter(prefix="/v1/corpora/{corpus}", responses=ERRORS, tags=["contents"])

MOST_ITEMS = 200

Cursor = Annotated[
    str | None,
    Query(
        max_length=400,
        pattern=r"^[A-Za-z0-9_-]+$",
        description="next of the reply before, to go on in the same version. The other parameters stay as they were.",
    ),
]
Globs = Annotated[
    list[Annotated[str, StringConstraints(max_length=256)]] | None,
    Query(max_length=MOST_GLOBS, description="A glob of sources, such as phones/**. May be repeated: one has to fit."),
]
Contains = Annotated[str, Query(max_length=200, description="Part of a text, in any case.")]
OnPage = Annotated[int | None, Query(ge=1, le=MAX_PAGE, description="What stands on a page, counted from 1.")]
Kinds = Annotated[list[Modality] | None, Query(max_length=len(Modality), description="May be repeated. All by default.")]
Roles = Annotated[
    list[Role] | None,
    Query(max_length=len(Role), description="May be repeated. By default content and icons, the roles that have tags."),
]
Sort = Literal["source", "title", "date", "pages", "size", "rows", "-source", "-title", "-date", "-pages", "-size", "-rows"]


@dataclass(frozen=True)
class _Part:
    """The part of a list that a request asks for."""

    request: Request
    corpus: Corpus
    limit: Annotated[int, Query(ge=1, le=MOST_ITEMS, description="Maximum items.")] = 50
    cursor: Cursor = None
    version: VersionParameter = None

    async def reply(self, read: Callable[[OpenVersion, ListPart], Listing[Any]], cost: Cost = Cost.CHEAP) -> Response:
        """Reply the part, read by a function."""
        listed_version, offset = (self.version, 0) if self.cursor is None else _parse(self.cursor)
        if self.version is not None and self.version != listed_version:
            raise RequestError(
                f"the cursor is from version {listed_version}, not {self.version};",
                "start again without it, or leave version out",
            )

        def page(opened: OpenVersion) -> BaseModel:
            listing = read(opened, ListPart(offset, self.limit))
            next_offset = offset + len(listing.items)
            cursor = base64.urlsafe_b64encode(f"{listing.version}/{next_offset}".encode()).decode().rstrip("=")
            return listing.model_copy(update={"next": cursor if next_offset < listing.total else None})

        return await _reply(self.request, self.corpus, listed_version, page, cost)


@dataclass(frozen=True)
class _PartOfPlacements(_Part):
    limit: Annotated[int, Query(ge=1, le=20, description="Maximum placements.")] = 10


Part = Annotated[_Part, Depends()]


async def _reply(
    request: Request,
    corpus: PublishedCorpus,
    version: str | None,
    read: Callable[[OpenVersion], BaseModel],
    cost: Cost = Cost.CHEAP,
) -> Response:
    """Reply with links, an ETag and the caching of artifacts."""

    def linked(_: Callable[[], bool]) -> bytes:
        with corpus.opened(version) as opened:
            contents = read(opened)
        return linked_json(contents, corpus.name, opened.version, request.path_params.get("doc_id", "")).encode()

    body = await admission_of(request).reply(request, cost, linked)
    return file_response(request, body, "application/json", {"cache-control": cache_control(version)})


def _parse(cursor: str) -> tuple[str, int]:
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode("ascii")
    except ValueError:
        text = ""
    version, _, offset = text.partition("/")
    if not re.fullmatch(VERSION, version) or not re.fullmatch(r"[0-9]{1,11}", offset):
        raise RequestError("the cursor is none of this service;", "start again without it")
    return version, int(offset)


def linked_json(reply: BaseModel, corpus: str, version: str, doc_id: str = "") -> str:
    """Return a reply whose parts have links, as JSON."""
    return as_json(with_links(reply, corpus, version, doc_id))


def with_links(reply: BaseModel, corpus: str, version: str, doc_id: str = "") -> BaseModel:
    """Return a reply whose parts have links."""
    if isinstance(reply, SearchResult):
        return reply.model_copy(update={"hits": [_linked(hit, corpus, version) for hit in reply.hits]})
    if isinstance(reply, Listing):
        return reply.model_copy(update={"items": [_linked(item, corpus, version, doc_id) for item in reply.items]})
    return cast(BaseModel, _linked(reply, corpus, version, doc_id))


def _linked(item: Any, corpus: str, version: str, doc_id: str = "") -> Any:
    base = f"/v1/corpora/{corpus}"
    doc_id = getattr(item, "doc_id", doc_id)
    document = f"{base}/documents/{doc_id}"

    def at(path: str, **asked: object) -> str:
        return f"{path}?{'&'.join(f'{name}={value}' for name, value in {**asked, 'version': version}.items())}"

    links = {"document": at(document)}
    if isinstance(page := getattr(item, "page", None), int):
        links["page"] = at(f"{document}/pages/{page}.png")
    update: dict[str, Any] = {"links": links}
    match item:
        case DocumentSummary():
            links |= {"self": links.pop("document"), "pdf": at(f"{document}.pdf"), "original": at(f"{document}/original")}
            links |= {name: at(f"{document}/{name}") for name in ("outline", "pages", "rows", "tables", "figures")}
        case OutlineSection():
            if item.page:
                links["rows"] = at(f"{document}/rows", page=item.page)
        case DocumentPage():
            links |= {name: at(f"{document}/{name}", page=item.page) for name in ("rows", "tables", "figures")}
        case BrowsedRow() | Hit():
            links["self"] = at(f"{base}/rows/{item.evidence_id}")
            if item.modality is Modality.TABLE:
                links["table"] = at(f"{base}/tables/{item.evidence_id}")
            if item.figure_id:
                links["image"] = at(f"{base}/figures/{item.figure_id}")
                if item.modality is Modality.FIGURE:
                    links["context"] = at(f"{base}/figures/{item.figure_id}/context")
        case TableSummary():
            table = f"{base}/tables/{item.evidence_id}"
            links |= {"self": at(table), "row": at(f"{base}/rows/{item.evidence_id}"), "csv": at(table, format="csv")}
        case FigureSummary():
            figure = f"{base}/figures/{item.figure_id}"
            links["image"] = at(figure)
            if item.number:
                links["context"] = at(f"{figure}/context")
            if isinstance(item, FigureContext):
                update |= {
                    side: [_linked(row, corpus, version) for row in getattr(item, side)] for side in ("before", "after")
                }
                update["row"] = item.row and _linked(item.row, corpus, version)
    return item.model_copy(update=update)


@router.get("/documents", response_model=Listing[DocumentSummary])
async def documents(
    corpus: Corpus,
    part: Part,
    source: Globs = None,
    contains: Contains = "",
    sort: Annotated[
        Sort, Query(description="By what; descending after a minus. Those without a date come last.")
    ] = "source",
) -> Response:
    """The documents of a version; ``contains`` is part of a title or source."""
    return await part.reply(
        lambda opened, list_part: opened.contents.documents(list_part, sources=source or (), contains=contains, sort=sort)
    )


@router.get("/documents/{doc_id}", response_model=DocumentInfo)
async def document_info(request: Request, corpus: Corpus, doc_id: DocumentId, version: VersionParameter = None) -> Response:
    """What a version says of a document: its sources, and the number of its pages."""
    return await _reply(request, corpus, version, lambda opened: opened.contents.document(doc_id))


@router.get("/documents/{doc_id}/outline", response_model=Listing[OutlineSection])
async def outline(corpus: Corpus, doc_id: DocumentId, part: Part) -> Response:
    """The sections of a document, in reading order."""
    return await part.reply(lambda opened, list_part: opened.contents.outline(list_part, doc_id))


@router.get("/documents/{doc_id}/pages", response_model=Listing[DocumentPage])
async def pages(corpus: Corpus, doc_id: DocumentId, part: Part) -> Response:
    """The pages of a document; the printed label is known where a row stands on the page."""
    return await part.reply(lambda opened, list_part: opened.contents.pages(list_part, doc_id))


@router.get("/documents/{doc_id}/rows", response_model=Listing[BrowsedRow])
async def document_rows(
    corpus: Corpus, doc_id: DocumentId, part: Part, modality: Kinds = None, page: OnPage = None
) -> Response:
    """The rows of a document, in reading order, those of whole pages last."""
    return await part.reply(
        lambda opened, list_part: opened.contents.rows(list_part, doc_id, modalities=modality or (), page=page)
    )


@router.get("/documents/{doc_id}/tables", response_model=Listing[TableSummary])
async def document_tables(corpus: Corpus, doc_id: DocumentId, part: Part, page: OnPage = None) -> Response:
    """The tables of a document, without their cells."""
    return await part.reply(lambda opened, list_part: opened.contents.tables(list_part, doc_id, page=page))


@router.get("/documents/{doc_id}/figures", response_model=Listing[FigureSummary])
async def document_figures(
    corpus: Corpus, doc_id: DocumentId, part: Part, page: OnPage = None, role: Roles = None
) -> Response:
    """The figures of a document, each where it is placed."""
    return await part.reply(
        lambda opened, list_part: opened.contents.figures(list_part, doc_id, page=page, roles=role or ())
    )


@router.get("/rows/{evidence_id}", response_model=RowInfo)
async def row(
    request: Request, corpus: Corpus, evidence_id: EvidenceIdParameter, version: VersionParameter = None
) -> Response:
    """A row, as hits and citations name it."""
    return await _reply(request, corpus, version, lambda opened: opened.contents.row(evidence_id))


@router.get(
    "/tables/{evidence_id}",
    response_model=TableInfo,
    responses={200: {"description": "The table.", "content": {"text/csv": {"schema": {"type": "string"}}}}},
)
async def table(
    request: Request,
    corpus: Corpus,
    evidence_id: EvidenceIdParameter,
    format: Literal["json", "csv"] = "json",  # noqa: A002 - the name of the parameter
    version: VersionParameter = None,
) -> Response:
    """A table as JSON or CSV (RFC 4180), its header first.

    CSV has the cells as the document has them: a spreadsheet may take one that begins with ``=`` for a formula.
    """
    if format == "json":
        return await _reply(request, corpus, version, lambda opened: opened.contents.table(evidence_id))

    def read(_: Callable[[], bool]) -> TableInfo:
        with corpus.opened(version) as opened:
            return opened.contents.table(evidence_id)

    contents = await admission_of(request).reply(request, Cost.CHEAP, read)
    disposition = f'attachment; filename="{evidence_id}.csv"'
    headers = {"cache-control": cache_control(version), "content-disposition": disposition}
    return file_response(request, _csv(contents.rows).encode(), "text/csv; charset=utf-8", headers)


def _csv(lines: Sequence[Sequence[str]]) -> str:
    file = io.StringIO()
    csv.writer(file).writerows([[cell.replace("\0", "\ufffd") for cell in line] for line in lines])
    return file.getvalue()


@router.get("/figures", response_model=Listing[FigureSummary])
async def figures(
    corpus: Corpus, part: Part, source: Globs = None, contains: Contains = "", role: Roles = None
) -> Response:
    """The figures of all documents, each where it is placed; ``contains`` is part of a caption."""
    return await part.reply(
        lambda opened, list_part: opened.contents.figures(
            list_part, sources=source or (), contains=contains, roles=role or ()
        )
    )


@router.get("/figures/{figure_id}/context", response_model=Listing[FigureContext])
async def figure_context(
    corpus: Corpus,
    figure_id: FigureId,
    part: Annotated[_PartOfPlacements, Depends()],
    around: Annotated[int, Query(ge=1, le=5, description="Rows on each side.")] = 2,
) -> Response:
    """The placements of a figure, each with the rows before and after it in reading order."""
    return await part.reply(lambda opened, list_part: opened.contents.context(list_part, figure_id, around=around))
