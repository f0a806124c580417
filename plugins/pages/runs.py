"""The tab of a run of a refresh: its plan, what each stage did, and how its version was judged."""

from typing import Annotated

from fastapi import APIRouter, Path, Request
from fastapi.responses import HTMLResponse

from pipeline.operations.health import CorpusHealth, corpora_health, store_of
from pipeline.operations.runs import quality, run_report, version_of_run
from plugins.pages.access import ReadsDag, User
from plugins.pages.corpus import corpus_of
from plugins.pages.rendering import render
from schemas.errors import UserError
from schemas.ports import ObjectStore

Version = Annotated[str, Path(pattern=r"^\d{8}T\d{6}Z-[0-9a-f]+$")]

router = APIRouter(prefix="/dags/{dag_id}", dependencies=[ReadsDag])


def _opened(dag_id: str) -> tuple[CorpusHealth, ObjectStore]:
    """Return the corpus of a DAG, and its store.

    Raises:
        UserError: The corpus file is broken, or the store doesn't answer.
    """
    one = corpus_of(dag_id)
    (health,) = corpora_health([one])
    if not health.readable:
        raise UserError("\n".join(health.problems))
    return health, store_of(one)


@router.get("/runs/{run_id}", response_class=HTMLResponse)
def run(request: Request, dag_id: str, run_id: str, user: User) -> HTMLResponse:
    """Show the version that a run built; where it built none, the script asks Airflow what the run found."""
    health, store = _opened(dag_id)
    version = version_of_run(store, f"airflow:{run_id}")
    report = run_report(corpus_of(dag_id), store, version) if version else None
    return render(request, "run.html", corpus=health, dag_id=dag_id, run_id=run_id, report=report)


@router.get("/versions/{version}", response_class=HTMLResponse)
def version(request: Request, dag_id: str, version: Version, user: User) -> HTMLResponse:
    """Show a version, whichever run built it."""
    health, store = _opened(dag_id)
    report = run_report(corpus_of(dag_id), store, version)
    return render(request, "run.html", corpus=health, dag_id=dag_id, run_id=None, report=report)


@router.get("/versions/{version}/quality", response_class=HTMLResponse)
def checks(request: Request, dag_id: str, version: Version, user: User) -> HTMLResponse:
    """Show how the rows of a version were checked."""
    health, store = _opened(dag_id)
    found = quality(corpus_of(dag_id), store, version)
    return render(request, "quality.html", corpus=health, dag_id=dag_id, quality=found)
