"""The tab of a run of a refresh: its plan, what each stage did, and how its version was judged."""

from typing import Annotated

from fastapi import APIRouter, Path, Request
from fastapi.responses import HTMLResponse

from pipeline.corpus.schedules import CorpusSchedule
from pipeline.operations.health import CorpusHealth, corpora_health, store_of
from pipeline.operations.runs import experiment_report, run_report, version_of_run
from plugins.pages.access import ReadsDag
from plugins.pages.corpus import VERSION_PATTERN, stored_corpus_of
from plugins.pages.rendering import HEADERS, render
from schemas.errors import TransientError
from schemas.ports import ObjectStore

Version = Annotated[str, Path(pattern=f"^{VERSION_PATTERN}$")]

_HEADERS = HEADERS | {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'; base-uri 'none'; sandbox"
}
"""Of a report, which brings its styles along and has no script."""

router = APIRouter(prefix="/dags/{dag_id}", dependencies=[ReadsDag])


def _opened(dag_id: str) -> tuple[CorpusSchedule, CorpusHealth, ObjectStore]:
    """Return the corpus of a DAG, its health, and its store.

    Raises:
        UserError: The corpus file is so broken that its store is unknown.
        TransientError: The store doesn't answer.
    """
    corpus_schedule = stored_corpus_of(dag_id)
    (health,) = corpora_health([corpus_schedule])
    if not health.stored:
        raise TransientError(*health.problems)
    return corpus_schedule, health, store_of(corpus_schedule)


@router.get("/runs/{run_id}", response_class=HTMLResponse)
def run(request: Request, dag_id: str, run_id: str) -> HTMLResponse:
    """Show the version that a run built; if it built none, the script asks Airflow what the run found."""
    corpus_schedule, health, store = _opened(dag_id)
    version = version_of_run(store, f"airflow:{run_id}")
    report = run_report(corpus_schedule, store, version) if version else None
    return render(request, "run.html", corpus=health, report=report)


@router.get("/versions/{version}", response_class=HTMLResponse)
def version(request: Request, dag_id: str, version: Version) -> HTMLResponse:
    """Show a version, whichever run built it."""
    corpus_schedule, health, store = _opened(dag_id)
    report = run_report(corpus_schedule, store, version)
    return render(request, "run.html", corpus=health, run_id=None, report=report)


@router.get("/versions/{version}/experiments/{experiment}", response_class=HTMLResponse)
def experiment(dag_id: str, version: Version, experiment: str) -> HTMLResponse:
    """Return the report of an experiment on a version, as the experiment stored it."""
    _, _, store = _opened(dag_id)
    return HTMLResponse(experiment_report(store, version, experiment), headers=_HEADERS)
