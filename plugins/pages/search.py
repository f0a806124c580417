"""A question asked of any version by any preset, two side by side."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse

from pipeline.operations.comparison import MOST_HITS, Answered, Side, ask, listed_presets
from pipeline.operations.health import store_of
from pipeline.operations.history import version_names
from pipeline.records.manifests import last_manifest
from pipeline.records.publication import readable_pointer
from plugins.pages.access import ReadsDag
from plugins.pages.corpus import VERSION_PATTERN, whole_corpus_of
from plugins.pages.rendering import render
from schemas.evidence import Span

SNIPPET = 320
"""Characters of a hit's text that are shown."""

_BEFORE_FIRST_MARK = 60

Question = Annotated[str, Query(max_length=2000)]
Version = Annotated[str, Query(pattern=f"^({VERSION_PATTERN})?$")]
PresetName = Annotated[str, Query(pattern=r"^[a-z0-9-]{0,60}$")]
Hits = Annotated[int, Query(ge=1, le=MOST_HITS)]

router = APIRouter(prefix="/dags/{dag_id}", dependencies=[ReadsDag])


@router.get("/search", response_class=HTMLResponse)
def search(
    request: Request,
    dag_id: str,
    question: Question = "",
    version: Version = "",
    preset: PresetName = "",
    other_version: Version | None = None,
    other_preset: PresetName = "",
    k: Hits = 10,
) -> HTMLResponse:
    """Show the form, and a place into which the script loads the results; no version is opened for it."""
    corpus_schedule = whole_corpus_of(dag_id)
    store = store_of(corpus_schedule)
    names, pointer = version_names(store), readable_pointer(store)
    last = last_manifest(store)
    newest = last.version if last else ""
    first = version or (pointer.version if pointer else newest)
    # A version that isn't live, such as a refused one, is compared with the live one at once.
    proposed = newest if newest != first else (pointer and pointer.previous) or ""
    return render(
        request,
        "search.html",
        corpus=corpus_schedule.name,
        dag_id=dag_id,
        versions=names,
        pointer=pointer,
        presets=listed_presets(str(corpus_schedule.file)),
        question=question.strip(),
        version=first,
        preset=preset,
        other_version=proposed if other_version is None else other_version,
        other_preset=other_preset,
        k=k,
    )


# Of the same depth as the page, since its relative links are read there.
@router.get("/search-results", response_class=HTMLResponse)
def results(
    request: Request,
    dag_id: str,
    question: Annotated[str, Query(min_length=1, max_length=2000)],
    version: Annotated[str, Query(pattern=f"^{VERSION_PATTERN}$")],
    preset: PresetName = "",
    other_version: Version = "",
    other_preset: PresetName = "",
    k: Hits = 10,
) -> HTMLResponse:
    """Return what one or two versions answer."""
    sides = [Side(version, preset or None)]
    if other_version:
        sides.append(Side(other_version, other_preset or None))
    answers: list[Answered] = ask(str(whole_corpus_of(dag_id).file), question, sides, k)
    return render(request, "results.html", dag_id=dag_id, sides=answers, pieces=pieces)


def pieces(text: str, marks: Sequence[Span]) -> list[tuple[str, bool]]:
    """Return the part of a text round its first mark as strings, each with whether it is marked."""
    start = max(0, marks[0][0] - _BEFORE_FIRST_MARK) if marks else 0
    stop = min(len(text), start + SNIPPET)
    parts: list[tuple[str, bool]] = [("…", False)] if start else []
    position = start
    for first, last in marks:
        if position <= first < stop:
            parts += [(text[position:first], False), (text[first : min(last, stop)], True)]
            position = min(last, stop)
    parts.append((text[position:stop] + ("…" if stop < len(text) else ""), False))
    return [(piece, marked) for piece, marked in parts if piece]
