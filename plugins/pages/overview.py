"""The overview of all corpora, and the line a corpus of the home card."""

from collections import Counter
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse

from pipeline.corpus.schedules import CorpusSchedule, corpus_schedules
from pipeline.operations.health import corpora_health, orphans
from plugins.pages.access import PREFIX, User, readable
from plugins.pages.rendering import HEADERS, Paged, render
from plugins.remedies import in_ui

PER_PAGE = 50

router = APIRouter()


def _permitted(schedules: list[CorpusSchedule], user: Any) -> list[CorpusSchedule]:
    names = readable((schedule.name for schedule in schedules), user)
    return [schedule for schedule in schedules if schedule.name in names]


@router.get("/", response_class=HTMLResponse)
def overview(
    request: Request,
    user: User,
    page: Annotated[int, Query(ge=1)] = 1,
    name: Annotated[str, Query(max_length=60)] = "",
    state: Annotated[str, Query(max_length=20)] = "",
) -> HTMLResponse:
    """Show every corpus that the user may see, the worst first; of a state, or whose name contains a text."""
    schedules = corpus_schedules()
    healths = sorted(corpora_health(_permitted(schedules, user)), key=lambda corpus: corpus.state.severity)
    lost = orphans(schedules)
    readable_names = readable((corpus.corpus for corpus in lost), user)
    return render(
        request,
        "overview.html",
        paged=Paged(
            [corpus for corpus in healths if name in corpus.corpus and state in ("", corpus.state)], page, PER_PAGE
        ),
        states=Counter(corpus.state for corpus in healths),
        orphans=[corpus for corpus in lost if corpus.corpus in readable_names],
        prefix=PREFIX,
        name=name,
        state=state,
    )


@router.get("/health.json")
def health(user: User) -> JSONResponse:
    """Return name, state and problems of every corpus, the worst first, for the home card."""
    healths = sorted(corpora_health(_permitted(corpus_schedules(), user)), key=lambda corpus: corpus.state.severity)
    lines = [
        {
            "corpus": corpus.corpus,
            "dag_id": f"{PREFIX}{corpus.corpus}",
            "state": corpus.state,
            "tone": corpus.state.tone,
            "line": in_ui("; ".join(corpus.problems)) or f"{corpus.live} is live",
        }
        for corpus in healths
    ]
    return JSONResponse(lines, headers=HEADERS)
