"""Many searches in one request."""

from functools import partial
from typing import cast

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from query_service.admission import Cost, query_with_cost
from query_service.browse import with_links
from query_service.errors import Problem, problem_of
from query_service.requests import QuestionRoute, SearchRequest
from query_service.routes import CLIENT_GONE, QUESTION_ERRORS, Corpus, admission_of
from query_service.stream import as_json
from schemas.errors import InsetError
from schemas.evidence import SearchResult

MOST_SEARCHES = 20

router = APIRouter(prefix="/v1/corpora/{corpus}", responses=QUESTION_ERRORS, tags=["questions"], route_class=QuestionRoute)


class SearchesRequest(BaseModel):
    """Searches to run one after another."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"searches": [{"query": "oil filter"}, {"query": "torque", "k": 3}]}]},
    )

    searches: list[SearchRequest] = Field(
        min_length=1,
        max_length=MOST_SEARCHES,
        description="Those that name no version are all answered from one.",
    )


class SearchReply(BaseModel):
    """What one search returned: a result, or a problem."""

    result: SearchResult | None = None
    problem: Problem | None = None


class SearchesReply(BaseModel):
    """What each search returned, in the order of the request."""

    results: list[SearchReply]


@router.post("/searches", response_model=SearchesReply)
async def searches(request: Request, corpus: Corpus, body: SearchesRequest) -> Response:
    """Many searches at once, each with its own deadline, and result or problem."""
    results: list[SearchReply] = []
    version: str | None = None
    admission = admission_of(request)
    for search_request in body.searches:
        versioned_request = search_request.model_copy(update={"version": search_request.version or version})
        try:
            query, cost = await run_in_threadpool(query_with_cost, request, corpus, versioned_request.as_query())
            cost = Cost.EXPENSIVE if cost is Cost.CHEAP else cost
            result = await admission.reply(request, cost, partial(corpus.search, query))
        except (InsetError, HTTPException) as error:
            results.append(SearchReply(problem=problem_of(error)))
            continue
        if result is None:
            return Response(status_code=CLIENT_GONE)
        version = version or (None if search_request.version else result.version)
        results.append(SearchReply(result=cast(SearchResult, with_links(result, corpus.name, result.version))))
    return Response(as_json(SearchesReply(results=results)), media_type="application/json")
