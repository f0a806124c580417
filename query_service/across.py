"""Routes that ask several corpora at once, each by its own preset and models, in parallel."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Annotated, TypeVar

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse
from pydantic import Field
from starlette.exceptions import HTTPException

from pipeline.published.across import composed, merged
from pipeline.published.corpus import PublishedCorpus
from pipeline.published.version import DEFAULT_K
from query_service.admission import ANSWER_DEADLINES, cost_of_answer, cost_of_search
from query_service.browse import with_links
from query_service.errors import ClientGoneError, problem_of
from query_service.requests import (
    QUESTION_ERRORS,
    AnswerRequest,
    QuestionRoute,
    SearchRequest,
    admission_of,
    corpora_of,
    corpus_of,
)
from query_service.stream import EVENT, as_json, as_server_sent
from query_service.telemetry import describe, metrics_of, note_corpus
from schemas.answers import AnswerEvent, AnswerFinished, AnswerResult, AnswerStarted, PartFinished
from schemas.errors import InsetError, NotFoundError
from schemas.evidence import SearchResult

MOST_HITS = 200
"""Hits that a search of one corpus returns at most."""

MOST_CORPORA = 50

CorpusNames = Annotated[
    list[Annotated[str, Field(max_length=100)]] | None,
    Field(min_length=1, max_length=MOST_CORPORA, description="Their names; null for all that the caller may see."),
]
Result = TypeVar("Result", SearchResult, AnswerResult)

router = APIRouter(prefix="/v1", responses=QUESTION_ERRORS, tags=["questions"], route_class=QuestionRoute)
_logger = logging.getLogger("inset.query_service")


class SearchCorporaRequest(SearchRequest):
    """What to search several corpora for. A version can't be named: each corpus has its own."""

    corpora: CorpusNames = None


class AnswerCorporaRequest(AnswerRequest):
    """What to answer from several corpora. A version can't be named: each corpus has its own."""

    corpora: CorpusNames = None


@router.post("/search", response_model=SearchResult)
async def search_corpora(request: Request, body: SearchCorporaRequest) -> Response:
    """Evidence from several corpora, best first; each hit names its corpus and version.

    Each corpus ranks by its own preset and models. One that fails, or takes longer than the deadline, is left out:
    ``corpora`` of the reply names it, with the problem. Conditions of ``where`` apply to corpora that have the field.
    """
    k = body.k or DEFAULT_K
    query = replace(body.as_query(), k=min(body.offset + k + 1, MOST_HITS), offset=0)
    describe(request, question=query.query, preset=query.preset, k=k)

    async def search(corpus: PublishedCorpus) -> SearchResult:
        applicable, ignored = await run_in_threadpool(corpus.applicable, query)
        cost = await run_in_threadpool(cost_of_search, corpus, applicable)
        result = await admission_of(request).reply(
            request, cost, lambda stopped: corpus.search(applicable, stopped, calibrated=True)
        )
        ignoring[corpus.name] = ignored
        linked = with_links(result, corpus.name, result.version)
        return SearchResult.model_validate(linked)

    ignoring = dict[str, list[str]]()
    results, problems = await _each(request, body, search)
    return Response(as_json(_noted(merged(results, problems, body.offset, k), ignoring)), media_type="application/json")


@router.post(
    "/answer",
    response_model=AnswerResult,
    responses={200: {"description": "The answer, or its events.", "content": {"text/event-stream": {"schema": EVENT}}}},
)
async def answer_corpora(request: Request, body: AnswerCorporaRequest) -> Response:
    """One answer from several corpora: that of the most confident, with those of others that are sure behind it, folded.

    Citations name corpus and version. Corpora are left out as in a search of several. The events of a stream are sent once all
    corpora have answered.
    """
    query = body.as_query()
    describe(request, question=body.question, preset=body.preset, answer=body.answer, turns=len(body.history))

    async def answer(corpus: PublishedCorpus) -> AnswerResult:
        applicable, ignored = await run_in_threadpool(corpus.applicable, query)
        cost = await run_in_threadpool(cost_of_answer, corpus, applicable)

        def last(stopped: Callable[[], bool]) -> AnswerEvent:
            *_, event = corpus.answer_events(applicable, stopped)
            return event

        event = await admission_of(request).reply(request, cost, last, deadlines=ANSWER_DEADLINES)
        assert isinstance(event, AnswerFinished)
        metrics_of(request).spent(corpus.name, event.result.spent)
        ignoring[corpus.name] = ignored
        return event.result

    ignoring = dict[str, list[str]]()
    results, problems = await _each(request, body, answer)
    result = _noted(composed(results, problems), ignoring)
    if not (body.stream or "text/event-stream" in request.headers.get("accept", "")):
        return Response(as_json(result), media_type="application/json")
    started = AnswerStarted(version="", preset=result.preset, model=result.model, citations=result.citations)

    async def events() -> AsyncIterator[AnswerEvent]:
        for number, part in enumerate(result.parts):
            yield PartFinished(part=number, value=part)
        yield AnswerFinished(result=result)

    return StreamingResponse(
        as_server_sent(started, events()), media_type="text/event-stream", headers={"x-accel-buffering": "no"}
    )


async def _each(
    request: Request,
    body: SearchCorporaRequest | AnswerCorporaRequest,
    ask: Callable[[PublishedCorpus], Awaitable[Result]],
) -> tuple[dict[str, Result], dict[str, str]]:
    """Ask corpora at once, and return the results by name, and why others have none.

    Raises:
        NotFoundError: One that is named isn't there for the caller, or none is, or the request names a version.
        InsetError, HTTPException: That of the first corpus, if all have failed.
    """
    if body.version is not None:
        raise NotFoundError("a version is one of a corpus: leave it out to ask several")
    names = list(dict.fromkeys(body.corpora or corpora_of(request)))
    if not names:
        raise NotFoundError("no corpus is served here")
    corpora = [await run_in_threadpool(corpus_of, request, name) for name in names]
    note_corpus(request, " ".join(names))
    replies = await asyncio.gather(*map(ask, corpora), return_exceptions=True)
    results, problems = dict[str, Result](), dict[str, str]()
    for name, reply in zip(names, replies, strict=True):
        match reply:
            case ClientGoneError():
                raise reply
            case InsetError() | HTTPException():
                problems[name] = problem_of(reply).detail
            case Exception():
                _logger.error("corpus %s can't be asked", name, exc_info=reply)
                problems[name] = "it can't be asked; the service's log says why"
            case BaseException():
                raise reply
            case _:
                results[name] = reply
    if not results:
        raise next(reply for reply in replies if isinstance(reply, BaseException))
    return results, problems


def _noted(result: Result, ignored: Mapping[str, list[str]]) -> Result:
    """Return a result that says which conditions each corpus was asked without."""
    corpora = [
        asked_corpus.model_copy(update={"ignored": ignored.get(asked_corpus.name, [])}) for asked_corpus in result.corpora
    ]
    return result.model_copy(update={"corpora": corpora})
