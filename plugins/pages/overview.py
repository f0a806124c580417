"""The overview of all corpora, and the line a corpus of the home card."""

from collections import Counter
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse

from pipeline.corpus.schedules import corpus_schedules
from pipeline.operations.health import CorpusHealth, corpora_health
from plugins.pages.access import PREFIX, User, readable
from plugins.pages.rendering import HEADERS, Paged, render
from plugins.remedies import in_ui

PER_PAGE = 50

router = APIRouter()


def _healths(user: Any) -> list[CorpusHealth]:
    """Return the health of every corpus that a user may see, the worst first."""
    schedules = corpus_schedules()
    names = readable((schedule.name for schedule in schedules), user)
    healths = corpora_health([schedule for schedule in schedules if schedule.name in names])
    return sorted(healths, key=lambda corpus: corpus.state.severity)


@router.get("/", response_class=HTMLResponse)
def overview(
    request: Request,
    user: User,
    page: Annotated[int, Query(ge=1)] = 1,
    name: Annotated[str, Query(max_length=60)] = "",
    state: Annotated[str, Query(max_length=20)] = "",
) -> HTMLResponse:
    """Show every corpus that the user may see, the worst first; of a state, or whose name contains a text."""
    healths = _healths(user)
    return render(
        request,
        "overview.html",
        paged=Paged(
            [corpus for corpus in healths if name in corpus.corpus and state in ("", corpus.state)], page, PER_PAGE
        ),
        states=Counter(corpus.state for corpus in healths),
        prefix=PREFIX,
        name=name,
        state=state,
    )


@router.get("/health.json")
def health(user: User) -> JSONResponse:
    """Return name, state and problems of every corpus, the worst first, for the home card."""
    lines = [
        {
            "corpus": corpus.corpus,
            "dag_id": f"{PREFIX}{corpus.corpus}",
            "state": corpus.state,
            "tone": corpus.state.tone,
            "line": in_ui("; ".join(corpus.problems)) or f"{corpus.live} is live",
        }
        for corpus in _healths(user)
    ]
    return JSONResponse(lines, headers=HEADERS)
