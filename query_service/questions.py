"""Routes that search and answer."""

from collections.abc import Callable

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse

from query_service.admission import ANSWER_DEADLINES, cost_of_answer, cost_of_search
from query_service.asked import note_answered
from query_service.browse import linked_json
from query_service.errors import ClientGoneError
from query_service.requests import QUESTION_ERRORS, AnswerRequest, Corpus, QuestionRoute, SearchRequest, admission_of
from query_service.stream import EVENT, as_json, as_server_sent
from query_service.telemetry import describe, metrics_of
from schemas.answers import AnswerFinished, AnswerResult
from schemas.evidence import SearchResult

router = APIRouter(prefix="/v1/corpora/{corpus}", responses=QUESTION_ERRORS, tags=["questions"], route_class=QuestionRoute)


@router.post("/search", response_model=SearchResult)
async def search(request: Request, corpus: Corpus, body: SearchRequest) -> Response:
    """Evidence for a query, best first: chunks of text, tables and figures, each with its page and bbox.

    422: rerankers score too many rows. 503: too many requests are waiting, or this one took too long.
    """
    query = body.as_query()
    cost = await run_in_threadpool(cost_of_search, corpus, query)
    describe(request, question=query.query, preset=query.preset, k=query.k)

    def found(stopped: Callable[[], bool]) -> str:
        result = corpus.search(query, stopped)
        return linked_json(result, corpus.name, result.version)

    return Response(await admission_of(request).reply(request, cost, found), media_type="application/json")


@router.post(
    "/answer",
    response_model=AnswerResult,
    responses={200: {"description": "The answer, or its events.", "content": {"text/event-stream": {"schema": EVENT}}}},
)
async def answer(request: Request, corpus: Corpus, body: AnswerRequest) -> Response:
    """An answer as an ordered list of parts (text, tables and figures), each with its citations.

    ``abstained`` is true, and ``parts`` is empty, where nothing in the version answers. With ``stream``, or where the request
    accepts ``text/event-stream``, the answer is sent as server-sent events while it is written: ``start``, then ``text`` (more
    text of a part) and ``part`` (the whole part, which replaces its text), and last ``result`` (the whole answer, which replaces
    everything before) or ``error``. Calls of models end when the client disconnects.
    """
    query, admission = body.as_query(), admission_of(request)
    describe(request, question=body.question, preset=body.preset, answer=body.answer, turns=len(body.history))
    cost = await run_in_threadpool(cost_of_answer, corpus, query)
    events = admission.stream(
        request, cost, lambda stopped: corpus.answer_events(query, stopped), deadlines=ANSWER_DEADLINES
    )

    def finished(result: AnswerResult) -> None:
        describe(request, follow_up=result.follow_up and result.follow_up.question)
        note_answered(request, corpus.name, body.question, result)

    events = metrics_of(request).answered(corpus.name, events, finished)
    if body.stream or "text/event-stream" in request.headers.get("accept", ""):
        first = await anext(events, None)  # errors before the first event get their own status
        if first is None:
            raise ClientGoneError
        # The header keeps nginx from holding events back.
        return StreamingResponse(
            as_server_sent(first, events), media_type="text/event-stream", headers={"x-accel-buffering": "no"}
        )
    async for event in events:
        if isinstance(event, AnswerFinished):
            return Response(as_json(event.result), media_type="application/json")
    raise ClientGoneError
