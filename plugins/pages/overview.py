"""The overview of all corpora, and the line a corpus of the home card."""

from collections import Counter
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse

from pipeline.corpus.schedules import CorpusSchedule, corpus_schedules
from pipeline.operations.health import corpora_health, orphans
from plugins.pages.access import PREFIX, User, readable
from plugins.pages.paging import Paged
from plugins.pages.rendering import HEADERS, render
from plugins.remedies import in_ui

PER_PAGE = 50

router = APIRouter()


def _permitted(found: list[CorpusSchedule], user: Any) -> list[CorpusSchedule]:
    names = readable((one.name for one in found), user)
    return [one for one in found if one.name in names]


@router.get("/", response_class=HTMLResponse)
def overview(
    request: Request,
    user: User,
    page: Annotated[int, Query(ge=1)] = 1,
    name: Annotated[str, Query(max_length=60)] = "",
    state: Annotated[str, Query(max_length=20)] = "",
) -> HTMLResponse:
    """Show every corpus that the user may see, the worst first; of a state, or whose name contains a text."""
    every = corpus_schedules()
    found = sorted(corpora_health(_permitted(every, user)), key=lambda one: one.state.severity)
    lost = orphans(every)
    seen = readable((one.corpus for one in lost), user)
    return render(
        request,
        "overview.html",
        paged=Paged([one for one in found if name in one.corpus and state in ("", one.state)], page, PER_PAGE),
        states=Counter(one.state for one in found),
        orphans=[one for one in lost if one.corpus in seen],
        prefix=PREFIX,
        name=name,
        state=state,
    )


@router.get("/health.json")
def health(user: User) -> JSONResponse:
    """Return name, state and problems of every corpus, the worst first, for the home card."""
    found = sorted(corpora_health(_permitted(corpus_schedules(), user)), key=lambda one: one.state.severity)
    lines = [
        {
            "corpus": one.corpus,
            "dag_id": f"{PREFIX}{one.corpus}",
            "state": one.state,
            "tone": one.state.tone,
            "line": in_ui("; ".join(one.problems)) or f"{one.live} is live",
        }
        for one in found
    ]
    return JSONResponse(lines, headers=HEADERS)
